//! The modes without root, run by user and group 65534 through `setpriv`.

use crate::support::*;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use volley_cluster::runtime::client::{Adopted, Launcher, Pod, remove_remains};
use volley_cluster::runtime::spec::*;

fn nobody() -> Launcher {
    Launcher::new(
        Path::new("/usr/bin/setpriv"),
        &["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", SHIM],
    )
}

/// A pod folder that an ordinary user owns.
pub async fn pod(place: &Place, mode: Mode) -> Pod {
    must_be_root();
    std::fs::create_dir_all(place.pod_folder()).unwrap();
    for folder in [place.folder.path(), &place.pod_folder()] {
        chown(folder, Some(65534), Some(65534)).unwrap();
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    // What the node's user would have written itself.
    let sandbox = Sandbox::new(&place.id, mode);
    std::fs::File::create(place.pod_folder().join("shim.log")).unwrap();
    Pod::start(&nobody(), &place.pod_folder(), &sandbox).await.expect("the pod starts")
}

#[tokio::test]
async fn the_probe_tells_the_mode_of_each_user() {
    must_be_root();
    let place = Place::new();
    std::fs::set_permissions(place.folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let root = launcher().probe(place.folder.path()).await.unwrap();
    assert_eq!(root.mode, Mode::Root);
    let plain = nobody().probe(place.folder.path()).await.unwrap();
    assert_eq!(plain.mode, Mode::Rootless);
    assert!(plain.lacks.iter().any(|text| text.contains("cgroup")), "{plain:?}");
    assert_eq!(std::fs::read_dir(place.folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_rootless_container_has_its_own_files_processes_and_names() {
    let place = Place::new();
    let pod = pod(&place, Mode::Rootless).await;
    let exit = run_in(
        &pod,
        place.container(
            "main",
            "id -u; hostname; echo $$; echo x > /new && cat /new; ls /dev/null /dev/pts/ptmx; exit 6",
        ),
    )
    .await;
    assert_eq!(exit.code, 6);
    assert_eq!(place.printed("main"), ["0", place.id.as_str(), "1", "x", "/dev/null", "/dev/pts/ptmx"]);
    pod.start_container(place.container("stays", "sleep 1000")).await.unwrap();
    let (exit, output) = exec_output(&pod, "stays", "echo $$ > /dev/null; ps -o comm | grep -c '^sleep'; exit 2").await;
    assert_eq!((exit.code, output.trim()), (2, "1"));
    pod.remove().await.unwrap();
}

#[tokio::test]
async fn a_rootless_container_may_be_any_one_user() {
    let place = Place::new();
    let pod = pod(&place, Mode::Rootless).await;
    let mut container = place.container("main", "id -u; id -g; touch /own && stat -c %u /own");
    container.process.user = User::Number { uid: 1000, gid: Some(1001), extra_groups: vec![] };
    let started = pod.start_container(container).await.unwrap();
    assert_eq!(started.warnings, ["the groups [1002] cannot be joined: this user has no subordinate group ids"]);
    pod.wait("main").await.unwrap();
    assert_eq!(place.printed("main"), ["1000", "1001", "1000"]);
    let mut container = place.container("grouped", "true");
    container.process.user = User::Number { uid: 1000, gid: Some(1000), extra_groups: vec![7] };
    assert!(pod.start_container(container).await.unwrap_err().to_string().contains("the groups [7] cannot be joined"));
    pod.remove().await.unwrap();
}

#[tokio::test]
async fn a_rootless_container_may_use_the_machines_files() {
    let place = Place::new();
    let pod = pod(&place, Mode::Rootless).await;
    let mut container = place.container(
        "main",
        "ls /usr/bin/env && echo y > /etc/volley-scribble && cat /etc/volley-scribble; touch /usr/own && echo usr",
    );
    container.root = Root::Host { scratch: place.pod_folder().join("scratch/main") };
    let exit = run_in(&pod, container).await;
    let printed = place.printed("main");
    assert_eq!(exit.code, 0, "{printed:?}");
    assert!(!Path::new("/etc/volley-scribble").exists());
    pod.remove().await.unwrap();
}

#[tokio::test]
async fn what_rootless_pods_cannot_have_is_refused() {
    must_be_root();
    let place = Place::new();
    let pod = pod(&place, Mode::Rootless).await;
    let mut container = place.container("main", "true");
    container.resources.memory_bytes = Some(1 << 20);
    assert!(pod.start_container(container).await.unwrap_err().to_string().contains("no cgroup"));
    pod.remove().await.unwrap();
}

#[tokio::test]
async fn a_plain_process_runs_as_the_user_and_ends_with_its_pod() {
    let place = Place::new();
    let pod = pod(&place, Mode::Process).await;
    let mut container = place.container("main", "id -u; echo $X; (setsid sleep 4321 &); exit 3");
    (container.root, container.process.env) = (Root::Machine, vec![("X".into(), "y".into())]);
    let exit = run_in(&pod, container).await;
    assert_eq!((exit.code, place.printed("main")), (3, vec!["65534".to_owned(), "y".to_owned()]));
    assert!(!any_process_with("sleep\x004321"), "a process was left behind");
    let mut container = place.container("stays", "echo up; sleep 5432");
    container.root = Root::Machine;
    pod.start_container(container).await.unwrap();
    until_printed(&place, "stays", "up").await;
    let (exit, output) = exec_output(&pod, "stays", "echo beside").await;
    assert_eq!((exit.code, output.as_str()), (0, "beside\n"));
    let fault = pod.start_container(place.container("image", "true")).await.unwrap_err();
    assert_eq!(fault.to_string(), "container image: a root file system of its own cannot be had in the process mode");
    pod.remove().await.unwrap();
    assert!(!any_process_with("sleep\x005432"), "a process was left behind");
}

#[tokio::test]
async fn plain_processes_that_outlive_their_shim_are_found_and_ended() {
    let place = Place::new();
    let pod = pod(&place, Mode::Process).await;
    let mut container = place.container("main", "setsid sleep 7654 & echo up; sleep 7655");
    container.root = Root::Machine;
    pod.start_container(container).await.unwrap();
    until_printed(&place, "main", "up").await;
    assert!(std::process::Command::new("kill").args(["-9", &pod.shim().pid.to_string()]).status().unwrap().success());
    until(|| !pod.shim().is_alive()).await;
    assert!(matches!(Pod::adopt(&place.pod_folder()).await.unwrap(), Adopted::Dead(_)));
    remove_remains(&place.pod_folder()).await.unwrap();
    assert!(!any_process_with("sleep\x007654") && !any_process_with("sleep\x007655"), "a process was left behind");
}

fn any_process_with(command: &str) -> bool {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .any(|line| String::from_utf8_lossy(&line).contains(command))
}
