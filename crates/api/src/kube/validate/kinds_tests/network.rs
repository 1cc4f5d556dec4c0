//! Services, endpoints, ingresses, network policies.

use super::{check, check_change};
use serde_json::{Value, json};

// K-SVC-1
#[test]
fn broken_services() {
    let ports = |ports: Value| json!({"spec": {"ports": ports}});
    for (object, expected) in [
        (json!({"spec": {}}), &["spec.ports: Required value"][..]),
        (
            ports(json!([{"port": 80}, {"port": 81}])),
            &["spec.ports[0].name: Required value", "spec.ports[1].name: Required value"],
        ),
        (
            ports(json!([{"port": 80, "name": "a"}, {"port": 80, "name": "a"}])),
            &[
                r#"spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}"#,
                r#"spec.ports[1].name: Duplicate value: "a""#,
            ],
        ),
        (
            ports(json!([{"port": 70000, "targetPort": 1}])),
            &["spec.ports[0].port: Invalid value: 70000: must be between 1 and 65535, inclusive"],
        ),
        (
            ports(json!([{"port": 80, "protocol": "HTTP"}])),
            &[r#"spec.ports[0].protocol: Unsupported value: "HTTP": supported values: "SCTP", "TCP", "UDP""#],
        ),
        (
            ports(json!([{"port": 80, "nodePort": 30000}])),
            &["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
        ),
        (
            ports(json!([{"port": 80, "targetPort": "UPPER"}])),
            &[
                r#"spec.ports[0].targetPort: Invalid value: "UPPER": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"#,
                r#"spec.ports[0].targetPort: Invalid value: "UPPER": must contain at least one letter (a-z)"#,
            ],
        ),
        (
            json!({"spec": {"type": "Magic", "ports": [{"port": 1}]}}),
            &[
                r#"spec.type: Unsupported value: "Magic": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort""#,
            ],
        ),
        (
            json!({"spec": {"type": "NodePort", "clusterIP": "None", "ports": [{"port": 1}]}}),
            &[r#"spec.clusterIPs[0]: Invalid value: "None": may not be set to 'None' for NodePort services"#],
        ),
        (json!({"spec": {"type": "ExternalName"}}), &["spec.externalName: Required value"]),
        (
            json!({"spec": {"type": "ExternalName", "externalName": "a.b", "clusterIP": "10.0.0.1"}}),
            &["spec.clusterIPs: Forbidden: may not be set for ExternalName services"],
        ),
        (
            json!({"spec": {"clusterIP": "abc", "ports": [{"port": 1}]}}),
            &[
                r#"spec.clusterIPs[0]: Invalid value: "abc": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"#,
            ],
        ),
        (
            json!({"spec": {"sessionAffinity": "Cookie", "ports": [{"port": 1}]}}),
            &[r#"spec.sessionAffinity: Unsupported value: "Cookie": supported values: "ClientIP", "None""#],
        ),
        (
            json!({"spec": {"externalTrafficPolicy": "Local", "ports": [{"port": 1}]}}),
            &[
                r#"spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services"#,
            ],
        ),
        (
            json!({"spec": {"externalIPs": ["127.0.0.1"], "ports": [{"port": 1}]}}),
            &[
                r#"spec.externalIPs[0]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)"#,
            ],
        ),
        (
            json!({"spec": {"loadBalancerClass": "a/b", "ports": [{"port": 1}]}}),
            &["spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'"],
        ),
    ] {
        check("", "Service", object, expected);
    }
}

// K-SVC-1
#[test]
fn a_services_address_stays() {
    let with = |address: &str| json!({"spec": {"clusterIP": address, "ports": [{"port": 80}]}});
    check_change("", "Service", with("10.0.0.1"), with("10.0.0.1"), &[]);
    check_change(
        "",
        "Service",
        with("10.0.0.1"),
        with("10.0.5.5"),
        &[r#"spec.clusterIPs[0]: Invalid value: ["10.0.5.5"]: may not change once set"#],
    );
    check_change(
        "",
        "Service",
        with("10.0.0.1"),
        json!({"spec": {"ports": [{"port": 80}]}}),
        &["spec.clusterIPs[0]: Invalid value: null: primary clusterIP can not be unset"],
    );
}

#[test]
fn broken_endpoints_and_slices() {
    let subset = |subset: Value| json!({"subsets": [subset]});
    check(
        "",
        "Endpoints",
        subset(json!({})),
        &["subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"],
    );
    check(
        "",
        "Endpoints",
        subset(json!({"addresses": [{"ip": "127.0.0.1"}], "ports": [{"port": 0}]})),
        &[
            r#"subsets[0].addresses[0].ip: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)"#,
            "subsets[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
        ],
    );
    check(
        "discovery.k8s.io",
        "EndpointSlice",
        json!({"addressType": "IPv4", "endpoints": [{"addresses": []}, {"addresses": ["::5"]}]}),
        &[
            "endpoints[0].addresses: Required value: must contain at least 1 address",
            r#"endpoints[1].addresses: Invalid value: "::5": must be an IPv4 address"#,
        ],
    );
    check("discovery.k8s.io", "EndpointSlice", json!({}), &["addressType: Required value"]);
    check_change(
        "discovery.k8s.io",
        "EndpointSlice",
        json!({"addressType": "IPv4"}),
        json!({"addressType": "IPv6"}),
        &[r#"addressType: Invalid value: "IPv6": field is immutable"#],
    );
}

#[test]
fn broken_ingresses_and_policies() {
    let group = "networking.k8s.io";
    check(
        group,
        "Ingress",
        json!({}),
        &["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"],
    );
    let path = json!({"path": "a", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {}}}});
    check(
        group,
        "Ingress",
        json!({"spec": {"rules": [{"host": "10.0.0.1", "http": {"paths": [path, {}]}}]}}),
        &[
            r#"spec.rules[0].host: Invalid value: "10.0.0.1": must be a DNS name, not an IP address"#,
            "spec.rules[0].http.paths[0].backend: Required value: port name or number is required",
            r#"spec.rules[0].http.paths[0].path: Invalid value: "a": must be an absolute path"#,
            "spec.rules[0].http.paths[1].pathType: Required value: pathType must be specified",
        ],
    );
    let block = json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}});
    check(
        group,
        "NetworkPolicy",
        json!({"spec": {"policyTypes": ["Sideways"], "ingress": [{"from": [{}, block], "ports": [{"endPort": 5}]}]}}),
        &[
            "spec.ingress[0].from[0]: Required value: must specify a peer",
            r#"spec.ingress[0].from[1].ipBlock.except[0]: Invalid value: "11.0.0.0/16": must be a strict subset of `cidr`"#,
            "spec.ingress[0].ports[0].endPort: Invalid value: 5: may not be specified when `port` is not specified",
            r#"spec.policyTypes[0]: Unsupported value: "Sideways": supported values: "Ingress", "Egress""#,
        ],
    );
}
