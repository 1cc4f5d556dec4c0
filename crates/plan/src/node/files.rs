//! The files that every container finds under `/etc`: `hosts`, `hostname` and `resolv.conf`.
//!
//! They read as the kubelet and containerd write them, because programs and people parse them.

use super::{is_host_network, name, namespace, spec};
use k8s_openapi::api::core::v1::{Pod, PodDNSConfigOption};
use std::fmt::Write;

/// The kernel's host names have 63 characters.
const HOSTNAME_MAX: usize = 63;
/// What resolvers read at most.
const NAMESERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
const SEARCH_CHARACTERS_MAX: usize = 2048;
const DOMAIN_CHARACTERS_MAX: usize = 253;

/// How names are looked up around here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DnsFacts {
    /// Our own name server, as pods reach it; empty when there is none.
    pub cluster_servers: Vec<String>,
    /// Usually `cluster.local`.
    pub cluster_domain: String,
    /// The machine's own `resolv.conf`.
    pub host: ResolvConf,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResolvConf {
    pub servers: Vec<String>,
    pub searches: Vec<String>,
    pub options: Vec<String>,
}

pub fn hostname(pod: &Pod) -> String {
    let spec = spec(pod);
    let own = spec.and_then(|spec| spec.hostname_override.as_deref().or(spec.hostname.as_deref()));
    let text = own.filter(|own| !own.is_empty()).unwrap_or_else(|| name(pod));
    let cut: String = text.chars().take(HOSTNAME_MAX).collect();
    if cut.len() < text.len() { cut.trim_end_matches(['-', '.']).to_owned() } else { cut }
}

/// The domain under which the pod's host name is found, when it has a subdomain.
pub fn domain(pod: &Pod, cluster_domain: &str) -> Option<String> {
    let spec = spec(pod).filter(|spec| spec.hostname_override.is_none())?;
    let subdomain = spec.subdomain.as_deref().filter(|subdomain| !subdomain.is_empty())?;
    Some(format!("{subdomain}.{}.svc.{cluster_domain}", namespace(pod)))
}

/// The name that the kernel tells inside the pod: the machine's on its network, with `setHostnameAsFQDN` the whole one.
/// `/etc/hostname` is this and a line end.
pub fn kernel_hostname(pod: &Pod, cluster_domain: &str, host_name: &str) -> String {
    if is_host_network(pod) {
        return host_name.to_owned();
    }
    let is_full = spec(pod).is_some_and(|spec| spec.set_hostname_as_fqdn == Some(true));
    match domain(pod, cluster_domain).filter(|_| is_full) {
        Some(domain) => format!("{}.{domain}", hostname(pod)),
        None => hostname(pod),
    }
}

/// `/etc/hosts`; pods on the host's network get the machine's own, `host_file`, with a heading.
pub fn hosts_file(pod: &Pod, addresses: &[String], cluster_domain: &str, host_file: &str) -> String {
    let mut text;
    if is_host_network(pod) {
        text = format!("# Kubernetes-managed hosts file (host network).\n{host_file}");
    } else {
        text = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n\
                fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n"
            .to_owned();
        let short = hostname(pod);
        for address in addresses {
            let line = match domain(pod, cluster_domain) {
                Some(domain) => format!("{address}\t{short}.{domain}\t{short}\n"),
                None => format!("{address}\t{short}\n"),
            };
            text.push_str(&line);
        }
    }
    let aliases = spec(pod).and_then(|spec| spec.host_aliases.as_deref()).unwrap_or_default();
    if !aliases.is_empty() {
        text.push_str("\n# Entries added by HostAliases.\n");
    }
    for alias in aliases {
        let names = alias.hostnames.as_deref().unwrap_or_default().join("\t");
        text.push_str(&format!("{}\t{names}\n", alias.ip));
    }
    text
}

/// `/etc/resolv.conf` by the pod's `dnsPolicy` and `dnsConfig` (K-SVC-3).
pub fn resolv_conf(pod: &Pod, dns: &DnsFacts) -> String {
    let policy = spec(pod).and_then(|spec| spec.dns_policy.as_deref()).unwrap_or("ClusterFirst");
    let is_cluster = match policy {
        "None" | "Default" => false,
        "ClusterFirst" => !is_host_network(pod),
        _ => true,
    };
    let mut conf = match policy {
        "None" => ResolvConf::default(),
        _ if is_cluster && !dns.cluster_servers.is_empty() => cluster_conf(pod, dns),
        _ => dns.host.clone(),
    };
    if let Some(own) = spec(pod).and_then(|spec| spec.dns_config.as_ref()) {
        conf.servers.extend(own.nameservers.clone().unwrap_or_default());
        conf.searches.extend(own.searches.clone().unwrap_or_default());
        merge_options(&mut conf.options, own.options.as_deref().unwrap_or_default());
    }
    conf.write()
}

fn cluster_conf(pod: &Pod, dns: &DnsFacts) -> ResolvConf {
    let domain = &dns.cluster_domain;
    let mut searches = vec![format!("{}.svc.{domain}", namespace(pod)), format!("svc.{domain}"), domain.clone()];
    searches.extend(dns.host.searches.clone());
    ResolvConf { servers: dns.cluster_servers.clone(), searches, options: vec!["ndots:5".to_owned()] }
}

/// A pod's option replaces one of the same name in its place.
fn merge_options(options: &mut Vec<String>, own: &[PodDNSConfigOption]) {
    for option in own {
        let name = option.name.as_deref().unwrap_or_default();
        let text = match option.value.as_deref().filter(|value| !value.is_empty()) {
            Some(value) => format!("{name}:{value}"),
            None => name.to_owned(),
        };
        match options.iter_mut().find(|old| old.split(':').next() == Some(name)) {
            Some(old) => *old = text,
            None => options.push(text),
        }
    }
}

impl ResolvConf {
    /// Reads the machine's file: name servers add up, the last search list counts.
    pub fn parse(text: &str) -> Self {
        let mut conf = ResolvConf::default();
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => conf.servers.extend(words.next().map(str::to_owned)),
                Some("search") => {
                    let domains = words.filter(|word| *word != ".").map(|word| word.strip_suffix('.').unwrap_or(word));
                    conf.searches = domains.map(str::to_owned).collect();
                }
                Some("options") => conf.options.extend(words.map(str::to_owned)),
                _ => {}
            }
        }
        conf
    }

    fn write(mut self) -> String {
        without_repeats(&mut self.servers);
        without_repeats(&mut self.searches);
        self.servers.truncate(NAMESERVERS_MAX);
        self.searches.truncate(SEARCHES_MAX);
        self.searches.retain(|domain| domain.len() <= DOMAIN_CHARACTERS_MAX);
        while self.searches.join(" ").len() > SEARCH_CHARACTERS_MAX {
            self.searches.pop();
        }
        let mut text = String::new();
        if !self.searches.is_empty() {
            text.push_str(&format!("search {}\n", self.searches.join(" ")));
        }
        for server in &self.servers {
            writeln!(text, "nameserver {server}").expect("writing to a string cannot fail");
        }
        if !self.options.is_empty() {
            text.push_str(&format!("options {}\n", self.options.join(" ")));
        }
        text
    }
}

fn without_repeats(list: &mut Vec<String>) {
    let mut kept = std::collections::BTreeSet::new();
    list.retain(|entry| kept.insert(entry.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(spec: Value) -> Pod {
        let mut spec = spec;
        spec["containers"] = json!([]);
        serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec})).unwrap()
    }

    fn dns() -> DnsFacts {
        let host = ResolvConf::parse("# mine\nnameserver 192.0.2.53\nsearch corp.example. .\noptions edns0\n");
        let cluster_domain = "cluster.local".to_owned();
        DnsFacts { cluster_servers: vec!["10.1.0.1".to_owned()], cluster_domain, host }
    }

    const HEAD: &str = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n\
        ::1\tlocalhost ip6-localhost ip6-loopback\nfe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\n\
        fe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n";

    // K-POD-4
    #[test]
    fn hosts_names_the_pod_and_its_aliases() {
        let hosts = |spec: Value| hosts_file(&pod(spec), &["10.1.0.2".to_owned()], "cluster.local", "127.0.0.1\tme\n");
        assert_eq!(hosts(json!({})), format!("{HEAD}10.1.0.2\tp\n"));
        let worker = hosts(json!({"hostname": "w-0", "subdomain": "job"}));
        assert_eq!(worker, format!("{HEAD}10.1.0.2\tw-0.job.ns.svc.cluster.local\tw-0\n"));
        let aliases = json!({"hostAliases": [{"ip": "192.0.2.1", "hostnames": ["a", "b"]}]});
        let expected = format!("{HEAD}10.1.0.2\tp\n\n# Entries added by HostAliases.\n192.0.2.1\ta\tb\n");
        assert_eq!(hosts(aliases), expected);
        let on_host = hosts(json!({"hostNetwork": true}));
        assert_eq!(on_host, "# Kubernetes-managed hosts file (host network).\n127.0.0.1\tme\n");
    }

    // K-POD-4
    #[test]
    fn hostname_is_the_specs_or_the_pods_name() {
        let kernel = |spec: Value| kernel_hostname(&pod(spec), "cluster.local", "box");
        assert_eq!(kernel(json!({})), "p");
        assert_eq!(kernel(json!({"hostNetwork": true})), "box");
        let full = json!({"hostname": "h", "subdomain": "s", "setHostnameAsFQDN": true});
        assert_eq!(kernel(full), "h.s.ns.svc.cluster.local");
        let mut long = pod(json!({}));
        long.metadata.name = Some(format!("{}-tail", "x".repeat(62)));
        assert_eq!(hostname(&long), "x".repeat(62));
    }

    // K-SVC-3
    #[test]
    fn resolv_conf_follows_the_dns_policy() {
        let cluster = "search ns.svc.cluster.local svc.cluster.local cluster.local corp.example\n\
                       nameserver 10.1.0.1\noptions ndots:5\n";
        let host = "search corp.example\nnameserver 192.0.2.53\noptions edns0\n";
        let cases = [
            (json!({}), cluster),
            (json!({"dnsPolicy": "Default"}), host),
            (json!({"hostNetwork": true, "dnsPolicy": "ClusterFirst"}), host),
            (json!({"hostNetwork": true, "dnsPolicy": "ClusterFirstWithHostNet"}), cluster),
        ];
        for (spec, expected) in cases {
            assert_eq!(resolv_conf(&pod(spec.clone()), &dns()), expected, "{spec}");
        }
        let options = json!([{"name": "ndots", "value": "2"}, {"name": "single-request"}]);
        let own = json!({"nameservers": ["192.0.2.9"], "searches": ["x.example"], "options": options});
        let expected = "search x.example\nnameserver 192.0.2.9\noptions ndots:2 single-request\n";
        assert_eq!(resolv_conf(&pod(json!({"dnsPolicy": "None", "dnsConfig": own})), &dns()), expected);
        let added = resolv_conf(&pod(json!({"dnsConfig": {"options": options}})), &dns());
        assert!(added.ends_with("options ndots:2 single-request\n"));
    }
}
