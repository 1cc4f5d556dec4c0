//! Services and where they lead: from Service and EndpointSlice objects to doors that the node opens.
//!
//! The node's network observes both kinds into `Services`, opens what `rules` returns, and answers names from the same
//! index (`names`). Only IPv4 has a place here, as pods have no other addresses.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};

const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// What `ClientIP` affinity lasts without a word about it.
const AFFINITY_SECONDS: u32 = 10_800;

/// A namespace and a name in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    pub namespace: String,
    pub name: String,
}

impl Name {
    pub fn new(namespace: &str, name: &str) -> Name {
        Name { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    fn of(metadata: &ObjectMeta) -> Name {
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        Name::new(namespace, metadata.name.as_deref().unwrap_or_default())
    }
}

/// All services and their slices, as observed so far.
#[derive(Debug, Default)]
pub struct Services {
    services: BTreeMap<Name, Service>,
    /// By service, then by the slice's own name.
    slices: BTreeMap<Name, BTreeMap<String, EndpointSlice>>,
    /// Whose slice it is, by the slice's name: a label may change, and a deletion names the slice alone.
    owners: BTreeMap<Name, Name>,
}

/// One address behind a service.
#[derive(Debug, Clone, Copy)]
pub struct Backend<'a> {
    pub address: Ipv4Addr,
    pub hostname: Option<&'a str>,
    pub ports: &'a [EndpointPort],
}

impl Backend<'_> {
    /// What the backend is called below its service.
    pub fn label(&self) -> String {
        self.hostname.map_or_else(|| self.address.to_string().replace('.', "-"), str::to_owned)
    }
}

impl Services {
    pub fn observe_service(&mut self, service: Service) {
        self.services.insert(Name::of(&service.metadata), service);
    }

    pub fn forget_service(&mut self, name: &Name) {
        self.services.remove(name);
    }

    pub fn observe_slice(&mut self, slice: EndpointSlice) {
        let name = Name::of(&slice.metadata);
        self.forget_slice(&name);
        let service = slice.metadata.labels.as_ref().and_then(|labels| labels.get(SERVICE_NAME));
        let Some(service) = service.filter(|_| slice.address_type == "IPv4") else { return };
        let owner = Name::new(&name.namespace, service);
        self.slices.entry(owner.clone()).or_default().insert(name.name.clone(), slice);
        self.owners.insert(name, owner);
    }

    pub fn forget_slice(&mut self, name: &Name) {
        let Some(owner) = self.owners.remove(name) else { return };
        if let Some(slices) = self.slices.get_mut(&owner) {
            slices.remove(&name.name);
            if slices.is_empty() {
                self.slices.remove(&owner);
            }
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Name, &ServiceSpec)> {
        self.services.iter().filter_map(|(name, service)| Some((name, service.spec.as_ref()?)))
    }

    pub fn get(&self, name: &Name) -> Option<&ServiceSpec> {
        self.services.get(name)?.spec.as_ref()
    }

    /// Whether the namespace has a service, so that names below it may exist.
    pub fn has_namespace(&self, namespace: &str) -> bool {
        let first = self.services.range(Name::new(namespace, "")..).next();
        first.is_some_and(|(name, _)| name.namespace == namespace)
    }

    /// The backends that are ready; `publishNotReadyAddresses` shows in the slices as ready.
    pub fn ready(&self, name: &Name) -> impl Iterator<Item = Backend<'_>> {
        self.backends(name, |endpoint| condition(endpoint, |c| c.ready).unwrap_or(true))
    }

    fn backends(&self, name: &Name, is_wanted: fn(&Endpoint) -> bool) -> impl Iterator<Item = Backend<'_>> {
        let slices = self.slices.get(name).into_iter().flat_map(BTreeMap::values);
        slices.flat_map(move |slice| {
            let ports = slice.ports.as_deref().unwrap_or_default();
            let endpoints = slice.endpoints.iter().flatten().filter(move |endpoint| is_wanted(endpoint));
            endpoints.flat_map(move |endpoint| {
                let hostname = endpoint.hostname.as_deref().filter(|hostname| !hostname.is_empty());
                let addresses = endpoint.addresses.iter().filter_map(|address| address.parse().ok());
                addresses.map(move |address| Backend { address, hostname, ports })
            })
        })
    }

    /// Every address that services are reached at, also of those without backends: they must refuse, not hang.
    pub fn addresses(&self) -> BTreeSet<Ipv4Addr> {
        self.iter().filter_map(|(_, spec)| cluster_address(spec)).collect()
    }
}

fn condition(
    endpoint: &Endpoint,
    which: fn(&k8s_openapi::api::discovery::v1::EndpointConditions) -> Option<bool>,
) -> Option<bool> {
    endpoint.conditions.as_ref().and_then(which)
}

/// The address of a service; headless ones and aliases have none.
pub fn cluster_address(spec: &ServiceSpec) -> Option<Ipv4Addr> {
    if is_alias(spec) {
        return None;
    }
    spec.cluster_ip.as_deref()?.parse().ok()
}

pub fn is_alias(spec: &ServiceSpec) -> bool {
    spec.type_.as_deref() == Some("ExternalName")
}

pub fn port_name(port: &ServicePort) -> &str {
    port.name.as_deref().unwrap_or_default()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    Tcp,
    Udp,
}

impl Protocol {
    /// `None` for those that are not carried here, such as SCTP.
    pub fn parse(text: Option<&str>) -> Option<Protocol> {
        match text.unwrap_or("TCP") {
            "TCP" => Some(Protocol::Tcp),
            "UDP" => Some(Protocol::Udp),
            _ => None,
        }
    }

    /// As a label of an SRV name, without the underscore.
    pub fn label(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        }
    }
}

/// Where clients of a service come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A service's own address.
    Service(Ipv4Addr),
    /// Every address of the machine: a node port.
    Machine,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Door {
    pub place: Place,
    pub port: u16,
    pub protocol: Protocol,
}

/// Where a door leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Never empty: a door without targets stays shut, so that the kernel refuses at once.
    pub targets: Vec<SocketAddr>,
    /// How long a client is sent to the target that it had before.
    pub affinity_seconds: Option<u32>,
}

/// Whether only TLS may be carried to a target. The API server trusts plain HTTP of our own user on loopback, and whoever
/// comes through a door looks like that user. While nobody knows where it listens, every loopback address may be it.
pub fn is_tls_only(target: SocketAddr, api_server: Option<SocketAddr>) -> bool {
    target.ip().is_loopback() && api_server.is_none_or(|api_server| api_server.port() == target.port())
}

/// The doors to open. The API's own service leads to where it really listens, which may be loopback alone.
pub fn rules(services: &Services, api_server: Option<SocketAddr>) -> BTreeMap<Door, Rule> {
    let mut rules = BTreeMap::new();
    for (name, spec) in services.iter() {
        let Some(address) = cluster_address(spec) else { continue };
        let is_api = name.namespace == "default" && name.name == "kubernetes";
        for port in spec.ports.iter().flatten() {
            let Some(protocol) = Protocol::parse(port.protocol.as_deref()) else { continue };
            let targets = match api_server.filter(|_| is_api) {
                Some(api_server) => vec![api_server],
                None => targets(services, name, port),
            };
            if targets.is_empty() {
                continue;
            }
            let rule = Rule { targets, affinity_seconds: affinity(spec) };
            let inner = u16::try_from(port.port).ok().map(|number| (Place::Service(address), number));
            let outer = port.node_port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0);
            for (place, port) in inner.into_iter().chain(outer.map(|port| (Place::Machine, port))) {
                rules.insert(Door { place, port, protocol }, rule.clone());
            }
        }
    }
    rules
}

/// The ready backends; when there are none, those that still serve while they end.
fn targets(services: &Services, name: &Name, port: &ServicePort) -> Vec<SocketAddr> {
    let resolve = |backend: Backend| {
        let number = backend_port(&backend, port)?;
        Some(SocketAddr::from((backend.address, number)))
    };
    let ready: BTreeSet<SocketAddr> = services.ready(name).filter_map(resolve).collect();
    if !ready.is_empty() {
        return ready.into_iter().collect();
    }
    let is_ending = |endpoint: &Endpoint| {
        condition(endpoint, |c| c.serving) == Some(true) && condition(endpoint, |c| c.terminating) == Some(true)
    };
    let ending: BTreeSet<SocketAddr> = services.backends(name, is_ending).filter_map(resolve).collect();
    ending.into_iter().collect()
}

/// The backend's number for a service port: slices name it after the service's, resolved for the backend.
pub fn backend_port(backend: &Backend, port: &ServicePort) -> Option<u16> {
    let protocol = Protocol::parse(port.protocol.as_deref());
    let is_it = |found: &&EndpointPort| {
        found.name.as_deref().unwrap_or_default() == port_name(port)
            && Protocol::parse(found.protocol.as_deref()) == protocol
    };
    u16::try_from(backend.ports.iter().find(is_it)?.port?).ok()
}

fn affinity(spec: &ServiceSpec) -> Option<u32> {
    let is_by_client = spec.session_affinity.as_deref() == Some("ClientIP");
    let config = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
    let seconds = config.and_then(|config| config.timeout_seconds).and_then(|seconds| u32::try_from(seconds).ok());
    is_by_client.then(|| seconds.unwrap_or(AFFINITY_SECONDS))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A service `name` of `ns` with the given spec.
    pub fn service(name: &str, spec: Value) -> Service {
        serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": name}, "spec": spec})).unwrap()
    }

    /// The slice `<service>-x`.
    pub fn slice(service: &str, ports: Value, endpoints: Value) -> EndpointSlice {
        let metadata = json!({"namespace": "ns", "name": format!("{service}-x"), "labels": {SERVICE_NAME: service}});
        let slice = json!({"metadata": metadata, "addressType": "IPv4", "ports": ports, "endpoints": endpoints});
        serde_json::from_value(slice).unwrap()
    }

    fn shown(services: &Services, api_server: Option<&str>) -> Vec<String> {
        let api_server = api_server.map(|address| address.parse().unwrap());
        let line = |(door, rule): (Door, Rule)| {
            let place = match door.place {
                Place::Service(address) => address.to_string(),
                Place::Machine => "machine".to_owned(),
            };
            let targets: Vec<String> = rule.targets.iter().map(ToString::to_string).collect();
            format!("{}/{place}:{} -> {}", door.protocol.label(), door.port, targets.join(" "))
        };
        rules(services, api_server).into_iter().map(line).collect()
    }

    fn web() -> Services {
        let mut services = Services::default();
        let ports = json!([{"name": "http", "port": 80, "targetPort": "web", "nodePort": 30080}, {"name": "dns", "port": 53, "protocol": "UDP"}]);
        services.observe_service(service("web", json!({"clusterIP": "10.96.0.20", "ports": ports})));
        let ports =
            json!([{"name": "http", "port": 8080, "protocol": "TCP"}, {"name": "dns", "port": 53, "protocol": "UDP"}]);
        let endpoints = json!([{"addresses": ["10.88.0.3"], "conditions": {"ready": true}}, {"addresses": ["10.88.0.2"]},
            {"addresses": ["10.88.0.4"], "conditions": {"ready": false, "serving": true, "terminating": true}}]);
        services.observe_slice(slice("web", ports, endpoints));
        services
    }

    #[test]
    fn nothing_is_opened_for_nothing() {
        assert!(rules(&Services::default(), None).is_empty());
    }

    #[test]
    fn doors_lead_to_the_resolved_ports_of_ready_backends() {
        let expected = [
            "udp/10.96.0.20:53 -> 10.88.0.2:53 10.88.0.3:53",
            "tcp/10.96.0.20:80 -> 10.88.0.2:8080 10.88.0.3:8080",
            "tcp/machine:30080 -> 10.88.0.2:8080 10.88.0.3:8080",
        ];
        assert_eq!(shown(&web(), None), expected);
    }

    #[test]
    fn backends_that_end_serve_while_there_are_no_others() {
        let mut services = web();
        let ports = json!([{"name": "http", "port": 8080}]);
        let ending = json!([{"addresses": ["10.88.0.4"], "conditions": {"ready": false, "serving": true, "terminating": true}},
            {"addresses": ["10.88.0.5"], "conditions": {"ready": false, "serving": false}}]);
        services.observe_slice(slice("web", ports, ending));
        assert_eq!(shown(&services, None)[0], "tcp/10.96.0.20:80 -> 10.88.0.4:8080");
    }

    #[test]
    fn a_door_without_backends_stays_shut_but_its_address_is_known() {
        let mut services = web();
        services.forget_slice(&Name::new("ns", "web-x"));
        assert!(shown(&services, None).is_empty());
        assert_eq!(services.addresses(), BTreeSet::from([Ipv4Addr::new(10, 96, 0, 20)]));
        services.forget_service(&Name::new("ns", "web"));
        assert!(services.addresses().is_empty());
    }

    #[test]
    fn headless_services_and_aliases_have_no_doors() {
        let mut services = web();
        services.observe_service(service("web", json!({"clusterIP": "None", "ports": [{"port": 80}]})));
        services.observe_service(service("far", json!({"type": "ExternalName", "externalName": "example.com"})));
        assert!(shown(&services, None).is_empty() && services.addresses().is_empty());
    }

    // K-SVC-1
    #[test]
    fn the_api_is_reached_where_it_listens() {
        let mut services = Services::default();
        let ports = json!([{"name": "https", "port": 443, "targetPort": 6443}]);
        let mut api = service("kubernetes", json!({"clusterIP": "10.96.0.1", "ports": ports}));
        api.metadata.namespace = Some("default".to_owned());
        services.observe_service(api);
        assert_eq!(shown(&services, Some("127.0.0.1:6443")), ["tcp/10.96.0.1:443 -> 127.0.0.1:6443"]);
    }

    #[test]
    fn nothing_leads_to_the_api_in_the_clear() {
        let is_tls_only = |target: &str, api_server: Option<&str>| {
            is_tls_only(target.parse().unwrap(), api_server.map(|address| address.parse().unwrap()))
        };
        assert!(is_tls_only("127.0.0.1:6443", Some("127.0.0.1:6443")));
        assert!(is_tls_only("127.64.0.2:6443", Some("192.0.2.1:6443")), "it may listen on all addresses");
        assert!(!is_tls_only("127.64.0.2:8080", Some("127.0.0.1:6443")));
        assert!(is_tls_only("127.64.0.2:8080", None), "who knows");
        assert!(!is_tls_only("10.88.0.2:6443", None), "pods are not trusted by their address");
    }

    #[test]
    fn affinity_is_by_client_and_has_an_end() {
        let spec = |spec: Value| serde_json::from_value::<ServiceSpec>(spec).unwrap();
        assert_eq!(affinity(&spec(json!({}))), None);
        assert_eq!(affinity(&spec(json!({"sessionAffinity": "ClientIP"}))), Some(10_800));
        let config =
            json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}});
        assert_eq!(affinity(&spec(config)), Some(5));
    }
}
