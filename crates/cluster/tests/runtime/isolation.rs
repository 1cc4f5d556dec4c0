//! What a container cannot do, and what its files are.

use crate::support::*;
use std::path::PathBuf;
use volley_cluster::runtime::spec::*;

#[tokio::test]
async fn the_image_is_untouched_by_what_containers_write() {
    let (exit, _) = run("echo x > /new && rm /etc/passwd && mkdir /etc/deep").await;
    assert_eq!(exit.code, 0);
    assert!(!busybox().join("new").exists() && busybox().join("etc/passwd").exists());
}

#[tokio::test]
async fn the_machines_files_can_be_read_but_not_changed() {
    let mark = format!("/root/volley-test-{}", std::process::id());
    let script =
        format!("echo x > {mark} && cat {mark}; ls /usr/bin/env; echo scribble > /etc/hostname-of-test; hostname");
    let (exit, printed) = run_with(&script, |container, place| {
        container.root = Root::Host { scratch: place.pod_folder().join("scratch/host") };
    })
    .await;
    assert_eq!((exit.code, &printed[..2]), (0, &["x".to_owned(), "/usr/bin/env".to_owned()][..]));
    assert!(!PathBuf::from(mark).exists() && !PathBuf::from("/etc/hostname-of-test").exists());
}

#[tokio::test]
async fn the_machines_files_do_not_show_the_pods_own_folder() {
    must_be_root();
    let place = Place::new();
    let pod = place.pod().await;
    let mut container = place.container("main", &format!("ls -A {} | wc -l", place.pod_folder().display()));
    container.root = Root::Host { scratch: place.pod_folder().join("scratch/host") };
    run_in(&pod, container).await;
    assert_eq!(place.printed("main"), ["0"]);
    pod.remove().await.unwrap();
}

#[tokio::test]
async fn a_read_only_root_refuses_writes_but_not_in_volumes() {
    let (_, printed) = run_with("echo x > /new || echo refused; echo y > /data/file && cat /data/file; touch /cfg/x || echo fixed; df -m /mem | tail -n 1 | awk '{print $2}'", |c, place| {
        c.read_only_root = true;
        let (data, config) = (place.folder.path().join("data"), place.folder.path().join("config"));
        std::fs::create_dir_all(&data).unwrap();
        std::fs::create_dir_all(&config).unwrap();
        c.mounts = vec![bind("/data", data, false), bind("/cfg", config, true), Mount {
            target: "/mem".into(),
            source: MountSource::Tmpfs { bytes: Some(8 << 20), mode: 0o1777 },
            read_only: false,
            propagation: Propagation::None,
        }];
        // Places of mounts are made in the image's writable layer before it is closed.
    })
    .await;
    assert_eq!(
        printed.iter().filter(|line| !line.contains("can't") && !line.contains("Read-only")).collect::<Vec<_>>(),
        ["refused", "y", "fixed", "8"]
    );
}

fn bind(target: &str, path: PathBuf, read_only: bool) -> Mount {
    let source = MountSource::Bind { path, sub_path: None };
    Mount { target: target.into(), source, read_only, propagation: Propagation::None }
}

#[tokio::test]
async fn a_file_can_be_mounted_and_a_sub_path_cannot_escape() {
    must_be_root();
    let place = Place::new();
    let volume = place.folder.path().join("volume");
    std::fs::create_dir_all(volume.join("inside")).unwrap();
    std::fs::write(volume.join("inside/file"), "kept\n").unwrap();
    std::os::unix::fs::symlink("/etc", volume.join("outside")).unwrap();
    let pod = place.pod().await;
    let with = |id: &str, sub_path: &str| {
        let source = MountSource::Bind { path: volume.clone(), sub_path: Some(sub_path.into()) };
        let mount = Mount { target: "/here".into(), source, read_only: false, propagation: Propagation::None };
        Container { mounts: vec![mount], ..place.container(id, "cat /here") }
    };
    run_in(&pod, with("file", "inside/file")).await;
    assert_eq!(place.printed("file"), ["kept"]);
    for (id, sub_path) in [("link", "outside/passwd"), ("dots", "../volume/../../etc")] {
        let fault = pod.start_container(with(id, sub_path)).await.unwrap_err();
        assert!(fault.to_string().contains("sub-path"), "{fault}");
    }
    pod.remove().await.unwrap();
}

#[tokio::test]
async fn mounts_follow_links_of_the_image_only_within_it() {
    must_be_root();
    let place = Place::new();
    let evil = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/etc", evil.path().join("link")).unwrap();
    let data = place.folder.path().join("data");
    std::fs::create_dir_all(&data).unwrap();
    let pod = place.pod().await;
    let mut container = place.container("main", "ls /etc/inner");
    container.root = Root::Layers {
        lower: vec![evil.path().into(), busybox().into()],
        scratch: place.pod_folder().join("scratch/main"),
    };
    container.mounts = vec![bind("/link/inner", data, false)];
    let exit = run_in(&pod, container).await;
    assert_eq!(exit.code, 0);
    assert!(!PathBuf::from("/etc/inner").exists());
    pod.remove().await.unwrap();
}

#[tokio::test]
async fn the_default_filter_and_capabilities_refuse_what_containers_must_not_do() {
    let script = "mount -t tmpfs none /tmp || echo no mount; unshare -U true || echo no user namespace; \
                  grep -E 'CapBnd|Seccomp:|NoNewPrivs' /proc/self/status; mknod /dev/kmsg2 c 1 11; cat /dev/kmsg2 || echo no device; \
                  cat /proc/kcore | head -c 1 | wc -c; echo 1 > /proc/sys/kernel/hostname || echo fixed";
    let (_, printed) = run_with(script, |container, _| container.process.no_new_privs = true).await;
    let has = |text: &str| printed.iter().any(|line| line.contains(text));
    for text in [
        "no mount", "no user namespace", "CapBnd:\t00000000a80425fb", "Seccomp:\t2", "NoNewPrivs:\t1", "no device",
        "0", "fixed",
    ] {
        assert!(has(text), "{text:?} is missing in {printed:?}");
    }
}

#[tokio::test]
async fn capabilities_change_as_asked_for_or_are_refused_by_name() {
    let (_, printed) = run_with("grep CapEff /proc/self/status", |container, _| {
        container.process.capabilities = CapabilityChange { add: vec!["NET_ADMIN".into()], drop: vec!["ALL".into()] };
    })
    .await;
    assert_eq!(printed, ["CapEff:\t0000000000001000"]);
    must_be_root();
    let place = Place::new();
    let pod = place.pod().await;
    let mut container = place.container("main", "true");
    container.process.capabilities.add = vec!["FLY".into()];
    assert!(pod.start_container(container).await.unwrap_err().to_string().contains("unknown capability \"FLY\""));
    pod.remove().await.unwrap();
}

#[tokio::test]
async fn a_profile_of_the_machine_filters_calls() {
    let (_, printed) = run_with("mkdir /x || echo refused", |container, place| {
        let path = place.folder.path().join("profile.json");
        let text = r#"{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["mkdir","mkdirat"],"action":"SCMP_ACT_ERRNO"}]}"#;
        std::fs::write(&path, text).unwrap();
        container.process.seccomp = Seccomp::Localhost(path);
    })
    .await;
    assert!(printed.contains(&"refused".to_owned()), "{printed:?}");
}

#[tokio::test]
async fn a_privileged_container_may_mount_and_sees_devices() {
    let (exit, printed) = run_with("mount -t tmpfs none /tmp && echo mounted; ls /dev | wc -l", |container, _| {
        container.process.privileged = true
    })
    .await;
    assert_eq!(exit.code, 0);
    assert_eq!(printed[0], "mounted");
}

#[tokio::test]
async fn a_device_that_is_given_can_be_opened() {
    let (_, printed) = run_with("head -c 3 /dev/given/zero | wc -c", |container, _| {
        container.devices = vec![Device {
            host_path: "/dev/zero".into(),
            container_path: "/dev/given/zero".into(),
            access: "r".into(),
        }];
    })
    .await;
    assert_eq!(printed, ["3"]);
}
