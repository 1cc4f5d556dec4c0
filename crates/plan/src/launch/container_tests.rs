//! Cases of what a container engine is asked for.

use super::super::fixtures::{order, station};
use super::*;
use crate::launch::environment::Given;

fn launched(config: Value) -> Result<Request, Vec<Refusal>> {
    render(&order(config), &station(), &mut Vec::new())
}

fn queued(config: Value, station: &Station) -> Result<Request, Vec<Refusal>> {
    let mut order = order(config.clone());
    order.queue_config = Some(config);
    render(&order, station, &mut Vec::new())
}

// C-1, C-2, C-4, C-9, C-10, X-2
#[test]
fn options_become_a_request_to_the_engine() {
    let request = launched(json!({"--gpus": 2, "Shm_Size": "8g", "memory": "1.5G", "cpus": "1.5", "pids-limit": 10,
        "ulimit": ["nofile=10:20", "core=0"], "env": ["A=1", "B", "WANDB_RUN_ID=mine", "WANDB_PROJECT=own"],
        "workdir": "/w", "name": "n-${run_id}", "cpuset-cpus": "0-3", "platform": "linux/arm64",
        "builder": {"accelerator": {}}}))
    .unwrap();
    assert_eq!(request.name, "n-ab12cd34");
    assert_eq!(request.gpus, Gpus::Count(2));
    assert_eq!(
        request.host,
        json!({"ShmSize": 8_589_934_592_i64, "Memory": 1_610_612_736_i64, "NanoCpus": 1_500_000_000_i64, "PidsLimit": 10,
            "CpusetCpus": "0-3",
            "Ulimits": [{"Name": "nofile", "Soft": 10, "Hard": 20}, {"Name": "core", "Soft": 0, "Hard": 0}]})
    );
    let value = |name: &str| request.variables.iter().find(|own| own.name == name).unwrap().value.clone();
    assert_eq!(value("A"), Given::Text("1".into()));
    assert_eq!(value("WANDB_RUN_ID"), Given::Text("ab12cd34".into()));
    assert_eq!(value("WANDB_PROJECT"), Given::Text("own".into()));
    assert_eq!(value("WANDB_API_KEY"), Given::ApiKey);
    assert_eq!(request.passed_on, ["B"]);
    assert_eq!((request.working_dir.as_deref(), request.platform.as_deref()), (Some("/w"), Some("linux/arm64")));
}

// C-1, C-2, C-3
#[test]
fn a_submitter_uses_only_what_stays_in_the_container() {
    for (config, path) in [
        (json!({"volume": "/:/host"}), "volume"),
        (json!({"privileged": "true"}), "privileged"),
        (json!({"net": "host"}), "net"),
        (json!({"nonsense": 1}), "nonsense"),
        (json!({"memory": true}), "memory"),
        (json!({"cpus": ["1"]}), "cpus"),
        (json!({"env": []}), "env"),
        (json!({"memory": "much"}), "memory"),
        (json!({"gpus": "many"}), "gpus"),
        (json!({"env": "WANDB_API_KEY"}), "env"),
    ] {
        let refusals = launched(config.clone()).unwrap_err();
        assert_eq!(refusals.iter().map(|refusal| refusal.path.as_str()).collect::<Vec<_>>(), [path], "{config}");
    }
    let both = launched(json!({"volume": "/:/x", "nonsense": 1})).unwrap_err();
    assert_eq!(both.len(), 2, "all problems are told at once");
    assert!(both[0].hint.contains("cpuset-cpus"), "{}", both[0].hint);
}

// C-3, LA-Q-2, LA-Q-3
#[test]
fn an_admin_uses_what_the_agent_allows() {
    let mut station = station();
    station.volume_prefixes = vec!["/data".into()];
    let config = json!({"volume": ["/data/a:/a", "named:/b"], "rm": true, "net": "bridge", "builder": {}});
    let request = queued(config, &station).unwrap();
    assert_eq!(request.host["Binds"], json!(["/data/a:/a", "named:/b"]));
    for wrong in [json!({"volume": "/database:/x"}), json!({"volume": "/data/../etc:/x"}), json!({"net": "host"})] {
        assert_eq!(queued(wrong, &station).unwrap_err()[0].rule, "C-3");
    }
    assert_eq!(queued(json!({"privileged": true}), &station).unwrap_err()[0].rule, "C-1");
    let more = json!({"label": ["a=b", "volley.dev/item=mine"], "user": "1000", "tmpfs": "/run:size=1m", "rm": true,
        "entrypoint": "sh -c", "cap-drop": ["ALL"]});
    let request = queued(more, &station).unwrap();
    assert_eq!((&request.labels["a"], &request.own["User"]), (&json!("b"), &json!("1000")));
    assert_ne!(request.labels["volley.dev/item"], "mine");
    assert_eq!(request.host["Tmpfs"], json!({"/run": "size=1m"}));
    assert_eq!(request.entry_point, ["sh", "-c"]);
    station.policy = Privileged;
    let more = json!({"device": "/dev/fuse", "sysctl": ["a.b=1"]});
    let request = queued(more, &station).unwrap();
    assert_eq!(request.host["Devices"][0]["PathInContainer"], "/dev/fuse");
    assert_eq!(request.host["Sysctls"], json!({"a.b": "1"}));
    assert!(queued(json!({"privileged": true, "volume": "/etc:/etc", "net": "host"}), &station).is_ok());
}

// C-5, C-6, C-7, C-8
#[test]
fn the_launchs_own_command_wins() {
    let mut order = order(json!({}));
    order.job =
        Some(crate::launch::order::Job { entry_point: vec!["python".into(), "a.py".into()], ..Default::default() });
    order.spec.overrides.args = vec!["--a".into()];
    let mut station = station();
    let request = render(&order, &station, &mut Vec::new()).unwrap();
    assert_eq!((request.entry_point.join(" "), request.command.join(" ")), ("python a.py".into(), "--a".into()));
    order.spec.overrides.entry_point = vec!["sh".into()];
    station.base_url = "http://localhost:8080".into();
    let request = render(&order, &station, &mut Vec::new()).unwrap();
    assert_eq!(request.entry_point, ["sh"]);
    assert_eq!(request.host["NetworkMode"], "host");
    assert_eq!(request.code_folder, None);
    order.image = None;
    assert_eq!(render(&order, &station, &mut Vec::new()).unwrap_err()[0].rule, "C-6");
}

// C-11
#[test]
fn launches_share_the_machines_gpus() {
    let free: Vec<String> = ["1", "3"].map(str::to_owned).into();
    assert_eq!(allocate(&Gpus::None, &free), Ok(vec![]));
    assert_eq!(allocate(&Gpus::Count(2), &free), Ok(free.clone()));
    assert_eq!(allocate(&Gpus::Count(3), &free), Err("3 GPUs are asked for and 2 are free".into()));
    assert_eq!(allocate(&Gpus::Devices(vec!["3".into()]), &free), Ok(vec!["3".into()]));
    assert!(allocate(&Gpus::Devices(vec!["0".into()]), &free).is_err());
    assert_eq!(gpus("all"), Some(Gpus::All));
    assert_eq!(gpus("device=0,1"), Some(Gpus::Devices(vec!["0".into(), "1".into()])));
}
