//! HTTP and content types, byte for byte, and what the server does with input that no good client sends.

use crate::harness::{Kubectl, Space, kubectls, newest, stage};
use crate::http::{anonymous, delete, get, patch, post, request};
use serde_json::json;
use std::process::Command;

fn config_map(name: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}})
}

// K-HTTP-2
#[test]
fn every_kubectl_works_over_plain_http() {
    for kubectl in kubectls() {
        let space = Space::with(kubectl, "plain");
        let printed =
            with_server(kubectl, &format!("http://{}", stage().address), &["get", "ns", &space.name, "-o", "name"]);
        assert_eq!(printed, format!("namespace/{}\n", space.name));
    }
}

// K-HTTP-2
#[test]
fn kubectl_proxy_passes_plain_http_on() {
    let space = Space::new("proxy");
    let proxy = space.start(&["proxy", "--port=0"]);
    let line = proxy.line();
    let address = line.strip_prefix("Starting to serve on ").unwrap_or_else(|| panic!("{line}"));
    let output = with_server(newest(), &format!("http://{address}"), &["get", "ns", &space.name, "-o", "name"]);
    assert_eq!(output, format!("namespace/{}\n", space.name));
}

fn with_server(kubectl: &Kubectl, server: &str, args: &[&str]) -> String {
    let mut command = Command::new(&kubectl.path);
    command.env("KUBECONFIG", "/dev/null").env("HOME", stage().home.join("client"));
    let output = command.args(["--server", server]).args(args).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

// K-HTTP-1
#[test]
fn tls_offers_http_2_and_http_1() {
    let space = Space::new("tls");
    // kubectl speaks HTTP/2 unless told not to; both ways end at the same server.
    assert_eq!(space.ok(&["get", "ns", &space.name, "-o", "name"]), format!("namespace/{}\n", space.name));
    let mut command = space.command(&["get", "ns", &space.name, "-o", "name", "-v=8"]);
    let output = command.env("DISABLE_HTTP2", "true").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("namespace/{}\n", space.name));
    let curl = |flag: &str| {
        let url = format!("https://{}/version", stage().address);
        let output =
            Command::new("curl").args(["-sk", flag, "-o", "/dev/null", "-w", "%{http_version}", &url]).output();
        String::from_utf8_lossy(&output.expect("curl is installed").stdout).into_owned()
    };
    assert_eq!((curl("--http2").as_str(), curl("--http1.1").as_str()), ("2", "1.1"));
}

// K-HTTP-3
#[test]
fn a_timeout_that_passed_is_a_504() {
    let answer = get("/api/v1/pods?resourceVersion=999999999&resourceVersionMatch=NotOlderThan&timeout=1ms");
    assert_eq!((answer.code, answer.status().1.as_str()), (504, "Timeout"));
    assert_eq!(get("/api/v1/pods?timeout=32s").code, 200);
    assert_eq!(get("/api/v1/pods?timeout=5m7s").code, 200);
}

// K-HTTP-6 K-HTTP-7
#[test]
fn odd_but_legal_queries_are_understood() {
    let space = Space::new("odd");
    post(&space.core("configmaps"), &config_map("own")).ok();
    for query in ["?", "?&limit=500", "?limit=500&", "?watch=0", "?watch=False", "?unknown=1"] {
        let answer = get(&space.core(&format!("configmaps{query}")));
        assert_eq!((answer.code, answer.json()["kind"].as_str()), (200, Some("ConfigMapList")), "{query}");
    }
    for query in ["?watch", "?watch=", "?watch=True", "?watch=1", "?watch=yes"] {
        let mut stream = request("GET", &space.core(&format!("configmaps{query}"))).stream();
        assert_eq!(stream.event().0, "ADDED", "{query}");
    }
    let spaced = get(&space.core("configmaps?labelSelector=a+in+(b,c)"));
    assert_eq!(spaced.code, 200, "{}", spaced.body);
}

// K-HTTP-9
#[test]
fn warnings_are_headers_and_kubectl_prints_them() {
    let space = Space::new("warn");
    let mut body = config_map("a");
    body["foo"] = json!(1);
    let answer = post(&space.core("configmaps"), &body);
    assert_eq!(answer.code, 201);
    assert_eq!(answer.headers("warning").collect::<Vec<_>>(), [r#"299 - "unknown field \"foo\"""#]);
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\nfoo: 1\n";
    let output = space.run_with(&["create", "--validate=warn", "-f", "-"], yaml);
    assert_eq!((output.code, output.stdout.as_str()), (0, "configmap/b created\n"));
    assert_eq!(output.stderr, "Warning: unknown field \"foo\"\n");
}

// K-HTTP-11 K-CT-4
#[test]
fn unknown_headers_and_a_content_type_on_get_are_ignored() {
    let space = Space::new("headers");
    post(&space.core("configmaps"), &config_map("own")).ok();
    let answer = request("GET", &space.core("configmaps/own"))
        .header("Kubectl-Command", "kubectl get")
        .header("Kubectl-Session", "0b2f")
        .header("Content-Type", "application/json")
        .send();
    assert_eq!(answer.code, 200);
    assert!(!answer.body.contains("creationTimestamp\":null"), "{}", answer.body);
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.header("cache-control"), "no-cache, private");
    assert_eq!(answer.header("audit-id").len(), 36);
}

// K-CT-1
#[test]
fn accept_is_a_list_of_wishes() {
    let space = Space::new("accept");
    post(&space.core("configmaps"), &config_map("own")).ok();
    let path = space.core("configmaps");
    let kind = |path: &str, accept: &str| {
        let answer = request("GET", path).header("Accept", accept).send();
        answer.json()["kind"].as_str().unwrap_or_default().to_owned()
    };
    for accept in
        ["*/*", "application/json", "application/json, */*", "application/vnd.kubernetes.protobuf,application/json"]
    {
        assert_eq!(kind(&path, accept), "ConfigMapList", "{accept}");
    }
    for accept in [
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
        "application/json;g=meta.k8s.io;v=v1;as=Table, application/json",
    ] {
        assert_eq!(kind(&path, accept), "Table", "{accept}");
    }
    assert_eq!(
        kind(&path, "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
        "PartialObjectMetadataList"
    );
    let one = format!("{path}/own");
    let partial = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
    assert_eq!(kind(&one, partial), "PartialObjectMetadata");
    assert_eq!(kind("/version", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"), "");
    let refused = request("GET", &path).header("Accept", "application/xml").send();
    let text = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf";
    assert_eq!(refused.status(), (406, "NotAcceptable".into(), text.into()));
}

// K-CT-1
#[test]
fn partial_metadata_has_only_its_metadata() {
    let space = Space::new("partial");
    post(&space.core("configmaps"), &config_map("own")).ok();
    let answer = request("GET", &space.core("configmaps/own"))
        .header("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
        .send();
    let object = answer.ok();
    let keys: Vec<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["apiVersion", "kind", "metadata"]);
    assert_eq!((&object["kind"], &object["apiVersion"]), (&json!("PartialObjectMetadata"), &json!("meta.k8s.io/v1")));
    let list = request("GET", &space.core("configmaps"))
        .header("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
        .send()
        .ok();
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("PartialObjectMetadataList"), &json!("meta.k8s.io/v1")));
    assert_eq!(list["items"][0]["kind"], "PartialObjectMetadata");
}

// K-CT-3
#[test]
fn errors_are_json_even_for_protobuf_clients() {
    let answer =
        request("GET", "/api/v1/namespaces/nope").header("Accept", "application/vnd.kubernetes.protobuf").send();
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.status(), (404, "NotFound".into(), "namespaces \"nope\" not found".into()));
}

// K-CT-6
#[test]
fn built_in_bodies_may_leave_out_their_type() {
    let space = Space::new("typeless");
    let made = post(&space.core("configmaps"), &json!({"metadata": {"name": "a"}, "data": {"k": "v"}})).ok();
    assert_eq!((&made["kind"], &made["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
    let path = space.core("configmaps/a");
    let replaced = request("PUT", &path).json(&json!({"metadata": {"name": "a"}, "data": {"k": "w"}})).send().ok();
    assert_eq!(replaced["data"]["k"], "w");
    let wrong =
        post(&space.core("configmaps"), &json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "b"}}));
    assert_eq!(wrong.code, 400, "{}", wrong.body);
    let wrong =
        post(&space.core("configmaps"), &json!({"kind": "ConfigMap", "apiVersion": "v2", "metadata": {"name": "b"}}));
    let text = "the API version in the data (v2) does not match the expected API version (v1)";
    assert_eq!(wrong.status(), (400, "BadRequest".into(), text.into()));
}

// K-CT-7
#[test]
fn delete_options_come_in_every_form() {
    let space = Space::new("options");
    let path = space.core("configmaps/a");
    let protobuf: &[u8] = b"k8s\0\x0a\x13\x0a\x02v1\x12\x0dDeleteOptions\x12\x0c\x22\x0aBackground\x1a\0\x22\0";
    let ways: [&dyn Fn() -> crate::http::Answer; 7] = [
        &|| delete(&path),
        &|| request("DELETE", &path).json(&json!({})).send(),
        &|| {
            request("DELETE", &path)
                .json(&json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}))
                .send()
        },
        &|| request("DELETE", &path).body("application/vnd.kubernetes.protobuf", protobuf).send(),
        &|| request("DELETE", &path).body("application/yaml", "propagationPolicy: Background\n").send(),
        &|| delete(&format!("{path}?propagationPolicy=Foreground&gracePeriodSeconds=0")),
        &|| delete(&format!("{path}?orphanDependents=false")),
    ];
    for (index, way) in ways.iter().enumerate() {
        assert_eq!(post(&space.core("configmaps"), &config_map("a")).code, 201);
        let answer = way();
        assert_eq!(answer.code, 200, "way {index}: {}", answer.body);
        crate::harness::eventually("the deletion", || (get(&path).code == 404).then_some(()));
    }
    assert_eq!(post(&space.core("configmaps"), &config_map("a")).code, 201);
    assert_eq!(delete(&format!("{path}?dryRun=All")).code, 200);
    assert_eq!(get(&path).code, 200);
}

// K-CT-8
#[test]
fn bodies_up_to_three_mebibytes_are_read() {
    let space = Space::new("size");
    let path = space.core("configmaps");
    let mut body = config_map("a");
    body["metadata"]["annotations"] = json!({"a": "x".repeat(300 * 1024)});
    let answer = post(&path, &body);
    let text = "ConfigMap \"a\" is invalid: metadata.annotations: Too long: may not be more than 262144 bytes";
    assert_eq!(answer.status(), (422, "Invalid".into(), text.into()));
    let large = json!({"metadata": {"name": "a"}, "data": {"k": "x".repeat(2 * 1024 * 1024)}});
    let answer = post(&path, &large);
    assert_eq!(
        answer.status(),
        (422, "Invalid".into(), "ConfigMap \"a\" is invalid: []: Too long: may not be more than 1048576 bytes".into())
    );
    let huge = json!({"metadata": {"name": "a"}, "data": {"k": "x".repeat(4 * 1024 * 1024)}});
    let answer = post(&path, &huge);
    assert_eq!((answer.code, answer.status().1.as_str()), (413, "RequestEntityTooLarge"));
    assert!(answer.status().2.contains("3145728"), "the limit is named: {}", answer.body);
    assert_eq!(get("/readyz").code, 200);
}

#[test]
fn unknown_content_types_are_refused_with_the_ones_that_work() {
    let space = Space::new("media");
    let path = space.core("configmaps");
    let text = "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf";
    let answer = request("POST", &path).body("application/xml", "<a/>").send();
    assert_eq!(answer.status(), (415, "UnsupportedMediaType".into(), text.into()));
    let answer = request("PATCH", &format!("{path}/own")).body("application/json", "{}").send();
    assert_eq!(answer.status(), (415, "UnsupportedMediaType".into(), "415: Unsupported Media Type".into()));
    let answer = request("POST", &path).body("application/yaml", "metadata: {name: z}\ndata: {k: v}\n").send();
    assert_eq!(answer.code, 201, "{}", answer.body);
    let answer = request("GET", &format!("{path}/z")).header("Accept", "application/yaml").send();
    assert_eq!(answer.header("content-type"), "application/yaml");
    assert!(answer.body.contains("kind: ConfigMap\n"), "{}", answer.body);
}

#[test]
fn malformed_bodies_are_400_and_the_server_stays_up() {
    let space = Space::new("malformed");
    let path = space.core("configmaps");
    let deep = "[".repeat(200_000);
    let deep_object = format!("{}1{}", "{\"a\":".repeat(20_000), "}".repeat(20_000));
    let cases: &[(&str, &[u8])] = &[
        ("application/json", b"{"),
        ("application/json", b"not json"),
        ("application/json", b"[]"),
        ("application/json", b"\"text\""),
        ("application/json", b"null"),
        ("application/json", b"{\"metadata\": []}"),
        ("application/json", b"{\"metadata\": {\"name\": 5}}"),
        ("application/json", b"{\"metadata\": {\"name\": \"a\"}, \"data\": {\"k\": 5}}"),
        ("application/json", b"\xff\xfe"),
        ("application/json", deep.as_bytes()),
        ("application/json", deep_object.as_bytes()),
        ("application/yaml", b"a: [unclosed"),
        ("application/yaml", b"&a [*a, *a]"),
        ("application/vnd.kubernetes.protobuf", b""),
        ("application/vnd.kubernetes.protobuf", b"nonsense"),
        ("application/vnd.kubernetes.protobuf", b"k8s\0"),
        ("application/vnd.kubernetes.protobuf", b"k8s\0\x0a\xff\xff\xff\xff\x0f"),
        ("application/vnd.kubernetes.protobuf", b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x05\x0a\xff\x01ab"),
        ("application/vnd.kubernetes.protobuf", b"k8s\0\x0a\x0b\x0a\x02v9\x12\x05Thing\x12\x00"),
    ];
    for (media, body) in cases {
        let answer = request("POST", &path).body(media, *body).send();
        let shown = String::from_utf8_lossy(&body[..body.len().min(40)]).into_owned();
        assert_eq!(answer.code, 400, "{media} {shown}: {}", answer.body);
        assert_eq!(answer.status().1, "BadRequest", "{media} {shown}");
        assert!(answer.body.len() < 4096, "the answer does not repeat the body");
    }
    let wrong =
        request("POST", &path).body("application/json", r#"{"metadata": {"name": "a"}, "data": {"k": 5}}"#).send();
    let text = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ConfigMap.data of type string";
    assert_eq!(wrong.status(), (400, "BadRequest".into(), text.into()));
    assert_eq!(get("/readyz").code, 200);
}

#[test]
fn malformed_patches_are_refused_and_the_server_stays_up() {
    let space = Space::new("patches");
    post(&space.core("configmaps"), &config_map("own")).ok();
    let path = space.core("configmaps/own");
    let deep = format!("{}1{}", "{\"a\":".repeat(20_000), "}".repeat(20_000));
    let cases: &[(&str, &str)] = &[
        ("application/merge-patch+json", "{"),
        ("application/merge-patch+json", "5"),
        ("application/merge-patch+json", &deep),
        ("application/json-patch+json", "{}"),
        ("application/json-patch+json", "[{\"op\": \"nope\", \"path\": \"/data\"}]"),
        ("application/json-patch+json", "[{\"op\": \"add\"}]"),
        ("application/strategic-merge-patch+json", "["),
        ("application/strategic-merge-patch+json", "[]"),
        ("application/apply-patch+yaml", "a: [b"),
        ("application/apply-patch+yaml", "[]"),
    ];
    for (media, body) in cases {
        let answer = request("PATCH", &format!("{path}?fieldManager=m")).body(media, *body).send();
        let shown = &body[..body.len().min(40)];
        assert!((400..500).contains(&answer.code), "{media} {shown}: {} {}", answer.code, answer.body);
        answer.status();
    }
    let many: Vec<_> = (0..10_001).map(|_| json!({"op": "test", "path": "/kind", "value": "ConfigMap"})).collect();
    let answer = patch("json", &path, &json!(many));
    assert_eq!((answer.code, answer.status().1.as_str()), (413, "RequestEntityTooLarge"));
    let text = "The allowed maximum operations in a JSON patch is 10000, got 10001";
    assert!(answer.body.contains(text), "{}", answer.body);
    assert_eq!(get("/readyz").code, 200);
}

#[test]
fn methods_that_make_no_sense_are_405() {
    let space = Space::new("methods");
    let text = "the server does not allow this method on the requested resource";
    for (method, path) in [
        ("PUT", space.core("configmaps")),
        ("PATCH", space.core("configmaps")),
        ("POST", space.core("configmaps/own")),
        ("DELETE", "/api/v1/namespaces".to_owned()),
        ("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".to_owned()),
    ] {
        let answer = request(method, &path).json(&json!({})).send();
        assert_eq!(answer.status(), (405, "MethodNotAllowed".into(), text.into()), "{method} {path}");
    }
}

// K-AUTH-2
#[test]
fn requests_without_credentials_may_read_little() {
    for path in ["/version", "/healthz", "/livez", "/readyz"] {
        assert_eq!(anonymous("GET", path).send().code, 200, "{path}");
    }
    let answer = anonymous("GET", "/api/v1/pods").send();
    let text = "pods is forbidden: User \"system:anonymous\" cannot list resource \"pods\" in API group \"\" at the cluster scope";
    assert_eq!(answer.status(), (403, "Forbidden".into(), text.into()));
    let answer = anonymous("GET", "/metrics").send();
    let text = "forbidden: User \"system:anonymous\" cannot get path \"/metrics\"";
    assert_eq!(answer.status(), (403, "Forbidden".into(), text.into()));
    let answer = anonymous("GET", "/api/v1/pods").header("Authorization", "Bearer nope").send();
    assert_eq!(answer.status(), (401, "Unauthorized".into(), "Unauthorized".into()));
}
