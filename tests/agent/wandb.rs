//! W&B's own commands, unmodified: `wandb launch` into our queues and onto our agent, and `wandb launch-agent` on our cluster.

use crate::command::{PATIENCE, finish};
use crate::launch::Launch;
use crate::world::World;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Its programs load for seconds, and its agent looks every ten.
const SLOW: Duration = PATIENCE.saturating_mul(4);
const VOLCANO: &str = include_str!("../../crates/plan/src/check/seeds/000-volcano.yaml");
/// Two ranks of one run; the first logs.
const TRAIN: &str = "\
import os, wandb
rank = int(os.environ.get('RANK', 0))
print('rank', rank, 'of', os.environ.get('WORLD_SIZE', 1), flush=True)
if rank == 0:
    with wandb.init() as run:
        run.log({'loss': 0.5})
";

fn world() -> World {
    let parts = "cluster,operator,server,agent";
    World::start_parts(parts, &["--server-listen", "127.0.0.1:0", "--fake-gpus", "4"])
}

/// The folder of W&B's programs, with all that its agent needs.
fn programs() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/wandb-launch/bin");
    assert!(folder.join("wandb").exists(), "W&B's package is not in {}; run `make setup` first", folder.display());
    folder.canonicalize().unwrap()
}

/// `wandb` in a home of its own, which knows the server as pods do.
struct Wandb<'a> {
    launch: &'a Launch<'a>,
    home: PathBuf,
    url: String,
}

impl<'a> Wandb<'a> {
    fn new(launch: &'a Launch<'a>) -> Wandb<'a> {
        let home = launch.world.folder.path().join("wandb");
        fs::create_dir_all(home.join(".kube")).unwrap();
        fs::copy(launch.world.home.join("kubeconfig"), home.join(".kube/config")).unwrap();
        fs::write(home.join("train.py"), TRAIN).unwrap();
        let path = r#"jsonpath={.items[0].status.addresses[?(@.type=="InternalIP")].address}"#;
        let node = launch.world.kubectl(&["get", "nodes", "-o", path]);
        let port = launch.url.rsplit_once(':').unwrap().1.to_owned();
        Wandb { launch, home, url: format!("http://{}:{port}", node.trim()) }
    }

    fn command(&self, args: &[&str]) -> Command {
        let bin = programs();
        let mut command = Command::new(bin.join("wandb"));
        command.args(args).env_clear().current_dir(&self.home).env("HOME", &self.home).env("LANG", "C.UTF-8");
        command.env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
        command.env("WANDB_BASE_URL", &self.url).env("WANDB_API_KEY", &self.launch.key);
        command
    }

    #[track_caller]
    fn run(&self, args: &[&str]) -> String {
        let output = finish(self.command(args), "");
        assert_eq!(output.code, 0, "wandb {}: {}{}", args.join(" "), output.stdout, output.stderr);
        output.stdout + &output.stderr
    }

    #[track_caller]
    fn refused(&self, args: &[&str]) -> String {
        let output = finish(self.command(args), "");
        assert_ne!(output.code, 0, "wandb {}: {}{}", args.join(" "), output.stdout, output.stderr);
        output.stdout + &output.stderr
    }

    /// Runs `python` on the script of this home, in a pod that sees the machine's files.
    fn entry_point(&self) -> String {
        format!("{}/python {}", programs().display(), self.home.join("train.py").display())
    }
}

/// The item of a queue whose spec has this word in a field.
fn with(launch: &Launch<'_>, queue: &str, field: &str, word: &str) -> Option<String> {
    let items: Value = serde_json::from_str(&launch.world.volley(&["ps", "-a", "-q", queue, "-o", "json"])).unwrap();
    let mut numbers = items.as_array().unwrap().iter().map(|item| item["number"].to_string());
    numbers.find(|number| launch.item(number).spec[field].as_str().is_some_and(|text| text.contains(word)))
}

// Y-2, T-5, L-6, K-39, W-1
#[test]
fn what_wandb_launch_puts_into_a_queue_runs_here() {
    let world = world();
    let launch = Launch::on(&world).patiently(SLOW);
    let wandb = Wandb::new(&launch);
    launch.write(
        "gpus.yaml",
        "resource: kubernetes\nprioritization: true\nconfig:\n  spec:\n    template:\n      spec:\n        \
        containers:\n          - image: ${image_uri}\n            resources: {limits: {nvidia.com/gpu: '{{gpus}}'}}\n",
    );
    world.volley(&["queue", "create", "gpus", "-f", "gpus.yaml", "--var", "gpus=integer,min=1,max=4,default=1"]);
    let entity = launch.entity.as_str();
    let base = ["launch", "-d", "host", "-p", "p", "-e", entity, "-q"];
    let script = "sh -c 'echo gpus=$CUDA_VISIBLE_DEVICES'";
    let given =
        [&base[..], &["gpus", "--name", "two", "--set-var", "gpus=2", "--priority", "high", "-E", script]].concat();
    wandb.run(&given);
    let item = launch.until_end(&with(&launch, "gpus", "name", "two").unwrap());
    assert_eq!((item.end.as_deref(), item.priority), (Some("finished"), 1), "{item:#?}");
    let line = launch.lines(&item).remove(0);
    assert_eq!(line.split(',').count(), 2, "{line}");
    for (value, why) in [("gpus=0", "at least 1"), ("gpus=5", "at most 4"), ("gpus=two", "gpus"), ("cards=1", "cards")]
    {
        let told = wandb.refused(&[&base[..], &["gpus", "--set-var", value]].concat());
        assert!(told.contains(why), "{value}: {told}");
    }

    // The tutorial's last step: the whole config, with one more worker.
    launch.write("volcano.yaml", VOLCANO);
    world.volley(&["queue", "create", "volcano", "--resource", "kubernetes", "-f", "volcano.yaml"]);
    let worker = VOLCANO.find("- name: worker").unwrap();
    let more =
        VOLCANO[worker..].replacen("replicas: 1", "replicas: 2", 1).replace("minAvailable: 1", "minAvailable: 3");
    let more: Value = serde_saphyr::from_str(&format!("{}{more}", &VOLCANO[..worker])).unwrap();
    fs::write(wandb.home.join("more.json"), json!({ "kubernetes": more }).to_string()).unwrap();
    let entry_point = wandb.entry_point();
    wandb.run(&[&base[..], &["volcano", "--name", "three", "-R", "more.json", "-E", &entry_point]].concat());
    let item = launch.until_end(&with(&launch, "volcano", "name", "three").unwrap());
    assert_eq!(item.end.as_deref(), Some("finished"), "{item:#?}");
    let lines = launch.lines(&item);
    for rank in 0..3 {
        assert!(lines.iter().any(|line| line.ends_with(&format!("rank {rank} of 3"))), "{lines:?}");
    }
    assert_eq!(launch.run_state(&item), "finished");

    // A sweep with its scheduler is taken in.
    let sweep = json!({ "method": "grid", "metric": { "name": "loss", "goal": "minimize" },
        "parameters": { "lr": { "values": [1, 2] } }, "image_uri": "host", "launch": { "queue": "gpus" } });
    fs::write(wandb.home.join("sweep.yaml"), sweep.to_string()).unwrap();
    let told = wandb.run(&["launch-sweep", "sweep.yaml", "-q", "gpus", "-p", "p", "-e", entity]);
    assert!(told.contains("Scheduler added to launch queue (gpus)"), "{told}");
    let scheduler = with(&launch, "gpus", "uri", "placeholder-uri-scheduler").unwrap();
    // Whether it can run depends on whether this machine has W&B's client.
    world.volley(&["stop", &scheduler]);
    launch.until_end(&scheduler);
}

/// `wandb launch-agent` as a process.
struct TheirAgent {
    child: Child,
    told: PathBuf,
}

impl TheirAgent {
    fn start(wandb: &Wandb<'_>, queues: &[&str]) -> TheirAgent {
        let told = wandb.home.join("agent.out");
        let file = fs::File::create(&told).unwrap();
        let mut args = vec!["launch-agent", "-e", &wandb.launch.entity, "-j", "4", "-l", "-"];
        queues.iter().for_each(|queue| args.extend(["-q", queue]));
        let mut command = wandb.command(&args);
        let child = command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        TheirAgent { child, told }
    }
}

impl Drop for TheirAgent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("{}", fs::read_to_string(&self.told).unwrap_or_default());
        }
    }
}

// A-12, A-13, A-14, K-35, K-36, L-28
#[test]
fn wandbs_own_agent_serves_our_queues_on_our_cluster() {
    let world = world();
    let launch = Launch::on(&world).patiently(SLOW);
    let wandb = Wandb::new(&launch);
    world.kubectl(&["create", "namespace", "wandb"]);
    launch.write("plain.yaml", "spec: {template: {spec: {containers: [{name: main, image: '${image_uri}'}]}}}\n");
    for (queue, text) in [("theirs", "plain.yaml"), ("volcano", "volcano.yaml")] {
        launch.write("volcano.yaml", VOLCANO);
        world.volley(&["queue", "create", queue, "--resource", "kubernetes", "-f", text]);
    }
    let _agent = TheirAgent::start(&wandb, &["theirs", "volcano"]);
    // Ours lets go of what it was told by name.
    let began = Instant::now();
    let has = |queue: &str| launch.agents(queue) == [["theirs".to_owned(), "volcano".to_owned()]];
    while !(has("theirs") && has("volcano")) {
        assert!(
            began.elapsed() < SLOW,
            "W&B's agent does not have the queues for itself: {:?}",
            launch.agents("theirs")
        );
        std::thread::park_timeout(Duration::from_millis(50));
    }
    let entry_point = wandb.entry_point();
    let job = launch.volley(&["-q", "theirs", "-n", "job", "-E", &entry_point]);
    let base = ["launch", "-d", "host", "-p", "p", "-e", launch.entity.as_str(), "-q", "volcano", "--name", "gang"];
    wandb.run(&[&base[..], &["-E", &entry_point]].concat());
    let gang = with(&launch, "volcano", "name", "gang").unwrap();
    for item in [job, gang] {
        let item = launch.until_end(&item);
        assert_eq!(item.end.as_deref(), Some("finished"), "{item:#?}");
        assert_eq!(launch.run_state(&item), "finished");
    }
}
