//! Cases for pods: a small good pod, one change to it, and every problem that the change brings.

use crate::kube::defaults;
use crate::kube::validate;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Lays `change` over `base`: objects are joined, lists are joined item by item, all else is replaced.
fn lay_over(base: &mut Value, change: &Value) {
    match (base, change) {
        (Value::Object(base), Value::Object(change)) => {
            for (key, value) in change {
                lay_over(base.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (Value::Array(base), Value::Array(change)) => {
            for (index, value) in change.iter().enumerate() {
                if index == base.len() {
                    base.push(Value::Null);
                }
                lay_over(&mut base[index], value);
            }
        }
        (base, change) => *base = change.clone(),
    }
}

fn pod(spec: Value) -> Value {
    let mut pod = json!({
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"serviceAccountName": "default", "containers": [{"name": "c", "image": "busybox"}]},
    });
    lay_over(&mut pod["spec"], &spec);
    defaults::fill("", "Pod", &mut pod);
    pod
}

fn problems(pod: &Value) -> Vec<String> {
    let mut texts: Vec<String> = validate::create("", "Pod", pod).iter().map(ToString::to_string).collect();
    texts.sort();
    texts
}

#[track_caller]
fn check(spec: Value, expected: &[&str]) {
    let problems = problems(&pod(spec.clone()));
    assert_eq!(problems, expected, "for {spec}");
}

/// As `check`, for a change to the one container; paths are given without `spec.containers[0].`.
#[track_caller]
fn check_container(container: Value, expected: &[&str]) {
    let expected: Vec<String> = expected.iter().map(|text| format!("spec.containers[0].{text}")).collect();
    let problems = problems(&pod(json!({"containers": [container]})));
    assert_eq!(problems, expected, "for {container}");
}

#[test]
fn a_good_pod_has_no_problems() {
    check(json!({}), &[]);
    check(
        json!({
            "hostNetwork": true, "hostname": "h", "subdomain": "s", "activeDeadlineSeconds": 5, "nodeSelector": {"a": "b"},
            "dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.1.1.1"], "searches": ["a_b.c.", "."], "options": [{"name": "ndots"}]},
            "securityContext": {"runAsUser": 0, "fsGroup": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
            "tolerations": [{"operator": "Exists"}, {"key": "a", "value": "b", "effect": "NoSchedule"}],
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]}}},
            "volumes": [
                {"name": "e"}, {"name": "s", "secret": {"secretName": "s", "items": [{"key": "a", "path": "b"}]}},
                {"name": "h", "hostPath": {"path": "/x"}}, {"name": "p", "projected": {"sources": [
                    {"serviceAccountToken": {"path": "token"}}, {"downwardAPI": {"items": [
                        {"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}}]}},
                {"name": "c", "ephemeral": {"volumeClaimTemplate": {"spec": {
                    "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}}
            ],
            "initContainers": [{"name": "side", "image": "a:1", "restartPolicy": "Always", "startupProbe": {"exec": {"command": ["x"]}}}],
            "containers": [{
                "ports": [{"containerPort": 80, "name": "http"}],
                "env": [{"name": "A", "value": "b"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a']"}}},
                        {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}}],
                "envFrom": [{"configMapRef": {"name": "m"}}],
                "volumeMounts": [{"name": "e", "mountPath": "/e", "subPath": "a/b"}],
                "resources": {"limits": {"nvidia.com/gpu": "1", "cpu": "2", "memory": "1Gi"}},
                "livenessProbe": {"httpGet": {"port": "http"}}, "readinessProbe": {"grpc": {"port": 5}},
                "lifecycle": {"preStop": {"sleep": {"seconds": 5}}},
                "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}, "allowPrivilegeEscalation": false}
            }]
        }),
        &[],
    );
}

#[test]
fn containers_need_a_name_and_an_image() {
    let mut empty = pod(json!({}));
    empty["spec"]["containers"] = json!([]);
    assert_eq!(problems(&empty), ["spec.containers: Required value"]);
    check_container(json!({"name": "", "image": ""}), &["image: Required value", "name: Required value"]);
    check_container(
        json!({"image": " a"}),
        &["image: Invalid value: \" a\": must not have leading or trailing whitespace"],
    );
    check_container(
        json!({"name": "C_1"}),
        &[
            "name: Invalid value: \"C_1\": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
        ],
    );
    check(
        json!({"containers": [{}, {"name": "c", "image": "a"}], "initContainers": [{"name": "c", "image": "a"}]}),
        &["spec.containers[1].name: Duplicate value: \"c\"", "spec.initContainers[0].name: Duplicate value: \"c\""],
    );
}

#[test]
fn enumerations_name_what_they_support() {
    check(
        json!({"restartPolicy": "Foo", "dnsPolicy": "Bar", "preemptionPolicy": "Baz"}),
        &[
            "spec.dnsPolicy: Unsupported value: \"Bar\": supported values: \"ClusterFirstWithHostNet\", \"ClusterFirst\", \"Default\", \"None\"",
            "spec.preemptionPolicy: Unsupported value: \"Baz\": supported values: \"PreemptLowerPriority\", \"Never\"",
            "spec.restartPolicy: Unsupported value: \"Foo\": supported values: \"Always\", \"OnFailure\", \"Never\"",
        ],
    );
    check_container(
        json!({"imagePullPolicy": "Foo", "terminationMessagePolicy": "Foo"}),
        &[
            "imagePullPolicy: Unsupported value: \"Foo\": supported values: \"Always\", \"IfNotPresent\", \"Never\"",
            "terminationMessagePolicy: Unsupported value: \"Foo\": supported values: \"File\", \"FallbackToLogsOnError\"",
        ],
    );
    check(
        json!({"tolerations": [{"key": "a", "operator": "Foo", "effect": "Bar"}]}),
        &[
            "spec.tolerations[0].effect: Unsupported value: \"Bar\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
            "spec.tolerations[0].operator: Unsupported value: \"Foo\": supported values: \"Equal\", \"Exists\"",
        ],
    );
}

#[test]
fn ports_are_in_range_and_unique() {
    check_container(
        json!({"ports": [{"containerPort": 70000}, {}, {"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"},
            {"containerPort": 1, "protocol": "X"}]}),
        &[
            "ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
            "ports[1].containerPort: Required value",
            "ports[3].name: Duplicate value: \"a\"",
            "ports[4].protocol: Unsupported value: \"X\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
        ],
    );
    check_container(
        json!({"ports": [{"containerPort": 1, "hostPort": 5}, {"containerPort": 2, "hostPort": 5}]}),
        &["ports[1].hostPort: Duplicate value: \"TCP//5\""],
    );
    check(
        json!({"hostNetwork": true, "containers": [{"ports": [{"containerPort": 1, "hostPort": 5}]}]}),
        &[
            "spec.containers[0].ports[0].hostPort: Invalid value: 5: must match `containerPort` when `hostNetwork` is true",
        ],
    );
}

#[test]
fn mounts_name_a_volume_and_do_not_climb() {
    check_container(
        json!({"volumeMounts": [{"name": "v", "mountPath": "/a"}]}),
        &["volumeMounts[0].name: Not found: \"v\""],
    );
    check(
        json!({"volumes": [{"name": "v"}], "containers": [{"volumeMounts": [
            {"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/a"}, {"name": "v"},
            {"name": "v", "mountPath": "/b", "subPath": "../x"}]}]}),
        &[
            "spec.containers[0].volumeMounts.subPath: Invalid value: \"../x\": must not contain '..'",
            "spec.containers[0].volumeMounts[1].mountPath: Invalid value: \"/a\": must be unique",
            "spec.containers[0].volumeMounts[2].mountPath: Required value",
        ],
    );
}

#[test]
fn volumes_have_one_complete_source() {
    check(
        json!({"volumes": [{"name": "a", "emptyDir": {}, "hostPath": {"path": "/"}}, {"name": "b"}, {"name": "b"}]}),
        &[
            "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
            "spec.volumes[2].name: Duplicate value: \"b\"",
        ],
    );
    check(
        json!({"volumes": [
            {"name": "a", "secret": {}}, {"name": "b", "configMap": {"name": "x", "items": [{"key": "k", "path": "/p"}]}},
            {"name": "c", "persistentVolumeClaim": {}}, {"name": "d", "hostPath": {"path": "/a/../b", "type": "Foo"}},
            {"name": "e", "nfs": {}}, {"name": "f", "secret": {"secretName": "s", "defaultMode": 5000}}]}),
        &[
            "spec.volumes[0].secret.secretName: Required value",
            "spec.volumes[1].configMap.items[0].path: Invalid value: \"/p\": must be a relative path",
            "spec.volumes[2].persistentVolumeClaim.claimName: Required value",
            "spec.volumes[3].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
            "spec.volumes[3].hostPath.type: Unsupported value: \"Foo\": supported values: \"\", \"BlockDevice\", \"CharDevice\", \"Directory\", \"DirectoryOrCreate\", \"File\", \"FileOrCreate\", \"Socket\"",
            "spec.volumes[4].nfs.path: Invalid value: \"\": must be an absolute path",
            "spec.volumes[4].nfs.path: Required value",
            "spec.volumes[4].nfs.server: Required value",
            "spec.volumes[5].secret.defaultMode: Invalid value: 5000: must be a number between 0 and 0777 (octal), both inclusive",
        ],
    );
    check(
        json!({"volumes": [{"name": "a", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            {"name": "p", "projected": {"sources": [{"serviceAccountToken": {"expirationSeconds": 5}}]}}]}),
        &[
            "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes: Required value: at least 1 access mode is required",
            "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources[storage]: Required value",
            "spec.volumes[1].projected.path: Required value",
            "spec.volumes[1].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 5: may not specify a duration less than 10 minutes",
        ],
    );
}

#[test]
fn resources_stay_within_their_limits() {
    let resources = |value: Value| json!({ "resources": value });
    check_container(
        resources(json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})),
        &["resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1"],
    );
    check_container(
        resources(json!({"requests": {"nvidia.com/gpu": "2"}, "limits": {"nvidia.com/gpu": "1"}})),
        &["resources.requests: Invalid value: \"2\": must be equal to nvidia.com/gpu limit of 1"],
    );
    check_container(
        resources(json!({"requests": {"nvidia.com/gpu": "2"}})),
        &["resources.limits: Required value: Limit must be set for non overcommitable resources"],
    );
    check_container(
        resources(json!({"limits": {"nvidia.com/gpu": "500m"}})),
        &[
            "resources.limits[nvidia.com/gpu]: Invalid value: \"500m\": must be an integer",
            "resources.requests[nvidia.com/gpu]: Invalid value: \"500m\": must be an integer",
        ],
    );
    check_container(
        resources(json!({"requests": {"cpu": "-1"}})),
        &["resources.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to 0"],
    );
    check_container(
        resources(json!({"requests": {"foo": "1"}})),
        &[
            "resources.requests[foo]: Invalid value: \"foo\": must be a standard resource for containers",
            "resources.requests[foo]: Invalid value: \"foo\": must be a standard resource type or fully qualified",
        ],
    );
    check_container(
        resources(json!({"limits": {"hugepages-2Mi": "3Mi"}})),
        &[
            "resources.limits[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi",
            "resources.requests[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi",
            "resources: Forbidden: HugePages require cpu or memory",
        ],
    );
    check_container(
        resources(json!({"claims": [{"name": "a"}]})),
        &["resources.claims[0]: Not found: \"a\": must be one of the names in pod.spec.resourceClaims which is empty"],
    );
}

#[test]
fn variables_have_one_source() {
    let from = |value: Value| json!({"env": [{"name": "A", "valueFrom": value}]});
    check_container(
        json!({"env": [{"name": ""}, {"name": "a=b"}]}),
        &[
            "env[0].name: Required value",
            "env[1].name: Invalid value: \"a=b\": a valid environment variable name must consist only of printable ASCII characters other than '='",
        ],
    );
    check_container(
        from(json!({})),
        &[
            "env[0].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
        ],
    );
    check_container(
        json!({"env": [{"name": "A", "value": "b", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}),
        &["env[0].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty"],
    );
    check_container(
        from(json!({"fieldRef": {"fieldPath": "metadata.labels"}})),
        &[
            "env[0].valueFrom.fieldRef.fieldPath: Unsupported value: \"metadata.labels\": supported values: \"metadata.name\", \"metadata.namespace\", \"metadata.uid\", \"spec.nodeName\", \"spec.serviceAccountName\", \"status.hostIP\", \"status.hostIPs\", \"status.podIP\", \"status.podIPs\"",
        ],
    );
    check_container(
        from(json!({"fieldRef": {"fieldPath": "spec.foo"}})),
        &[
            "env[0].valueFrom.fieldRef.fieldPath: Invalid value: \"spec.foo\": error converting fieldPath: field label not supported: spec.foo",
        ],
    );
    check_container(
        from(json!({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1Gi"}})),
        &[
            "env[0].valueFrom.resourceFieldRef.divisor: Invalid value: \"limits.cpu\": only divisor's values 1m and 1 are supported with the cpu resource",
        ],
    );
    check_container(
        json!({"envFrom": [{}]}),
        &["envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`"],
    );
}

#[test]
fn probes_and_hooks_have_one_handler() {
    check_container(
        json!({"livenessProbe": {}, "readinessProbe": {"exec": {}, "tcpSocket": {"port": 1}}, "lifecycle": {"preStop": {"sleep": {"seconds": 99}}}}),
        &[
            "lifecycle.preStop.sleep: Invalid value: 99: must be non-negative and less than terminationGracePeriodSeconds (30)",
            "livenessProbe: Required value: must specify a handler type",
            "readinessProbe.exec.command: Required value",
            "readinessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type",
        ],
    );
    check_container(
        json!({"startupProbe": {"httpGet": {"port": 0, "scheme": "FTP"}, "successThreshold": 2, "periodSeconds": -1}}),
        &[
            "startupProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive",
            "startupProbe.httpGet.scheme: Unsupported value: \"FTP\": supported values: \"HTTP\", \"HTTPS\"",
            "startupProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
            "startupProbe.successThreshold: Invalid value: 2: must be 1",
        ],
    );
    check(
        json!({"initContainers": [{"name": "i", "image": "a", "livenessProbe": {"exec": {"command": ["a"]}}}]}),
        &[
            "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
        ],
    );
}

#[test]
fn security_contexts_do_not_contradict_themselves() {
    check_container(
        json!({"securityContext": {"privileged": true, "allowPrivilegeEscalation": false, "runAsUser": -1}}),
        &[
            "securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
            "securityContext: Invalid value: {\"Capabilities\":null,\"Privileged\":true,\"SELinuxOptions\":null,\"WindowsOptions\":null,\"RunAsUser\":-1,\"RunAsGroup\":null,\"RunAsNonRoot\":null,\"ReadOnlyRootFilesystem\":null,\"AllowPrivilegeEscalation\":false,\"ProcMount\":null,\"SeccompProfile\":null,\"AppArmorProfile\":null}: cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
        ],
    );
    check(
        json!({"hostPID": true, "shareProcessNamespace": true, "securityContext": {"seccompProfile": {"type": "Localhost"}}}),
        &[
            "spec.securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost",
            "spec.securityContext.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled",
        ],
    );
}

#[test]
fn scheduling_fields_are_well_formed() {
    check(
        json!({"tolerations": [{"value": "a"}, {"key": "a", "operator": "Exists", "value": "b", "tolerationSeconds": 5}]}),
        &[
            "spec.tolerations[0].operator: Invalid value: \"\": operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            "spec.tolerations[1].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set",
            "spec.tolerations[1].operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'",
        ],
    );
    check(
        json!({"affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}},
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "podAffinityTerm": {"topologyKey": "a"}}]}}}),
        &[
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: must have at least one node selector term",
            "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be in the range 1-100",
        ],
    );
    check(
        json!({"topologySpreadConstraints": [{"maxSkew": 0, "whenUnsatisfiable": "Foo"}]}),
        &[
            "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
            "spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty",
            "spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: \"Foo\": supported values: \"DoNotSchedule\", \"ScheduleAnyway\"",
        ],
    );
    check(
        json!({"nodeName": "n", "schedulingGates": [{"name": "a"}, {"name": "a"}]}),
        &[
            "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
            "spec.schedulingGates[1]: Duplicate value: \"a\"",
        ],
    );
    check(
        json!({"activeDeadlineSeconds": 0}),
        &["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
    );
}

#[test]
fn name_resolution_is_complete() {
    check(
        json!({"dnsPolicy": "None"}),
        &["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
    );
    check(
        json!({"dnsConfig": {"nameservers": ["x"], "options": [{}]}, "hostAliases": [{"ip": "y"}]}),
        &[
            "spec.dnsConfig.nameservers[0]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            "spec.dnsConfig.options[0]: Required value: must not be empty",
            "spec.hostAliases[0].ip: Invalid value: \"y\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        ],
    );
}

#[test]
fn ephemeral_containers_come_later() {
    check(
        json!({"ephemeralContainers": [{"name": "e", "image": "a", "targetContainerName": "x", "ports": [{"containerPort": 1}]}]}),
        &[
            "spec.ephemeralContainers: Forbidden: cannot be set on create",
            "spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container",
            "spec.ephemeralContainers[0].targetContainerName: Not found: \"x\"",
        ],
    );
}

#[test]
fn templates_are_checked_where_they_stand() {
    let mut template = json!({"metadata": {"labels": {"a": "-"}}, "spec": {"containers": [{"name": "c", "image": " a"}, {"name": "d"}]}});
    defaults::pod::pod_template(&mut template);
    let found = validate::problems(&template, "spec.template", validate::pod::pod_template);
    let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[0].starts_with("spec.template.labels: Invalid value: \"-\": a valid label must be"));
    assert_eq!(texts[1], "spec.template.spec.containers[1].image: Required value");
}

fn update(new: &Value, old: &Value) -> Vec<String> {
    validate::update("", "Pod", new, old).iter().map(ToString::to_string).collect()
}

fn stored(spec: Value) -> Value {
    let mut pod = pod(spec);
    pod["metadata"]["resourceVersion"] = json!("1");
    pod
}

// K-POD-5
#[test]
fn images_deadlines_tolerations_and_gates_may_change() {
    let old = stored(
        json!({"tolerations": [{"key": "a", "operator": "Exists"}], "schedulingGates": [{"name": "g"}, {"name": "h"}]}),
    );
    assert_eq!(update(&old, &old), Vec::<String>::new());
    let mut new = old.clone();
    new["metadata"]["labels"] = json!({"a": "b"});
    new["spec"]["containers"][0]["image"] = json!("other:1");
    new["spec"]["containers"][0]["stdin"] = json!(false);
    new["spec"]["activeDeadlineSeconds"] = json!(5);
    new["spec"]["tolerations"] = json!([{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]);
    new["spec"]["schedulingGates"] = json!([{"name": "h"}]);
    new["spec"]["nodeSelector"] = json!({"a": "b"});
    assert_eq!(update(&new, &old), Vec::<String>::new());
}

// K-POD-5
#[test]
fn other_fields_of_a_pod_are_fixed() {
    let old = stored(json!({"activeDeadlineSeconds": 5, "tolerations": [{"key": "a", "operator": "Exists"}]}));
    let mut new = old.clone();
    new["spec"]["hostname"] = json!("h");
    let texts = update(&new, &old);
    let expected = "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n@@ ";
    assert!(texts.len() == 1 && texts[0].starts_with(expected), "{texts:?}");
    assert!(texts[0].ends_with("+ \"hostname\": \"h\",\n  \"restartPolicy\": \"Always\",\n  \"schedulerName\": \"default-scheduler\",\n  \"securityContext\": {},\n"), "{texts:?}");

    let mut new = old.clone();
    new["spec"]["containers"] = json!([new["spec"]["containers"][0].clone(), {"name": "d", "image": "a"}]);
    defaults::fill("", "Pod", &mut new);
    assert_eq!(update(&new, &old), ["spec.containers: Forbidden: pod updates may not add or remove containers"]);

    let mut new = old.clone();
    new["spec"]["activeDeadlineSeconds"] = json!(6);
    assert_eq!(
        update(&new, &old),
        ["spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value"]
    );

    let mut new = old.clone();
    new["spec"]["tolerations"] = json!([]);
    new["spec"]["schedulingGates"] = json!([{"name": "g"}]);
    assert_eq!(
        update(&new, &old),
        [
            "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
            "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'g'",
        ]
    );
}

/// Any JSON made of words that pods use, in places where they need not make sense.
fn any_json() -> impl Strategy<Value = Value> {
    const WORDS: &[&str] = &[
        "containers", "initContainers", "ephemeralContainers", "name", "image", "volumes", "volumeMounts", "mountPath",
        "secret", "projected", "sources", "resources", "limits", "requests", "cpu", "nvidia.com/gpu", "env",
        "valueFrom", "fieldRef", "fieldPath", "ports", "hostPort", "containerPort", "affinity", "nodeAffinity",
        "podAffinity", "tolerations", "key", "operator", "Exists", "securityContext", "runAsUser", "livenessProbe",
        "httpGet", "lifecycle", "preStop", "sleep", "ephemeral", "volumeClaimTemplate", "schedulingGates",
        "nodeSelector", "hostNetwork", "restartPolicy", "Always", "1Gi", "",
    ];
    let word = prop::sample::select(WORDS);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2i64..70000).prop_map(Value::from),
        word.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, move |inner| {
        let entries = prop::collection::btree_map(word.clone().prop_map(str::to_owned), inner.clone(), 0..6);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            entries.prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_pod_is_too_strange_to_be_judged(spec in any_json(), other in any_json()) {
        let mut pod = json!({"metadata": {"name": "p", "namespace": "d", "resourceVersion": "1"}, "spec": spec});
        defaults::fill("", "Pod", &mut pod);
        let once = pod.clone();
        defaults::fill("", "Pod", &mut pod);
        prop_assert_eq!(&once, &pod, "filling in twice changes nothing");
        defaults::pod::match_label_keys(&mut pod);
        defaults::pod::pod_status(&mut pod);
        let found = validate::create("", "Pod", &pod);
        let unchanged = validate::update("", "Pod", &pod, &pod);
        prop_assert!(unchanged.iter().all(|error| found.contains(error)), "keeping a pod as it is brings no new problem");
        let mut changed = pod.clone();
        changed["spec"] = other;
        let _ = validate::update("", "Pod", &changed, &pod);
    }
}
