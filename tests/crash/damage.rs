//! Damaged, newer and doubly used homes: a torn tail is repaired, everything else is refused by name.

use crate::process::{Server, read_log, refusal};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, ListParams, PostParams};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// How each committed batch begins in the log.
const FRAME_MAGIC: [u8; 4] = [0xF5, 0xFF, 0xFE, 0xF8];
/// Where the header keeps the format's version.
const VERSION_AT: usize = 8;

/// A home that served a few objects and was killed, and its log.
async fn used_home() -> (TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path().join("home");
    fs::create_dir(&home).expect("a home");
    let mut server = Server::start(&home).await;
    let maps: Api<ConfigMap> = Api::namespaced(server.client.clone(), "default");
    for name in ["one", "two", "three"] {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.into());
        maps.create(&PostParams::default(), &map).await.expect("created");
    }
    server.kill();
    let log = home.join("cluster/store.log");
    (folder, home, log)
}

fn frames(bytes: &[u8]) -> Vec<usize> {
    let starts = bytes.windows(4).enumerate().filter(|(_, window)| *window == FRAME_MAGIC);
    starts.map(|(at, _)| at).collect()
}

async fn names(home: &Path) -> Vec<String> {
    let server = Server::start(home).await;
    let maps: Api<ConfigMap> = Api::namespaced(server.client.clone(), "default");
    let list = maps.list(&ListParams::default().fields("metadata.name!=kube-root-ca.crt")).await.expect("listed");
    list.iter().map(|map| map.name_any()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_torn_tail_is_cut_off_and_the_rest_is_served() {
    let (_folder, home, log) = used_home().await;
    let mut bytes = fs::read(&log).expect("the log");
    let last = *frames(&bytes).last().expect("frames");
    // The power went while the last frame was being written: its second half never reached the disk.
    bytes.truncate(last + 100);
    fs::write(&log, &bytes).expect("torn");
    let names = names(&home).await;
    assert!(names.starts_with(&["one".to_owned()]) && names.len() < 4, "{names:?}");
    let said = read_log(&home);
    assert!(said.contains("store.log"), "the repair is told: {said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_before_the_tail_is_refused_with_file_and_offset() {
    let (_folder, home, log) = used_home().await;
    let mut bytes = fs::read(&log).expect("the log");
    let starts = frames(&bytes);
    let victim = starts[starts.len() / 2];
    bytes[victim + 60] ^= 0x20;
    fs::write(&log, &bytes).expect("damaged");
    let said = refusal(&home);
    assert!(said.contains("store.log` is damaged at byte"), "{said}");
    assert!(said.contains(&victim.to_string()) && said.contains("hint: restore a backup"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_format_is_refused() {
    let (_folder, home, log) = used_home().await;
    let mut bytes = fs::read(&log).expect("the log");
    bytes[VERSION_AT..VERSION_AT + 4].copy_from_slice(&99u32.to_le_bytes());
    fs::write(&log, &bytes).expect("marked as newer");
    let said = refusal(&home);
    assert!(said.contains("has format version 99") && said.contains("hint:"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_server_on_the_same_home_is_refused_and_the_first_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path().join("home");
    fs::create_dir(&home).expect("a home");
    let server = Server::start(&home).await;
    let said = refusal(&home);
    assert!(said.contains("another volley runs in") && said.contains("hint:"), "{said}");
    let maps: Api<ConfigMap> = Api::namespaced(server.client.clone(), "default");
    maps.list(&ListParams::default()).await.expect("the first still answers");
}
