//! TFJob, MPIJob, XGBoostJob, PaddleJob and JAXJob: where their rows differ.

use super::stage::Stage;
use serde_json::{Value, json};

fn ran(mut stage: Stage) -> Stage {
    stage.settle();
    stage.run_all();
    stage
}

fn role(stage: &Stage, pod: &str) -> Value {
    stage.pod(pod)["metadata"]["labels"]["training.kubeflow.org/job-role"].clone()
}

#[test]
fn a_tfjob_knows_its_cluster() {
    let mut stage = Stage::of(
        "TFJob",
        &[("Chief", 1, "Never"), ("PS", 1, "Never"), ("Worker", 2, "Never"), ("Evaluator", 1, "Never")],
        json!({}),
    );
    stage.settings.cluster_domain = Some("cluster.local".into());
    let stage = ran(stage);
    let at = |pod: &str| format!("\"{pod}.d.svc.cluster.local:2222\"");
    let expected = format!(
        "{{\"cluster\":{{\"chief\":[{}],\"ps\":[{}],\"worker\":[{},{}]}},\"task\":{{\"type\":\"worker\",\"index\":1}},\"environment\":\"cloud\"}}",
        at("x-chief-0"),
        at("x-ps-0"),
        at("x-worker-0"),
        at("x-worker-1")
    );
    assert_eq!(stage.environment("x-worker-1")["TF_CONFIG"], expected);
    assert_eq!((role(&stage, "x-chief-0"), role(&stage, "x-worker-0")), (json!("master"), Value::Null));
    assert_eq!(stage.said("Running"), "TFJobRunning: TFJob d/x is running.");
    assert_eq!(stage.said("Created"), "TFJobCreated: TFJob x is created.");
    let alone = ran(Stage::of("TFJob", &[("Worker", 1, "Never")], json!({})));
    assert!(alone.environment("x-worker-0").is_empty());
    let dynamic =
        ran(Stage::of("TFJob", &[("PS", 1, "Never"), ("Worker", 2, "Never")], json!({"enableDynamicWorker": true})));
    let expected = "{\"cluster\":{\"worker\":{\"1\":\"x-worker-1.d.svc:2222\"},\"ps\":[\"x-ps-0.d.svc:2222\"]},\"task\":{\"type\":\"worker\",\"index\":1}}";
    assert_eq!(dynamic.environment("x-worker-1")["TF_CONFIG"], expected);
}

#[test]
fn a_tfjob_ends_with_its_chief_or_worker_0_or_all_workers() {
    let mut chief = ran(Stage::of("TFJob", &[("Chief", 1, "Never"), ("Worker", 1, "Never")], json!({})));
    chief.end("x-worker-0", 0);
    assert_eq!(chief.conditions(), ["Created", "Running"]);
    chief.end("x-chief-0", 0);
    assert_eq!(chief.said("Succeeded"), "TFJobSucceeded: TFJob d/x successfully completed.");
    let mut first = ran(Stage::of("TFJob", &[("Worker", 2, "Never")], json!({})));
    assert_eq!(role(&first, "x-worker-0"), "master");
    first.end("x-worker-1", 0);
    assert_eq!(first.conditions(), ["Created", "Running"]);
    first.end("x-worker-0", 0);
    assert_eq!(first.conditions(), ["Created", "Running=False", "Succeeded"]);
    let mut all = ran(Stage::of("TFJob", &[("Worker", 2, "Never")], json!({"successPolicy": "AllWorkers"})));
    all.end("x-worker-0", 0);
    assert_eq!(all.conditions(), ["Created", "Running"]);
    all.end("x-worker-1", 0);
    assert_eq!(all.conditions(), ["Created", "Running=False", "Succeeded"]);
}

#[test]
fn a_tfjob_fails_with_any_pod_unless_its_policy_replaces_it() {
    for (policy, code, expected) in [
        ("Never", 1, Some("TFJobFailed: TFJob d/x has failed because 1 PS replica(s) failed.")),
        ("OnFailure", 1, None),
        ("Always", 1, None),
        ("ExitCode", 1, Some("TFJobFailed: job \"x\" is failing because \"PS\" replica(s) failed.")),
        ("ExitCode", 137, None),
    ] {
        let mut stage = ran(Stage::of("TFJob", &[("PS", 1, policy), ("Worker", 1, "Never")], json!({})));
        stage.end("x-ps-0", code);
        match expected {
            Some(expected) => assert_eq!(stage.said("Failed"), expected),
            None => {
                assert!(
                    stage.has_event("TFJobRestarting job x is restarting because PS replica(s) failed."),
                    "{policy}"
                );
                assert!(!stage.conditions().contains(&"Failed".to_owned()), "{policy}");
            }
        }
    }
    let mut dynamic =
        ran(Stage::of("TFJob", &[("PS", 1, "Never"), ("Worker", 2, "Never")], json!({"enableDynamicWorker": true})));
    dynamic.end("x-worker-1", 1);
    assert_eq!(dynamic.conditions(), ["Created", "Running"]);
}

#[test]
fn an_xgboostjob_follows_its_master() {
    let mut stage = ran(Stage::of("XGBoostJob", &[("Master", 1, "Never"), ("Worker", 2, "Never")], json!({})));
    let variables = stage.environment("x-worker-1");
    let expected = [
        ("MASTER_ADDR", "x-master-0"),
        ("MASTER_PORT", "9999"),
        ("WORLD_SIZE", "3"),
        ("RANK", "2"),
        ("PYTHONUNBUFFERED", "1"),
        ("WORKER_PORT", "9999"),
        ("WORKER_ADDRS", "x-worker-0,x-worker-1"),
    ];
    assert_eq!(variables, expected.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect());
    stage.end("x-master-0", 0);
    assert_eq!(stage.said("Succeeded"), "XGBoostJobSucceeded: XGBoostJob x is successfully completed.");
    let mut failed = ran(Stage::of("XGBoostJob", &[("Master", 1, "Never"), ("Worker", 2, "OnFailure")], json!({})));
    failed.end("x-worker-0", 1);
    assert_eq!(failed.said("Failed"), "XGBoostJobFailed: XGBoostJob x is failed because 1 Worker replica(s) failed.");
}

#[test]
fn a_paddlejob_meets_at_its_master_or_worker_0() {
    let stage = ran(Stage::of("PaddleJob", &[("Worker", 2, "OnFailure")], json!({})));
    let first = stage.environment("x-worker-0");
    assert_eq!(
        (&*first["PADDLE_MASTER"], &*first["POD_IP_DUMMY"], &*first["PADDLE_NNODES"]),
        ("$(POD_IP_DUMMY):36543", "<reference>", "2")
    );
    assert_eq!(stage.environment("x-worker-1")["PADDLE_MASTER"], "x-worker-0:36543");
    assert_eq!(stage.environment("x-worker-1")["PADDLE_JOB_ID"], "x");
    assert_eq!(role(&stage, "x-worker-0"), Value::Null, "no worker of a PaddleJob is a master");
    let mut served = ran(Stage::of("PaddleJob", &[("Master", 1, "OnFailure"), ("Worker", 1, "OnFailure")], json!({})));
    assert_eq!(served.environment("x-master-0")["PADDLE_SERVER_NUM"], "1");
    let worker = served.environment("x-worker-0");
    assert_eq!((&*worker["PADDLE_TRAINER_NUM"], &*worker["PADDLE_MASTER"]), ("1", "x-master-0:36543"));
    served.end("x-worker-0", 1);
    assert_eq!(served.conditions(), ["Created", "Running"], "it is replaced");
    served.end("x-master-0", 0);
    assert_eq!(served.said("Succeeded"), "PaddleJobSucceeded: PaddleJob x is successfully completed.");
}

#[test]
fn a_jaxjob_ends_with_all_its_workers() {
    let mut stage = ran(Stage::of("JAXJob", &[("Worker", 2, "Never")], json!({})));
    let expected = [
        ("PYTHONUNBUFFERED", "1"),
        ("COORDINATOR_PORT", "6666"),
        ("COORDINATOR_ADDRESS", "x-worker-0"),
        ("NUM_PROCESSES", "2"),
        ("PROCESS_ID", "1"),
    ];
    assert_eq!(
        stage.environment("x-worker-1"),
        expected.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    );
    assert_eq!(role(&stage, "x-worker-0"), "master");
    stage.end("x-worker-0", 0);
    stage.end("x-worker-1", 0);
    assert_eq!(stage.said("Succeeded"), "JAXJobSucceeded: JAXJob d/x successfully completed.");
}

fn mpi(spec: Value) -> Stage {
    let mut stage = Stage::of("MPIJob", &[("Launcher", 1, "Never"), ("Worker", 2, "Never")], spec);
    stage.settle();
    stage
}

#[test]
fn an_mpijob_has_a_launcher_that_reaches_its_workers() {
    let mut stage = mpi(json!({"slotsPerWorker": 2, "mainContainer": "m"}));
    assert_eq!(stage.pods(), ["x-launcher", "x-worker-0", "x-worker-1"]);
    assert!(stage.world.names("Service").is_empty());
    let config = stage.world.raw("ConfigMap", "x-config");
    assert_eq!(config["data"]["hostfile"], "x-worker-0 slots=2\nx-worker-1 slots=2\n");
    assert_eq!(config["data"]["discover_hosts.sh"], "#!/bin/sh");
    assert!(
        config["data"]["kubexec.sh"]
            .as_str()
            .unwrap()
            .ends_with("/opt/kube/kubectl exec ${POD_NAME} --container m -- /bin/sh -c \"$*\"")
    );
    let role = stage.world.raw("Role", "x-launcher");
    assert_eq!(role["rules"][1]["resourceNames"], json!(["x-worker-0", "x-worker-1"]));
    assert_eq!(stage.world.raw("RoleBinding", "x-launcher")["subjects"][0]["name"], "x-launcher");
    assert_eq!(stage.world.names("ServiceAccount"), ["x-launcher"]);
    let launcher = &stage.pod("x-launcher")["spec"];
    assert_eq!(
        (&launcher["serviceAccountName"], &launcher["initContainers"][0]["name"]),
        (&json!("x-launcher"), &json!("kubectl-delivery"))
    );
    let variables = stage.environment("x-launcher");
    assert_eq!(
        (&*variables["OMPI_MCA_plm_rsh_agent"], &*variables["NVIDIA_VISIBLE_DEVICES"]),
        ("/etc/mpi/kubexec.sh", "")
    );
    let worker = &stage.pod("x-worker-0")["spec"]["containers"][0];
    assert_eq!((&worker["command"], &worker["volumeMounts"][0]["mountPath"]), (&json!(["sleep"]), &json!("/etc/mpi")));
    stage.run(&["x-launcher", "x-worker-0"]);
    assert_eq!(stage.conditions(), ["Created"], "the launcher alone is not the job");
    assert_eq!(stage.world.raw("ConfigMap", "x-config")["data"]["discover_hosts.sh"], "#!/bin/sh\necho x-worker-0:2");
    stage.run(&["x-worker-1"]);
    assert_eq!(stage.said("Running"), "MPIJobRunning: MPIJob d/x is running.");
    stage.end("x-launcher", 0);
    assert_eq!(stage.said("Succeeded"), "MPIJobSucceeded: MPIJob d/x successfully completed.");
}

#[test]
fn an_mpijob_fails_with_its_launcher_or_its_workers() {
    let mut stage = ran(mpi(json!({})));
    stage.end("x-launcher", 1);
    assert_eq!(stage.said("Failed"), "MPIJobFailed: MPIJob d/x has failed");
    let mut evicted = ran(mpi(json!({"cleanPodPolicy": "All"})));
    evicted.world.edit("Pod", "x-worker-1", json!({"status": {"phase": "Failed", "reason": "Evicted"}}));
    evicted.settle();
    assert_eq!(evicted.said("Failed"), "MPIJobEvicted: 1/2 workers are evicted");
    assert!(!evicted.pods().contains(&"x-worker-1".to_owned()), "its own field for the clean-up is heard");
    let mut worker = ran(mpi(json!({})));
    worker.end("x-worker-1", 1);
    assert_eq!(worker.said("Failed"), "MPIJobFailed: MPIJob x is failed because 1 Worker replica(s) failed.");
}

#[test]
fn an_mpi_launcher_with_a_gpu_computes_too() {
    let container = json!([{"name": "m", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]);
    let spec = json!({"mpiReplicaSpecs": {"Launcher": {"template": {"spec": {"containers": container}}}}});
    let stage = mpi(spec);
    assert_eq!(
        stage.world.raw("ConfigMap", "x-config")["data"]["hostfile"],
        "x-launcher slots=1\nx-worker-0 slots=1\nx-worker-1 slots=1\n"
    );
    assert!(!stage.environment("x-launcher").contains_key("NVIDIA_VISIBLE_DEVICES"));
}

#[test]
fn an_mpi_launcher_with_any_vendors_gpu_computes_too() {
    let hosts = |resource: &str| {
        let container = json!([{"name": "m", "image": "i", "resources": {"limits": {resource: "1"}}}]);
        let spec = json!({"mpiReplicaSpecs": {"Launcher": {"template": {"spec": {"containers": container}}}}});
        mpi(spec).world.raw("ConfigMap", "x-config")["data"]["hostfile"].as_str().unwrap().lines().count()
    };
    assert_eq!((hosts("vendor-domain/gpu"), hosts("vendor-domain/resourcetype")), (3, 2));
}

#[test]
fn an_mpi_launcher_keeps_its_own_account_and_its_own_bootstrap() {
    let env = json!([{"name": "I_MPI_HYDRA_BOOTSTRAP", "value": "ssh"}]);
    let template =
        json!({"spec": {"serviceAccountName": "mine", "containers": [{"name": "m", "image": "i", "env": env}]}});
    let stage = mpi(json!({"mpiReplicaSpecs": {"Launcher": {"template": template}}}));
    assert_eq!(stage.pod("x-launcher")["spec"]["serviceAccountName"], "mine");
    assert_eq!(stage.world.raw("RoleBinding", "x-launcher")["subjects"][0]["name"], "mine");
    assert!(stage.world.names("ServiceAccount").is_empty(), "the account is the user's to make");
    let variables = stage.environment("x-launcher");
    assert_eq!(
        (&*variables["I_MPI_HYDRA_BOOTSTRAP"], &*variables["I_MPI_HYDRA_BOOTSTRAP_EXEC"]),
        ("ssh", "/etc/mpi/kubexec.sh")
    );
}

// PT-DEF-3
#[test]
fn an_mpijob_has_the_workers_that_it_asks_for_and_no_other() {
    let mut stage = mpi(json!({"mpiReplicaSpecs": {"Worker": {"replicas": null}}}));
    assert_eq!(stage.pods(), ["x-launcher"]);
    stage.run_all();
    assert_eq!(stage.said("Running"), "MPIJobRunning: MPIJob d/x is running.");
}

#[test]
fn every_kind_suspends_and_ends_by_the_same_rules() {
    let kinds: [(&str, &str, &str); 6] = [
        ("PyTorchJob", "Master", "x-master-0"),
        ("TFJob", "Chief", "x-chief-0"),
        ("MPIJob", "Launcher", "x-launcher"),
        ("XGBoostJob", "Master", "x-master-0"),
        ("PaddleJob", "Master", "x-master-0"),
        ("JAXJob", "Worker", "x-worker-0"),
    ];
    for (kind, leader, pod) in kinds {
        let job = |policy: Value| ran(Stage::of(kind, &[(leader, 1, "Never")], json!({ "runPolicy": policy })));
        let mut stage = job(json!({"ttlSecondsAfterFinished": 7, "cleanPodPolicy": "All"}));
        assert_eq!(stage.pod(pod)["metadata"]["labels"]["training.kubeflow.org/operator-name"], stage.row.component);
        stage.edit(json!({"spec": {"runPolicy": {"suspend": true}}}));
        stage.settle();
        assert_eq!(stage.said("Suspended"), format!("{kind}Suspended: {kind} x is suspended."));
        stage.end(pod, 143);
        stage.edit(json!({"spec": {"runPolicy": {"suspend": false}}}));
        stage.settle();
        stage.run_all();
        assert_eq!(stage.conditions(), ["Created", "Suspended=False", "Running"], "{kind}");
        stage.end(pod, 0);
        assert_eq!(stage.conditions().last().unwrap(), "Succeeded", "{kind}");
        assert!(stage.pods().is_empty(), "{kind}");
        stage.after(7);
        assert!(!stage.exists(), "{kind}");
        let mut late = job(json!({"activeDeadlineSeconds": 3}));
        late.after(3);
        assert!(late.said("Failed").starts_with(&format!("{kind}Failed: Job x has failed")), "{kind}");
    }
}
