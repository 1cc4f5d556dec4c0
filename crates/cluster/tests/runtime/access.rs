//! Real clients on the real API server, with a real shim behind it: logs, exec, attach, port-forward, top, debug.

use crate::stage::*;
use crate::support::*;
use serde_json::json;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

// K-EXEC-1 K-EXEC-2 K-WS-3 K-SPDY-1 K-SPDY-3
#[tokio::test(flavor = "multi_thread")]
async fn every_kubectl_executes_commands_and_hears_their_codes() {
    let stage = Stage::running("echo mine > /note; echo up; sleep 1000").await;
    until(|| {
        std::fs::read_to_string(stage.place.folder.path().join("logs/c/0.log")).is_ok_and(|log| log.contains("up"))
    })
    .await;
    for kubectl in kubectls() {
        let said = async |args: &[&str]| Said::of(&stage.kubectl(kubectl, args).output().await.unwrap());
        let fine = said(&["exec", "p", "--", "sh", "-c", "cat /note; echo bad >&2"]).await;
        assert_eq!((fine.code, fine.out.as_str(), fine.err.as_str()), (Some(0), "mine\n", "bad\n"), "{kubectl:?}");
        let three = said(&["exec", "p", "--", "sh", "-c", "exit 3"]).await;
        assert_eq!((three.code, three.err.as_str()), (Some(3), "command terminated with exit code 3\n"), "{kubectl:?}");
        let killed = said(&["exec", "p", "--", "sh", "-c", "kill -9 $$"]).await;
        assert_eq!(killed.code, Some(137), "{kubectl:?}");
        let absent = said(&["exec", "p", "--", "nosuch"]).await;
        assert_eq!(absent.code, Some(1), "{kubectl:?}");
        let why = "unable to start container process: exec: \"nosuch\": executable file not found in $PATH";
        assert!(absent.err.contains(why), "{kubectl:?}: {absent:?}");
        let mut echo = stage.kubectl(kubectl, &["exec", "-i", "p", "--", "wc", "-c"]);
        let mut echo = echo.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        echo.stdin.take().unwrap().write_all(&vec![b'x'; 3 << 20]).await.unwrap();
        let counted = Said::of(&echo.wait_with_output().await.unwrap());
        assert_eq!((counted.code, counted.out.trim()), (Some(0), "3145728"), "{kubectl:?}");
    }
    stage.leave().await;
}

// K-EXEC-1
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_joined_is_refused_before_the_upgrade() {
    let stage = Stage::running("sleep 1000").await;
    let other = stage.ask(&["exec", "p", "-c", "x", "--", "ls"]).await;
    assert_eq!(other.code, Some(1));
    assert!(
        other.err.contains("container x is not valid for pod p") || other.err.contains("container not found"),
        "{other:?}"
    );
    let missing = stage.ask(&["exec", "q", "--", "ls"]).await;
    assert!(missing.err.contains("pods \"q\" not found"), "{missing:?}");
    let plain = stage.ask(&["get", "--raw", "/api/v1/namespaces/default/pods/p/exec?command=ls&stdout=true"]).await;
    assert!(plain.err.contains("Upgrade request required"), "{plain:?}");
    for (path, word) in [("pods/p/proxy/", "port-forward"), ("pods/p/resize", "delete the pod")] {
        let refused = stage.ask(&["get", "--raw", &format!("/api/v1/namespaces/default/{path}")]).await;
        assert!(refused.err.contains("is not served here") && refused.err.contains(word), "{refused:?}");
    }
    stage.pod.kill("c-0").await.unwrap();
    stage.end("c", 0, None).await;
    let ended = stage.ask(&["exec", "p", "--", "ls"]).await;
    assert!(ended.err.contains("container not found (\"c\")"), "{ended:?}");
    stage.leave().await;
}

// K-WS-1 K-SPDY-3
#[tokio::test(flavor = "multi_thread")]
async fn every_kubectl_has_a_terminal_with_its_size() {
    let stage = Stage::running("sleep 1000").await;
    for kubectl in kubectls() {
        let mut inner = stage.kubectl(
            kubectl,
            &[
                "exec",
                "-it",
                "p",
                "--",
                "sh",
                "-c",
                "'until [ $(stty size | cut -c1-2) = 33 ]; do :; done; stty size; tty; exit 4'",
            ],
        );
        let inner = inner.as_std_mut();
        let words: Vec<String> = std::iter::once(inner.get_program())
            .chain(inner.get_args())
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        // `script` gives kubectl a terminal of its own.
        let mut outer = tokio::process::Command::new("script");
        outer.args(["-qefc", &format!("stty rows 33 cols 99; {}", words.join(" ")), "/dev/null"]);
        let output = outer.env("HOME", stage.place.folder.path()).stdin(Stdio::null()).output().await.unwrap();
        let said = Said::of(&output);
        assert!(said.out.contains("33 99\r\n/dev/pts/0"), "{kubectl:?}: {said:?}");
        assert_eq!(said.code, Some(4), "{kubectl:?}: {said:?}");
    }
    stage.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_s_process_ends_with_its_client() {
    let stage = Stage::running("sleep 1000").await;
    let mut client = tokio::process::Command::new("script");
    let kubeconfig = stage.kubeconfig.display();
    let line = format!("{} --kubeconfig {kubeconfig} exec -it p -- sh -c 'echo here; sleep 777'", newest().display());
    let mut client = client
        .args(["-qefc", &line, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().unwrap().trim(), "here");
    let count = || async { stage.ask(&["exec", "p", "--", "sh", "-c", "ps | grep -c '[s]leep 777'"]).await.out };
    assert_eq!(count().await.trim(), "1");
    client.kill().await.unwrap();
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while count().await.trim() != "0" {
        assert!(std::time::Instant::now() < patience, "the process is still there");
    }
    stage.leave().await;
}

// K-LOG-1 K-LOG-2 K-LOG-3 K-CT-2
#[tokio::test(flavor = "multi_thread")]
async fn every_kubectl_reads_logs_with_every_option() {
    let stage = Stage::running("echo one; echo two >&2; sleep 0.1; echo three").await;
    stage.end("c", 0, Some("CrashLoopBackOff")).await;
    for kubectl in kubectls() {
        let logs = async |args: &[&str]| {
            let said = Said::of(&stage.kubectl(kubectl, &[&["logs", "p"], args].concat()).output().await.unwrap());
            assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{kubectl:?} {args:?}");
            said.out
        };
        assert_eq!(logs(&[]).await.lines().count(), 3);
        assert_eq!(logs(&["--tail=1"]).await, "three\n");
        assert_eq!(logs(&["--tail=0"]).await, "");
        assert_eq!(logs(&["--limit-bytes=4"]).await.len(), 4);
        assert_eq!(logs(&["--since=1h", "-f"]).await.lines().count(), 3);
        assert_eq!(logs(&["--since-time=2100-01-01T00:00:00Z"]).await, "");
        assert_eq!(logs(&["--previous"]).await.lines().count(), 3);
        let stamped = logs(&["--timestamps", "--tail=1"]).await;
        let (time, rest) = stamped.split_once(' ').unwrap();
        assert!(time.ends_with('Z') && time.len() == 30 && rest == "three\n", "{stamped}");
    }
    stage.run("c", 1, "echo again; sleep 1000", |_| {}).await;
    let refused = stage.ask(&["logs", "p", "--previous"]).await;
    assert!(refused.err.contains("previous terminated container \"c\" in pod \"p\" not found"), "{refused:?}");
    // The shim goes; what was printed stays readable as long as the pod is there.
    stage.pod.kill("c-1").await.unwrap();
    stage.end("c", 1, None).await;
    stage.index_without_shim();
    assert_eq!(stage.ask(&["logs", "p"]).await.out, "again\n");
    stage.leave().await;
}

// K-LOG-2
#[tokio::test(flavor = "multi_thread")]
async fn logs_that_are_not_there_yet_say_why() {
    let stage = Stage::start(json!([{"name": "c", "image": "i"}, {"name": "d", "image": "i"}])).await;
    let raw = |query: &str| format!("/api/v1/namespaces/default/pods/p/log?{query}");
    let answer = stage.ask(&["get", "--raw", &raw("container=c")]).await;
    assert!(answer.err.contains("container \"c\" in pod \"p\" is not available"), "{answer:?}");
    stage.report("c", 0, json!({"waiting": {"reason": "ContainerCreating"}}), json!({})).await;
    let answer = stage.ask(&["get", "--raw", &raw("container=c")]).await;
    assert!(answer.err.contains("container \"c\" in pod \"p\" is waiting to start: ContainerCreating"), "{answer:?}");
    let answer = stage.ask(&["get", "--raw", &raw("")]).await;
    assert!(answer.err.contains("a container name must be specified for pod p, choose one of: [c d]"), "{answer:?}");
    let answer = stage.ask(&["get", "--raw", &raw("container=c&tailLines=-1")]).await;
    assert!(answer.err.contains("must be greater than or equal to 0"), "{answer:?}");
    stage.leave().await;
}

// K-LOG-1
#[tokio::test(flavor = "multi_thread")]
async fn a_followed_log_ends_with_the_run() {
    let stage =
        Stage::running_with(json!({"stdin": true}), "echo up; read line; echo $line; exit 3", |c| c.stdin = true).await;
    let mut follow = stage.kubectl(newest(), &["logs", "-f", "p"]);
    let mut follow = follow.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "up");
    let input = stage.pod.attach("c-0", &[]).await.unwrap().unwrap();
    std::io::Write::write_all(&mut std::fs::File::from(input), b"bye\n").unwrap();
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "bye");
    assert_eq!(stage.end("c", 0, Some("CrashLoopBackOff")).await, 3);
    assert_eq!(lines.next_line().await.unwrap(), None);
    assert!(follow.wait().await.unwrap().success());
    stage.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn attaching_feeds_a_container_and_lets_it_end() {
    let script = "while read line; do echo got $line; done; echo end; exit 5";
    let spec = json!({"stdin": true, "stdinOnce": true});
    for kubectl in kubectls() {
        let stage = Stage::running_with(spec.clone(), script, |c| c.stdin = true).await;
        let mut attach = stage.kubectl(kubectl, &["attach", "-qi", "p"]);
        let mut attach = attach.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = attach.stdin.take().unwrap();
        let mut lines = BufReader::new(attach.stdout.take().unwrap()).lines();
        stdin.write_all(b"one\n").await.unwrap();
        assert_eq!(lines.next_line().await.unwrap().unwrap(), "got one", "{kubectl:?}");
        drop(stdin);
        assert_eq!(lines.next_line().await.unwrap().unwrap(), "end", "{kubectl:?}");
        assert_eq!(stage.end("c", 0, None).await, 5);
        let output = attach.wait_with_output().await.unwrap();
        assert!(output.status.success(), "{kubectl:?}: {:?}", Said::of(&output));
        stage.leave().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn input_for_one_ends_when_that_one_leaves_without_a_word() {
    let spec = json!({"stdin": true, "stdinOnce": true});
    let stage = Stage::running_with(spec, "read line; echo got $line; cat; exit 6", |c| c.stdin = true).await;
    let mut attach = stage.kubectl(newest(), &["attach", "-qi", "p"]);
    let mut attach = attach.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    attach.stdin.as_mut().unwrap().write_all(b"x\n").await.unwrap();
    let mut lines = BufReader::new(attach.stdout.take().unwrap()).lines();
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "got x");
    attach.kill().await.unwrap();
    assert_eq!(stage.end("c", 0, None).await, 6);
    stage.leave().await;
}

// K-SPDY-4 K-SPDY-5
#[tokio::test(flavor = "multi_thread")]
async fn every_kubectl_forwards_a_hundred_connections_to_the_pod_s_loopback() {
    let script =
        "mkdir /www; for i in $(seq 0 99); do echo page $i > /www/$i; done; exec httpd -f -p 127.0.0.1:8080 -h /www";
    let stage = Stage::running(script).await;
    let sockets = format!("/proc/{}/net/tcp", stage.pod.shim().pid);
    until(|| std::fs::read_to_string(&sockets).is_ok_and(|table| table.contains("0100007F:1F90"))).await;
    for kubectl in kubectls() {
        let mut forward = stage.kubectl(kubectl, &["port-forward", "p", ":8080", ":9999"]);
        let mut forward = forward.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(forward.stdout.take().unwrap()).lines();
        let mut ports = Vec::new();
        while ports.len() < 2 {
            let line = lines.next_line().await.unwrap().unwrap();
            let words = line.strip_prefix("Forwarding from 127.0.0.1:");
            ports.extend(words.map(|rest| rest.split(' ').next().unwrap().parse::<u16>().unwrap()));
        }
        let mut all = tokio::task::JoinSet::new();
        for number in 0..100 {
            let port = ports[0];
            all.spawn(async move {
                let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                stream.write_all(format!("GET /{number} HTTP/1.0\r\n\r\n").as_bytes()).await.unwrap();
                let mut text = String::new();
                stream.read_to_string(&mut text).await.unwrap();
                (number, text)
            });
        }
        while let Some(done) = all.join_next().await {
            let (number, text) = done.unwrap();
            assert!(text.ends_with(&format!("page {number}\n")), "{kubectl:?}: {text}");
        }
        let mut refused = TcpStream::connect(("127.0.0.1", ports[1])).await.unwrap();
        let _closed = refused.read(&mut [0; 1]).await;
        let mut errors = BufReader::new(forward.stderr.take().unwrap()).lines();
        let said = errors.next_line().await.unwrap().unwrap();
        assert!(said.contains("failed to connect to localhost:9999 inside the pod"), "{kubectl:?}: {said}");
        forward.kill().await.unwrap();
    }
    stage.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_copied_both_ways() {
    let stage = Stage::running("sleep 1000").await;
    let (there, back) = (stage.place.folder.path().join("there"), stage.place.folder.path().join("back"));
    let content: Vec<u8> = (0..3_000_000u32).map(|number| (number % 251) as u8).collect();
    std::fs::write(&there, &content).unwrap();
    for kubectl in [&kubectls()[0], newest()] {
        for (from, to) in [(there.to_str().unwrap(), "p:/tmp/file"), ("p:/tmp/file", back.to_str().unwrap())] {
            let said = Said::of(&stage.kubectl(kubectl, &["cp", from, to]).output().await.unwrap());
            assert_eq!(said.code, Some(0), "{said:?}");
        }
        assert!(std::fs::read(&back).unwrap() == content);
        std::fs::remove_file(&back).unwrap();
    }
    stage.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kubectl_shows_what_is_used() {
    let stage = Stage::running("while :; do :; done").await;
    let nothing = stage.ask(&["top", "pod"]).await;
    assert!(nothing.err.contains("No resources found") || nothing.err.contains("not available yet"), "{nothing:?}");
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while stage.sampler.pod(&stage.uid).is_empty() || stage.sampler.node().is_none() {
        assert!(std::time::Instant::now() < patience, "nothing was measured in a minute");
        stage.sampler.measure(&*stage.index).await;
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let capacity =
        json!({"status": {"capacity": {"cpu": "2", "memory": "8Gi"}, "allocatable": {"cpu": "2", "memory": "8Gi"}}});
    stage.local().patch_status("", "nodes", "", NODE, capacity).await.unwrap();
    for kubectl in kubectls() {
        for args in [
            &["top", "pod"][..],
            &["top", "pod", "p", "--containers"],
            &["top", "pod", "-A", "--sort-by=cpu"],
            &["top", "pod", "-l", "app=p"],
            &["top", "node"],
            &["get", "podmetrics"],
        ] {
            let said = Said::of(&stage.kubectl(kubectl, args).output().await.unwrap());
            assert_eq!(said.code, Some(0), "{kubectl:?} {args:?} {said:?}");
            assert!(said.out.lines().count() == 2, "{kubectl:?} {args:?} {said:?}");
        }
        let said = Said::of(&stage.kubectl(kubectl, &["top", "pod", "--no-headers"]).output().await.unwrap());
        let words: Vec<&str> = said.out.split_whitespace().collect();
        let [_, cpu, memory] = words[..] else { panic!("{said:?}") };
        assert!(cpu.strip_suffix('m').unwrap().parse::<u64>().unwrap() > 50, "{said:?}");
        assert!(memory.ends_with("Mi"), "{said:?}");
    }
    let watched = stage.ask(&["get", "--raw", "/apis/metrics.k8s.io/v1beta1/pods?watch=true"]).await;
    assert!(watched.err.contains("not allow"), "{watched:?}");
    let explained = stage.ask(&["explain", "podmetrics.containers.usage"]).await;
    assert!(explained.out.contains("KIND:       PodMetrics"), "{explained:?}");
    let missing = stage.ask(&["get", "--raw", "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/q"]).await;
    assert!(missing.err.contains("podmetrics.metrics.k8s.io \"default/q\" not found"), "{missing:?}");
    stage.leave().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ephemeral_containers_are_added_and_stay() {
    let stage = Stage::running("sleep 1000").await;
    let debug = stage.ask(&["debug", "p", "--image=busybox", "-c", "look", "--attach=false", "--", "sleep", "1"]).await;
    assert_eq!(debug.code, Some(0), "{debug:?}");
    let pod = stage.local().get("", "pods", "default", "p").unwrap();
    assert_eq!(pod["spec"]["ephemeralContainers"][0]["name"], "look");
    assert_eq!(pod["spec"]["ephemeralContainers"][0]["terminationMessagePolicy"], "File");
    assert_eq!(pod["metadata"]["generation"], 2);
    // Nothing but additions, and nothing else of the pod.
    let path = ["patch", "pod", "p", "--subresource=ephemeralcontainers", "--type=merge", "-p"];
    let removed = stage.ask(&[&path[..], &[r#"{"spec": {"ephemeralContainers": []}}"#]].concat()).await;
    let why = "existing ephemeral containers \"look\" may not be removed";
    assert!(removed.err.contains(why), "{removed:?}");
    stage
        .ask(&[&path[..], &[r#"{"spec": {"nodeName": "elsewhere"}, "metadata": {"labels": {"a": "b"}}}"#]].concat())
        .await;
    assert_eq!(stage.local().get("", "pods", "default", "p").unwrap()["spec"], pod["spec"]);
    stage.leave().await;
}
