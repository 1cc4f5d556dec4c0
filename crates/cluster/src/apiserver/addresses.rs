//! Service addresses and node ports: handed out once each, from what no stored service holds (spec K-SVC-1).

use super::ApiServer;
use super::object;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use volley_api::kube::defaults::network;
use volley_api::kube::field::FieldError;
use volley_api::kube::{defaults, items_mut, text};

/// The range that the reference uses for node ports.
const NODE_PORTS: std::ops::RangeInclusive<u16> = 30000..=32767;

/// What is taken. The first address of the net belongs to the `kubernetes` service.
pub struct Addresses {
    net: [u8; 2],
    taken: Arc<Mutex<Taken>>,
}

/// What one write took; given back when the write does not happen.
pub struct Reservation {
    taken: Arc<Mutex<Taken>>,
    hosts: Vec<u16>,
    ports: Vec<u16>,
}

impl Reservation {
    /// The write happened: from now on the stored service holds it all.
    pub fn keep(mut self) {
        self.hosts.clear();
        self.ports.clear();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut taken = self.taken.lock();
        for host in &self.hosts {
            taken.addresses.remove(host);
        }
        for port in &self.ports {
            taken.ports.remove(port);
        }
    }
}

#[derive(Default)]
struct Taken {
    addresses: BTreeSet<u16>,
    ports: BTreeSet<u16>,
    next_address: u16,
    next_port: u16,
}

impl Addresses {
    pub fn new(net: [u8; 2]) -> Addresses {
        Addresses { net, taken: Arc::default() }
    }

    /// The address of the `kubernetes` service.
    pub fn first(&self) -> String {
        self.address(1)
    }

    fn address(&self, host: u16) -> String {
        let [high, low] = host.to_be_bytes();
        Ipv4Addr::new(self.net[0], self.net[1], high, low).to_string()
    }

    fn host(&self, address: &str) -> Option<u16> {
        let octets = address.parse::<Ipv4Addr>().ok()?.octets();
        (octets[..2] == self.net).then(|| u16::from_be_bytes([octets[2], octets[3]]))
    }

    fn take_address(&self) -> Option<u16> {
        let mut taken = self.taken.lock();
        // Sixteen at each end are left out: the net itself, our own, and room for well-known ones such as DNS.
        for _ in 0..u16::MAX {
            taken.next_address = taken.next_address.wrapping_add(1).clamp(16, u16::MAX - 16);
            let host = taken.next_address;
            if taken.next_address == u16::MAX - 16 {
                taken.next_address = 0;
            }
            if taken.addresses.insert(host) {
                return Some(host);
            }
        }
        None
    }

    fn take_port(&self) -> Option<u16> {
        let mut taken = self.taken.lock();
        for _ in NODE_PORTS {
            let next = taken.next_port.max(*NODE_PORTS.start());
            taken.next_port = if next == *NODE_PORTS.end() { *NODE_PORTS.start() } else { next + 1 };
            if taken.ports.insert(next) {
                return Some(next);
            }
        }
        None
    }

    /// Marks what a stored service holds.
    fn learn(&self, service: &Value) {
        let mut taken = self.taken.lock();
        taken.addresses.extend(self.host(text(service, "spec.clusterIP")));
        taken.ports.extend(node_ports(service));
    }

    /// Gives back what the old service held and the new one, if any, does not.
    pub fn release(&self, old: &Value, new: Option<&Value>) {
        let held = |service: &Value| (self.host(text(service, "spec.clusterIP")), node_ports(service).collect());
        let (host, ports): (_, BTreeSet<u16>) = held(old);
        let (kept_host, kept_ports) = new.map(held).unwrap_or_default();
        let mut taken = self.taken.lock();
        if let Some(host) = host.filter(|host| kept_host != Some(*host)) {
            taken.addresses.remove(&host);
        }
        for port in ports.difference(&kept_ports) {
            taken.ports.remove(port);
        }
    }

    /// Fills the addresses and ports that a service leaves open, and checks those it asks for.
    pub fn assign(&self, service: &mut Value, old: Option<&Value>) -> Result<Reservation, FieldError> {
        let mut reserved = Reservation { taken: self.taken.clone(), hosts: Vec::new(), ports: Vec::new() };
        let kind = text(service, "spec.type").to_owned();
        if kind == "ExternalName" {
            return Ok(reserved);
        }
        check_families(service)?;
        let asked = text(service, "spec.clusterIP").to_owned();
        if old.is_none() {
            check_list(service, &asked)?;
        }
        if asked.is_empty() {
            let free = self.take_address().ok_or_else(|| {
                FieldError::invalid("spec.clusterIPs", Value::Null, "failed to allocate a serviceIP: range is full")
            })?;
            reserved.hosts.push(free);
            service["spec"]["clusterIP"] = self.address(free).into();
        } else if asked != "None" && old.is_none_or(|old| text(old, "spec.clusterIP") != asked) {
            reserved.hosts.push(self.reserve(&asked)?);
        }
        service["spec"]["clusterIPs"] = json!([service["spec"]["clusterIP"]]);
        network::fill_ip_families(service);
        if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
            self.assign_ports(service, old, &mut reserved)?;
        }
        defaults::network::fill_ip_families(service);
        Ok(reserved)
    }

    fn reserve(&self, asked: &str) -> Result<u16, FieldError> {
        let refuse = |detail: String| Err(FieldError::invalid("spec.clusterIPs", json!([asked]), &detail));
        match asked.parse::<IpAddr>() {
            Ok(IpAddr::V4(_)) => {}
            Ok(IpAddr::V6(_)) => {
                let detail = "IPv6 is not configured on this cluster";
                return Err(FieldError::invalid("spec.clusterIPs[0]", json!([asked]), detail));
            }
            Err(_) => {
                let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
                return Err(FieldError::invalid("spec.clusterIPs[0]", asked, detail));
            }
        }
        let Some(host) = self.host(asked) else {
            let [a, b] = self.net;
            return refuse(format!(
                "failed to allocate IP {asked}: the provided IP ({asked}) is not in the valid range. The range of valid IPs is {a}.{b}.0.0/16"
            ));
        };
        if !self.taken.lock().addresses.insert(host) {
            return refuse(format!("failed to allocate IP {asked}: provided IP is already allocated"));
        }
        Ok(host)
    }

    fn assign_ports(
        &self,
        service: &mut Value,
        old: Option<&Value>,
        reserved: &mut Reservation,
    ) -> Result<(), FieldError> {
        let held: BTreeSet<u16> = old.map(|old| node_ports(old).collect()).unwrap_or_default();
        let open = network::ports_without_node_port(service);
        for (i, port) in items_mut(service, "spec.ports").enumerate() {
            let path = format!("spec.ports[{i}].nodePort");
            match port["nodePort"].as_u64().unwrap_or(0) {
                0 if !open.contains(&i) => {}
                0 => {
                    let free = self.take_port();
                    let free = free.ok_or_else(|| FieldError::invalid(path, 0, "range is full"))?;
                    reserved.ports.push(free);
                    port["nodePort"] = free.into();
                }
                asked => {
                    let asked =
                        u16::try_from(asked).ok().filter(|asked| NODE_PORTS.contains(asked)).ok_or_else(|| {
                            FieldError::invalid(
                                &path,
                                asked,
                                "provided port is not in the valid range. The range of valid ports is 30000-32767",
                            )
                        })?;
                    if held.contains(&asked) {
                        continue;
                    }
                    if !self.taken.lock().ports.insert(asked) {
                        return Err(FieldError::invalid(path, asked, "provided port is already allocated"));
                    }
                    reserved.ports.push(asked);
                }
            }
        }
        if network::needs_health_check_port(service)
            && service["spec"]["healthCheckNodePort"].as_u64().unwrap_or(0) == 0
        {
            let free = self.take_port();
            let free = free.ok_or_else(|| FieldError::invalid("spec.healthCheckNodePort", 0, "range is full"))?;
            reserved.ports.push(free);
            service["spec"]["healthCheckNodePort"] = free.into();
        }
        Ok(())
    }
}

/// The node ports of a service, the one of its health check among them.
fn node_ports(service: &Value) -> impl Iterator<Item = u16> {
    let spec = &service["spec"];
    let of_ports = spec["ports"].as_array().into_iter().flatten().filter_map(|port| port["nodePort"].as_u64());
    let ports: Vec<u64> = of_ports.chain(spec["healthCheckNodePort"].as_u64()).filter(|port| *port != 0).collect();
    ports.into_iter().filter_map(|port| u16::try_from(port).ok())
}

/// The address families that a service may ask for: this cluster has one.
fn check_families(service: &Value) -> Result<(), FieldError> {
    let has_selector = service["spec"]["selector"].as_object().is_some_and(|selector| !selector.is_empty());
    if network::is_headless(service) && !has_selector {
        return Ok(());
    }
    let families = service["spec"]["ipFamilies"].as_array().into_iter().flatten();
    for (i, family) in families.enumerate().filter(|(_, family)| *family == "IPv6") {
        let detail = "not configured on this cluster";
        return Err(FieldError::invalid(format!("spec.ipFamilies[{i}]"), family.clone(), detail));
    }
    if text(service, "spec.ipFamilyPolicy") == "RequireDualStack" {
        let detail = "this cluster is not configured for dual-stack services";
        return Err(FieldError::invalid("spec.ipFamilyPolicy", "RequireDualStack", detail));
    }
    Ok(())
}

/// A new service's list of addresses says the same as its one address.
fn check_list(service: &Value, asked: &str) -> Result<(), FieldError> {
    let list = &service["spec"]["clusterIPs"];
    let Some(first) = list.as_array().and_then(|list| list.first()) else { return Ok(()) };
    let refuse = |detail: &str| Err(FieldError::invalid("spec.clusterIPs", list.clone(), detail));
    match asked {
        "" => refuse("must be empty when `clusterIP` is not specified"),
        _ if first != asked => refuse("first value must match `clusterIP`"),
        _ => Ok(()),
    }
}

impl ApiServer {
    /// Marks what the stored services hold; called once at the start.
    pub(super) fn learn_addresses(&self) {
        let bucket = self.store.bucket("services");
        for stored in self.store.list(&bucket, "").entries {
            self.addresses.learn(&object::parse(&stored));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // K-SVC-1
    #[test]
    fn addresses_and_ports_are_given_once() {
        let addresses = Addresses::new([10, 96]);
        let mut first = json!({"spec": {"type": "NodePort", "ports": [{"port": 80}]}});
        addresses.assign(&mut first, None).expect("free").keep();
        assert_eq!(first["spec"]["clusterIP"], "10.96.0.16");
        assert_eq!(first["spec"]["ports"][0]["nodePort"], 30000);
        let mut same = json!({"spec": {"type": "ClusterIP", "clusterIP": "10.96.0.16"}});
        let error = addresses.assign(&mut same, None).err().expect("taken");
        assert!(error.text.contains("already allocated"), "{error}");
        addresses.release(&first, Some(&first));
        assert!(addresses.assign(&mut same, None).is_err(), "the service still holds it");
        addresses.release(&first, None);
        drop(addresses.assign(&mut same, None).expect("free again"));
        addresses.assign(&mut same, None).expect("free: the write did not happen").keep();
        let mut headless = json!({"spec": {"type": "ClusterIP", "clusterIP": "None"}});
        addresses.assign(&mut headless, None).expect("headless");
        assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
        let mut outside = json!({"spec": {"type": "ClusterIP", "clusterIP": "1.2.3.4"}});
        assert!(addresses.assign(&mut outside, None).is_err());
    }

    // K-SVC-1
    #[test]
    fn families_and_the_health_check_port_are_filled_in() {
        let addresses = Addresses::new([10, 96]);
        let mut balancer =
            json!({"spec": {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}]}});
        addresses.assign(&mut balancer, None).expect("free").keep();
        assert_eq!(balancer["spec"]["ipFamilies"], json!(["IPv4"]));
        assert_eq!(balancer["spec"]["ipFamilyPolicy"], "SingleStack");
        assert_eq!(balancer["spec"]["healthCheckNodePort"], 30001);
        addresses.release(&balancer, None);
        let mut same = json!({"spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30001}]}});
        addresses.assign(&mut same, None).expect("given back with its service").keep();
        let mut plain =
            json!({"spec": {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": [{"port": 80}]}});
        addresses.assign(&mut plain, None).expect("free").keep();
        assert!(plain["spec"]["ports"][0].get("nodePort").is_none());
    }

    #[test]
    fn addresses_that_cannot_be_had_are_refused_with_the_reason() {
        let addresses = Addresses::new([10, 96]);
        let refused = |spec: Value| {
            let mut service = json!({"spec": spec});
            addresses.assign(&mut service, None).err().map(|error| error.to_string()).unwrap_or_default()
        };
        let range = "The range of valid IPs is 10.96.0.0/16";
        assert!(refused(json!({"type": "ClusterIP", "clusterIP": "1.2.3.4"})).ends_with(range));
        assert!(
            refused(json!({"type": "ClusterIP", "clusterIP": "x"}))
                .starts_with("spec.clusterIPs[0]: Invalid value: \"x\"")
        );
        assert!(refused(json!({"type": "ClusterIP", "clusterIPs": ["10.96.7.7"]})).contains("must be empty when"));
        assert!(
            refused(json!({"type": "ClusterIP", "ipFamilies": ["IPv6"]})).contains("not configured on this cluster")
        );
    }
}
