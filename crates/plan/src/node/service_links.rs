//! The environment variables that tell containers where services are (K-POD-4).

use super::{namespace, spec};
use k8s_openapi::api::core::v1::{Pod, Service, ServicePort};
use std::collections::BTreeMap;

/// The variables for all services that the pod sees: those of its namespace unless it declines, and always the API.
pub fn service_links(pod: &Pod, services: &[Service]) -> BTreeMap<String, String> {
    let has_links = spec(pod).and_then(|spec| spec.enable_service_links).unwrap_or(true);
    let mut seen: BTreeMap<&str, &Service> = BTreeMap::new();
    for service in services {
        let name = service.metadata.name.as_deref().unwrap_or_default();
        let home = service.metadata.namespace.as_deref().unwrap_or("default");
        let is_api = home == "default" && name == "kubernetes";
        if is_api {
            // A service `kubernetes` of the pod's own namespace comes first.
            seen.entry(name).or_insert(service);
        } else if has_links && home == namespace(pod) {
            seen.insert(name, service);
        }
    }
    let mut variables = BTreeMap::new();
    for (name, service) in seen {
        add_variables(name, service, &mut variables);
    }
    variables
}

fn add_variables(name: &str, service: &Service, variables: &mut BTreeMap<String, String>) {
    let Some(spec) = &service.spec else { return };
    let address = spec.cluster_ip.as_deref().filter(|address| !matches!(*address, "" | "None"));
    let (Some(address), Some([first, ..])) = (address, spec.ports.as_deref()) else { return };
    let ports = spec.ports.as_deref().unwrap_or_default();
    let prefix = variable_name(name);
    variables.insert(format!("{prefix}_SERVICE_HOST"), address.to_owned());
    variables.insert(format!("{prefix}_SERVICE_PORT"), first.port.to_string());
    variables.insert(format!("{prefix}_PORT"), url(address, first));
    for port in ports {
        if let Some(port_name) = port.name.as_deref().filter(|name| !name.is_empty()) {
            variables.insert(format!("{prefix}_SERVICE_PORT_{}", variable_name(port_name)), port.port.to_string());
        }
        let port_prefix = format!("{prefix}_PORT_{}_{}", port.port, protocol(port));
        variables.insert(format!("{port_prefix}_PROTO"), protocol(port).to_lowercase());
        variables.insert(format!("{port_prefix}_PORT"), port.port.to_string());
        variables.insert(format!("{port_prefix}_ADDR"), address.to_owned());
        variables.insert(port_prefix, url(address, port));
    }
}

fn variable_name(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}

fn protocol(port: &ServicePort) -> &str {
    port.protocol.as_deref().unwrap_or("TCP")
}

fn url(address: &str, port: &ServicePort) -> String {
    let scheme = protocol(port).to_lowercase();
    let is_v6 = address.contains(':');
    if is_v6 { format!("{scheme}://[{address}]:{}", port.port) } else { format!("{scheme}://{address}:{}", port.port) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn service(namespace: &str, name: &str, address: &str) -> Service {
        let port = json!({"port": 443, "name": "https", "protocol": "TCP"});
        let metadata = json!({"namespace": namespace, "name": name});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"clusterIP": address, "ports": [port]}})).unwrap()
    }

    fn pod(has_links: bool) -> Pod {
        let spec = json!({"containers": [], "enableServiceLinks": has_links});
        serde_json::from_value(json!({"metadata": {"namespace": "ns"}, "spec": spec})).unwrap()
    }

    // K-POD-4 K-SVC-1
    #[test]
    fn a_service_is_told_in_eight_variables() {
        let links = service_links(&pod(true), &[service("ns", "my-db", "10.9.0.7")]);
        let expected = [
            "MY_DB_PORT=tcp://10.9.0.7:443",
            "MY_DB_PORT_443_TCP=tcp://10.9.0.7:443",
            "MY_DB_PORT_443_TCP_ADDR=10.9.0.7",
            "MY_DB_PORT_443_TCP_PORT=443",
            "MY_DB_PORT_443_TCP_PROTO=tcp",
            "MY_DB_SERVICE_HOST=10.9.0.7",
            "MY_DB_SERVICE_PORT=443",
            "MY_DB_SERVICE_PORT_HTTPS=443",
        ];
        let found: Vec<String> = links.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(found, expected);
    }

    // K-POD-4
    #[test]
    fn the_api_is_always_told_and_headless_or_foreign_services_never() {
        let services = [
            service("default", "kubernetes", "10.9.0.1"),
            service("ns", "mine", "10.9.0.2"),
            service("ns", "headless", "None"),
            service("other", "theirs", "10.9.0.3"),
        ];
        let hosts = |has_links| -> Vec<String> {
            let links = service_links(&pod(has_links), &services);
            links.into_keys().filter(|name| name.ends_with("_SERVICE_HOST")).collect()
        };
        assert_eq!(hosts(true), ["KUBERNETES_SERVICE_HOST", "MINE_SERVICE_HOST"]);
        assert_eq!(hosts(false), ["KUBERNETES_SERVICE_HOST"]);
    }
}
