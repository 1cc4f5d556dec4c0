//! Volumes on a real server, with real mounts: these tests want to be root, as the runtime's do.

use super::*;
use crate::apiserver::pki::Pki;
use crate::runtime::spec::{Mount, MountSource};
use crate::store::{Options, Store};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::time::Instant;
use volley_plan::node::environment::ConfigError;
use volley_plan::node::volumes::token_renewal;

const UID: &str = "11111111-2222-3333-4444-555555555555";

struct World {
    server: Arc<ApiServer>,
    /// The machine, as far as these tests touch it.
    machine: tempfile::TempDir,
    sources: Sources,
}

impl World {
    async fn start() -> World {
        let machine = tempfile::tempdir().unwrap();
        let pki = Pki::open(machine.path(), &["127.0.0.1".to_owned()]).unwrap();
        let server =
            ApiServer::open(Store::in_memory(Options::default()), &pki, volley_plan::admit::training::RULES).await;
        server.set_address("127.0.0.1:6443");
        server.bootstrap(6443).await.unwrap();
        let account = json!({"metadata": {"name": "default"}});
        if server.local("test").get("", "serviceaccounts", "default", "default").is_none() {
            server.local("test").create("", "serviceaccounts", "default", account).await.unwrap();
        }
        World { server, machine, sources: Sources::default() }
    }

    fn volumes(&self, mode: Mode) -> Volumes {
        Volumes::new(self.server.clone(), mode)
    }

    fn folder(&self) -> PathBuf {
        self.machine.path().join("pod/volumes")
    }

    fn at(&self, path: &str) -> PathBuf {
        self.machine.path().join(path)
    }

    /// A file of the machine with something in it.
    fn file(&self, path: &str) -> PathBuf {
        let place = self.at(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(&place, "precious").unwrap();
        place
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.folder().join(path)).unwrap()
    }

    async fn mount(&self, pod: &Pod) -> Result<(), String> {
        let mounted = self.volumes(Mode::Root).mount(pod, &self.folder(), &self.sources).await;
        mounted.map(drop).map_err(|error| {
            assert_eq!(error.reason, "FailedMount");
            error.message
        })
    }

    async fn refresh(&self, pod: &Pod) -> Option<Timestamp> {
        self.volumes(Mode::Root).refresh(pod, &self.folder(), &self.sources).await.unwrap()
    }

    /// As a node that has just been started: nothing is known but what is found.
    async fn unmount(&self) {
        unmount(&self.folder()).await.unwrap();
        assert!(!self.folder().exists());
        assert_eq!(self.mount_points(), Vec::<PathBuf>::new());
    }

    fn mount_points(&self) -> Vec<PathBuf> {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        mounts_below(&table, &fs::canonicalize(self.machine.path()).unwrap())
    }

    async fn create(&self, plural: &str, object: Value) {
        let namespace = if plural == "persistentvolumes" { "" } else { "default" };
        self.server.local("test").create("", plural, namespace, object).await.unwrap();
    }

    /// A claim that is bound to a volume of this source.
    async fn bind(&self, source: Value) {
        let size = json!({"storage": "1Gi"});
        let mut spec = json!({"capacity": size, "accessModes": ["ReadWriteMany"], "storageClassName": "",
            "claimRef": {"namespace": "default", "name": "data"}});
        for (key, value) in source.as_object().unwrap() {
            spec[key] = value.clone();
        }
        let claim = json!({"accessModes": ["ReadWriteMany"], "resources": {"requests": size}, "volumeName": "pv",
            "storageClassName": ""});
        self.create("persistentvolumeclaims", json!({"metadata": {"name": "data"}, "spec": claim})).await;
        let local = self.server.local("test");
        let claim = local.get("", "persistentvolumeclaims", "default", "data").unwrap();
        spec["claimRef"]["uid"] = claim["metadata"]["uid"].clone();
        self.create("persistentvolumes", json!({"metadata": {"name": "pv"}, "spec": spec})).await;
        let status = json!({"status": {"phase": "Bound"}});
        local.patch_status("", "persistentvolumeclaims", "default", "data", status).await.unwrap();
    }
}

/// A pod with these volumes; its container mounts each at `/<name>`.
fn pod(volumes: Value, context: Value) -> Pod {
    let mounts: Vec<Value> = volumes
        .as_array()
        .unwrap()
        .iter()
        .map(|volume| json!({"name": volume["name"], "mountPath": format!("/{}", volume["name"].as_str().unwrap())}))
        .collect();
    let container = json!({"name": "c", "image": "i", "volumeMounts": mounts});
    serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "default", "uid": UID},
        "spec": {"containers": [container], "volumes": volumes, "securityContext": context},
    }))
    .unwrap()
}

fn one(source: Value) -> Pod {
    let mut volume = source;
    volume["name"] = json!("v");
    pod(json!([volume]), json!({}))
}

fn config_map(data: Value) -> BTreeMap<String, k8s_openapi::api::core::v1::ConfigMap> {
    BTreeMap::from([("m".to_owned(), serde_json::from_value(json!({ "data": data })).unwrap())])
}

fn token_pod(context: Value) -> Pod {
    let sources = json!([
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
        {"configMap": {"name": "m", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]);
    pod(json!([{"name": "kube-api-access-x", "projected": {"sources": sources, "defaultMode": 0o644}}]), context)
}

/// The world with the pod that a token is bound to.
async fn token_world(context: Value) -> (World, Pod) {
    let mut world = World::start().await;
    world.sources.config_maps = config_map(json!({"ca.crt": "certificate"}));
    let made = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    world.create("pods", made).await;
    let made = world.server.local("test").get("", "pods", "default", "p").unwrap();
    let mut pod = token_pod(context);
    pod.metadata.uid = made["metadata"]["uid"].as_str().map(str::to_owned);
    (world, pod)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

// K-POD-4 K-AUTH-5
#[tokio::test]
async fn the_usual_token_volume_is_in_memory_bound_to_the_pod_and_kept_while_it_is_good() {
    let (world, pod) = token_world(json!({})).await;
    world.mount(&pod).await.unwrap();
    assert_eq!(world.mount_points().len(), 1);
    assert_eq!(world.text("kube-api-access-x/namespace"), "default");
    assert_eq!(world.text("kube-api-access-x/ca.crt"), "certificate");
    let token = world.text("kube-api-access-x/token");
    let claims = world.server.tokens.verify(&token).unwrap();
    assert_eq!(claims["kubernetes.io"]["pod"]["uid"].as_str(), pod.metadata.uid.as_deref());
    assert_eq!(mode(&world.folder().join("kube-api-access-x/token")), 0o644);
    let time = |name: &str| Timestamp::from_second(claims[name].as_i64().unwrap()).unwrap();
    assert_eq!(world.refresh(&pod).await, Some(token_renewal(time("iat"), time("exp"))));
    assert_eq!(world.text("kube-api-access-x/token"), token);
    world.unmount().await;
}

// K-AUTH-5
#[tokio::test]
async fn a_token_that_is_no_longer_good_is_replaced() {
    let (world, pod) = token_world(json!({})).await;
    world.mount(&pod).await.unwrap();
    fs::write(world.folder().join("kube-api-access-x/token"), "outdated").unwrap();
    assert!(world.refresh(&pod).await.is_some());
    assert!(world.server.tokens.verify(&world.text("kube-api-access-x/token")).is_some());
    world.unmount().await;
}

#[tokio::test]
async fn a_token_of_an_account_that_is_gone_says_so() {
    let (world, mut pod) = token_world(json!({})).await;
    pod.spec.as_mut().unwrap().service_account_name = Some("gone".to_owned());
    let refused = world.mount(&pod).await.unwrap_err();
    let text = "MountVolume.SetUp failed for volume \"kube-api-access-x\" : \
                failed to fetch token: serviceaccounts \"gone\" not found";
    assert_eq!(refused, text);
    world.unmount().await;
}

#[tokio::test]
async fn a_token_belongs_to_the_pods_user_and_group_only() {
    let (world, pod) = token_world(json!({"runAsUser": 1000, "fsGroup": 2000})).await;
    world.mount(&pod).await.unwrap();
    let token = world.folder().join("kube-api-access-x/token");
    let found = fs::metadata(&token).unwrap();
    assert_eq!((found.uid(), found.gid(), mode(&token)), (1000, 2000, 0o640));
    let certificate = world.folder().join("kube-api-access-x/ca.crt");
    assert_eq!((fs::metadata(&certificate).unwrap().gid(), mode(&certificate)), (2000, 0o644));
    world.unmount().await;
}

#[tokio::test]
async fn making_a_token_volume_takes_milliseconds_at_most() {
    let (world, pod) = token_world(json!({})).await;
    let mut best = std::time::Duration::MAX;
    for _ in 0..20 {
        let start = Instant::now();
        world.mount(&pod).await.unwrap();
        best = best.min(start.elapsed());
        world.unmount().await;
    }
    println!("a token volume is made in {best:?}");
    assert!(best.as_millis() < 20, "{best:?}");
}

// K-VOL-1
#[tokio::test]
async fn a_changed_source_is_seen_at_once_through_the_data_link() {
    let mut world = World::start().await;
    let pod = one(json!({"configMap": {"name": "m"}}));
    world.sources.config_maps = config_map(json!({"a": "1", "b": "2"}));
    world.mount(&pod).await.unwrap();
    let before = fs::read_link(world.folder().join("v/..data")).unwrap();
    assert_eq!(fs::read_link(world.folder().join("v/a")).unwrap(), Path::new("..data/a"));
    assert_eq!(world.refresh(&pod).await, None);
    assert_eq!(fs::read_link(world.folder().join("v/..data")).unwrap(), before);
    world.sources.config_maps = config_map(json!({"a": "changed", "c": "3"}));
    world.refresh(&pod).await;
    assert_eq!(world.text("v/a"), "changed");
    let mut names: Vec<String> = fs::read_dir(world.folder().join("v"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let now = fs::read_link(world.folder().join("v/..data")).unwrap();
    assert_eq!(names, [now.to_str().unwrap(), "..data", "a", "c"]);
    world.unmount().await;
}

#[tokio::test]
async fn a_secret_is_kept_in_memory_with_the_modes_and_paths_asked_for() {
    let mut world = World::start().await;
    let secret = serde_json::from_value(json!({"data": {"key": "aHVudGVyMg=="}})).unwrap();
    world.sources.secrets = BTreeMap::from([("s".to_owned(), secret)]);
    let items = json!([{"key": "key", "path": "deep/er/key", "mode": 0o400}]);
    let pod = one(json!({"secret": {"secretName": "s", "items": items}}));
    world.mount(&pod).await.unwrap();
    assert_eq!(world.text("v/deep/er/key"), "hunter2");
    assert_eq!(mode(&world.folder().join("v/deep/er/key")), 0o400);
    assert_eq!(world.mount_points(), [fs::canonicalize(world.folder().join("v")).unwrap()]);
    world.mount(&pod).await.unwrap();
    assert_eq!(world.mount_points().len(), 1);
    world.sources.secrets.clear();
    assert!(world.mount(&pod).await.unwrap_err().ends_with("secret \"s\" not found"));
    world.unmount().await;
}

#[tokio::test]
async fn a_source_that_is_missing_is_named_unless_it_is_optional() {
    let world = World::start().await;
    let refused = world.mount(&one(json!({"configMap": {"name": "y"}}))).await;
    assert_eq!(refused, Err("MountVolume.SetUp failed for volume \"v\" : configmap \"y\" not found".to_owned()));
    world.mount(&one(json!({"configMap": {"name": "y", "optional": true}}))).await.unwrap();
    world.unmount().await;
}

#[tokio::test]
async fn one_volume_that_cannot_be_had_does_not_keep_the_others_from_being_renewed() {
    let mut world = World::start().await;
    let volumes = json!([{"name": "a", "configMap": {"name": "gone"}}, {"name": "b", "configMap": {"name": "m"}}]);
    let pod = pod(volumes, json!({}));
    world.sources.config_maps = config_map(json!({"key": "1"}));
    assert!(world.mount(&pod).await.unwrap_err().ends_with("configmap \"gone\" not found"));
    assert_eq!(world.text("b/key"), "1");
    world.sources.config_maps = config_map(json!({"key": "2"}));
    let refused = world.volumes(Mode::Root).refresh(&pod, &world.folder(), &world.sources).await.unwrap_err();
    assert!(refused.message.ends_with("configmap \"gone\" not found"));
    assert_eq!(world.text("b/key"), "2");
    world.unmount().await;
}

#[tokio::test]
async fn host_paths_are_checked_for_their_type_in_the_kubelets_words() {
    let world = World::start().await;
    let (file, folder) = (world.file("data/file"), world.at("data"));
    let cases = [
        (folder.clone(), "Directory", None),
        (file.clone(), "File", None),
        (PathBuf::from("/dev/null"), "CharDevice", None),
        (world.at("made/folder"), "DirectoryOrCreate", None),
        (world.at("data/made"), "FileOrCreate", None),
        (world.at("made/untyped"), "", None),
        (file.clone(), "Directory", Some("directory")),
        (file.clone(), "DirectoryOrCreate", Some("directory")),
        (folder.clone(), "FileOrCreate", Some("file")),
        (world.at("gone"), "File", Some("file")),
        (file.clone(), "Socket", Some("socket file")),
        (file.clone(), "CharDevice", Some("character device")),
        (file, "BlockDevice", Some("block device")),
    ];
    for (path, kind, wanted) in cases {
        let pod = one(json!({"hostPath": {"path": path, "type": kind}}));
        let prefix = "MountVolume.SetUp failed for volume \"v\" : hostPath type check failed:";
        let refusal = wanted.map(|wanted| format!("{prefix} {} is not a {wanted}", path.display()));
        assert_eq!(world.mount(&pod).await.err(), refusal, "{kind}");
        world.unmount().await;
    }
    assert!(world.at("made/folder").is_dir() && world.at("made/untyped").is_dir() && world.at("data/made").is_file());
    assert!(world.at("data/file").is_file());
}

// K-VOL-1
#[tokio::test]
async fn a_claim_is_the_folder_of_its_volume_which_outlives_the_pod() {
    let world = World::start().await;
    let kept = world.file("volumes/pv/kept");
    let pod = one(json!({"persistentVolumeClaim": {"claimName": "data", "readOnly": true}}));
    let waiting = world.mount(&pod).await.unwrap_err();
    assert!(waiting.ends_with("persistentvolumeclaims \"data\" not found"), "{waiting}");
    world.bind(json!({"hostPath": {"path": kept.parent().unwrap()}})).await;
    world.mount(&pod).await.unwrap();
    let mounts = container_mounts(&world, &pod).unwrap();
    let source = MountSource::Bind { path: kept.parent().unwrap().to_owned(), sub_path: None };
    assert_eq!((&mounts[0].source, mounts[0].read_only), (&source, true));
    let pending = json!({"status": {"phase": "Lost"}});
    let local = world.server.local("test");
    local.patch_status("", "persistentvolumeclaims", "default", "data", pending).await.unwrap();
    world.mount(&pod).await.unwrap();
    world.unmount().await;
    assert!(world.mount(&pod).await.unwrap_err().ends_with("PVC is not bound"));
    world.unmount().await;
    assert_eq!(fs::read_to_string(kept).unwrap(), "precious");
}

#[tokio::test]
async fn a_local_volume_is_given_to_the_pods_group_and_left_alone() {
    let world = World::start().await;
    let kept = world.file("disk/inner/kept");
    let outside = world.file("outside");
    symlink(&outside, world.at("disk/link")).unwrap();
    let before = fs::metadata(&outside).unwrap().gid();
    world
        .bind(json!({"local": {"path": world.at("disk")},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions":
            [{"key": "kubernetes.io/hostname", "operator": "Exists"}]}]}}}))
        .await;
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    world.mount(&pod(volumes, json!({"fsGroup": 2000}))).await.unwrap();
    assert_eq!((fs::metadata(&kept).unwrap().gid(), mode(&kept)), (2000, 0o664));
    assert_eq!((fs::metadata(world.at("disk")).unwrap().gid(), mode(&world.at("disk"))), (2000, 0o2775));
    assert_eq!((fs::metadata(&outside).unwrap().gid(), mode(&outside)), (before, 0o644));
    world.unmount().await;
    assert!(kept.exists());
}

#[tokio::test]
async fn scratch_volumes_are_everybodys_or_the_groups_and_memory_is_limited() {
    let world = World::start().await;
    let volumes = json!([{"name": "disk", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]);
    world.mount(&pod(volumes.clone(), json!({}))).await.unwrap();
    let (disk, shm) = (world.folder().join("disk"), world.folder().join("shm"));
    assert_eq!((mode(&disk), mode(&shm)), (0o777, 0o1777));
    let full = fs::write(shm.join("large"), vec![1; 2 << 20]).unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    fs::write(disk.join("kept"), "1").unwrap();
    world.mount(&pod(volumes.clone(), json!({}))).await.unwrap();
    assert_eq!(world.text("disk/kept"), "1");
    world.unmount().await;
    world.mount(&pod(volumes, json!({"fsGroup": 2000}))).await.unwrap();
    assert_eq!((fs::metadata(&disk).unwrap().gid(), mode(&disk)), (2000, 0o2777));
    world.unmount().await;
}

#[tokio::test]
async fn what_a_killed_node_left_is_taken_away_without_touching_what_lies_behind_links_and_mounts() {
    let world = World::start().await;
    let kept = world.file("precious/kept");
    let outside = kept.parent().unwrap();
    let volumes = json!([{"name": "disk", "emptyDir": {}}, {"name": "shm", "emptyDir": {"medium": "Memory"}},
        {"name": "host", "hostPath": {"path": outside}}]);
    world.mount(&pod(volumes, json!({}))).await.unwrap();
    let disk = world.folder().join("disk");
    fs::create_dir_all(disk.join("a/b")).unwrap();
    symlink(outside, disk.join("a/link")).unwrap();
    fs::create_dir(disk.join("bind")).unwrap();
    let source = outside.to_str().unwrap();
    sys::mount(source, &disk.join("bind"), "", libc::MS_BIND, "").unwrap();
    sys::mount("tmpfs", &world.folder().join("shm"), "tmpfs", 0, "").unwrap();
    fs::set_permissions(disk.join("a"), Permissions::from_mode(0o000)).unwrap();
    assert!(disk.join("bind/kept").exists());
    world.unmount().await;
    assert_eq!(fs::read_to_string(&kept).unwrap(), "precious");
    world.unmount().await;
}

#[test]
fn two_may_remove_one_tree_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    for number in 0..300 {
        fs::create_dir_all(tree.join(format!("{number}/a"))).unwrap();
        fs::write(tree.join(format!("{number}/a/b")), "").unwrap();
    }
    std::thread::scope(|threads| {
        let removers: Vec<_> = (0..2).map(|_| threads.spawn(|| tree::remove(&tree))).collect();
        for remover in removers {
            remover.join().unwrap().unwrap();
        }
    });
    assert!(!tree.exists());
}

#[tokio::test]
async fn a_tree_of_any_depth_can_be_removed() {
    let world = World::start().await;
    let pod = one(json!({"emptyDir": {"sizeLimit": "1Gi"}}));
    world.mount(&pod).await.unwrap();
    fs::create_dir_all(world.folder().join("v").join("d/".repeat(700))).unwrap();
    assert_eq!(usage_over_limit(&pod, &world.folder()), None);
    world.unmount().await;
}

#[tokio::test]
async fn a_folder_that_holds_a_foreign_mount_is_never_emptied_through_it() {
    let world = World::start().await;
    let place = world.at("tree/mounted");
    fs::create_dir_all(&place).unwrap();
    sys::mount("tmpfs", &place, "tmpfs", 0, "").unwrap();
    fs::write(place.join("kept"), "1").unwrap();
    let refused = tree::remove(&world.at("tree")).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::CrossesDevices);
    assert!(place.join("kept").exists());
    sys::unmount_detached(&place).unwrap();
}

fn container_mounts(world: &World, pod: &Pod) -> Result<Vec<Mount>, ConfigError> {
    let environment = [("POD".to_owned(), "p-0".to_owned())];
    mounts(pod, &pod.spec.as_ref().unwrap().containers[0], &world.folder(), &environment)
}

fn with_sub_path(pod: &Pod, field: &str, path: &str) -> Pod {
    let mut value = serde_json::to_value(pod).unwrap();
    value["spec"]["containers"][0]["volumeMounts"][0][field] = json!(path);
    serde_json::from_value(value).unwrap()
}

#[tokio::test]
async fn sub_paths_are_made_like_the_volume_and_cannot_leave_it() {
    let world = World::start().await;
    let pod = pod(json!([{"name": "v", "emptyDir": {}}]), json!({"fsGroup": 2000}));
    world.mount(&pod).await.unwrap();
    let volume = world.folder().join("v");
    let found = container_mounts(&world, &with_sub_path(&pod, "subPathExpr", "logs/$(POD)")).unwrap();
    let source = MountSource::Bind { path: volume.clone(), sub_path: Some("logs/p-0".into()) };
    assert_eq!((&found[0].source, found[0].read_only), (&source, false));
    let made = volume.join("logs/p-0");
    assert_eq!((fs::metadata(&made).unwrap().gid(), mode(&made)), (2000, 0o2777));
    let outside = world.at("outside");
    fs::create_dir(&outside).unwrap();
    symlink(&outside, volume.join("link")).unwrap();
    symlink("../../..", volume.join("up")).unwrap();
    for path in ["link/made", "up/made", "link"] {
        let refused = container_mounts(&world, &with_sub_path(&pod, "subPath", path)).unwrap_err().to_string();
        let text = "failed to create subPath directory for volumeMount \"v\" of container \"c\"";
        assert!(refused.starts_with(text), "{refused}");
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    assert!(!world.at("made").exists());
    world.unmount().await;
    assert!(outside.exists());
}

#[tokio::test]
async fn without_privileges_memory_is_the_containers_own_and_other_mounts_are_refused() {
    let world = World::start().await;
    let volumes = world.volumes(Mode::Rootless);
    let memory = one(json!({"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}));
    volumes.mount(&memory, &world.folder(), &world.sources).await.unwrap();
    let found = container_mounts(&world, &memory).unwrap();
    assert_eq!(found[0].source, MountSource::Tmpfs { bytes: Some(1 << 20), mode: 0o1777 });
    let shared = with_sub_path(&memory, "subPath", "a");
    let nfs = one(json!({"nfs": {"server": "10.0.0.1", "path": "/x"}}));
    for pod in [shared, nfs] {
        let refused = volumes.mount(&pod, &world.folder(), &world.sources).await.unwrap_err();
        assert!(refused.message.contains("run volley as root"), "{refused}");
    }
    world.unmount().await;
}

#[tokio::test]
async fn a_share_that_cannot_be_mounted_says_which_and_what_to_do() {
    let world = World::start().await;
    // A port where nobody answers; kernels without NFS do not even ask.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    world.bind(json!({"nfs": {"server": "127.0.0.1", "path": "/srv"}, "mountOptions": [format!("port={port}")]})).await;
    let refused = world.mount(&one(json!({"persistentVolumeClaim": {"claimName": "data"}}))).await.unwrap_err();
    let text = "MountVolume.SetUp failed for volume \"pv\" : mount failed: cannot mount 127.0.0.1:/srv by NFS: ";
    assert!(refused.starts_with(text), "{refused}");
    assert!(refused.contains("modprobe nfs") || refused.contains("the server does not answer"), "{refused}");
    world.unmount().await;
}

#[tokio::test]
async fn a_disk_volume_that_outgrows_its_limit_is_noticed() {
    let world = World::start().await;
    let pod = one(json!({"emptyDir": {"sizeLimit": "64Ki"}}));
    world.mount(&pod).await.unwrap();
    assert_eq!(usage_over_limit(&pod, &world.folder()), None);
    fs::create_dir(world.folder().join("v/a")).unwrap();
    fs::write(world.folder().join("v/a/large"), vec![1; 128 << 10]).unwrap();
    let text = "Usage of EmptyDir volume \"v\" exceeds the limit \"64Ki\". ";
    assert_eq!(usage_over_limit(&pod, &world.folder()).as_deref(), Some(text));
    world.unmount().await;
}

#[tokio::test]
async fn a_volume_that_was_not_made_cannot_be_mounted() {
    let world = World::start().await;
    let refused = container_mounts(&world, &one(json!({"emptyDir": {}}))).unwrap_err().to_string();
    assert!(refused.starts_with("cannot find volume \"v\" to mount into container \"c\""), "{refused}");
}
