//! One volley in a home of its own, and what a test does with it: kubectl, questions to the API, waiting.
//!
//! Dropping a `World` brings volley down and, unless the test has failed already, fails it when anything is left.

use crate::command::{Output, PATIENCE, Running, eventually, finish};
use crate::http::{Answer, Request};
use crate::installed::{Kubectl, newest};
use crate::traces::Traces;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const POLL: Duration = Duration::from_millis(25);
/// The user of the tests without root.
pub const NOBODY: u32 = 65534;

pub struct World {
    pub folder: TempDir,
    pub home: PathBuf,
    parts: &'static str,
    flags: Vec<String>,
    is_root: bool,
    door: RefCell<Door>,
    traces: RefCell<Traces>,
    is_down: bool,
}

/// Where the API answers, and to whom.
#[derive(Default, Clone)]
struct Door {
    address: String,
    token: String,
}

impl World {
    pub fn start(flags: &[&str]) -> World {
        World::start_parts("cluster", flags)
    }

    /// Starts these parts of volley.
    pub fn start_parts(parts: &'static str, flags: &[&str]) -> World {
        World::start_as(true, parts, flags)
    }

    /// Starts volley as root, or as an ordinary user.
    pub fn start_as(is_root: bool, parts: &'static str, flags: &[&str]) -> World {
        let own = fs::read_to_string("/proc/self/status").unwrap();
        assert!(own.contains("\nUid:\t0\t0\t"), "these tests start containers as root: run them as root");
        // Not in /tmp: without root, a machine's folder is shown entry by entry when somebody's mounts are below it, and
        // that one may have thousands.
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let home = folder.path().join("home");
        fs::create_dir_all(folder.path().join("user")).unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        if !is_root {
            for folder in [folder.path().to_owned(), folder.path().join("user")] {
                chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
        let traces = RefCell::new(Traces::new(&home));
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let mut world = World { folder, home, parts, flags, is_root, door: RefCell::default(), traces, is_down: true };
        world.up();
        world
    }

    pub fn up(&mut self) {
        let flags: Vec<&str> = self.flags.iter().map(String::as_str).collect();
        let args = [&["up", "--only", self.parts, "--listen", "127.0.0.1:0"], flags.as_slice()].concat();
        self.is_down = false;
        self.volley(&args);
        let kubeconfig = fs::read_to_string(self.home.join("kubeconfig")).unwrap();
        let address = kubeconfig.lines().find_map(|line| line.trim().strip_prefix("server: https://")).unwrap();
        let token = fs::read_to_string(self.home.join("pki/admin.token")).unwrap();
        *self.door.borrow_mut() = Door { address: address.to_owned(), token: token.trim().to_owned() };
    }

    /// The program's own command line in this home.
    pub fn volley_command(&self, args: &[&str]) -> Command {
        let program = env!("CARGO_BIN_EXE_volley");
        let mut command = match self.is_root {
            true => Command::new(program),
            false => {
                let mut command = Command::new("setpriv");
                let user = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
                command.args(user).args(["--clear-groups", "--inh-caps=-all", program]);
                command
            }
        };
        command.args(args).env("VOLLEY_HOME", &self.home).env("HOME", self.folder.path().join("user"));
        command.env_remove("KUBECONFIG").env_remove("RUST_LOG").env_remove("DOCKER_CONFIG");
        command.current_dir(self.folder.path());
        command
    }

    /// What a successful verb prints.
    #[track_caller]
    pub fn volley(&self, args: &[&str]) -> String {
        let output = finish(self.volley_command(args), "");
        assert_eq!(output.code, 0, "volley {}: {}{}\n{}", args.join(" "), output.stdout, output.stderr, self.log());
        output.stdout
    }

    /// The end of volley's own log.
    pub fn log(&self) -> String {
        let text = fs::read_to_string(self.home.join("volley.log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    pub fn pid(&self) -> u32 {
        let status: Value = serde_json::from_str(&self.volley(&["status", "-o", "json"])).unwrap();
        u32::try_from(status["pid"].as_u64().unwrap()).unwrap()
    }

    /// SIGKILL to the server; pods go on without it.
    pub fn kill(&self) {
        self.end("-9");
    }

    /// Sends the server a signal that ends it.
    pub fn end(&self, signal: &str) {
        let pid = self.pid().to_string();
        self.note();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        eventually("the process is gone", || (!Path::new("/proc").join(&pid).join("ns/mnt").exists()).then_some(()));
    }

    pub fn down(&mut self) {
        self.note();
        self.is_down = true;
        self.volley(&["down"]);
    }

    /// Notes what the volley has on the machine now, to look for it at the end.
    pub fn note(&self) {
        let pods = self.ask("GET", "/api/v1/pods", None).map(|answer| answer.json()).unwrap_or_default();
        let pods = pods["items"].as_array().cloned().unwrap_or_default();
        let addresses: Vec<_> = pods.iter().filter_map(|pod| pod["status"]["podIP"].as_str()?.parse().ok()).collect();
        self.traces.borrow_mut().note(&addresses);
    }

    pub fn traces(&self) -> std::cell::Ref<'_, Traces> {
        self.traces.borrow()
    }

    pub fn kubectl_with(&self, kubectl: &Kubectl, args: &[&str]) -> Command {
        let mut command = Command::new(&kubectl.path);
        command.args(args).current_dir(self.folder.path());
        command.env("KUBECONFIG", self.home.join("kubeconfig")).env("HOME", self.folder.path().join("user"));
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        finish(self.kubectl_with(newest(), args), "")
    }

    /// What a successful kubectl prints.
    #[track_caller]
    pub fn kubectl(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.code, 0, "kubectl {}: {}{}", args.join(" "), output.stdout, output.stderr);
        output.stdout
    }

    /// What a failing kubectl says.
    #[track_caller]
    pub fn kubectl_fails(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_ne!(output.code, 0, "kubectl {}: {}{}", args.join(" "), output.stdout, output.stderr);
        output.stderr
    }

    /// A kubectl that goes on while the test does.
    pub fn start_kubectl(&self, args: &[&str]) -> Running {
        Running::start(self.kubectl_with(newest(), args))
    }

    #[track_caller]
    pub fn apply(&self, yaml: &str) -> String {
        let output = finish(self.kubectl_with(newest(), &["apply", "-f", "-"]), yaml);
        assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
        output.stdout
    }

    /// A script in a pod's first container.
    pub fn exec(&self, pod: &str, script: &str) -> Output {
        self.run(&["exec", pod, "--", "sh", "-c", script])
    }

    pub fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> io::Result<Answer> {
        self.ask_for("application/json", method, path, body)
    }

    fn ask_for(&self, accept: &str, method: &str, path: &str, body: Option<&Value>) -> io::Result<Answer> {
        let Door { address, token } = self.door.borrow().clone();
        let bearer = format!("Bearer {token}");
        let headers = [("Authorization", bearer.as_str()), ("Accept", accept), ("Content-Type", "application/json")];
        let body = body.map(Value::to_string).unwrap_or_default();
        Request { address: &address, method, path, headers: &headers, body: body.as_bytes() }.send()
    }

    #[track_caller]
    pub fn create(&self, object: &Value) -> Value {
        let path = match object["kind"].as_str().unwrap_or("Pod") {
            "Pod" => "/api/v1/namespaces/default/pods",
            "Job" => "/apis/batch/v1/namespaces/default/jobs",
            "Service" => "/api/v1/namespaces/default/services",
            "ConfigMap" => "/api/v1/namespaces/default/configmaps",
            "Secret" => "/api/v1/namespaces/default/secrets",
            other => panic!("no path is known for a {other}"),
        };
        let answer = self.ask("POST", path, Some(object)).unwrap();
        assert_eq!(answer.code, 201, "{}", answer.text());
        answer.json()
    }

    #[track_caller]
    pub fn delete(&self, pod: &str, grace_s: u32) {
        let path = format!("/api/v1/namespaces/default/pods/{pod}");
        let answer = self.ask("DELETE", &path, Some(&json!({"gracePeriodSeconds": grace_s}))).unwrap();
        assert!(answer.code < 300, "{}", answer.text());
    }

    /// The pod, or null when there is none.
    pub fn pod(&self, name: &str) -> Value {
        let answer = self.ask("GET", &format!("/api/v1/namespaces/default/pods/{name}"), None);
        answer.ok().filter(|answer| answer.code == 200).map(|answer| answer.json()).unwrap_or_default()
    }

    pub fn pods(&self) -> Vec<Value> {
        let list = self.ask("GET", "/api/v1/namespaces/default/pods", None).map(|answer| answer.json());
        list.ok().and_then(|list| list["items"].as_array().cloned()).unwrap_or_default()
    }

    #[track_caller]
    pub fn until_pod(&self, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let pod = self.pod(name);
            if is_so(&pod) {
                return pod;
            }
            if Instant::now() > deadline {
                panic!(
                    "pod {name}: {what} in vain: {}\nevents {:#?}\n{}",
                    pod["status"],
                    self.events(name),
                    self.log()
                );
            }
            std::thread::park_timeout(POLL);
        }
    }

    #[track_caller]
    pub fn until_phase(&self, name: &str, phase: &str) -> Value {
        self.until_pod(name, phase, |pod| pod["status"]["phase"] == phase)
    }

    #[track_caller]
    pub fn until_ready(&self, name: &str) -> Value {
        self.until_pod(name, "Ready", |pod| condition(pod, "Ready")["status"] == "True")
    }

    #[track_caller]
    pub fn until_gone(&self, name: &str) {
        self.until_pod(name, "gone", Value::is_null);
    }

    /// The word in `kubectl get pod`'s STATUS column.
    pub fn word(&self, name: &str) -> String {
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let path = format!("/api/v1/namespaces/default/pods/{name}");
        let table = self.ask_for(accept, "GET", &path, None).map(|answer| answer.json()).unwrap_or_default();
        table["rows"][0]["cells"][2].as_str().unwrap_or_default().to_owned()
    }

    #[track_caller]
    pub fn until_word(&self, name: &str, word: &str) {
        let deadline = Instant::now() + PATIENCE;
        let mut last = String::new();
        while last != word {
            if Instant::now() > deadline {
                let (status, events) = (self.pod(name)["status"].clone(), self.events(name));
                panic!("pod {name} is {last}, not {word}: {status}\nevents {events:#?}\n{}", self.log());
            }
            std::thread::park_timeout(POLL);
            last = self.word(name);
        }
    }

    pub fn logs(&self, pod: &str) -> String {
        self.logs_of(pod, "")
    }

    /// A pod's log; `query` is what kubectl's flags become.
    pub fn logs_of(&self, pod: &str, query: &str) -> String {
        let path = format!("/api/v1/namespaces/default/pods/{pod}/log?{query}");
        self.ask("GET", &path, None).map(|answer| answer.text()).unwrap_or_default()
    }

    #[track_caller]
    pub fn until_logged(&self, pod: &str, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let logs = self.logs(pod);
            if logs.contains(text) {
                return logs;
            }
            if Instant::now() > deadline {
                panic!("pod {pod} does not print {text:?} but {logs:?}: {}\n{}", self.pod(pod)["status"], self.log());
            }
            std::thread::park_timeout(POLL);
        }
    }

    /// Runs pods to their end and gives what the only one printed.
    #[track_caller]
    pub fn finished(&self, pod: &Value) -> String {
        self.create(pod);
        let name = pod["metadata"]["name"].as_str().unwrap();
        self.until_phase(name, "Succeeded");
        self.logs(name)
    }

    /// Reason and message of a pod's events, oldest first.
    pub fn events(&self, object: &str) -> Vec<(String, String)> {
        let path = format!("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3D{object}");
        let list = self.ask("GET", &path, None).map(|answer| answer.json()).unwrap_or_default();
        let mut items = list["items"].as_array().cloned().unwrap_or_default();
        let revision = |event: &Value| event["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
        items.sort_by_key(|event| revision(event).unwrap_or(0_u64));
        let text = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
        items.iter().map(|event| (text(event, "reason"), text(event, "message"))).collect()
    }

    #[track_caller]
    pub fn until_event(&self, object: &str, reason: &str, part: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let events = self.events(object);
            let found = events.iter().find(|(known, message)| known == reason && message.contains(part));
            if let Some((_, message)) = found {
                return message.clone();
            }
            if Instant::now() > deadline {
                panic!("no event {reason} with {part:?}: {events:#?}\n{}", self.log());
            }
            std::thread::park_timeout(POLL);
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.note();
        let is_failed = std::thread::panicking();
        if is_failed {
            eprintln!("the end of volley's log:\n{}", self.log());
        }
        if !self.is_down {
            let output = finish(self.volley_command(&["down", "--grace", "0"]), "");
            assert!(is_failed || output.code == 0, "volley down: {}{}\n{}", output.stdout, output.stderr, self.log());
        }
        // The program itself may need a moment after it has said that it ends.
        let mut left = self.traces().left();
        let deadline = Instant::now() + Duration::from_secs(5);
        while !is_failed && !left.is_empty() && Instant::now() < deadline {
            left = self.traces().left();
        }
        assert!(is_failed || left.is_empty(), "left on the machine: {left:#?}\n{}", self.log());
    }
}

/// A pod that runs one script on the machine's own files.
pub fn pod(name: &str, script: &str) -> Value {
    let main = json!({"name": "main", "image": "host", "command": ["sh", "-c", script]});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [main]}})
}

/// Says more about an object; values that are there are replaced.
pub trait Say {
    fn spec(self, fields: Value) -> Value;
    fn main(self, fields: Value) -> Value;
    fn meta(self, fields: Value) -> Value;
}

impl Say for Value {
    fn spec(mut self, fields: Value) -> Value {
        add(&mut self["spec"], fields);
        self
    }

    fn main(mut self, fields: Value) -> Value {
        add(&mut self["spec"]["containers"][0], fields);
        self
    }

    fn meta(mut self, fields: Value) -> Value {
        add(&mut self["metadata"], fields);
        self
    }
}

fn add(object: &mut Value, fields: Value) {
    let Value::Object(fields) = fields else { panic!("fields are an object") };
    object.as_object_mut().unwrap().extend(fields);
}

pub fn condition<'a>(pod: &'a Value, name: &str) -> &'a Value {
    let all = pod["status"]["conditions"].as_array();
    all.and_then(|all| all.iter().find(|condition| condition["type"] == name)).unwrap_or(&Value::Null)
}

/// The status of a pod's only container, or its first.
pub fn container(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]
}
