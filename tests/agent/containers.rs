//! Launches as containers of a real engine, Podman's, in a home of its own.

use crate::command::eventually;
use crate::launch::{Launch, selector};
use crate::world::World;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use volley_client::items::Item;

const IMAGE: &str = "localhost/volley-test:1";

/// Podman's service, which speaks Docker's API.
struct Podman {
    folder: PathBuf,
    service: Option<Child>,
}

impl Podman {
    fn start(folder: &Path) -> Podman {
        let folder = folder.join("podman");
        fs::create_dir_all(&folder).unwrap();
        // The tests' own limits: as root, Podman asks for more than a machine may give. Nothing is asked of a registry.
        let settings = "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=4096:4096\"]\n";
        fs::write(folder.join("containers.conf"), settings).unwrap();
        fs::write(folder.join("registries.conf"), "unqualified-search-registries = []\n").unwrap();
        let mut podman = Podman { folder, service: None };
        podman.make_image();
        let socket = format!("unix://{}", podman.socket().display());
        let mut command = podman.command(&["system", "service", "--time", "0", &socket]);
        let log = fs::File::create(podman.folder.join("log")).unwrap();
        podman.service = Some(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
        eventually("podman answers", || podman.socket().exists().then_some(()));
        podman
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("engine.sock")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("podman");
        command.arg("--root").arg(self.folder.join("root")).arg("--runroot").arg(self.folder.join("run"));
        command.args(["--storage-driver", "vfs", "--cgroup-manager", "cgroupfs", "--runtime", "runc"]).args(words);
        command.env("CONTAINERS_CONF", self.folder.join("containers.conf"));
        command.env("CONTAINERS_REGISTRIES_CONF", self.folder.join("registries.conf")).env("TMPDIR", &self.folder);
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, words: &[&str]) -> String {
        let output = self.command(words).output().unwrap();
        assert!(output.status.success(), "podman {words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// An image of one program that is many.
    fn make_image(&self) {
        let root = self.folder.join("image");
        fs::create_dir_all(root.join("bin")).unwrap();
        fs::create_dir_all(root.join("tmp")).unwrap();
        let busybox = Command::new("sh").args(["-c", "command -v busybox"]).output().unwrap();
        fs::copy(String::from_utf8(busybox.stdout).unwrap().trim(), root.join("bin/busybox")).unwrap();
        for name in ["sh", "echo", "sleep", "test", "cat", "true", "pwd", "env"] {
            std::os::unix::fs::symlink("busybox", root.join("bin").join(name)).unwrap();
        }
        let archive = self.folder.join("image.tar");
        assert!(Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&archive).arg(".").status().unwrap().success());
        self.run(&[
            "import",
            "--change",
            "ENTRYPOINT [\"/bin/echo\",\"the image's own\"]",
            archive.to_str().unwrap(),
            IMAGE,
        ]);
    }

    fn containers(&self) -> Vec<String> {
        let list = self.run(&["ps", "-a", "-q"]);
        list.lines().map(str::to_owned).collect()
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        let _ = self.command(&["rm", "-f", "-a", "-t", "0"]).output();
        if let Some(mut service) = self.service.take() {
            let _ = service.kill();
            let _ = service.wait();
        }
    }
}

/// `volley agent` of the queue `engine`.
struct Agent(Child);

impl Agent {
    fn start(launch: &Launch<'_>, podman: &Podman, settings: &str) -> Agent {
        let home = launch.world.folder.path().join("agent");
        fs::create_dir_all(home.join(".config/wandb")).unwrap();
        fs::write(home.join(".config/wandb/launch-config.yaml"), settings).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_volley"));
        command.arg("--home").arg(&home).args(["agent", "-q", "engine", "-j", "8", "--url", &launch.url]);
        command.env("VOLLEY_API_KEY", &launch.key).env("KUBECONFIG", home.join("none"));
        command.env("DOCKER_HOST", format!("unix://{}", podman.socket().display()));
        command.env("HOME", &home).env_remove("WANDB_API_KEY").env_remove("WANDB_BASE_URL").env_remove("WANDB_ENTITY");
        command.env("GIT_SSH_COMMAND", crate::processes::ssh(launch.world.folder.path()));
        Agent(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const SETTINGS: &str = "stopped_run_timeout: 1\n";

fn world() -> World {
    World::start_parts("cluster,server", &["--server-listen", "127.0.0.1:0"])
}

fn on<'a>(world: &'a World, config: &Value) -> Launch<'a> {
    let launch = Launch::on(world);
    launch.make_queue_of("engine", "local-container", config);
    launch
}

fn spec(launch: &Launch<'_>, more: &Value) -> Value {
    let mut spec = json!({ "entity": launch.entity, "project": "p", "resource": "local-container",
        "docker": { "docker_image": IMAGE } });
    for (name, value) in more.as_object().unwrap() {
        spec[name] = value.clone();
    }
    spec
}

fn push(launch: &Launch<'_>, script: &str) -> String {
    launch.push_spec("engine", &spec(launch, &json!({ "overrides": { "entry_point": ["sh", "-c", script] } })))
}

fn message(item: &Item) -> String {
    item.error.as_ref().map(|error| error.message.clone()).unwrap_or_default()
}

// C-4, C-5, C-6, C-8, C-9, C-10, LA-Q-3
#[test]
fn containers_run_to_their_end_and_say_how() {
    let world = world();
    let podman = Podman::start(world.folder.path());
    let launch = on(&world, &json!({ "env": ["OF_QUEUE=yes"], "rm": true }));
    let _agent = Agent::start(&launch, &podman, SETTINGS);
    let good = push(&launch, "echo one; echo two >&2; echo $OF_QUEUE $WANDB_RUN_ID; test -n \"$WANDB_API_KEY\"");
    let own = launch.push_spec("engine", &spec(&launch, &json!({ "overrides": { "args": ["and", "a word"] } })));
    let bad = push(&launch, "echo about to fail; exit 3");
    let missing =
        launch.push_spec("engine", &spec(&launch, &json!({ "docker": { "docker_image": "localhost/none:1" } })));
    let unknown =
        spec(&launch, &json!({ "resource_args": { "local-container": { "wings": 2, "volume": "/:/host" } } }));
    let unknown = launch.push_spec("engine", &unknown);
    let absent = launch.push_spec("engine", &spec(&launch, &json!({ "overrides": { "entry_point": ["/no/such"] } })));
    let item = launch.until_end(&good);
    assert_eq!((item.end.as_deref(), item.exit_code), (Some("finished"), Some(0)), "{item:#?}");
    let mut lines = launch.lines(&item);
    lines.sort();
    assert_eq!(lines, ["one".to_owned(), "two".to_owned(), format!("yes {}", item.run.clone().unwrap().name)]);
    let item = launch.until_end(&own);
    assert_eq!(launch.lines(&item), ["the image's own and a word"]);
    let item = launch.until_end(&bad);
    assert_eq!((item.end.as_deref(), item.exit_code), (Some("failed"), Some(3)), "{item:#?}");
    assert!(message(&item).contains("exit code 3; its last lines:\nabout to fail"), "{}", message(&item));
    let item = launch.until_end(&missing);
    assert!(message(&item).contains("image `localhost/none:1` cannot be pulled"), "{}", message(&item));
    let item = launch.until_end(&unknown);
    assert!(message(&item).contains("`wings`") && message(&item).contains("`volume`"), "{}", message(&item));
    let item = launch.until_end(&absent);
    assert!(message(&item).contains("/no/such"), "{}", message(&item));
    eventually("all containers are removed", || podman.containers().is_empty().then_some(()));
}

// L-31, L-33, C-10
#[test]
fn containers_outlive_their_agent_and_end_before_a_stop_is_told() {
    let world = world();
    let podman = Podman::start(world.folder.path());
    let launch = on(&world, &json!({}));
    let agent = Agent::start(&launch, &podman, SETTINGS);
    let long = push(&launch, "echo first; while ! test -e /tmp/go; do sleep 0.05; done; echo last; exit 5");
    let stopped = push(&launch, "trap '' TERM; echo up; while :; do sleep 0.05; done");
    let removed = push(&launch, "echo up; sleep 1000");
    for (id, line) in [(&long, "first"), (&stopped, "up"), (&removed, "up")] {
        launch.until(id, "its line is there", |item| item.run.is_some() && launch.lines(item) == [line]);
    }
    let container =
        |id: &str| podman.run(&["ps", "-a", "-q", "--filter", &format!("label={}", selector(&launch.item(id)))]);
    agent.kill();
    podman.run(&["exec", &container(&long), "sh", "-c", "echo >/tmp/go"]);
    launch.stop(&stopped);
    let _agent = Agent::start(&launch, &podman, SETTINGS);
    let item = launch.until_end(&long);
    assert_eq!((item.end.as_deref(), item.exit_code, item.attempt), (Some("failed"), Some(5), 1), "{item:#?}");
    assert_eq!(launch.lines(&item), ["first", "last"]);
    let item = launch.until_end(&stopped);
    assert_eq!(item.end.as_deref(), Some("stopped"), "{item:#?}");
    let running = podman.run(&["ps", "-q", "--filter", "status=running", "--no-trunc"]);
    assert!(!container(&stopped).lines().any(|id| running.contains(id)), "it does not run when it is told");
    podman.run(&["rm", "-f", "-t", "0", &container(&removed)]);
    let item = launch.until_end(&removed);
    assert!(message(&item).contains("removed by somebody"), "{}", message(&item));
    eventually("all containers are removed", || podman.containers().is_empty().then_some(()));
}

// C-7, B-1, B-2, B-4, J-7
#[test]
fn code_is_mounted_or_built_into_an_image() {
    let world = world();
    let podman = Podman::start(world.folder.path());
    let launch = on(&world, &json!({ "builder": { "base_image": IMAGE } }));
    let repository = world.folder.path().join("repository");
    fs::create_dir_all(repository.join("docker")).unwrap();
    fs::write(repository.join("train.sh"), "echo trains in $PWD with $1\n").unwrap();
    fs::write(repository.join("docker/File"), format!("FROM {IMAGE}\nCOPY train.sh /code/train.sh\nWORKDIR /code\n"))
        .unwrap();
    fs::write(repository.join("docker/Broken"), format!("FROM {IMAGE}\nRUN echo it breaks; exit 7\n")).unwrap();
    let (remote, commit) = crate::processes::commit(&repository);
    let job = json!({ "_version": "v0", "source_type": "repo", "source": { "git": { "remote": remote, "commit": commit },
        "entrypoint": ["sh", "train.sh"] } });
    let job = launch.make_job("train", &job);
    let push = |dockerfile: Option<&str>| {
        let mut overrides = json!({ "args": ["a word"] });
        if let Some(dockerfile) = dockerfile {
            overrides["dockerfile"] = dockerfile.into();
        }
        let spec = json!({ "entity": launch.entity, "project": "p", "resource": "local-container", "job": job, "overrides": overrides });
        launch.push_spec("engine", &spec)
    };
    let agent = Agent::start(&launch, &podman, SETTINGS);
    let item = launch.until_end(&push(None));
    assert_eq!(launch.lines(&item), ["trains in /mnt/wandb with a word"], "{item:#?}");
    let item = launch.until_end(&push(Some("docker/File")));
    assert!(message(&item).contains("builder.type: docker"), "{}", message(&item));
    agent.kill();
    let _agent = Agent::start(&launch, &podman, "stopped_run_timeout: 1\nbuilder: {type: docker}\n");
    for _ in 0..2 {
        let item = launch.until_end(&push(Some("docker/File")));
        assert_eq!(launch.lines(&item), ["trains in /code with a word"], "{item:#?}");
    }
    let images = podman.run(&["images", "-q", "localhost/train"]);
    assert_eq!(images.lines().count(), 1, "it is built once: {images}");
    let item = launch.until_end(&push(Some("docker/Broken")));
    assert!(message(&item).contains("cannot be built") && message(&item).contains("it breaks"), "{}", message(&item));
    assert_eq!(item.error.as_ref().map(|error| error.stage.as_str()), Some("build"), "{item:#?}");
    let item = launch.until_end(&push(Some("docker/None")));
    assert!(message(&item).contains("no file `docker/None`"), "{}", message(&item));
}
