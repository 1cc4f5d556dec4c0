//! What GPUs ask of the runtime, on a machine that has none: files at names that the image lacks, nodes, and boards of
//! which only the container's own are shown. `/proc/tty` stands in for the folder that the NVIDIA driver makes.

use crate::support::*;
use crate::unprivileged;
use volley_cluster::runtime::client::Pod;
use volley_cluster::runtime::spec::{Container, Device, Mode, Mount, MountSource, Propagation};

const SCRIPT: &str = "cat /usr/lib64/libmade-up.so.1 /usr/local/nvidia/lib64/libmade-up.so.1; ls /dev | grep nvidia;
    head -c 3 /dev/nvidia0 | wc -c; ls /proc/tty; touch /usr/lib64/libmade-up.so.1 2>&1 || echo kept";

fn bind(target: &str, path: &str) -> Mount {
    let source = MountSource::Bind { path: path.into(), sub_path: None };
    Mount { target: target.into(), source, read_only: true, propagation: Propagation::None }
}

fn with_gear(place: &Place) -> Container {
    let mut container = place.container("main", SCRIPT);
    let library = place.folder.path().join("libmade-up.so.580.1");
    std::fs::write(&library, "library\n").unwrap();
    let cover = MountSource::Tmpfs { bytes: Some(64 << 10), mode: 0o555 };
    let cover = Mount { target: "/proc/tty".into(), source: cover, read_only: false, propagation: Propagation::None };
    let folders = ["/usr/lib64", "/usr/local/nvidia/lib64"];
    container.mounts = vec![cover, bind("/proc/tty/ldisc", "/proc/tty/ldisc")];
    let library = library.to_str().unwrap();
    container.mounts.extend(folders.map(|folder| bind(&format!("{folder}/libmade-up.so.1"), library)));
    let node = |name: &str| Device {
        host_path: "/dev/zero".into(),
        container_path: format!("/dev/{name}").into(),
        access: "rw".into(),
    };
    container.devices = vec![node("nvidiactl"), node("nvidia0")];
    container
}

async fn check(place: Place, pod: Pod) {
    run_in(&pod, with_gear(&place)).await;
    let printed = place.printed("main");
    let expected = ["library", "library", "nvidia0", "nvidiactl", "3", "ldisc"];
    assert_eq!(printed[..6], expected, "{printed:?}");
    assert_eq!(printed.last().unwrap(), "kept", "{printed:?}");
    pod.remove().await.unwrap();
}

#[tokio::test]
async fn a_container_gets_the_files_nodes_and_boards_of_its_gpus() {
    must_be_root();
    let place = Place::new();
    let pod = place.pod().await;
    check(place, pod).await;
}

#[tokio::test]
async fn a_rootless_container_gets_them_too() {
    let place = Place::new();
    let pod = unprivileged::pod(&place, Mode::Rootless).await;
    check(place, pod).await;
}
