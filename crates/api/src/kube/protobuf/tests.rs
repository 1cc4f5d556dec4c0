//! Protobuf bodies as Go clients write them, and the objects that they become.

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn int(number: u32, value: i64) -> Vec<u8> {
    [varint(u64::from(number) << 3), varint(value as u64)].concat()
}

fn bytes(number: u32, payload: &[u8]) -> Vec<u8> {
    [varint(u64::from(number) << 3 | 2), varint(payload.len() as u64), payload.to_vec()].concat()
}

fn text(number: u32, payload: &str) -> Vec<u8> {
    bytes(number, payload.as_bytes())
}

fn nested(number: u32, parts: &[Vec<u8>]) -> Vec<u8> {
    bytes(number, &parts.concat())
}

fn decoded(group: &str, kind: &str, parts: &[Vec<u8>]) -> Value {
    to_json(&builtin::of(group, "v1", kind).expect(kind), &parts.concat()).expect("it can be read")
}

// K-PB-1, Appendix A
#[test]
fn namespace_of_kubectl_create_is_read() {
    let meta =
        [text(1, "ka"), text(2, ""), text(3, ""), text(4, ""), text(5, ""), text(6, ""), int(7, 0), bytes(8, &[])];
    let object_bytes = [nested(1, &meta), bytes(2, &[]), nested(3, &[text(1, "")]), int(99, 1)].concat();
    let body = [
        MAGIC.to_vec(),
        nested(1, &[text(1, "v1"), text(2, "Namespace")]),
        bytes(2, &object_bytes),
        text(3, ""),
        text(4, ""),
    ];
    let body = body.concat();
    assert_eq!(body[..8], [0x6b, 0x38, 0x73, 0, 0x0a, 15, 0x0a, 2]);
    let envelope = envelope(&body).expect("an envelope");
    assert_eq!((envelope.api_version, envelope.kind), ("v1", "Namespace"));
    let shape = builtin::of("", "v1", "Namespace").expect("served");
    let expected = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ka"}});
    assert_eq!(object(&shape, &envelope), Ok(expected));
    assert!(super::envelope(b"{}").is_err());
}

// Appendix A-1 A-2 A-3 A-4
#[test]
fn a_pod_is_read_with_its_inlined_messages_and_pointers() {
    let volume = nested(1, &[text(1, "v"), nested(2, &[nested(2, &[text(1, "")])])]);
    let resources = nested(8, &[nested(2, &[text(1, "cpu"), nested(2, &[text(1, "500m")])])]);
    let probe = nested(
        10,
        &[nested(1, &[nested(2, &[text(1, "/"), nested(2, &[int(1, 1), int(2, 0), text(3, "web")])])]), int(2, 0)],
    );
    let port = nested(6, &[text(1, ""), int(2, 0), int(3, 80), text(4, "TCP"), text(5, "")]);
    let security = nested(15, &[int(2, 0), int(4, 0)]);
    let container = nested(2, &[text(1, "c"), text(3, "a"), text(3, ""), port, resources, probe, security, int(16, 0)]);
    let spec = nested(2, &[volume, container, text(3, "Never"), int(4, 0), text(10, ""), int(11, 0), nested(14, &[])]);
    let expected = json!({
        "metadata": {"name": "p", "labels": {"a": "b", "e": ""}, "creationTimestamp": "1970-01-01T00:00:01Z",
            "ownerReferences": [{"controller": false, "kind": "Job"}]},
        "spec": {
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [{"name": "c", "command": ["a", ""], "ports": [{"containerPort": 80, "protocol": "TCP"}],
                "resources": {"requests": {"cpu": "500m"}},
                "livenessProbe": {"httpGet": {"path": "/", "port": "web"}},
                "securityContext": {"privileged": false, "runAsUser": 0}}],
            "restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "securityContext": {},
        },
    });
    let meta = nested(
        1,
        &[
            text(1, "p"),
            nested(8, &[int(1, 1), int(2, 0)]),
            nested(11, &[text(1, "a"), text(2, "b")]),
            nested(11, &[text(1, "e")]),
            nested(13, &[text(1, "Job"), int(6, 0)]),
        ],
    );
    assert_eq!(decoded("", "Pod", &[meta, spec, nested(3, &[text(1, "")])]), expected);
}

// Appendix A-2
#[test]
fn special_messages_are_spelt_as_in_json() {
    let secret = decoded("", "Secret", &[nested(2, &[text(1, "a"), bytes(2, b"hello")]), nested(2, &[text(1, "b")])]);
    assert_eq!(secret, json!({"data": {"a": "aGVsbG8=", "b": ""}}));
    let lease =
        decoded("coordination.k8s.io", "Lease", &[nested(2, &[text(1, ""), nested(4, &[int(1, 1), int(2, 5000)])])]);
    assert_eq!(lease, json!({"spec": {"holderIdentity": "", "renewTime": "1970-01-01T00:00:01.000005Z"}}));
    let service_port =
        nested(1, &[text(1, ""), text(2, "TCP"), int(3, 80), nested(4, &[int(1, 0), int(2, 8080), text(3, "")])]);
    let plain_port = nested(1, &[int(3, 81), nested(4, &[int(1, 0), int(2, 0), text(3, "")])]);
    let service = decoded("", "Service", &[nested(2, &[service_port, plain_port])]);
    assert_eq!(
        service,
        json!({"spec": {"ports": [{"protocol": "TCP", "port": 80, "targetPort": 8080}, {"port": 81}]}})
    );
    let extra = nested(5, &[text(1, "k"), nested(2, &[text(1, "x"), text(1, "y")])]);
    let review = decoded("authorization.k8s.io", "SubjectAccessReview", &[nested(2, &[text(3, "u"), extra])]);
    assert_eq!(review, json!({"spec": {"user": "u", "extra": {"k": ["x", "y"]}}}));
    let revision = decoded("apps", "ControllerRevision", &[nested(2, &[bytes(1, br#"{"a":[1,null]}"#)]), int(3, 2)]);
    assert_eq!(revision, json!({"data": {"a": [1, null]}, "revision": 2}));
    let class = decoded("scheduling.k8s.io", "PriorityClass", &[int(2, 0), int(3, 0), text(4, "")]);
    assert_eq!(class, json!({"value": 0}), "what JSON requires is shown even when it is zero");
}

// Appendix A-1: repeated integers may be packed
#[test]
fn integers_are_read_packed_and_one_by_one() {
    let rule = |values: Vec<u8>| {
        [nested(2, &[nested(11, &[nested(1, &[text(1, "FailJob"), nested(2, &[text(2, "In"), values])])])])]
    };
    let expected = json!({"spec": {"podFailurePolicy": {"rules": [
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 300]}}]}}});
    assert_eq!(decoded("batch", "Job", &rule([int(3, 1), int(3, 300)].concat())), expected);
    assert_eq!(decoded("batch", "Job", &rule(bytes(3, &[varint(1), varint(300)].concat()))), expected);
}

#[test]
fn schema_unions_are_read() {
    let items = nested(24, &[nested(1, &[text(5, "string")])]);
    let more = nested(30, &[int(1, 0), nested(2, &[text(5, "integer")])]);
    let closed =
        nested(29, &[text(1, "c"), nested(2, &[nested(30, &[int(1, 0)]), int(38, 0), nested(8, &[bytes(1, b"1")])])]);
    let schema = nested(4, &[nested(1, &[items, more, closed])]);
    let crd = decoded(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        &[nested(2, &[nested(7, &[text(1, "v1"), schema])])],
    );
    let expected = json!({"items": {"type": "string"}, "additionalProperties": {"type": "integer"}, "properties": {
        "c": {"additionalProperties": false, "x-kubernetes-preserve-unknown-fields": false, "default": 1}}});
    assert_eq!(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], expected);
}

#[test]
fn nesting_without_end_is_refused() {
    let mut schema = Vec::new();
    for _ in 0..200 {
        schema = nested(28, &[schema]);
    }
    let shape =
        builtin::named("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps").expect("known");
    assert_eq!(to_json(&shape, &schema), Err("exceeded max depth".to_owned()));
}

// Appendix A-5
#[test]
fn what_was_read_fits_its_shape() {
    let pod = decoded("", "Pod", &[nested(2, &[nested(2, &[text(1, "c")]), int(25, 7)])]);
    let shape = builtin::of("", "v1", "Pod").expect("served");
    let mut conformed = pod.clone();
    assert_eq!(decode::conform(&shape, "Pod", "v1", &mut conformed), Ok(vec![]));
    assert_eq!(conformed, pod);
}

fn any_message() -> impl Strategy<Value = Vec<u8>> {
    let leaf = prop_oneof![
        (1u32..45, any::<i64>()).prop_map(|(number, value)| int(number, value)),
        (1u32..45, "[a-z]{0,4}").prop_map(|(number, value)| text(number, &value)),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        (1u32..45, proptest::collection::vec(inner, 0..6)).prop_map(|(number, parts)| nested(number, &parts))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_bytes_never_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = envelope(&[MAGIC, &body].concat());
        for kind in ["Pod", "Service", "Secret", "Event"] {
            let _ = to_json(&builtin::of("", "v1", kind).expect("served"), &body);
        }
    }

    #[test]
    fn random_messages_become_objects_without_nulls(parts in proptest::collection::vec(any_message(), 0..6)) {
        let shape = builtin::of("", "v1", "Pod").expect("served");
        if let Ok(value) = to_json(&shape, &parts.concat()) {
            prop_assert!(!value.to_string().contains(":null"));
        }
    }
}
