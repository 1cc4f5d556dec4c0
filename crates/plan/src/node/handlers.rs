//! What a probe or a lifecycle hook does, made complete: ports by name, the pod's address, the headers sent.

use super::expand::expand;
use k8s_openapi::api::core::v1::{Container, HTTPGetAction, LifecycleHandler, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use std::collections::BTreeMap;

/// The version that probed programs see in `User-Agent`.
pub const AGENT_VERSION: &str = "1.35";

/// One thing to do, with nothing left to look up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Handler {
    /// Runs in the container; succeeds with exit code 0.
    Exec(Vec<String>),
    /// Succeeds with a status from 200 to 399; certificates are not checked.
    Http {
        url: String,
        headers: Vec<(String, String)>,
    },
    /// Succeeds when a connection opens.
    Tcp {
        host: String,
        port: u16,
    },
    /// The health service of gRPC; succeeds when it serves.
    Grpc {
        host: String,
        port: u16,
        service: String,
    },
    Sleep {
        seconds: u64,
    },
}

pub fn probe(container: &Container, probe: &Probe, pod_address: &str) -> Result<Handler, String> {
    if let Some(exec) = &probe.exec {
        let fixed: BTreeMap<&str, &str> = container.env.iter().flatten().map(fixed_value).collect();
        let words = exec.command.iter().flatten();
        return Ok(Handler::Exec(words.map(|word| expand(word, |name| fixed.get(name).copied())).collect()));
    }
    if let Some(get) = &probe.http_get {
        return http(container, get, pod_address, "probe");
    }
    if let Some(socket) = &probe.tcp_socket {
        return tcp(container, socket.host.as_deref(), &socket.port, pod_address);
    }
    if let Some(grpc) = &probe.grpc {
        let (port, service) = (valid_port(i64::from(grpc.port))?, grpc.service.clone().unwrap_or_default());
        return Ok(Handler::Grpc { host: pod_address.to_owned(), port, service });
    }
    Err("missing probe handler".to_owned())
}

pub fn hook(container: &Container, hook: &LifecycleHandler, pod_address: &str) -> Result<Handler, String> {
    if let Some(exec) = &hook.exec {
        return Ok(Handler::Exec(exec.command.clone().unwrap_or_default()));
    }
    if let Some(get) = &hook.http_get {
        return http(container, get, pod_address, "lifecycle");
    }
    if let Some(sleep) = &hook.sleep {
        return Ok(Handler::Sleep { seconds: u64::try_from(sleep.seconds).unwrap_or(0) });
    }
    if let Some(socket) = &hook.tcp_socket {
        return tcp(container, socket.host.as_deref(), &socket.port, pod_address);
    }
    Err("invalid handler".to_owned())
}

/// Probes know only the values that stand in the spec.
fn fixed_value(variable: &k8s_openapi::api::core::v1::EnvVar) -> (&str, &str) {
    (&variable.name, variable.value.as_deref().unwrap_or_default())
}

fn http(container: &Container, get: &HTTPGetAction, pod_address: &str, agent: &str) -> Result<Handler, String> {
    let scheme = get.scheme.as_deref().unwrap_or("HTTP").to_lowercase();
    let host = get.host.as_deref().filter(|host| !host.is_empty()).unwrap_or(pod_address);
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let port = port(container, &get.port)?;
    let path = get.path.as_deref().filter(|path| !path.is_empty()).unwrap_or("/");
    let slash = if path.starts_with('/') { "" } else { "/" };
    let own = get.http_headers.as_deref().unwrap_or_default();
    let mut headers: Vec<(String, String)> = own.iter().map(|own| (own.name.clone(), own.value.clone())).collect();
    let defaults = [("User-Agent", format!("kube-{agent}/{AGENT_VERSION}")), ("Accept", "*/*".to_owned())];
    for (name, value) in defaults {
        if !own.iter().any(|own| own.name.eq_ignore_ascii_case(name)) {
            headers.push((name.to_owned(), value));
        }
    }
    Ok(Handler::Http { url: format!("{scheme}://{host}:{port}{slash}{path}"), headers })
}

fn tcp(container: &Container, host: Option<&str>, wanted: &IntOrString, pod_address: &str) -> Result<Handler, String> {
    let host = host.filter(|host| !host.is_empty()).unwrap_or(pod_address).to_owned();
    Ok(Handler::Tcp { host, port: port(container, wanted)? })
}

fn port(container: &Container, wanted: &IntOrString) -> Result<u16, String> {
    let name = match wanted {
        IntOrString::Int(number) => return valid_port(i64::from(*number)),
        IntOrString::String(name) => name,
    };
    let named = container.ports.iter().flatten().find(|port| port.name.as_deref() == Some(name));
    match named {
        Some(port) => valid_port(i64::from(port.container_port)),
        None => valid_port(name.parse().map_err(|_| format!("port {name} not found"))?),
    }
}

fn valid_port(number: i64) -> Result<u16, String> {
    let port = u16::try_from(number).ok().filter(|port| *port > 0);
    port.ok_or_else(|| format!("invalid port number: {number}"))
}

/// What a probe says of an answer over HTTP: whether it is well, and its words if it is not.
pub fn http_verdict(status: u16) -> Result<(), String> {
    if (200..400).contains(&status) { Ok(()) } else { Err(format!("HTTP probe failed with statuscode: {status}")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn container() -> Container {
        let env = json!([{"name": "N", "value": "4"}, {"name": "REF", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]);
        let ports = json!([{"name": "web", "containerPort": 8080}]);
        serde_json::from_value(json!({"name": "c", "env": env, "ports": ports})).unwrap()
    }

    fn check(handler: Value) -> Result<Handler, String> {
        probe(&container(), &serde_json::from_value(handler).unwrap(), "10.1.0.2")
    }

    #[test]
    fn commands_are_expanded_with_what_the_spec_says() {
        let exec = check(json!({"exec": {"command": ["test", "$(N)", "$(X)"]}}));
        assert_eq!(exec, Ok(Handler::Exec(vec!["test".into(), "4".into(), "$(X)".into()])));
    }

    #[test]
    fn requests_go_to_the_pod_by_the_ports_name() {
        let Ok(Handler::Http { url, headers }) = check(json!({"httpGet": {"port": "web", "path": "/ok?x=1"}})) else {
            panic!("no request");
        };
        assert_eq!(url, "http://10.1.0.2:8080/ok?x=1");
        assert_eq!(headers[0], ("User-Agent".to_owned(), "kube-probe/1.35".to_owned()));
        let own =
            json!({"port": 1, "host": "fd00::1", "scheme": "HTTPS", "httpHeaders": [{"name": "accept", "value": "a"}]});
        let Ok(Handler::Http { url, headers }) = check(json!({ "httpGet": own })) else { panic!("no request") };
        assert_eq!(url, "https://[fd00::1]:1/");
        assert_eq!(headers.len(), 2);
    }

    #[test]
    fn sockets_and_grpc_go_to_the_pod_too() {
        let tcp = check(json!({"tcpSocket": {"port": "9000"}}));
        assert_eq!(tcp, Ok(Handler::Tcp { host: "10.1.0.2".into(), port: 9000 }));
        let grpc = check(json!({"grpc": {"port": 5, "service": "s"}}));
        assert_eq!(grpc, Ok(Handler::Grpc { host: "10.1.0.2".into(), port: 5, service: "s".into() }));
    }

    #[test]
    fn ports_that_are_not_there_are_named() {
        assert_eq!(check(json!({"tcpSocket": {"port": "gone"}})), Err("port gone not found".to_owned()));
        assert_eq!(check(json!({"tcpSocket": {"port": 70000}})), Err("invalid port number: 70000".to_owned()));
    }

    #[test]
    fn hooks_may_sleep_and_http_answers_are_judged_by_their_status() {
        let sleep = serde_json::from_value(json!({"sleep": {"seconds": 5}})).unwrap();
        assert_eq!(hook(&container(), &sleep, ""), Ok(Handler::Sleep { seconds: 5 }));
        assert_eq!(http_verdict(302), Ok(()));
        assert_eq!(http_verdict(503), Err("HTTP probe failed with statuscode: 503".to_owned()));
    }
}
