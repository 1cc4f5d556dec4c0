//! What a container is given: exit codes, environment, folders, users, names.

use crate::support::*;
use volley_cluster::runtime::client::RuntimeError;
use volley_cluster::runtime::spec::{Process, Sandbox, User};
use volley_cluster::runtime::wire::FaultKind;

#[tokio::test]
async fn a_container_prints_and_exits_with_its_code() {
    let (exit, printed) = run("echo out; echo err >&2; exit 7").await;
    assert_eq!((exit.code, exit.signal, exit.oom_kills), (7, None, 0));
    let mut printed = printed;
    printed.sort();
    assert_eq!(printed, ["err", "out"]);
}

#[tokio::test]
async fn a_signal_is_told_apart_from_a_code() {
    let (exit, _) = run("sh -c 'kill -TERM $$'; exit $?").await;
    assert_eq!((exit.code, exit.signal), (143, None));
}

#[tokio::test]
async fn environment_folder_and_defaults_are_as_asked_for() {
    let (_, printed) = run_with("echo $A-$B; pwd; echo $HOME $PATH", |container, _| {
        container.process.env = vec![("A".into(), "1".into()), ("B".into(), "x y".into()), ("A".into(), "2".into())];
        container.process.cwd = Some("/new/folder".into());
    })
    .await;
    assert_eq!(printed, ["2-x y", "/new/folder", "/root /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]);
}

#[tokio::test]
async fn users_are_numbers_or_names_of_the_image() {
    let by_name = |user: &str| User::Named { user: user.into(), extra_groups: vec![77] };
    let (_, printed) = run_with("id -u; id -g; id -G; echo $HOME", |c, _| c.process.user = by_name("app")).await;
    assert_eq!(printed, ["1000", "1001", "1001 77 1002", "/home/app"]);
    let number = User::Number { uid: 4242, gid: Some(5), extra_groups: vec![] };
    let (_, printed) =
        run_with("id -u; id -g; id -G; grep CapEff /proc/self/status", |c, _| c.process.user = number).await;
    assert_eq!(printed, ["4242", "5", "5", "CapEff:\t0000000000000000"]);
}

#[tokio::test]
async fn a_missing_program_is_said_by_name_and_leaves_nothing() {
    must_be_root();
    let place = Place::new();
    let pod = place.pod().await;
    let cases = [
        ("nosuch", "exec: \"nosuch\": executable file not found in $PATH"),
        ("/no/such", "exec: \"/no/such\": stat /no/such: no such file or directory"),
        ("/etc/passwd", "exec: \"/etc/passwd\": permission denied"),
    ];
    for (number, (command, text)) in cases.into_iter().enumerate() {
        let mut container = place.container(&format!("c{number}"), "");
        container.process.args = vec![command.into()];
        match pod.start_container(container).await {
            Err(RuntimeError::Fault(fault)) => {
                assert_eq!((fault.kind, fault.text.as_str()), (FaultKind::Command, text))
            }
            other => panic!("{other:?}"),
        }
    }
    let mut container = place.container("named", "");
    container.process.user = User::Named { user: "ghost".into(), extra_groups: vec![] };
    assert!(pod.start_container(container).await.unwrap_err().to_string().contains("unable to find user ghost"));
    assert!(pod.state().await.unwrap().containers.is_empty());
    pod.remove().await.unwrap();
}

#[tokio::test]
async fn the_pod_has_its_own_host_name_and_memory_for_its_containers() {
    must_be_root();
    let place = Place::new();
    let sandbox = Sandbox { hostname: "rank-0".into(), ..place.sandbox() };
    let pod = place.pod_with(sandbox).await;
    run_in(&pod, place.container("one", "hostname; echo shared > /dev/shm/note")).await;
    run_in(&pod, place.container("two", "cat /dev/shm/note")).await;
    assert_eq!((place.printed("one"), place.printed("two")), (vec!["rank-0".into()], vec!["shared".into()]));
    pod.remove().await.unwrap();
}

#[tokio::test]
async fn the_program_is_process_one_and_sees_only_its_own() {
    let (_, printed) = run("echo $$; ps -o pid,comm | tail -n +2").await;
    assert_eq!(printed[0], "1");
    assert!(printed.len() <= 4 && printed[1].contains("sh"), "{printed:?}");
}

#[tokio::test]
async fn containers_may_share_a_pid_namespace() {
    must_be_root();
    let place = Place::new();
    let pod = place.pod_with(Sandbox { share_pids: true, ..place.sandbox() }).await;
    pod.start_container(place.container("server", "echo up; exec sleep 1000")).await.unwrap();
    until_printed(&place, "server", "up").await;
    run_in(&pod, place.container("look", "ps -o pid,args; ls /proc/1/root/")).await;
    let seen = place.printed("look");
    assert!(seen.iter().any(|line| line.contains("sleep 1000")), "{seen:?}");
    assert!(!seen.iter().any(|line| line == "usr" || line == "boot"), "the machine's files are visible: {seen:?}");
    // What a container leaves behind ends with it, though its namespace goes on.
    run_in(&pod, place.container("leaver", "sleep 2000 & setsid sleep 2001 & exit 0")).await;
    run_in(&pod, place.container("after", "ps -o args")).await;
    assert!(!place.printed("after").iter().any(|line| line.contains("sleep 200")), "{:?}", place.printed("after"));
    pod.remove().await.unwrap();
}

#[tokio::test]
async fn best_effort_demands_come_back_as_warnings() {
    must_be_root();
    let place = Place::new();
    let pod = place.pod().await;
    let mut container = place.container("main", "ulimit -n");
    container.process = Process { rlimits: vec![limit("nofile", 64), limit("wings", 2)], ..container.process };
    let started = pod.start_container(container).await.unwrap();
    assert_eq!(started.warnings, ["the limit wings is not known"]);
    pod.wait("main").await.unwrap();
    assert_eq!(place.printed("main"), ["64"]);
    pod.remove().await.unwrap();
}

fn limit(name: &str, value: u64) -> volley_cluster::runtime::spec::Rlimit {
    volley_cluster::runtime::spec::Rlimit { name: name.into(), soft: value, hard: value }
}

#[tokio::test]
async fn a_pod_may_see_the_machines_processes_and_still_leaves_none() {
    must_be_root();
    let place = Place::new();
    let pod = place.pod_with(Sandbox { host_pids: true, ..place.sandbox() }).await;
    let own = std::process::id();
    run_in(
        &pod,
        place.container("main", &format!("[ $$ != 1 ] && [ -d /proc/{own} ] && echo seen; setsid sleep 6543 & exit 0")),
    )
    .await;
    assert_eq!(place.printed("main"), ["seen"]);
    run_in(&pod, place.container("look", "ps -o args | grep -c '[s]leep 6543'")).await;
    assert_eq!(place.printed("look"), ["0"]);
    pod.remove().await.unwrap();
}
