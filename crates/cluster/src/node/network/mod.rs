//! The pods' network: addresses, names, and doors to services and ports.
//!
//! Reading order: `subnet` (the home's own place on the machine), `leases` (who has which address), `follow` (services as
//! they change), `proxy` with `listen` (doors), `dns` with `message` and `upstream` (names), `outward` (the way out).
//! What services and names mean is decided in `plan::node::{service_rules, names}`.
//!
//! As root, pods are on a bridge. In the other modes they share the machine's network, each with a loopback address of its
//! own; there is no name server then, and names go into the pods' hosts files.

mod dns;
mod follow;
mod leases;
mod listen;
mod message;
mod outward;
mod proxy;
mod subnet;
mod upstream;

#[cfg(test)]
mod tests;

use crate::apiserver::ApiServer;
use crate::apiserver::bootstrap::own_address;
use crate::runtime::network::{self, Netlink};
use crate::runtime::spec::{self, Bridge, BridgePort, Mode};
use crate::runtime::wire::Fault;
use k8s_openapi::api::core::v1::{ContainerPort, Pod, Service};
use leases::Leases;
use listen::Spot;
use parking_lot::{Mutex, RwLock};
use proxy::{OpenDoor, Proxy};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::watch;
use upstream::Upstream;
use volley_plan::node::files::DnsFacts;
use volley_plan::node::names::{self, Zone};
use volley_plan::node::service_rules::{Door, Protocol, Rule, Services};

const CLUSTER_DOMAIN: &str = "cluster.local";
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// The net of services (`apiserver::SERVICE_NET`).
const SERVICE_NETWORK: (Ipv4Addr, u8) = (Ipv4Addr::new(10, 96, 0, 0), 16);

#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    #[error("failed to read or write `{path}`")]
    Record { path: PathBuf, source: std::io::Error },
    #[error("failed to look at the machine's networks")]
    Routes { source: std::io::Error },
    #[error(
        "no free subnet for pods between 10.88.0.0 and 10.127.255.255; remove a route or a bridge in that range that is not needed"
    )]
    NoSubnet,
    #[error("failed to make the pods' bridge; to do without one, start with the rootless runtime")]
    Bridge(#[source] Fault),
    #[error("failed to take back the pods' bridge `{name}` and its rules")]
    Clear { name: String, source: Fault },
}

/// What a pod is given.
#[derive(Debug, Clone, PartialEq)]
pub struct PodNetwork {
    pub sandbox: spec::Network,
    pub addresses: Vec<String>,
}

pub struct Network {
    ground: Ground,
    zone: Zone,
    leases: Mutex<Leases>,
    lacks: Vec<String>,
    services: Arc<RwLock<Services>>,
    names_changed: watch::Sender<()>,
    proxy: Proxy,
    doors: Mutex<BTreeMap<Door, OpenDoor>>,
    /// Host ports, by pod uid.
    ports: Mutex<BTreeMap<String, Vec<OpenDoor>>>,
    /// Taken when the name server starts to answer.
    listeners: Mutex<Option<dns::Listeners>>,
    has_name_server: bool,
    resolver: Arc<dns::Resolver>,
    _claim: subnet::Claim,
}

/// What pods stand on.
enum Ground {
    Bridge(BridgeGround),
    /// Addresses 127.N.x.y for pods, 127.N+1.x.y for services.
    Loopback,
}

struct BridgeGround {
    bridge: Bridge,
    index: u32,
    netlink: Mutex<Netlink>,
    /// Service addresses that the bridge has.
    held: Mutex<BTreeSet<Ipv4Addr>>,
}

impl Network {
    /// Makes the home's place on the machine: as root a bridge with the way out and a name server.
    ///
    /// Name and subnet are the home's own and stay the same over restarts.
    pub async fn open(home: &Path, mode: Mode) -> Result<Arc<Network>, NetworkError> {
        let home = home.to_owned();
        match mode {
            Mode::Root => Network::open_bridge(&home).await,
            Mode::Rootless | Mode::Process => Network::open_loopback(&home),
        }
    }

    async fn open_bridge(home: &Path) -> Result<Arc<Network>, NetworkError> {
        let (bridge, claim) = subnet::bridge(home)?;
        let netlink = Netlink::open().map_err(NetworkError::Bridge)?;
        let index = network::ensure_bridge(&netlink, &bridge).map_err(NetworkError::Bridge)?;
        let mut lacks = Vec::new();
        let opened = on_bridge(&bridge, outward::open).await;
        lacks.extend(opened.err().map(|fault| fault.to_string()));
        let gateway = bridge.gateway;
        let listeners = dns::listen(gateway, &bridge.name);
        lacks.extend(listeners.as_ref().err().map(|error| {
            format!("no cluster DNS, names are in hosts files instead: port 53 of {gateway} cannot be used: {error}")
        }));
        let network = Ipv4Addr::from_bits(gateway.to_bits() & subnet::subnet_mask(bridge.prefix_length));
        let networks = vec![(network, bridge.prefix_length), SERVICE_NETWORK];
        let zone = Zone { domain: CLUSTER_DOMAIN.to_owned(), server: gateway, networks, service_net: None };
        // The first address is the gateway's and the last one everybody's.
        let first = Ipv4Addr::from_bits(gateway.to_bits() + 1);
        let leases = Leases::new(first, (1 << (32 - bridge.prefix_length)) - 3);
        let ground = BridgeGround { bridge, index, netlink: Mutex::new(netlink), held: Mutex::default() };
        Ok(Network::new(Ground::Bridge(ground), zone, leases, (lacks, listeners.ok(), claim)))
    }

    fn open_loopback(home: &Path) -> Result<Arc<Network>, NetworkError> {
        let (octet, claim) = subnet::loopback(home)?;
        let lacks = vec![
            "pods share the machine's network: two of them cannot listen on the same port of all addresses".to_owned(),
            "no cluster DNS: names of services and pods are in hosts files".to_owned(),
        ];
        let server = Ipv4Addr::LOCALHOST;
        let service_net = Some([127, octet + 1]);
        let zone = Zone { domain: CLUSTER_DOMAIN.to_owned(), server, networks: Vec::new(), service_net };
        let leases = Leases::new(Ipv4Addr::new(127, octet, 0, 2), (1 << 16) - 3);
        Ok(Network::new(Ground::Loopback, zone, leases, (lacks, None, claim)))
    }

    fn new(
        ground: Ground,
        zone: Zone,
        leases: Leases,
        (lacks, listeners, claim): (Vec<String>, Option<dns::Listeners>, subnet::Claim),
    ) -> Arc<Network> {
        let services: Arc<RwLock<Services>> = Arc::default();
        let upstream = Upstream::new(RESOLV_CONF.into(), IpAddr::V4(zone.server));
        let resolver = Arc::new(dns::Resolver::new(services.clone(), zone.clone(), upstream));
        Arc::new(Network {
            ground,
            zone,
            leases: Mutex::new(leases),
            lacks,
            services,
            names_changed: watch::Sender::new(()),
            proxy: Proxy::new(),
            doors: Mutex::default(),
            ports: Mutex::default(),
            has_name_server: listeners.is_some(),
            listeners: Mutex::new(listeners),
            resolver,
            _claim: claim,
        })
    }

    /// What pods cannot have here, as sentences for people.
    pub fn lacks(&self) -> Vec<String> {
        self.lacks.clone()
    }

    /// The machine's address that pods reach it by.
    pub fn host_address(&self) -> String {
        match &self.ground {
            Ground::Bridge(ground) => ground.bridge.gateway.to_string(),
            Ground::Loopback => main_address(Ipv4Addr::LOCALHOST),
        }
    }

    /// Gives a pod its address; asked again, the same one. Pods on the machine's own network have the machine's.
    pub fn connect(&self, pod: &Pod) -> Result<PodNetwork, String> {
        let host = spec::Network::Host;
        if is_on_host(pod) {
            return Ok(PodNetwork { sandbox: host, addresses: vec![main_address(self.zone.server)] });
        }
        let address = self.leases.lock().take(uid(pod)).ok_or("all addresses for pods on this node are taken")?;
        let sandbox = match &self.ground {
            Ground::Bridge(ground) => spec::Network::Bridge(BridgePort { bridge: ground.bridge.clone(), address }),
            Ground::Loopback => host,
        };
        Ok(PodNetwork { sandbox, addresses: vec![address.to_string()] })
    }

    /// Notes the address of a pod that an earlier process started and that still runs.
    pub fn adopt(&self, pod: &Pod, addresses: &[String]) {
        let address = addresses.iter().find_map(|address| address.parse().ok());
        if let Some(address) = address.filter(|_| !is_on_host(pod)) {
            self.leases.lock().adopt(uid(pod), address);
        }
    }

    /// Opens the host ports of the pod's containers; the error names a port that is taken.
    pub async fn open_ports(&self, pod: &Pod, addresses: &[String]) -> Result<(), String> {
        let address: Option<IpAddr> = addresses.iter().find_map(|address| address.parse().ok());
        let Some(address) = address.filter(|_| !is_on_host(pod)) else { return Ok(()) };
        let mut doors = Vec::new();
        for port in host_ports(pod) {
            doors.extend(self.open_port(port, address)?);
        }
        if !doors.is_empty() {
            self.ports.lock().insert(uid(pod).to_owned(), doors);
        }
        Ok(())
    }

    fn open_port(&self, port: &ContainerPort, address: IpAddr) -> Result<Option<OpenDoor>, String> {
        let number = |port: Option<i32>| port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0);
        let (Some(outer), Some(inner)) = (number(port.host_port), number(Some(port.container_port))) else {
            return Ok(None);
        };
        let Some(protocol) = Protocol::parse(port.protocol.as_deref()) else { return Ok(None) };
        // A container that shares the machine's network opens the port itself when it is the same number.
        if outer == inner && matches!(self.ground, Ground::Loopback) {
            return Ok(None);
        }
        let host = port.host_ip.as_deref().filter(|host| !host.is_empty()).unwrap_or("0.0.0.0");
        let host: IpAddr = host.parse().map_err(|_| format!("hostIP {host:?} is not an address"))?;
        let spot = Spot { interface: None, address: SocketAddr::new(host, outer) };
        let rule = Rule { targets: vec![SocketAddr::new(address, inner)], affinity_seconds: None };
        let opened = self.proxy.open(&[spot], protocol, &rule);
        let name = port.protocol.as_deref().unwrap_or("TCP");
        opened.map(Some).map_err(|error| format!("hostPort {outer}/{name} cannot be opened on {host}: {error}"))
    }

    /// Gives the pod's address and host ports back.
    pub async fn release(&self, pod_uid: &str) {
        self.leases.lock().release(pod_uid);
        self.ports.lock().remove(pod_uid);
    }

    /// How names are looked up from pods; no cluster servers means that `hosts_lines` belong into hosts files.
    pub fn dns(&self) -> DnsFacts {
        let gateway = self.zone.server.to_string();
        let mut host = self.resolver.machine_conf();
        if matches!(self.ground, Ground::Bridge(_)) {
            // The machine's loopback is not the pod's; our name server hands questions on to what listens there.
            let is_local = |server: &String| server.parse::<IpAddr>().is_ok_and(|server| server.is_loopback());
            for server in host.servers.iter_mut().filter(|server| is_local(server)) {
                server.clone_from(&gateway);
            }
        }
        let cluster_servers = if self.has_name_server { vec![gateway] } else { Vec::new() };
        DnsFacts { cluster_servers, cluster_domain: CLUSTER_DOMAIN.to_owned(), host }
    }

    /// What the pod's hosts file must hold for want of a name server: addresses and names of services and named pods.
    pub fn hosts_lines(&self, pod: &Pod) -> Vec<(String, Vec<String>)> {
        if self.has_name_server {
            return Vec::new();
        }
        let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
        names::hosts_lines(&self.services.read(), &self.zone, namespace)
    }

    /// Changes whenever `hosts_lines` may have.
    pub fn names_changed(&self) -> watch::Receiver<()> {
        self.names_changed.subscribe()
    }

    /// A service with the address and port by which pods reach it here, for the variables that name it.
    pub fn as_reached(&self, mut service: Service, server: &ApiServer) -> Service {
        let is_api = service.metadata.name.as_deref() == Some("kubernetes")
            && service.metadata.namespace.as_deref() == Some("default");
        let Some(spec) = service.spec.as_mut().filter(|_| matches!(self.ground, Ground::Loopback)) else {
            return service;
        };
        let listens_at = server.address().parse::<SocketAddr>().ok().filter(|_| is_api);
        if let (Some(listens_at), Some(port)) = (listens_at, spec.ports.iter_mut().flatten().next()) {
            // Its own port may be one that only root can open.
            spec.cluster_ip = Some(listens_at.ip().to_string());
            port.port = i32::from(listens_at.port());
        } else if let Some(address) = spec.cluster_ip.as_deref().and_then(|address| address.parse().ok()) {
            spec.cluster_ip = Some(self.zone.reached(address).to_string());
        }
        service
    }

    /// Leaves the machine as it was: no bridge, rules, listeners or forwarding of ours. Pods that still run lose their network.
    pub async fn close(&self) {
        self.doors.lock().clear();
        self.ports.lock().clear();
        drop(self.listeners.lock().take());
        self.proxy.close().await;
        if let Ground::Bridge(ground) = &self.ground
            && let Err(error) = take_back(&ground.bridge).await
        {
            tracing::warn!(error = &error as &dyn std::error::Error, "something of the pods' network stays behind");
        }
    }
}

/// Takes back what a process that is gone has left on the machine: the bridge, its rules, forwarding.
pub async fn clear(home: &Path) -> Result<(), NetworkError> {
    match subnet::recorded_bridge(home)?.filter(is_there) {
        Some(bridge) => take_back(&bridge).await,
        None => Ok(()),
    }
}

/// Whether a home's bridge is on the machine.
pub fn is_open(home: &Path) -> bool {
    subnet::recorded_bridge(home).is_ok_and(|bridge| bridge.is_some_and(|bridge| is_there(&bridge)))
}

fn is_there(bridge: &Bridge) -> bool {
    outward::interfaces().is_ok_and(|names| names.contains(&bridge.name))
}

async fn take_back(bridge: &Bridge) -> Result<(), NetworkError> {
    let closed = on_bridge(bridge, outward::close).await;
    let removed = on_bridge(bridge, network::remove_bridge).await;
    closed.and(removed).map_err(|source| NetworkError::Clear { name: bridge.name.clone(), source })
}

/// Programs and the kernel take a while: not on a thread that others wait for.
async fn on_bridge(bridge: &Bridge, what: fn(&Bridge) -> Result<(), Fault>) -> Result<(), Fault> {
    let bridge = bridge.clone();
    let done = tokio::task::spawn_blocking(move || what(&bridge)).await;
    done.unwrap_or_else(|error| Err(Fault::unsupported(error.to_string())))
}

fn main_address(otherwise: Ipv4Addr) -> String {
    own_address().unwrap_or_else(|| otherwise.to_string())
}

fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

fn is_on_host(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.host_network == Some(true))
}

fn host_ports(pod: &Pod) -> impl Iterator<Item = &ContainerPort> {
    let spec = pod.spec.iter();
    let containers = spec.flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
    containers.flat_map(|container| container.ports.iter().flatten())
}
