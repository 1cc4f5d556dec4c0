//! Memory, processes, processor time and logs have limits that hold.

use crate::support::*;
use volley_cluster::runtime::spec::{LogFile, Resources};
use volley_cluster::streams::logs::reader::{LogReader, ReadOptions};

#[tokio::test]
async fn a_memory_hog_is_killed_and_the_reason_recorded() {
    let script = "head -c 200000000 /dev/zero | tail > /dev/null";
    let (exit, _) = run_with(script, |c, _| c.resources.memory_bytes = Some(32 << 20)).await;
    assert!(exit.oom_kills >= 1 && exit.code != 0, "{exit:?}");
}

#[tokio::test]
async fn a_fork_bomb_is_bounded() {
    must_be_root();
    let place = Place::new();
    let pod = place.pod().await;
    let mut container = place.container("main", "bomb() { bomb | bomb & }; bomb 2>/dev/null; echo lit; sleep 1000");
    container.resources.pids = Some(20);
    pod.start_container(container).await.unwrap();
    until_printed(&place, "main", "lit").await;
    let stats = pod.stats("main").await.unwrap();
    assert!(stats.pids <= 20, "{stats:?}");
    pod.kill("main").await.unwrap();
    assert_eq!(pod.wait("main").await.unwrap().code, 137);
    pod.remove().await.unwrap();
}

#[tokio::test]
async fn limits_and_usage_can_be_read() {
    must_be_root();
    let place = Place::new();
    let pod = place.pod().await;
    let mut container = place.container(
        "main",
        "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max; echo up; while :; do :; done",
    );
    container.resources =
        Resources { cpu_shares: Some(512), cpu_quota_us: Some(50_000), memory_bytes: Some(64 << 20), pids: Some(50) };
    pod.start_container(container).await.unwrap();
    until_printed(&place, "main", "up").await;
    assert!(place.printed("main").contains(&(64u64 << 20).to_string()), "{:?}", place.printed("main"));
    let stats = pod.stats("main").await.unwrap();
    assert!(stats.memory_usage_bytes > 0 && stats.pids >= 1 && stats.cpu_usage_ns > 0, "{stats:?}");
    pod.remove().await.unwrap();
}

#[tokio::test]
async fn limits_without_a_cgroup_are_refused() {
    must_be_root();
    let place = Place::new();
    let mut sandbox = place.sandbox();
    sandbox.cgroup = None;
    let pod = place.pod_with(sandbox).await;
    let mut container = place.container("main", "true");
    container.resources.pids = Some(5);
    assert!(
        pod.start_container(container)
            .await
            .unwrap_err()
            .to_string()
            .contains("asks for limits, but its pod has no cgroup")
    );
    pod.remove().await.unwrap();
}

#[tokio::test]
async fn a_flood_of_output_costs_only_what_the_log_may_hold() {
    must_be_root();
    let place = Place::new();
    let pod = place.pod().await;
    let mut container =
        place.container("main", "yes 0123456789012345678901234567890123456789 | head -c 49200000; echo end");
    container.log = Some(LogFile { path: place.log("main"), bytes_max: 1 << 20, files_max: 3 });
    assert_eq!(run_in(&pod, container).await.code, 0);
    let files = std::fs::read_dir(place.folder.path()).unwrap().map(|entry| entry.unwrap());
    let files = files.filter(|file| file.file_name().to_str().unwrap().starts_with("main.log"));
    let sizes: Vec<u64> = files.map(|file| file.metadata().unwrap().len()).collect();
    assert!(sizes.len() == 3 && sizes.iter().all(|size| *size <= 1 << 20), "{sizes:?}");
    assert_eq!(place.printed("main").last().unwrap(), "end");
    pod.remove().await.unwrap();
}

// K-LOG-1
#[tokio::test]
async fn a_log_of_several_files_is_read_in_the_order_in_which_it_was_written() {
    must_be_root();
    let place = Place::new();
    let pod = place.pod().await;
    let mut container = place.container("main", "seq 1 20000");
    container.log = Some(LogFile { path: place.log("main"), bytes_max: 256 << 10, files_max: 4 });
    assert_eq!(run_in(&pod, container).await.code, 0);
    let mut reader = LogReader::open(&place.log("main"), &ReadOptions::default()).unwrap();
    let mut text = Vec::new();
    while let Some(piece) = reader.next_piece().unwrap() {
        text.extend_from_slice(&piece);
    }
    let numbers: Vec<u32> = String::from_utf8(text).unwrap().lines().map(|line| line.parse().unwrap()).collect();
    assert!(numbers.len() > 5000 && numbers.last() == Some(&20_000), "{} lines", numbers.len());
    assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "lines are missing or out of order");
    pod.remove().await.unwrap();
}
