//! Processes beside containers, terminals, and attaching.

use crate::support::*;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use volley_cluster::runtime::wire::Exec;

#[tokio::test]
async fn a_process_joins_the_container_and_reports_its_code() {
    must_be_root();
    let place = Place::new();
    let pod = place.pod().await;
    let mut container = place.container("main", "echo mine > /note; echo up; sleep 1000");
    container.process.env = vec![("SECRET".into(), "42".into())];
    container.resources.memory_bytes = Some(64 << 20);
    pod.start_container(container).await.unwrap();
    until_printed(&place, "main", "up").await;
    let (exit, output) = exec_output(
        &pod,
        "main",
        "cat /note; echo $SECRET; ls /proc | grep -c '^1$'; grep Seccomp: /proc/self/status; exit 5",
    )
    .await;
    assert_eq!((exit.code, output.as_str()), (5, "mine\n42\n1\nSeccomp:\t2\n"));
    let (exit, _) = exec_output(&pod, "main", "kill -9 $$").await;
    assert_eq!((exit.code, exit.signal), (137, Some(9)));
    pod.remove().await.unwrap();
}

#[tokio::test]
async fn a_process_that_cannot_start_says_why() {
    must_be_root();
    let place = Place::new();
    let pod = place.pod().await;
    pod.start_container(place.container("main", "sleep 1000")).await.unwrap();
    let exec = Exec { args: vec!["nosuch".into()], tty: true, ..Exec::default() };
    let fault = pod.exec("main", exec.clone(), None).await.err().unwrap();
    assert_eq!(fault.to_string(), "exec: \"nosuch\": executable file not found in $PATH");
    assert_eq!(pod.exec("ghost", exec, None).await.err().unwrap().to_string(), "container ghost is not running");
    pod.remove().await.unwrap();
}

#[tokio::test]
async fn a_terminal_has_a_size_that_can_change() {
    must_be_root();
    let place = Place::new();
    let pod = place.pod().await;
    pod.start_container(place.container("main", "sleep 1000")).await.unwrap();
    let args = ["/bin/sh", "-c", "tty; read line; stty size; exit 3"].map(str::to_owned).to_vec();
    let mut process = pod.exec("main", Exec { args, tty: true, ..Exec::default() }, None).await.unwrap();
    process.resize(33, 99).unwrap();
    let mut terminal = std::fs::File::from(process.terminal.take().unwrap());
    terminal.write_all(b"go\n").unwrap();
    let exit = process.wait().await.unwrap();
    assert_eq!(exit.code, 3);
    let mut output = vec![0; 4096];
    let count = terminal.read(&mut output).unwrap();
    let mut text = String::from_utf8_lossy(&output[..count]).into_owned();
    while let Ok(more) = terminal.read(&mut output) {
        text.push_str(&String::from_utf8_lossy(&output[..more]));
    }
    assert!(text.contains("/dev/pts/0") && text.contains("33 99"), "{text:?}");
    pod.remove().await.unwrap();
}

#[tokio::test]
async fn attaching_copies_output_and_feeds_input() {
    must_be_root();
    let place = Place::new();
    let pod = place.pod().await;
    let mut container = place.container("main", "while read line; do echo got $line; done; echo end");
    container.stdin = true;
    pod.start_container(container).await.unwrap();
    let (mut read, write) = std::io::pipe().unwrap();
    let input = pod.attach("main", &[OwnedFd::from(write)]).await.unwrap().expect("the container reads input");
    std::fs::File::from(input).write_all(b"one\ntwo\n").unwrap();
    pod.close_stdin("main").await.unwrap();
    assert_eq!(pod.wait("main").await.unwrap().code, 0);
    let mut text = String::new();
    read.read_to_string(&mut text).unwrap();
    assert_eq!((text.as_str(), place.printed("main").len()), ("got one\ngot two\nend\n", 3));
    pod.remove().await.unwrap();
}

#[tokio::test]
async fn a_container_may_have_a_terminal_of_its_own() {
    must_be_root();
    let place = Place::new();
    let pod = place.pod().await;
    let mut container = place.container("main", "read line; stty size; echo $line $TERM");
    (container.process.tty, container.stdin) = (true, true);
    pod.start_container(container).await.unwrap();
    pod.resize("main", 20, 70).await.unwrap();
    let terminal = pod.attach("main", &[]).await.unwrap().unwrap();
    std::fs::File::from(terminal).write_all(b"hello\n").unwrap();
    assert_eq!(pod.wait("main").await.unwrap().code, 0);
    let printed: Vec<String> = place.printed("main").iter().map(|line| line.trim_end().to_owned()).collect();
    assert_eq!(printed, ["hello", "20 70", "hello xterm"]);
    pod.remove().await.unwrap();
}
