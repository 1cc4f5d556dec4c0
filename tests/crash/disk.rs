//! A full disk: the write is refused with a Status, the server stays up, and it takes writes again when there is space.

use crate::process::{Server, command, read_log};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, PostParams};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// More objects than either small disk holds.
const OBJECTS_MAX: usize = 400;
const OBJECT_BYTES: usize = 64 * 1024;

fn big(name: &str) -> ConfigMap {
    let mut map =
        ConfigMap { data: Some(BTreeMap::from([("value".into(), "x".repeat(OBJECT_BYTES))])), ..ConfigMap::default() };
    map.metadata.name = Some(name.into());
    map
}

/// Writes until the disk is full; the names that were acknowledged.
async fn fill(server: &mut Server, home: &Path) -> Vec<String> {
    let maps: Api<ConfigMap> = Api::namespaced(server.client.clone(), "default");
    let mut acknowledged = Vec::new();
    for number in 0..OBJECTS_MAX {
        let name = format!("big-{number}");
        match maps.create(&PostParams::default(), &big(&name)).await {
            Ok(_) => acknowledged.push(name),
            Err(kube::Error::Api(status)) => {
                assert_eq!((status.code, status.reason.as_str()), (507, "InternalError"), "{status:?}");
                assert!(status.message.contains("the disk is full"), "{}", status.message);
                assert!(server.is_running());
                assert!(maps.get_opt(&name).await.expect("reads go on").is_none(), "a refused write is visible");
                return acknowledged;
            }
            Err(other) => panic!("{other}: {}", read_log(home)),
        }
    }
    panic!("{OBJECTS_MAX} objects fitted");
}

/// After the space is back: the same server writes again, and a restart finds everything.
async fn recovered(server: Server, home: &Path, acknowledged: &[String]) {
    let maps: Api<ConfigMap> = Api::namespaced(server.client.clone(), "default");
    maps.create(&PostParams::default(), &big("after")).await.expect("there is space again");
    maps.delete(&acknowledged[0], &DeleteParams::default()).await.expect("deleted");
    drop((maps, server));
    let server = Server::start(home).await;
    let maps: Api<ConfigMap> = Api::namespaced(server.client.clone(), "default");
    for name in acknowledged.iter().skip(1).map(String::as_str).chain(["after"]) {
        assert!(maps.get_opt(name).await.expect("read").is_some(), "{name} was acknowledged");
    }
    assert!(maps.get_opt(&acknowledged[0]).await.expect("read").is_none());
}

/// A file system in memory, unmounted with the test.
struct Mounted(TempDir);

impl Mounted {
    /// None where mounting is not allowed.
    fn new(size: &str) -> Option<Mounted> {
        let folder = tempfile::tempdir().expect("a folder");
        let options = format!("size={size}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(folder.path()).output();
        mounted.is_ok_and(|output| output.status.success()).then(|| Mounted(folder))
    }

    fn home(&self) -> PathBuf {
        self.0.path().join("home")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_writes_until_there_is_space() {
    // Where mounting is not allowed, the test below still meets the same refusal through a limit.
    let Some(mounted) = Mounted::new("8m") else {
        println!("no right to mount: a full disk is tested by a limit on files only");
        return;
    };
    let home = mounted.home();
    fs::create_dir(&home).expect("a home");
    let ballast = mounted.0.path().join("ballast");
    fs::write(&ballast, vec![0; 3 << 20]).expect("ballast");
    let mut server = Server::start(&home).await;
    let acknowledged = fill(&mut server, &home).await;
    fs::remove_file(&ballast).expect("space is made");
    recovered(server, &home, &acknowledged).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_on_file_sizes_is_a_full_disk_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path().join("home");
    fs::create_dir(&home).expect("a home");
    let server = command(&home);
    let mut limited = Command::new("sh");
    // Without the trap the kernel ends the process at the limit instead of failing the write.
    limited
        .args(["-c", "trap '' XFSZ; ulimit -S -f 8192; exec \"$0\" \"$@\""])
        .arg(server.get_program())
        .args(server.get_args());
    limited.env_remove("RUST_LOG").stdout(std::process::Stdio::null());
    let mut server = Server::spawn(&home, limited).await;
    let acknowledged = fill(&mut server, &home).await;
    let pid = server.pid().to_string();
    let raised = Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited:unlimited"]).status();
    assert!(raised.is_ok_and(|status| status.success()), "`prlimit` of util-linux raises the limit again");
    recovered(server, &home, &acknowledged).await;
}
