//! Launches as processes of the agent's own machine: how they end, are stopped, outlive their agent, and get their code.

use crate::command::eventually;
use crate::launch::Launch;
use crate::world::World;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use volley_client::items::Item;

/// `volley agent` of the queue `machine`.
struct Agent(Child);

impl Agent {
    fn start(launch: &Launch<'_>, settings: &str, variables: &[(&str, &str)]) -> Agent {
        let home = launch.world.folder.path().join("agent");
        fs::create_dir_all(home.join(".config/wandb")).unwrap();
        fs::write(home.join(".config/wandb/launch-config.yaml"), settings).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_volley"));
        command.arg("--home").arg(&home).args(["agent", "-q", "machine", "-j", "8", "--url", &launch.url]);
        command.env("VOLLEY_API_KEY", &launch.key).env("KUBECONFIG", launch.world.home.join("kubeconfig"));
        command.env("HOME", &home).env_remove("WANDB_API_KEY").env_remove("WANDB_BASE_URL").env_remove("WANDB_ENTITY");
        command.envs(variables.iter().copied());
        Agent(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }

    fn kill(&mut self) {
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

const SETTINGS: &str = "runners: {local-process: true}\nstopped_run_timeout: 1\n";

fn world() -> World {
    World::start_parts("cluster,server", &["--server-listen", "127.0.0.1:0"])
}

fn on(world: &World) -> Launch<'_> {
    let launch = Launch::on(world);
    launch.make_queue_of("machine", "local-process", &json!({}));
    launch
}

/// Folders of launches that are on the machine.
fn folders(launch: &Launch<'_>) -> Vec<PathBuf> {
    let all = fs::read_dir(launch.world.folder.path().join("agent/agent/work")).into_iter().flatten().flatten();
    all.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// Processes whose command line has this word.
fn processes(word: &str) -> Vec<String> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(word)).collect()
}

/// A word that only the processes of one test have.
fn mark(number: u32) -> String {
    format!("8{number}{:07}", std::process::id())
}

fn message(item: &Item) -> String {
    item.error.as_ref().map(|error| error.message.clone()).unwrap_or_default()
}

// C-20, C-22, R-7, L-21
#[test]
fn a_process_runs_to_its_end_and_leaves_nothing() {
    let world = world();
    let launch = on(&world);
    let _agent = Agent::start(&launch, SETTINGS, &[("MY_TOKEN", "hidden"), ("MY_PATH", "seen")]);
    let go = world.folder.path().join("go");
    let script = format!(
        "echo one; echo two >&2; echo $WANDB_RUN_ID $WANDB_CONFIG; echo ${{MY_TOKEN:-none}} $MY_PATH; \
         test -n \"$WANDB_API_KEY\" || exit 9; while ! test -e {}; do sleep 0.05; done",
        go.display()
    );
    let id = launch.push_process("machine", &script);
    let item = launch.until(&id, "its lines are there", |item| item.run.is_some() && launch.lines(item).len() == 4);
    assert_eq!(processes(&launch.key), Vec::<String>::new(), "the key is in no command line");
    assert_eq!(item.state, "RUNNING", "{item:#?}");
    fs::write(go, "").unwrap();
    let item = launch.until_end(&id);
    assert_eq!((item.end.as_deref(), item.exit_code), (Some("finished"), Some(0)), "{item:#?}");
    assert_eq!(launch.run_state(&item), "finished");
    let run = item.run.clone().unwrap().name;
    assert_eq!(launch.lines(&item), ["one", "two", &format!("{run} {{\"lr\":0.5}}"), "none seen"]);
    eventually("its folder is gone", || folders(&launch).is_empty().then_some(()));
}

// C-9, C-20, C-23
#[test]
fn a_process_that_fails_says_why() {
    let world = world();
    let launch = on(&world);
    let mut agent = Agent::start(&launch, SETTINGS, &[]);
    let code = launch.push_process("machine", "echo about to fail; exit 3");
    let signal = launch.push_process("machine", "kill -SEGV $$");
    let spec = json!({ "entity": launch.entity, "project": "p", "resource": "local-process",
        "overrides": { "entry_point": ["/no/such/program"] } });
    let missing = launch.push_spec("machine", &spec);
    let image = json!({ "entity": launch.entity, "project": "p", "resource": "local-process",
        "docker": { "docker_image": "host" }, "overrides": { "entry_point": ["true"] } });
    let image = launch.push_spec("machine", &image);
    let item = launch.until_end(&code);
    assert_eq!((item.end.as_deref(), item.exit_code), (Some("failed"), Some(3)), "{item:#?}");
    assert!(message(&item).contains("exit code 3; its last lines:\nabout to fail"), "{}", message(&item));
    let item = launch.until_end(&signal);
    assert!(message(&item).contains("SIGSEGV"), "{}", message(&item));
    let item = launch.until_end(&missing);
    assert_eq!(item.exit_code, Some(127), "{item:#?}");
    assert!(message(&item).contains("cannot start `/no/such/program`"), "{}", message(&item));
    let item = launch.until_end(&image);
    assert!(message(&item).contains("an image cannot run as a process"), "{}", message(&item));
    agent.kill();
    let _agent = Agent::start(&launch, "{}", &[]);
    let item = launch.until_end(&launch.push_process("machine", "true"));
    assert!(message(&item).contains("runners.local-process: true"), "{}", message(&item));
    eventually("nothing is left", || folders(&launch).is_empty().then_some(()));
}

// L-31
#[test]
fn a_stop_ends_the_whole_tree_before_it_is_told() {
    let world = world();
    let launch = on(&world);
    let _agent = Agent::start(&launch, SETTINGS, &[]);
    // A grandchild in a session of its own, whose parent is gone and which does not want to end; nor does the first.
    let mark = mark(1);
    let script = format!(
        "(trap '' TERM; setsid sh -c 'trap \"\" TERM; while :; do sleep {mark}; done' & ) ; trap '' TERM; echo up; \
         while :; do sleep 0.05; done"
    );
    let id = launch.push_process("machine", &script);
    launch.until(&id, "its line is there", |item| item.run.is_some() && launch.lines(item) == ["up"]);
    eventually("the grandchild is there", || (!processes(&format!("sleep {mark}")).is_empty()).then_some(()));
    launch.stop(&id);
    let item = launch.until_end(&id);
    assert_eq!(processes(&mark), Vec::<String>::new(), "nothing is left when it is told");
    assert_eq!(item.end.as_deref(), Some("stopped"), "{item:#?}");
}

// L-33
#[test]
fn processes_outlive_their_agent_and_are_taken_up_again() {
    let world = world();
    let launch = on(&world);
    let ledger = world.folder.path().join("ledger");
    fs::create_dir(&ledger).unwrap();
    let script = |last: &str| {
        format!(
            "cd {}; echo began >>$WANDB_RUN_ID; echo first; while ! test -e go; do sleep 0.05; done; {last}",
            ledger.display()
        )
    };
    let mut agent = Agent::start(&launch, SETTINGS, &[]);
    let good = launch.push_process("machine", &script("echo last"));
    let bad = launch.push_process("machine", &script("echo last; exit 5"));
    for id in [&good, &bad] {
        launch.until(id, "its first line is there", |item| item.run.is_some() && launch.lines(item) == ["first"]);
    }
    agent.kill();
    fs::write(ledger.join("go"), "").unwrap();
    // One ends while nobody looks.
    eventually("they are over", || processes(&ledger.display().to_string()).is_empty().then_some(()));
    let mut agent = Agent::start(&launch, SETTINGS, &[]);
    for (id, end, code) in [(&good, "finished", 0), (&bad, "failed", 5)] {
        let item = launch.until_end(id);
        assert_eq!((item.end.as_deref(), item.exit_code, item.attempt), (Some(end), Some(code), 1), "{item:#?}");
        assert_eq!(launch.lines(&item), ["first", "last"]);
        let began = fs::read_to_string(ledger.join(item.run.unwrap().name)).unwrap();
        assert_eq!(began, "began\n", "nothing runs twice");
    }
    // A stop that was asked for while the agent was away is done by the next.
    let mark = mark(2);
    let id = launch.push_process("machine", &format!("echo up; exec sleep {mark}"));
    launch.until(&id, "its line is there", |item| item.run.is_some() && launch.lines(item) == ["up"]);
    agent.kill();
    launch.stop(&id);
    let _agent = Agent::start(&launch, SETTINGS, &[]);
    assert_eq!(launch.until_end(&id).end.as_deref(), Some("stopped"));
    assert_eq!(processes(&mark), Vec::<String>::new());
}

/// Kills the keeper of the only launch that there is.
fn kill_keeper(launch: &Launch<'_>) {
    let folder = folders(launch).pop().expect("it has a folder");
    let begun: Value = serde_json::from_slice(&fs::read(folder.join("begun")).unwrap()).unwrap();
    let keeper = begun["keeper"]["pid"].to_string();
    assert!(Command::new("kill").args(["-9", &keeper]).status().unwrap().success());
}

// L-33
#[test]
fn what_loses_its_keeper_is_ended_and_told() {
    let world = world();
    let launch = on(&world);
    let mut agent = Agent::start(&launch, SETTINGS, &[]);
    let mark = mark(3);
    for is_agent_there in [true, false] {
        let id = launch.push_process("machine", &format!("echo up; setsid sleep {mark} & sleep {mark}"));
        launch.until(&id, "its line is there", |item| item.run.is_some() && launch.lines(item) == ["up"]);
        eventually("both are there", || (processes(&format!("sleep {mark}")).len() > 1).then_some(()));
        if !is_agent_there {
            agent.kill();
        }
        kill_keeper(&launch);
        if !is_agent_there {
            agent = Agent::start(&launch, SETTINGS, &[]);
        }
        let item = launch.until_end(&id);
        assert!(message(&item).contains("its processes were killed"), "{}", message(&item));
        assert_eq!(processes(&mark), Vec::<String>::new());
        eventually("its folder is gone", || folders(&launch).is_empty().then_some(()));
    }
}

/// A program that stands for ssh, and runs what is asked for on this machine.
pub fn ssh(folder: &Path) -> String {
    let path = folder.join("ssh");
    fs::write(&path, "#!/bin/sh\nfor word; do last=$word; done\nexec sh -c \"$last\"\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

fn git(folder: &Path, words: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"])
        .args(words)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// All that is in a folder, committed to a repository there: its remote, by ssh, and the commit.
pub fn commit(folder: &Path) -> (String, String) {
    git(folder, &["init", "-q"]);
    git(folder, &["add", "."]);
    git(folder, &["commit", "-q", "-m", "one"]);
    (format!("ssh://git@machine{}", folder.display()), git(folder, &["rev-parse", "HEAD"]))
}

// J-2, J-7, C-20
#[test]
fn code_of_git_runs_at_its_commit() {
    let world = world();
    let launch = on(&world);
    let repository = world.folder.path().join("repository");
    fs::create_dir_all(repository.join("sub")).unwrap();
    fs::write(repository.join("sub/train.sh"), "echo the first, in ${PWD##*/}, with $1\n").unwrap();
    let (remote, commit) = commit(&repository);
    fs::write(repository.join("sub/train.sh"), "echo the second\n").unwrap();
    git(&repository, &["commit", "-q", "-a", "-m", "two"]);
    let job = |remote: &str, commit: &str| {
        json!({ "_version": "v0", "source_type": "repo", "source": { "git": { "remote": remote, "commit": commit },
            "entrypoint": ["sh", "train.sh"] } })
    };
    let good = launch.make_job("good", &job(&remote, &commit));
    let wrong = launch.make_job("wrong", &job(&format!("file://{}", repository.display()), &commit));
    let lost = launch.make_job("lost", &job(&remote, &"0".repeat(40)));
    let _agent = Agent::start(&launch, SETTINGS, &[("GIT_SSH_COMMAND", &ssh(world.folder.path()))]);
    let push = |job: &str| {
        let overrides = json!({ "args": ["an argument"], "working_dir": "sub" });
        let spec = json!({ "entity": launch.entity, "project": "p", "resource": "local-process", "job": job, "overrides": overrides });
        launch.push_spec("machine", &spec)
    };
    let (good, wrong, lost) = (push(&good), push(&wrong), push(&lost));
    let item = launch.until_end(&good);
    assert_eq!(item.end.as_deref(), Some("finished"), "{item:#?}");
    assert_eq!(launch.lines(&item), ["the first, in sub, with an argument"]);
    let item = launch.until_end(&wrong);
    assert!(message(&item).contains("is not allowed") && message(&item).contains("https or ssh"), "{}", message(&item));
    let item = launch.until_end(&lost);
    assert!(message(&item).contains("git "), "{}", message(&item));
}

/// What the whole program serves by itself.
// C-23, A-12
#[test]
fn the_whole_program_runs_processes_of_its_owner_and_ends_them_with_itself() {
    let world = World::start_parts("cluster,operator,server,agent", &["--server-listen", "127.0.0.1:0"]);
    let launch = Launch::on(&world);
    launch.make_queue_of("default", "local-process", &json!({}));
    let item = launch.until_end(&launch.push_process("default", "echo hello"));
    assert_eq!((item.end.as_deref(), launch.lines(&item)), (Some("finished"), vec!["hello".to_owned()]), "{item:#?}");
    let mark = mark(4);
    let id = launch.push_process("default", &format!("echo up; sleep {mark}"));
    launch.until(&id, "its line is there", |item| item.run.is_some() && launch.lines(item) == ["up"]);
    world.volley(&["down"]);
    assert_eq!(processes(&mark), Vec::<String>::new());
    drop(world);
}
