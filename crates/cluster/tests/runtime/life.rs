//! Signals, deaths, adoption, and what is left afterwards.

use crate::support::*;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use volley_cluster::runtime::client::{Adopted, Pod, RuntimeError, remove_remains};
use volley_cluster::runtime::spec::Sandbox;

#[tokio::test]
async fn a_container_that_ignores_terminate_is_killed() {
    must_be_root();
    let place = Place::new();
    let pod = place.pod().await;
    pod.start_container(place.container("main", "trap 'echo ignored' TERM; echo up; while :; do sleep 0.1; done"))
        .await
        .unwrap();
    until_printed(&place, "main", "up").await;
    pod.signal("main", libc::SIGTERM).await.unwrap();
    until_printed(&place, "main", "ignored").await;
    pod.kill("main").await.unwrap();
    let exit = pod.wait("main").await.unwrap();
    assert_eq!((exit.code, exit.signal), (137, Some(9)));
    assert!(matches!(pod.kill("main").await, Err(RuntimeError::Fault(_))));
    pod.remove().await.unwrap();
}

#[tokio::test]
async fn zombies_are_reaped_and_orphans_end_with_their_container() {
    must_be_root();
    let place = Place::new();
    let pod = place.pod().await;
    pod.start_container(
        place.container("main", "for i in $(seq 20); do (sleep 0 &) ; done; sleep 3000 & echo up; wait"),
    )
    .await
    .unwrap();
    until_printed(&place, "main", "up").await;
    let shim = pod.shim().pid;
    assert!(processes_below(shim).len() >= 2);
    pod.kill("main").await.unwrap();
    pod.wait("main").await.unwrap();
    assert_eq!(processes_below(shim), BTreeSet::new());
    pod.remove().await.unwrap();
}

/// All descendants of a process, zombies included.
fn processes_below(ancestor: i32) -> BTreeSet<i32> {
    let parent_of = |pid: i32| -> Option<i32> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
    };
    let all = all_processes();
    let is_below = |pid: &i32| {
        std::iter::successors(parent_of(*pid), |parent| parent_of(*parent)).any(|parent| parent == ancestor)
    };
    all.into_iter().filter(is_below).collect()
}

const NODE_FOLDER: &str = "VOLLEY_TEST_NODE_FOLDER";

/// Runs this same test once more in a process of its own, which plays the node and is killed.
#[tokio::test]
async fn a_pod_outlives_its_node_and_is_adopted_with_its_exit_code() {
    must_be_root();
    if let Ok(folder) = std::env::var(NODE_FOLDER) {
        return play_node(folder.into()).await;
    }
    let place = Place::new();
    let mut node = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "life::a_pod_outlives_its_node_and_is_adopted_with_its_exit_code", "--nocapture"])
        .env(NODE_FOLDER, place.folder.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until(|| place.folder.path().join("started").exists()).await;
    node.kill().unwrap();
    node.wait().unwrap();
    let Adopted::Running(pod) = Pod::adopt(&place.pod_folder()).await.unwrap() else { panic!("the pod is gone") };
    let state = pod.state().await.unwrap();
    let told: i32 = std::fs::read_to_string(place.folder.path().join("started")).unwrap().parse().unwrap();
    assert_eq!(state.containers["main"].started.process.pid, told);
    assert!(state.containers["main"].started.process.is_alive());
    let (_, output) = exec_output(&pod, "main", "echo ok; touch /go").await;
    assert_eq!(output, "ok\n");
    assert_eq!(pod.wait("main").await.unwrap().code, 21);
    assert_eq!(place.printed("main"), ["before", "after"]);
    pod.remove().await.unwrap();
}

async fn play_node(folder: PathBuf) {
    let place = Place { folder: tempfile::tempdir().unwrap(), id: format!("adopted-{}", std::process::id()) };
    let cgroup = Some(PathBuf::from("volley-test").join(&place.id));
    let sandbox = Sandbox { cgroup, ..place.sandbox() };
    let pod_folder = folder.join("pod");
    let pod = Pod::start(&launcher(), &pod_folder, &sandbox).await.unwrap();
    let mut container =
        place.container("main", "echo before; while ! [ -e /go ]; do sleep 0.02; done; echo after; exit 21");
    // The real node keeps its images; this one's would go with its process.
    let image = folder.join("image");
    assert!(Command::new("cp").arg("-a").arg(busybox()).arg(&image).status().unwrap().success());
    container.root =
        volley_cluster::runtime::spec::Root::Layers { lower: vec![image], scratch: pod_folder.join("scratch/main") };
    container.log.as_mut().unwrap().path = folder.join("main.log");
    let started = pod.start_container(container).await.unwrap();
    std::fs::write(folder.join("started.new"), started.process.pid.to_string()).unwrap();
    std::fs::rename(folder.join("started.new"), folder.join("started")).unwrap();
    std::future::pending().await
}

#[tokio::test]
async fn a_shim_that_is_killed_takes_its_pod_along_and_leaves_its_records() {
    must_be_root();
    let place = Place::new();
    let before = Machine::seen(&place, None);
    let pod = place.pod().await;
    run_in(&pod, place.container("first", "exit 4")).await;
    let started =
        pod.start_container(place.container("main", "setsid sleep 1000 & echo up; sleep 1000")).await.unwrap();
    until_printed(&place, "main", "up").await;
    let below = processes_below(pod.shim().pid);
    assert!(below.len() >= 2);
    assert!(Command::new("kill").args(["-9", &pod.shim().pid.to_string()]).status().unwrap().success());
    until(|| !started.process.is_alive() && below.iter().all(|pid| !is_alive(*pid))).await;
    match Pod::adopt(&place.pod_folder()).await.unwrap() {
        Adopted::Dead(state) => {
            let codes: Vec<i32> =
                state.containers.values().map(|container| container.exit.as_ref().unwrap().code).collect();
            assert_eq!(codes, [4, 137]);
        }
        other => panic!("{other:?}"),
    }
    remove_remains(&place.pod_folder()).await.unwrap();
    assert_eq!(Machine::seen(&place, None), before);
}

fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

#[tokio::test]
async fn a_folder_without_records_is_nothing() {
    let place = Place::new();
    assert!(matches!(Pod::adopt(&place.pod_folder()).await.unwrap(), Adopted::Nothing));
}

const PODS_OF_A_NODE: usize = 6;

/// Plays a node that starts many pods, in a process of its own, and kills it at every stage of that.
#[tokio::test]
async fn pods_of_a_node_that_died_while_it_started_them_are_all_found() {
    must_be_root();
    if let Ok(folder) = std::env::var(NODE_FOLDER) {
        return play_busy_node(folder.into()).await;
    }
    let mut found = [0; 3];
    for stage in 0..=PODS_OF_A_NODE {
        let place = Place::new();
        let mut node = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "life::pods_of_a_node_that_died_while_it_started_them_are_all_found", "--nocapture"])
            .env(NODE_FOLDER, place.folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // One stage later each round: a folder more, or a running pod more.
        let file = if stage % 2 == 0 { "sandbox.json" } else { "state.log" };
        let folders: Vec<PathBuf> =
            (0..PODS_OF_A_NODE).map(|number| place.folder.path().join(format!("pod-{number}"))).collect();
        until(|| folders.iter().filter(|folder| folder.join(file).exists()).count() >= stage).await;
        node.kill().unwrap();
        node.wait().unwrap();
        for folder in &folders {
            match Pod::adopt(folder).await.unwrap() {
                Adopted::Running(pod) => {
                    found[0] += 1;
                    pod.state().await.unwrap();
                    pod.remove().await.unwrap();
                }
                Adopted::Dead(_) => found[1] += 1,
                Adopted::Nothing => {
                    found[2] += 1;
                    remove_remains(folder).await.unwrap();
                }
            }
            assert!(!folder.exists());
        }
        let name = place.folder.path().to_str().unwrap().to_owned();
        let is_left = |pid: &i32| {
            String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()).contains(&name)
        };
        until(|| !all_processes().iter().any(is_left)).await;
    }
    assert!(found[0] > 0 && found[1] == 0 && found[2] > 0, "running, dead, nothing: {found:?}");
}

async fn play_busy_node(folder: PathBuf) {
    let starts = (0..PODS_OF_A_NODE).map(|number| {
        let folder = folder.join(format!("pod-{number}"));
        tokio::spawn(async move {
            let place = Place::new();
            Pod::start(&launcher(), &folder, &place.sandbox()).await.unwrap();
        })
    });
    for start in starts.collect::<Vec<_>>() {
        start.await.unwrap();
    }
    std::future::pending().await
}

fn all_processes() -> Vec<i32> {
    std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[tokio::test]
async fn the_remains_of_a_pod_are_not_removed_while_it_lives() {
    must_be_root();
    let place = Place::new();
    let pod = place.pod().await;
    assert!(matches!(remove_remains(&place.pod_folder()).await, Err(RuntimeError::Folder { .. })));
    assert!(Pod::start(&launcher(), &place.pod_folder(), &place.sandbox()).await.is_err());
    run_in(&pod, place.container("main", "true")).await;
    pod.remove().await.unwrap();
}

/// What a pod could leave behind on the machine, as far as it carries the pod's name.
#[derive(Debug, PartialEq, Eq)]
struct Machine {
    mounts: usize,
    cgroups: Vec<PathBuf>,
    links: String,
    files: Vec<PathBuf>,
}

impl Machine {
    fn seen(place: &Place, machine: Option<&crate::networks::Machine>) -> Machine {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let folder = place.folder.path().to_str().unwrap().to_owned();
        let mut cgroups = Vec::new();
        for controller in std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten() {
            cgroups.extend(Some(controller.path().join("volley-test").join(&place.id)).filter(|path| path.exists()));
        }
        Machine {
            mounts: mounts.lines().filter(|line| line.contains(&folder)).count(),
            cgroups,
            links: machine.map(crate::networks::Machine::links).unwrap_or_default(),
            files: Some(place.pod_folder()).into_iter().filter(|path| path.exists()).collect(),
        }
    }
}

#[tokio::test]
async fn after_removal_nothing_of_the_pod_is_left() {
    let network = crate::networks::Machine::new().await;
    let launcher = network.launcher();
    // The first pod makes the bridge, which stays for the next.
    let first = Place::new();
    let sandbox = |place: &Place| Sandbox { network: crate::networks::port(9), ..place.sandbox() };
    Pod::start(&launcher, &first.pod_folder(), &sandbox(&first)).await.unwrap().remove().await.unwrap();
    let place = Place::new();
    let before = Machine::seen(&place, Some(&network));
    let pod = Pod::start(&launcher, &place.pod_folder(), &sandbox(&place)).await.unwrap();
    for id in ["one", "two"] {
        let mut container = place.container(id, "echo up; sleep 1000");
        container.resources.pids = Some(10);
        pod.start_container(container).await.unwrap();
        until_printed(&place, id, "up").await;
    }
    let (below, shim) = (processes_below(pod.shim().pid), pod.shim());
    assert_ne!(Machine::seen(&place, Some(&network)), before);
    pod.remove().await.unwrap();
    assert!(!shim.is_alive() && below.iter().all(|pid| !is_alive(*pid)));
    assert_eq!(Machine::seen(&place, Some(&network)), before);
}
