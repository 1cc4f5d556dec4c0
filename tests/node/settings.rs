//! What a container is given: variables, files, volumes, names and its account's token.

use crate::command::eventually;
use crate::world::{Say, World, pod};
use serde_json::{Value, json};

fn config_objects(world: &World) {
    let data = json!({"colour": "blue", "size": "7"});
    world.create(&json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "map"}, "data": data}));
    let data = json!({"password": "c2VjcmV0"});
    world.create(&json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "keys"}, "data": data}));
}

// K-POD-4
#[test]
fn variables_come_from_everywhere_and_expand_in_order() {
    let world = World::start(&[]);
    config_objects(&world);
    let service = json!({"ports": [{"port": 80}], "selector": {"a": "b"}});
    world.create(&json!({"kind": "Service", "apiVersion": "v1", "metadata": {"name": "my-web"}, "spec": service}));
    let field = |path: &str| json!({"fieldRef": {"fieldPath": path}});
    let env = json!([
        {"name": "A", "value": "one"},
        {"name": "B", "value": "$(A) $(NONE) $$(A)"},
        {"name": "MAP", "valueFrom": {"configMapKeyRef": {"name": "map", "key": "colour"}}},
        {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "password"}}},
        {"name": "POD", "valueFrom": field("metadata.name")},
        {"name": "ADDRESS", "valueFrom": field("status.podIP")},
        {"name": "LABEL", "valueFrom": field("metadata.labels['tier']")},
        {"name": "LIMIT", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
    ]);
    let env_from = json!([{"prefix": "M_", "configMapRef": {"name": "map"}}]);
    let words = "for v in A B MAP SECRET POD LABEL LIMIT M_size HOSTNAME MY_WEB_SERVICE_PORT MY_WEB_PORT; do \
        echo $v=`printenv $v`; done; [ -n \"$ADDRESS\" ] && [ -n \"$KUBERNETES_SERVICE_HOST\" ] && echo there; \
        echo \"$@\"";
    let given = pod("given", "").main(json!({"env": env, "envFrom": env_from, "args": ["sh", "$(A)", "$(NONE)"],
        "command": ["sh", "-c", words], "resources": {"limits": {"memory": "64Mi"}}}));
    let logs = world.finished(&given.meta(json!({"labels": {"tier": "front"}})));
    let service_ip = world.kubectl(&["get", "service", "my-web", "-o", "jsonpath={.spec.clusterIP}"]);
    let expected = format!(
        "A=one\nB=one $(NONE) $(A)\nMAP=blue\nSECRET=secret\nPOD=given\nLABEL=front\nLIMIT=64\nM_size=7\nHOSTNAME=given\n\
         MY_WEB_SERVICE_PORT=80\nMY_WEB_PORT=tcp://{service_ip}:80\nthere\none $(NONE)\n"
    );
    assert_eq!(logs, expected);
}

// K-POD-4
#[test]
fn names_and_tokens_are_where_clients_look() {
    let world = World::start(&[]);
    let token = "/var/run/secrets/kubernetes.io/serviceaccount";
    let script = format!(
        "hostname; cat /etc/hostname; grep \"$ADDRESS\" /etc/hosts; cat {token}/namespace; echo; ls {token}; \
         curl -sf --cacert {token}/ca.crt -H \"Authorization: Bearer $(cat {token}/token)\" \
         https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT/version | grep -c gitVersion"
    );
    let env = json!([{"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]);
    let named = pod("named", &script).main(json!({"env": env}));
    let logs = world.finished(&named.spec(json!({"hostname": "worker", "subdomain": "team"})));
    let address = world.pod("named")["status"]["podIP"].as_str().unwrap().to_owned();
    let expected = format!(
        "worker\nworker\n{address}\tworker.team.default.svc.cluster.local\tworker\ndefault\nca.crt\nnamespace\ntoken\n1\n"
    );
    assert_eq!(logs, expected);
}

fn with_volumes(name: &str, script: &str, volumes: Value, mounts: Value) -> Value {
    pod(name, script).spec(json!({ "volumes": volumes })).main(json!({ "volumeMounts": mounts }))
}

#[test]
fn volumes_of_all_kinds_are_mounted() {
    let world = World::start(&[]);
    config_objects(&world);
    let shared = world.folder.path().join("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::write(shared.join("file"), "from the machine").unwrap();
    let volumes = json!([
        {"name": "map", "configMap": {"name": "map", "items": [{"key": "colour", "path": "nested/colour"}], "defaultMode": 0o440}},
        {"name": "keys", "secret": {"secretName": "keys"}},
        {"name": "host", "hostPath": {"path": shared, "type": "Directory"}},
        {"name": "scratch", "emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}},
        {"name": "about", "downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"name": "all", "projected": {"sources": [{"configMap": {"name": "map"}}, {"secret": {"name": "keys"}}]}},
    ]);
    let mounts = json!([
        {"name": "map", "mountPath": "/v/map", "readOnly": true},
        {"name": "keys", "mountPath": "/v/keys"},
        {"name": "host", "mountPath": "/v/host"},
        {"name": "host", "mountPath": "/v/one", "subPath": "file"},
        {"name": "scratch", "mountPath": "/v/scratch"},
        {"name": "about", "mountPath": "/v/about"},
        {"name": "all", "mountPath": "/v/all"},
    ]);
    let script = "cat /v/map/nested/colour; echo; stat -Lc %a /v/map/nested/colour; cat /v/keys/password; echo; cat /v/one; echo; \
        echo written > /v/host/new; stat -f -c %T /v/scratch; cat /v/about/labels; echo; ls /v/all; \
        touch /v/map/x 2>/dev/null || echo read-only";
    let object = with_volumes("mounted", script, volumes, mounts).meta(json!({"labels": {"a": "b"}}));
    let expected = "blue\n440\nsecret\nfrom the machine\ntmpfs\na=\"b\"\ncolour\npassword\nsize\nread-only\n";
    assert_eq!(world.finished(&object), expected);
    assert_eq!(std::fs::read_to_string(shared.join("new")).unwrap(), "written\n");
}

#[test]
fn an_empty_folder_is_shared_by_the_containers_and_goes_with_the_pod() {
    let world = World::start(&[]);
    let mount = json!([{"name": "scratch", "mountPath": "/scratch"}]);
    let reader = json!({"name": "reader", "image": "host", "volumeMounts": mount,
        "command": ["sh", "-c", "until [ -e /scratch/done ]; do sleep 0.05; done; cat /scratch/done"]});
    let mut object = with_volumes(
        "pair",
        "echo shared > /scratch/x; mv /scratch/x /scratch/done",
        json!([{"name": "scratch", "emptyDir": {}}]),
        mount,
    );
    object["spec"]["containers"].as_array_mut().unwrap().push(reader);
    world.create(&object);
    world.until_phase("pair", "Succeeded");
    assert_eq!(world.logs_of("pair", "container=reader"), "shared\n");
    let uid = world.pod("pair")["metadata"]["uid"].as_str().unwrap().to_owned();
    assert!(world.home.join("node/pods").join(&uid).exists());
    world.delete("pair", 0);
    eventually("the folder is gone", || (!world.home.join("node/pods").join(&uid).exists()).then_some(()));
}

#[test]
fn changed_config_maps_reach_running_pods() {
    let world = World::start(&[]);
    config_objects(&world);
    let volumes = json!([{"name": "map", "configMap": {"name": "map"}}]);
    let mounts = json!([{"name": "map", "mountPath": "/map"}]);
    let script = "until [ \"$(cat /map/colour)\" = green ]; do sleep 0.1; done; echo seen";
    world.create(&with_volumes("follows", script, volumes, mounts));
    world.until_pod("follows", "running", |pod| pod["status"]["phase"] == "Running");
    world.kubectl(&["patch", "configmap", "map", "--type=merge", "-p", r#"{"data":{"colour":"green"}}"#]);
    world.until_phase("follows", "Succeeded");
}

#[test]
fn what_cannot_be_mounted_is_said() {
    let world = World::start(&[]);
    let missing = json!([{"name": "v", "configMap": {"name": "absent"}}]);
    let mounts = json!([{"name": "v", "mountPath": "/v"}]);
    world.create(&with_volumes("waits", "cat /v/colour", missing, mounts.clone()));
    world.until_event(
        "waits",
        "FailedMount",
        r#"MountVolume.SetUp failed for volume "v" : configmap "absent" not found"#,
    );
    assert_eq!(world.word("waits"), "ContainerCreating");
    let data = json!({"colour": "red"});
    world.create(&json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "absent"}, "data": data}));
    world.until_phase("waits", "Succeeded");
    let absent = json!([{"name": "v", "hostPath": {"path": "/no/such/folder", "type": "Directory"}}]);
    world.create(&with_volumes("path", "true", absent, mounts));
    world.until_event("path", "FailedMount", "hostPath type check failed: /no/such/folder is not a directory");
}

#[test]
fn a_claim_of_the_default_class_is_kept_between_pods() {
    let world = World::start(&[]);
    let claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: cache}\nspec:\n  accessModes: [ReadWriteOnce]\n  \
        resources: {requests: {storage: 1Gi}}\n";
    world.apply(claim);
    let volumes = json!([{"name": "cache", "persistentVolumeClaim": {"claimName": "cache"}}]);
    let mounts = json!([{"name": "cache", "mountPath": "/cache"}]);
    world.finished(&with_volumes("writes", "echo kept > /cache/x", volumes.clone(), mounts.clone()));
    assert_eq!(world.finished(&with_volumes("reads", "cat /cache/x", volumes, mounts)), "kept\n");
    assert_eq!(world.kubectl(&["get", "pvc", "cache", "-o", "jsonpath={.status.phase}"]), "Bound");
}
