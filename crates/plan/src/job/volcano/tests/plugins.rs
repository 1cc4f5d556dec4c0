//! Job plugins: what they make and what they do to pods.

use super::world::{Cluster, task};
use super::{gang, policy, with};
use serde_json::{Value, json};

fn plugins(plugins: Value) -> Value {
    with(json!({ "plugins": plugins }))
}

fn variables(cluster: &Cluster, pod: &str, names: [&str; 4]) -> [String; 4] {
    names.map(|name| cluster.variable(pod, name).unwrap_or_default())
}

const BOOK: [&str; 4] = ["MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK"];

// PT-1, PT-3, PT-4, PT-6, SVC-2, SVC-9
#[test]
fn pytorch_gives_every_rank_its_address_book() {
    let cluster = Cluster::running(plugins(json!({"pytorch": ["--master=master", "--worker=worker", "--port=23456"]})));
    let book = |rank: &str| ["j-master-0.j", "23456", "3", rank].map(str::to_owned);
    assert_eq!(variables(&cluster, "j-master-0", BOOK), book("0"));
    assert_eq!(variables(&cluster, "j-worker-0", BOOK), book("1"));
    assert_eq!(variables(&cluster, "j-worker-1", BOOK), book("2"));
    let port = json!([{"name": "pytorchjob-port", "containerPort": 23456}]);
    assert!(cluster.pods().iter().all(|name| cluster.pod(name)["spec"]["containers"][0]["ports"] == port));
    let data = json!({
        "master.host": "j-master-0.j", "VC_MASTER_HOSTS": "j-master-0.j", "VC_MASTER_NUM": "1",
        "worker.host": "j-worker-0.j\nj-worker-1.j", "VC_WORKER_HOSTS": "j-worker-0.j,j-worker-1.j", "VC_WORKER_NUM": "2",
    });
    assert_eq!(cluster.world.raw("ConfigMap", "j-svc")["data"], data);
    assert_eq!(cluster.world.names("Service"), ["j"]);
    let resources = &cluster.status()["controlledResources"];
    assert_eq!((&resources["plugin-pytorch"], &resources["plugin-svc"]), (&json!("pytorch"), &json!("svc")));
}

// PT-5, PT-6, PT-7, PT-8, PLG-4
#[test]
fn pytorch_overrides_the_user_and_leaves_init_containers_alone() {
    let mut spec = json!({"tasks": [task("master", 1)], "plugins": {"pytorch": []}});
    let template = &mut spec["tasks"][0]["template"]["spec"];
    template["initContainers"] = json!([{"name": "i", "image": "i"}]);
    template["containers"][0]["env"] = json!([{"name": "RANK", "value": "7"}, {"name": "KEEP", "value": "1"}]);
    template["containers"][0]["ports"] = json!([{"containerPort": 23456}]);
    let cluster = Cluster::running(spec);
    assert_eq!(variables(&cluster, "j-master-0", BOOK), ["j-master-0.j", "23456", "1", "0"]);
    let pod = &cluster.pod("j-master-0")["spec"];
    assert_eq!(pod["containers"][0]["ports"], json!([{"containerPort": 23456}]));
    let init = pod["initContainers"][0]["env"].to_string();
    assert!(!init.contains("RANK") && init.contains("VC_MASTER_HOSTS"), "{init}");
    assert_eq!(cluster.variable("j-master-0", "KEEP").as_deref(), Some("1"));
}

// PT-2, PLG-1
#[test]
fn pytorch_without_a_master_says_so_once() {
    let mut cluster = Cluster::new(plugins(json!({"pytorch": ["--master=boss", "--novel"]})));
    cluster.start();
    assert_eq!(cluster.variable("j-worker-0", "MASTER_ADDR"), None);
    assert_eq!(
        cluster.events("PluginError"),
        [
            "plugin pytorch: flag provided but not defined: -novel",
            "plugin pytorch: no task is named boss, so pods get no MASTER_ADDR"
        ]
    );
}

// PT-4, PT-9
#[test]
fn several_masters_have_ranks_of_their_own() {
    let ranks = |mut cluster: Cluster| {
        cluster.start();
        ["j-master-0", "j-master-1", "j-worker-0", "j-other-0"]
            .map(|pod| cluster.variable(pod, "RANK").unwrap_or_default())
    };
    let spec = json!({"tasks": [task("master", 2), task("worker", 1), task("other", 1)], "plugins": {"pytorch": []}});
    assert_eq!(ranks(Cluster::new(spec.clone())), ["0", "1", "2", ""]);
    assert_eq!(ranks(Cluster::strict(spec)), ["0", "0", "1", ""]);
}

// PT-3
#[test]
fn a_host_name_of_the_masters_own_is_used() {
    let mut spec = plugins(json!({"pytorch": []}));
    spec["tasks"][0]["template"]["spec"]["hostname"] = json!("boss");
    spec["tasks"][0]["template"]["spec"]["subdomain"] = json!("net");
    let cluster = Cluster::running(spec);
    assert_eq!(cluster.variable("j-worker-0", "MASTER_ADDR").as_deref(), Some("boss.net"));
    assert_eq!(cluster.world.raw("ConfigMap", "j-svc")["data"]["VC_MASTER_HOSTS"], "boss.net");
    assert_eq!(cluster.pod("j-master-0")["spec"]["hostname"], "boss");
}

// PT-10
#[test]
fn workers_may_wait_for_their_master() {
    let cluster = Cluster::running(plugins(
        json!({"pytorch": ["--wait-master-enabled", "--wait-master-timeout=60", "--wait-master-image=b"]}),
    ));
    let gate = &cluster.pod("j-worker-0")["spec"]["initContainers"][0];
    assert_eq!(
        (&gate["name"], &gate["image"], &gate["command"][0]),
        (&json!("wait-for-master"), &json!("b"), &json!("sh"))
    );
    let script = gate["command"][2].as_str().unwrap();
    assert!(
        script.contains("j-master-0.j 23456")
            && script.contains("left=60")
            && script.contains("sleep 2")
            && script.contains("exit 1")
    );
    assert_eq!(cluster.pod("j-master-0")["spec"]["initContainers"], Value::Null);
}

// PT-11, SVC-7
#[test]
fn a_later_pod_sees_the_new_size() {
    let mut cluster = Cluster::running(with(json!({"plugins": {"pytorch": []}, "minAvailable": 1})));
    let mut tasks = cluster.job()["spec"]["tasks"].clone();
    tasks[1]["replicas"] = json!(3);
    cluster.world.edit("Job", "j", json!({"spec": {"tasks": tasks}}));
    cluster.settle();
    assert_eq!(cluster.variable("j-worker-2", "WORLD_SIZE").as_deref(), Some("4"));
    assert_eq!(cluster.variable("j-worker-0", "WORLD_SIZE").as_deref(), Some("3"));
    assert_eq!(cluster.world.raw("ConfigMap", "j-svc")["data"]["VC_WORKER_NUM"], "3");
}

// PT-12
#[test]
fn torchruns_variables_are_set_on_request_only() {
    let names = ["PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR"];
    let cluster = Cluster::running(plugins(json!({"pytorch": []})));
    assert_eq!(variables(&cluster, "j-worker-0", names), ["", "", "", ""]);
    let cluster = Cluster::running(plugins(json!({"pytorch": ["--nproc-per-node=4"]})));
    assert_eq!(variables(&cluster, "j-worker-0", names), ["3", "4", "1", "j-master-0.j"]);
}

// PT-13
#[test]
fn a_gang_of_one_runs_with_one_pod() {
    let mut cluster = Cluster::new(with(json!({"minAvailable": 1})));
    cluster.settle();
    cluster.admit();
    cluster.settle();
    assert_eq!(cluster.world.raw("PodGroup", "j-u")["spec"]["minMember"], 1);
    cluster.world.run_pod("j-worker-1");
    cluster.settle();
    assert_eq!((cluster.phase(), cluster.count("pending")), ("Running", 2));
}

// SVC-1, SVC-6
#[test]
fn svc_makes_a_headless_service_and_a_wall() {
    let cluster = Cluster::running(plugins(json!({"svc": ["--publish-not-ready-addresses"]})));
    let selector = json!({"volcano.sh/job-name": "j", "volcano.sh/job-namespace": "d"});
    assert_eq!(
        cluster.world.raw("Service", "j")["spec"],
        json!({"clusterIP": "None", "selector": selector, "publishNotReadyAddresses": true})
    );
    let pods = json!({ "matchLabels": selector });
    assert_eq!(
        cluster.world.raw("NetworkPolicy", "j")["spec"],
        json!({"podSelector": pods, "ingress": [{"from": [{"podSelector": pods}]}], "policyTypes": ["Ingress"]})
    );
    let cluster = Cluster::running(plugins(json!({"svc": ["--disable-network-policy=true"]})));
    assert_eq!(cluster.world.names("NetworkPolicy"), Vec::<String>::new());
}

// SVC-3, SVC-4, SVC-5
#[test]
fn svc_tells_pods_who_the_others_are() {
    let mut spec = json!({"tasks": [task("my-task", 1)], "plugins": {"svc": []}});
    spec["tasks"][0]["template"]["spec"]["initContainers"] = json!([{"name": "i", "image": "i"}]);
    let cluster = Cluster::running(spec.clone());
    let pod = &cluster.pod("j-my-task-0")["spec"];
    assert_eq!((&pod["hostname"], &pod["subdomain"]), (&json!("j-my-task-0"), &json!("j")));
    assert_eq!(pod["volumes"], json!([{"name": "j-svc", "configMap": {"name": "j-svc"}}]));
    let source = |key: &str| json!({"name": key, "valueFrom": {"configMapKeyRef": {"name": "j-svc", "key": key}}});
    for list in ["containers", "initContainers"] {
        assert_eq!(pod[list][0]["volumeMounts"], json!([{"name": "j-svc", "mountPath": "/etc/volcano"}]));
        assert_eq!(pod[list][0]["env"], json!([source("VC_MY_TASK_HOSTS"), source("VC_MY_TASK_NUM")]));
    }
    assert_eq!(cluster.world.raw("ConfigMap", "j-svc")["data"]["my_task.host"], "j-my-task-0.j");
    spec["plugins"] = json!({"svc": ["--inject-hosts-env=false"]});
    assert_eq!(Cluster::running(spec).pod("j-my-task-0")["spec"]["containers"][0].get("env"), None);
}

// SVC-8, SM-33, SSH-5, PLG-2
#[test]
fn names_outlive_a_restart_and_keys_do_not() {
    let restarted = |mut cluster: Cluster| {
        cluster.start();
        let uid = |cluster: &Cluster, kind: &str, name: &str| cluster.world.raw(kind, name)["metadata"]["uid"].clone();
        let before = (uid(&cluster, "Service", "j"), uid(&cluster, "Secret", "j-ssh"));
        cluster.world.second += 1;
        cluster.end("j-worker-0", 1);
        cluster.go_on();
        assert_eq!(cluster.phase(), "Running");
        (before.0 != uid(&cluster, "Service", "j"), before.1 != uid(&cluster, "Secret", "j-ssh"))
    };
    let mut spec = policy("PodFailed", "RestartJob");
    spec["plugins"] = json!({"svc": [], "ssh": []});
    assert_eq!(restarted(Cluster::new(spec.clone())), (false, true));
    assert_eq!(restarted(Cluster::strict(spec)), (true, true));
}

// POD-10, SVC-1
#[test]
fn objects_of_others_are_waited_for_or_named() {
    let service = |kind: &str, name: &str| {
        let owner = json!([{"apiVersion": "g/v1", "kind": kind, "name": name, "uid": "other", "controller": true}]);
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "j", "ownerReferences": owner}})
    };
    for (kind, name, events) in [("Job", "j", &[][..]), ("App", "a", &["Service j exists and is controlled by App a"])]
    {
        let mut cluster = Cluster::new(plugins(json!({"svc": []})));
        cluster.world.add(service(kind, name));
        cluster.start();
        assert_eq!((cluster.pods(), cluster.plan().requeue_after), (vec![], Some(1)));
        assert_eq!(cluster.events("PluginError"), events);
        cluster.world.delete("Service", "j");
        cluster.start();
        assert_eq!(cluster.phase(), "Running");
    }
    let mut cluster = Cluster::new(plugins(json!({"svc": []})));
    cluster
        .world
        .add(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "j"}, "spec": {"mine": true}}));
    cluster.start();
    assert_eq!(cluster.phase(), "Running");
    assert_eq!(cluster.world.raw("Service", "j")["spec"], json!({"mine": true}));
}

// ENV-1, PLG-3
#[test]
fn env_tells_a_pod_its_index() {
    let cluster = Cluster::running(plugins(json!({"env": []})));
    assert_eq!(cluster.variable("j-worker-1", "VC_TASK_INDEX").as_deref(), Some("1"));
    assert_eq!(cluster.variable("j-worker-1", "VK_TASK_INDEX").as_deref(), Some("1"));
}

// SSH-1, SSH-2, SSH-3, SSH-4
#[test]
fn ssh_shares_a_key_and_a_list_of_hosts() {
    let mut cluster = Cluster::running(with(json!({"plugins": {"ssh": ["--ssh-port=70000"]}, "minAvailable": 1})));
    let data = cluster.world.raw("Secret", "j-ssh")["stringData"].clone();
    assert_eq!(
        (&data["id_rsa"], &data["id_rsa.pub"], &data["authorized_keys"]),
        (&json!("private 0"), &json!("public"), &json!("public"))
    );
    let config =
        "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nHost j-master-0\n  HostName j-master-0.j\n  Port 22\n";
    assert!(data["config"].as_str().unwrap().starts_with(config));
    let pod = &cluster.pod("j-master-0")["spec"];
    assert_eq!(pod["volumes"][0]["secret"]["defaultMode"], 0o600);
    assert_eq!(
        pod["containers"][0]["volumeMounts"],
        json!([{"name": "j-ssh", "mountPath": "/root/.ssh", "subPath": ".ssh"}])
    );
    let mut tasks = cluster.job()["spec"]["tasks"].clone();
    tasks[1]["replicas"] = json!(3);
    cluster.world.edit("Job", "j", json!({"spec": {"tasks": tasks}}));
    cluster.settle();
    let data = cluster.world.raw("Secret", "j-ssh")["stringData"].clone();
    assert!(data["config"].as_str().unwrap().contains("Host j-worker-2\n"));
    assert_eq!(data["id_rsa"], "private 0", "the key stays");
    let given = json!({"ssh": ["--ssh-private-key=mine", "--ssh-public-key=pub", "--ssh-key-file-path=/home/me/.ssh"]});
    let cluster = Cluster::running(plugins(given));
    assert_eq!(cluster.world.raw("Secret", "j-ssh")["stringData"]["id_rsa"], "mine");
    assert_eq!(cluster.pod("j-master-0")["spec"]["volumes"][0]["secret"]["defaultMode"], 0o644);
}

// TF-1, TF-2
#[test]
fn tensorflow_describes_the_cluster() {
    let spec = json!({"tasks": [task("ps", 1), task("trainer", 2), task("eye", 1)], "plugins": {"tensorflow": ["--worker=trainer", "--port=1000"]}});
    let cluster = Cluster::running(spec);
    let config = |pod: &str| -> Value { serde_json::from_str(&cluster.variable(pod, "TF_CONFIG").unwrap()).unwrap() };
    let hosts = json!({"ps": ["j-ps-0.j:1000"], "worker": ["j-trainer-0.j:1000", "j-trainer-1.j:1000"]});
    assert_eq!(config("j-trainer-1"), json!({"cluster": hosts, "task": {"type": "worker", "index": 1}}));
    assert_eq!(config("j-eye-0")["task"], json!({"type": "eye", "index": 0}));
    let alone = Cluster::running(json!({"tasks": [task("worker", 1)], "plugins": {"tensorflow": []}}));
    assert_eq!(alone.variable("j-worker-0", "TF_CONFIG"), None);
}

// MPI-1, MPI-2
#[test]
fn mpi_tells_the_master_its_workers() {
    let cluster = Cluster::running(plugins(json!({"mpi": []})));
    assert_eq!(cluster.variable("j-master-0", "MPI_HOST").as_deref(), Some("j-worker-0.j,j-worker-1.j"));
    assert_eq!(cluster.variable("j-worker-0", "MPI_HOST"), None);
    let port = json!([{"name": "mpijob-port", "containerPort": 22}]);
    assert!(cluster.pods().iter().all(|name| cluster.pod(name)["spec"]["containers"][0]["ports"] == port));
    assert_eq!(
        (cluster.world.names("Secret"), cluster.world.names("Service")),
        (vec!["j-ssh".to_owned()], vec!["j".to_owned()])
    );
}

fn ray() -> Value {
    let mut spec = json!({"tasks": [task("head", 1), task("worker", 1)], "plugins": {"ray": ["--port=7000"]}});
    spec["tasks"][0]["template"]["spec"]["containers"][0]["name"] = json!("head");
    spec["tasks"][1]["template"]["spec"]["containers"][0]["name"] = json!("worker");
    spec
}

// RAY-1, RAY-2, RAY-3
#[test]
fn ray_starts_a_head_and_workers_that_join_it() {
    let cluster = Cluster::running(ray());
    let head = &cluster.pod("j-head-0")["spec"]["containers"][0];
    let ports: Vec<(&Value, &Value)> =
        head["ports"].as_array().unwrap().iter().map(|port| (&port["name"], &port["containerPort"])).collect();
    assert_eq!(
        ports,
        [(&json!("gcs"), &json!(7000)), (&json!("dashboard"), &json!(8265)), (&json!("client-server"), &json!(10001))]
    );
    let command = head["command"][2].as_str().unwrap();
    assert_eq!(
        command,
        "ray start --head --block --dashboard-host=0.0.0.0 --port=7000 --dashboard-port=8265 --ray-client-server-port=10001"
    );
    let worker = &cluster.pod("j-worker-0")["spec"]["containers"][0]["command"];
    assert_eq!(*worker, json!(["sh", "-c", "ray start --block --address=j-head-0.j:7000"]));
    let service = &cluster.world.raw("Service", "j-head-svc")["spec"];
    assert_eq!((&service["type"], &service["selector"]["volcano.sh/task-spec"]), (&json!("ClusterIP"), &json!("head")));
    assert_eq!(service["ports"].as_array().unwrap().len(), 3);
}

// RAY-4, POD-6
#[test]
fn ray_without_a_head_makes_no_pods() {
    let mut spec = ray();
    spec["plugins"] = json!({"ray": ["--head=none"]});
    let mut cluster = Cluster::new(spec);
    cluster.start();
    assert_eq!(cluster.pods(), Vec::<String>::new());
    assert_eq!(
        cluster.events("PluginError"),
        ["Execute plugin when job add failed, err: ray: there is no task named none"]
    );
}

// HCCL-1, PLG-3
#[test]
fn hcclrank_notes_the_rank() {
    let ranks = |spec: Value| {
        let cluster = Cluster::running(spec);
        ["j-master-0", "j-worker-0", "j-worker-1"]
            .map(|pod| cluster.pod(pod)["metadata"]["annotations"]["hccl/rankIndex"].clone())
    };
    assert_eq!(ranks(plugins(json!({"hcclrank": []}))), ["0", "1", "2"]);
    assert_eq!(ranks(plugins(json!({"hcclrank": [], "pytorch": []}))), ["0", "1", "2"]);
    let mut own = plugins(json!({"hcclrank": []}));
    own["tasks"][1]["template"]["spec"]["containers"][0]["env"] = json!([{"name": "RANK", "value": "9"}]);
    own["tasks"][0]["template"]["metadata"] = json!({"annotations": {"hccl/rankIndex": "5"}});
    assert_eq!(ranks(own), ["5", "9", "9"]);
}

/// The Jobs of the tutorials, as their readers have them.
#[test]
fn the_tutorials_jobs_complete_with_their_master() {
    let container =
        |name: &str| json!({"name": name, "image": "host", "imagePullPolicy": "IfNotPresent", "workingDir": "/home"});
    let template = |name: &str| json!({"spec": {"containers": [container(name)], "restartPolicy": "OnFailure"}});
    let mut spec = gang();
    for (index, name) in ["master", "worker"].into_iter().enumerate() {
        spec["tasks"][index]["template"] = template(name);
    }
    spec["tasks"][0]["policies"] = json!([{"event": "TaskCompleted", "action": "CompleteJob"}]);
    spec["minAvailable"] = json!(1);
    spec["schedulerName"] = json!("volcano");
    spec["plugins"] = json!({"pytorch": ["--master=master", "--worker=worker", "--port=23456"]});
    let mut cluster = Cluster::running(spec);
    assert_eq!(variables(&cluster, "j-worker-1", BOOK), ["j-master-0.j", "23456", "3", "2"]);
    cluster.end("j-master-0", 0);
    cluster.go_on();
    assert_eq!(cluster.phases, ["Pending", "Running", "Completing", "Completed"]);
    assert_eq!(cluster.pods(), ["j-master-0"]);
}
