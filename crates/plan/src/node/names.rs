//! What names in the cluster mean (K-SVC-3): the answers of the pods' name server, and the same as lines of a hosts file.
//!
//! `answer` says what is at a name; types, limits and the wire are the server's. Names are lower case, without a last dot.

use super::service_rules::{Backend, Name, Protocol, Services, backend_port, cluster_address, is_alias, port_name};
use k8s_openapi::api::core::v1::ServiceSpec;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

/// The version of the naming rules that this server follows, which clients may ask for.
const SCHEMA_VERSION: &str = "1.1.0";

/// What is ours to answer.
#[derive(Debug, Clone)]
pub struct Zone {
    /// Usually `cluster.local`.
    pub domain: String,
    /// The name server's own address.
    pub server: Ipv4Addr,
    /// Networks whose addresses nobody else can name, by their first address and prefix length.
    pub networks: Vec<(Ipv4Addr, u8)>,
    /// The first two octets by which services are reached where their own addresses cannot be: the last two stay.
    pub service_net: Option<[u8; 2]>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub name: String,
    pub data: Data,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    Address(Ipv4Addr),
    Alias(String),
    Server {
        port: u16,
        target: String,
    },
    Pointer(String),
    Text(String),
    NameServer(String),
    /// The zone's SOA.
    Authority,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Not a name of ours.
    Elsewhere,
    /// No such name.
    Missing,
    /// All that is at the name, possibly nothing.
    Records(Vec<Record>),
}

pub fn answer(services: &Services, zone: &Zone, name: &str) -> Answer {
    if let Some(reversed) = name.strip_suffix(".in-addr.arpa") {
        return reverse(services, zone, reversed);
    }
    let found = match name.strip_suffix(zone.domain.as_str()) {
        Some("") => Some(vec![Data::Authority, Data::NameServer(format!("ns.dns.{}", zone.domain))]),
        Some(rest) if rest.ends_with('.') => {
            let labels: Vec<&str> = rest.trim_end_matches('.').split('.').collect();
            below_domain(services, zone, &labels)
        }
        Some(_) | None => return Answer::Elsewhere,
    };
    let record = |data| Record { name: name.to_owned(), data };
    found.map_or(Answer::Missing, |found| Answer::Records(found.into_iter().map(record).collect()))
}

/// The addresses of the servers that an answer names, which clients would ask for next.
pub fn addresses_of_targets(services: &Services, zone: &Zone, records: &[Record]) -> Vec<Record> {
    let targets: BTreeSet<&str> = records
        .iter()
        .filter_map(|record| match &record.data {
            Data::Server { target, .. } => Some(target.as_str()),
            _ => None,
        })
        .collect();
    let of_target = |target: &str| match answer(services, zone, target) {
        Answer::Records(records) => records,
        Answer::Missing | Answer::Elsewhere => Vec::new(),
    };
    let all = targets.into_iter().flat_map(of_target);
    all.filter(|record| matches!(record.data, Data::Address(_))).collect()
}

fn below_domain(services: &Services, zone: &Zone, labels: &[&str]) -> Option<Vec<Data>> {
    match labels {
        ["dns-version"] => Some(vec![Data::Text(SCHEMA_VERSION.to_owned())]),
        ["ns", "dns"] => Some(vec![Data::Address(zone.server)]),
        ["dns" | "svc" | "pod"] | [_, "pod"] => Some(Vec::new()),
        [dashed, _, "pod"] => dashed.replace('-', ".").parse().ok().map(|address| vec![Data::Address(address)]),
        [namespace, "svc"] => services.has_namespace(namespace).then(Vec::new),
        [inner @ .., service, namespace, "svc"] => {
            let name = Name::new(namespace, service);
            let seen = Seen { services, zone, name: &name, spec: services.get(&name)? };
            below_service(&seen, inner)
        }
        _ => None,
    }
}

/// One service and what is needed to speak of it.
struct Seen<'a> {
    services: &'a Services,
    zone: &'a Zone,
    name: &'a Name,
    spec: &'a ServiceSpec,
}

impl Seen<'_> {
    fn full_name(&self) -> String {
        format!("{}.{}.svc.{}", self.name.name, self.name.namespace, self.zone.domain)
    }

    fn backends(&self) -> impl Iterator<Item = Backend<'_>> {
        self.services.ready(self.name)
    }
}

fn below_service(seen: &Seen, inner: &[&str]) -> Option<Vec<Data>> {
    if is_alias(seen.spec) {
        let target = seen.spec.external_name.as_deref()?.trim_end_matches('.').to_lowercase();
        return inner.is_empty().then(|| vec![Data::Alias(target)]);
    }
    let some = |found: Vec<Data>| if found.is_empty() { None } else { Some(found) };
    match inner {
        [] => {
            let servers = servers(seen, |_, _| true);
            let addresses = match cluster_address(seen.spec) {
                Some(address) => BTreeSet::from([seen.zone.reached(address)]),
                None => seen.backends().map(|backend| backend.address).collect(),
            };
            Some(addresses.into_iter().map(Data::Address).chain(servers).collect())
        }
        [protocol] if protocol.starts_with('_') => {
            let has_any = !servers(seen, |_, of| Some(of.label()) == protocol.strip_prefix('_')).is_empty();
            has_any.then(Vec::new)
        }
        [hostname] => {
            let addresses = seen.backends().filter(|backend| backend.label() == *hostname);
            let addresses: BTreeSet<Ipv4Addr> = addresses.map(|backend| backend.address).collect();
            some(addresses.into_iter().map(Data::Address).collect())
        }
        [port, protocol] => {
            let (port, protocol) = (port.strip_prefix('_')?, protocol.strip_prefix('_')?);
            some(servers(seen, |name, of| name == port && of.label() == protocol))
        }
        _ => None,
    }
}

/// SRV: of a headless service every backend, else the service itself.
fn servers(seen: &Seen, is_wanted: impl Fn(&str, Protocol) -> bool) -> Vec<Data> {
    let mut servers = Vec::new();
    for port in seen.spec.ports.iter().flatten() {
        let protocol = Protocol::parse(port.protocol.as_deref());
        if !protocol.is_some_and(|protocol| is_wanted(port_name(port), protocol)) {
            continue;
        }
        if cluster_address(seen.spec).is_some() {
            let port = u16::try_from(port.port).ok();
            servers.extend(port.map(|port| Data::Server { port, target: seen.full_name() }));
            continue;
        }
        for backend in seen.backends() {
            let target = format!("{}.{}", backend.label(), seen.full_name());
            servers.extend(backend_port(&backend, port).map(|port| Data::Server { port, target }));
        }
    }
    servers
}

fn reverse(services: &Services, zone: &Zone, reversed: &str) -> Answer {
    let labels: Vec<&str> = reversed.rsplit('.').collect();
    let Ok(address) = labels.join(".").parse::<Ipv4Addr>() else { return Answer::Elsewhere };
    let mut names = BTreeSet::new();
    for (name, spec) in services.iter() {
        let seen = Seen { services, zone, name, spec };
        if cluster_address(spec).map(|own| zone.reached(own)) == Some(address) {
            names.insert(seen.full_name());
        }
        let backends = seen.backends().filter(|backend| backend.address == address);
        names.extend(backends.map(|backend| format!("{}.{}", backend.label(), seen.full_name())));
    }
    let record = |target| Record { name: format!("{reversed}.in-addr.arpa"), data: Data::Pointer(target) };
    match names.is_empty() {
        false => Answer::Records(names.into_iter().map(record).collect()),
        true if zone.owns(address) => Answer::Missing,
        true => Answer::Elsewhere,
    }
}

impl Zone {
    /// The address by which a service's address is reached here.
    pub fn reached(&self, address: Ipv4Addr) -> Ipv4Addr {
        let [_, _, high, low] = address.octets();
        self.service_net.map_or(address, |[first, second]| Ipv4Addr::new(first, second, high, low))
    }

    fn owns(&self, address: Ipv4Addr) -> bool {
        let shift = |length: u8| 32 - u32::from(length.clamp(1, 32));
        self.networks
            .iter()
            .any(|(first, length)| (first.to_bits() >> shift(*length)) == (address.to_bits() >> shift(*length)))
    }
}

/// What a pod of the namespace finds in its hosts file where there is no name server: services, and backends with names.
///
/// The full name comes first, as reverse lookups take the first. One line holds the names of one service or backend:
/// some resolvers read 512 bytes of a line.
pub fn hosts_lines(services: &Services, zone: &Zone, namespace: &str) -> Vec<(String, Vec<String>)> {
    let mut lines = Vec::new();
    for (name, spec) in services.iter() {
        let seen = Seen { services, zone, name, spec };
        if is_alias(spec) {
            continue;
        }
        if let Some(address) = cluster_address(spec) {
            lines.push((zone.reached(address).to_string(), forms(&seen, "", namespace)));
        }
        let mut done = BTreeSet::new();
        for backend in seen.backends().filter(|backend| done.insert((backend.address, backend.hostname))) {
            if let Some(hostname) = backend.hostname {
                lines.push((backend.address.to_string(), forms(&seen, &format!("{hostname}."), namespace)));
            }
        }
        if cluster_address(spec).is_none() {
            let addresses: BTreeSet<Ipv4Addr> = seen.backends().map(|backend| backend.address).collect();
            lines.extend(addresses.iter().map(|address| (address.to_string(), forms(&seen, "", namespace))));
        }
    }
    lines
}

/// The ways to write a name that the search list of the namespace allows.
fn forms(seen: &Seen, prefix: &str, namespace: &str) -> Vec<String> {
    let Name { namespace: home, name } = seen.name;
    let mut forms = vec![
        format!("{prefix}{}", seen.full_name()),
        format!("{prefix}{name}.{home}.svc"),
        format!("{prefix}{name}.{home}"),
    ];
    if home == namespace {
        forms.push(format!("{prefix}{name}"));
    }
    forms
}

#[cfg(test)]
mod tests {
    use super::super::service_rules::tests::{service, slice};
    use super::*;
    use serde_json::json;

    fn zone() -> Zone {
        let networks = vec![(Ipv4Addr::new(10, 88, 0, 0), 22), (Ipv4Addr::new(10, 96, 0, 0), 16)];
        let server = Ipv4Addr::new(10, 88, 0, 1);
        Zone { domain: "cluster.local".to_owned(), server, networks, service_net: None }
    }

    /// `job` is headless with two named pods and one without a name, one of them not ready; `web` has an address.
    fn world() -> Services {
        let mut services = Services::default();
        let port = json!([{"name": "rdzv", "port": 23456, "protocol": "TCP"}]);
        services.observe_service(service("job", json!({"clusterIP": "None", "ports": port})));
        let endpoints = json!([{"addresses": ["10.88.0.3"], "hostname": "job-1"}, {"addresses": ["10.88.0.2"], "hostname": "job-0"},
            {"addresses": ["10.88.0.4"]}, {"addresses": ["10.88.0.9"], "hostname": "job-9", "conditions": {"ready": false}}]);
        services.observe_slice(slice("job", port, endpoints));
        let ports = json!([{"name": "http", "port": 80, "targetPort": 8080}]);
        services.observe_service(service("web", json!({"clusterIP": "10.96.0.20", "ports": ports})));
        let ports = json!([{"name": "http", "port": 8080}]);
        services.observe_slice(slice("web", ports, json!([{"addresses": ["10.88.0.4"]}])));
        services.observe_service(service("far", json!({"type": "ExternalName", "externalName": "Db.Example.com."})));
        services
    }

    fn shown(name: &str) -> String {
        let text = |record: Record| match record.data {
            Data::Address(address) => address.to_string(),
            Data::Alias(target) => format!("alias {target}"),
            Data::Server { port, target } => format!("{target}:{port}"),
            Data::Pointer(target) => format!("is {target}"),
            Data::Text(text) => format!("{text:?}"),
            Data::NameServer(target) => format!("by {target}"),
            Data::Authority => "authority".to_owned(),
        };
        match answer(&world(), &zone(), name) {
            Answer::Elsewhere => "elsewhere".to_owned(),
            Answer::Missing => "missing".to_owned(),
            Answer::Records(records) => records.into_iter().map(text).collect::<Vec<_>>().join(" "),
        }
    }

    // K-SVC-3
    #[test]
    fn names_mean_what_the_cluster_says() {
        let cases = [
            ("example.com", "elsewhere"),
            ("notcluster.local", "elsewhere"),
            ("web", "elsewhere"),
            ("cluster.local", "authority by ns.dns.cluster.local"),
            ("ns.dns.cluster.local", "10.88.0.1"),
            ("dns-version.cluster.local", "\"1.1.0\""),
            ("svc.cluster.local", ""),
            ("ns.svc.cluster.local", ""),
            ("other.svc.cluster.local", "missing"),
            ("web.ns.svc.cluster.local", "10.96.0.20 web.ns.svc.cluster.local:80"),
            ("web.other.svc.cluster.local", "missing"),
            ("example.com.ns.svc.cluster.local", "missing"),
            ("_http._tcp.web.ns.svc.cluster.local", "web.ns.svc.cluster.local:80"),
            ("_tcp.web.ns.svc.cluster.local", ""),
            ("_udp.web.ns.svc.cluster.local", "missing"),
            ("_http._udp.web.ns.svc.cluster.local", "missing"),
            ("job-0.job.ns.svc.cluster.local", "10.88.0.2"),
            ("job-9.job.ns.svc.cluster.local", "missing"),
            ("10-88-0-4.job.ns.svc.cluster.local", "10.88.0.4"),
            ("10-88-0-4.web.ns.svc.cluster.local", "10.88.0.4"),
            ("far.ns.svc.cluster.local", "alias db.example.com"),
            ("10-88-0-7.ns.pod.cluster.local", "10.88.0.7"),
            ("nonsense.ns.pod.cluster.local", "missing"),
            ("20.0.96.10.in-addr.arpa", "is web.ns.svc.cluster.local"),
            ("2.0.88.10.in-addr.arpa", "is job-0.job.ns.svc.cluster.local"),
            ("4.0.88.10.in-addr.arpa", "is 10-88-0-4.job.ns.svc.cluster.local is 10-88-0-4.web.ns.svc.cluster.local"),
            ("9.0.88.10.in-addr.arpa", "missing"),
            ("1.2.0.192.in-addr.arpa", "elsewhere"),
        ];
        for (name, expected) in cases {
            assert_eq!(shown(name), expected, "{name}");
        }
    }

    // K-SVC-3
    #[test]
    fn a_headless_service_is_all_its_ready_pods() {
        let expected = "10.88.0.2 10.88.0.3 10.88.0.4 job-1.job.ns.svc.cluster.local:23456 \
            job-0.job.ns.svc.cluster.local:23456 10-88-0-4.job.ns.svc.cluster.local:23456";
        assert_eq!(shown("job.ns.svc.cluster.local"), expected);
        let Answer::Records(servers) = answer(&world(), &zone(), "_rdzv._tcp.job.ns.svc.cluster.local") else {
            panic!("the port is there")
        };
        let extra = addresses_of_targets(&world(), &zone(), &servers);
        let extra: Vec<String> = extra.iter().map(|record| format!("{} {:?}", record.name, record.data)).collect();
        assert_eq!(extra.len(), 3);
        assert_eq!(extra[1], "job-0.job.ns.svc.cluster.local Address(10.88.0.2)");
    }

    // K-SVC-3
    #[test]
    fn hosts_lines_say_the_same_without_a_server() {
        let zone = Zone { service_net: Some([127, 65]), ..zone() };
        let lines = |namespace| -> Vec<String> {
            let lines = hosts_lines(&world(), &zone, namespace).into_iter();
            lines.map(|(address, names)| format!("{address} {}", names.join(" "))).collect()
        };
        let job = "job.ns.svc.cluster.local job.ns.svc job.ns job";
        let expected = [
            "10.88.0.3 job-1.job.ns.svc.cluster.local job-1.job.ns.svc job-1.job.ns job-1.job".to_owned(),
            "10.88.0.2 job-0.job.ns.svc.cluster.local job-0.job.ns.svc job-0.job.ns job-0.job".to_owned(),
            format!("10.88.0.2 {job}"),
            format!("10.88.0.3 {job}"),
            format!("10.88.0.4 {job}"),
            "127.65.0.20 web.ns.svc.cluster.local web.ns.svc web.ns web".to_owned(),
        ];
        assert_eq!(lines("ns"), expected);
        assert_eq!(lines("other")[5], "127.65.0.20 web.ns.svc.cluster.local web.ns.svc web.ns");
    }
}
