//! The store on disk: archives, removal, collection, crashes and full disks.

use super::archive::ArchiveFormat;
use super::auth::Keyring;
use super::collect::CollectPolicy;
use super::digest::Digest;
use super::error::ImageError;
use super::fixtures::{Layer, TestImage, TestRegistry, names_in, options, quiet, small_image, store};
use super::inflate::Compression;
use super::layout::{Layout, Space};
use super::pull::PullPolicy;
use super::reference::Reference;
use super::store::{Image, Options, Store};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

async fn pull(store: &Store, reference: &Reference) -> Result<Image, ImageError> {
    store.pull(reference, &Keyring::default(), PullPolicy::IfNotPresent, quiet()).await
}

fn one_file(name: &str) -> TestImage {
    TestImage::new(vec![Layer::default().file(name, name).tar()], Compression::Gzip)
}

#[tokio::test]
async fn images_survive_being_saved_and_loaded_in_both_formats() {
    let (home, registry) = (tempfile::tempdir().expect("tmp"), TestRegistry::start().await);
    let first = store(&home.path().join("first")).await;
    let references = [registry.push("a:v1", &small_image(Compression::Zstd)), registry.push("b:v1", &one_file("b"))];
    let mut pulled = Vec::new();
    for reference in &references {
        pulled.push(pull(&first, reference).await.expect("pulled"));
    }
    for (at, format) in [ArchiveFormat::Docker, ArchiveFormat::Oci].into_iter().enumerate() {
        let archive = home.path().join(format!("{at}.tar"));
        first.save(&references, format, &archive).await.expect("saved");
        let second = store(&home.path().join(format!("second{at}"))).await;
        let mut loaded = second.load(&archive, None).await.expect("loaded");
        loaded.sort_by_key(|image| image.reference.clone());
        for (image, original) in loaded.iter().zip(&pulled) {
            assert_eq!(
                (&image.reference, &image.id, &image.digest),
                (&original.reference, &original.id, &original.digest)
            );
            assert_eq!(image.config, original.config);
        }
        assert_eq!(loaded.len(), 2);
        assert_eq!(std::fs::read_to_string(loaded[0].layers[0].join("etc/name")).expect("there"), "top");
    }
    let missing = first.save(&[registry.reference("none")], ArchiveFormat::Oci, &home.path().join("none.tar")).await;
    assert!(matches!(missing, Err(ImageError::NotFound(_))));
}

#[tokio::test]
async fn old_docker_archives_with_linked_layers_are_loaded() {
    let home = tempfile::tempdir().expect("tmp");
    let layer = Layer::default().file("f", "f").tar();
    let config =
        serde_json::json!({"rootfs": {"diff_ids": [Digest::of(&layer), Digest::of(&layer)]}, "config": {"Cmd": ["f"]}});
    let list = serde_json::json!([{"Config": "c.json", "RepoTags": ["app:v1", "app:v2"], "Layers": ["one/layer.tar", "two/layer.tar"]}]);
    let archive = Layer::default()
        .file("one/layer.tar", &layer)
        .symlink("two/layer.tar", "../one/layer.tar")
        .file("c.json", config.to_string())
        .file("manifest.json", list.to_string());
    let path = home.path().join("old.tar");
    std::fs::write(&path, archive.tar()).expect("written");
    let store = store(&home.path().join("images")).await;
    let loaded = store.load(&path, None).await.expect("loaded");
    let names: Vec<String> = loaded.iter().map(|image| image.reference.familiar()).collect();
    assert_eq!(names, ["app:v1", "app:v2"]);
    assert_eq!(loaded[0].layers.len(), 2);
    std::fs::write(&path, Layer::default().file("x", "x").tar()).expect("written");
    assert!(
        store
            .load(&path, None)
            .await
            .expect_err("no image")
            .to_string()
            .contains("neither index.json nor manifest.json")
    );
}

#[tokio::test]
async fn removing_a_name_removes_what_only_it_needed() {
    let (home, registry) = (tempfile::tempdir().expect("tmp"), TestRegistry::start().await);
    let store = store(home.path()).await;
    let base = Layer::default().file("base", "base").tar();
    let with =
        |name: &str| TestImage::new(vec![base.clone(), Layer::default().file(name, name).tar()], Compression::Gzip);
    let (a, b) = (registry.push("a", &with("a")), registry.push("b", &with("b")));
    let image = pull(&store, &a).await.expect("a");
    pull(&store, &b).await.expect("b");
    let running = BTreeSet::from([image.id.clone()]);
    assert!(matches!(store.remove(&a, &running).await, Err(ImageError::InUse(_, _))));
    store.remove(&a, &BTreeSet::new()).await.expect("removed");
    assert_eq!(store.list().await.expect("list").len(), 1);
    assert!(!image.layers[0].exists() && image.layers[1].exists());
    assert_eq!(names_in(&home.path().join("blobs/sha256")).len(), 4);
    store.remove(&b, &BTreeSet::new()).await.expect("removed");
    assert!(names_in(&home.path().join("blobs/sha256")).is_empty() && names_in(&home.path().join("layers")).is_empty());
    assert!(matches!(store.remove(&b, &BTreeSet::new()).await, Err(ImageError::NotFound(_))));
}

#[tokio::test]
async fn a_full_disk_is_collected_but_images_in_use_stay() {
    let (home, registry) = (tempfile::tempdir().expect("tmp"), TestRegistry::start().await);
    let store = store(home.path()).await;
    let mut images = Vec::new();
    for name in ["a", "b"] {
        images.push(pull(&store, &registry.push(name, &one_file(name))).await.expect("pulled"));
    }
    let policy = CollectPolicy { age_min: Duration::ZERO, ..CollectPolicy::default() };
    let keep = BTreeSet::from([images[0].id.clone()]);
    let roomy = store.collect_at(Space { total: 1000, free: 500 }, &keep, &policy).await.expect("nothing to do");
    assert!(roomy.removed.is_empty());
    let tight = store.collect_at(Space { total: 1000, free: 10 }, &keep, &policy).await.expect("collected");
    assert_eq!(tight.removed, [images[1].reference.to_string()]);
    assert!(tight.bytes_freed > 0 && images[0].layers[0].exists() && !images[1].layers[0].exists());
}

#[tokio::test]
async fn an_image_whose_tag_moved_keeps_a_name_by_digest() {
    let (home, registry) = (tempfile::tempdir().expect("tmp"), TestRegistry::start().await);
    let store = store(home.path()).await;
    let reference = registry.push("app:v1", &one_file("old"));
    let old = pull(&store, &reference).await.expect("old");
    registry.push("app:v1", &one_file("new"));
    let new = store.pull(&reference, &Keyring::default(), PullPolicy::Always, quiet()).await.expect("new");
    assert_ne!(old.id, new.id);
    let names: Vec<String> =
        store.list().await.expect("list").into_iter().map(|image| image.reference.to_string()).collect();
    assert_eq!(names, [reference.to_string(), old.pinned()]);
    assert!(old.layers[0].exists());
}

#[tokio::test]
async fn opening_sweeps_what_a_crash_left_and_the_next_pull_mends_it() {
    let (home, registry) = (tempfile::tempdir().expect("tmp"), TestRegistry::start().await);
    let root = home.path();
    let image = small_image(Compression::Gzip);
    let reference = registry.push("app:v1", &image);
    let first = store(root).await;
    let pulled = pull(&first, &reference).await.expect("pulled");
    drop(first);
    let layout = Layout::open(root).expect("layout");
    // The store stays open until its layers are flushed.
    let users = std::fs::File::open(layout.users_lock()).expect("lock file");
    let alone = tokio::task::spawn_blocking(move || {
        rustix::fs::flock(&users, rustix::fs::FlockOperation::LockExclusive).map(|()| users)
    });
    drop(alone.await.expect("joined").expect("alone"));
    std::fs::create_dir_all(root.join("staging/1-2-x/deep")).expect("made");
    std::fs::create_dir(root.join("layers/0123456789abcdef")).expect("a layer without a marker");
    std::fs::remove_dir_all(&pulled.layers[0]).expect("a marker without a layer");
    let mut marker = layout.layer_marker(&image.diff_ids[0]).expect("read").expect("whole");
    (marker.boot, marker.is_synced) = ("another boot".to_owned(), false);
    layout.write_marker(&marker).expect("written");

    let second = store(root).await;
    assert!(names_in(&root.join("staging")).is_empty());
    assert!(names_in(&root.join("layers")).is_empty());
    assert_eq!(second.get(&reference).await.expect("read"), None);
    assert_eq!(pull(&second, &reference).await.expect("mended").layers, pulled.layers);
    assert_eq!(registry.requests("/blobs/").len(), 3, "the stored blobs were enough");
}

#[tokio::test]
async fn a_stored_blob_that_went_bad_is_fetched_again() {
    let (home, registry) = (tempfile::tempdir().expect("tmp"), TestRegistry::start().await);
    let image = one_file("f");
    let reference = registry.push("app:v1", &image);
    let store = store(home.path()).await;
    let layout = Layout::open(home.path()).expect("layout");
    std::fs::write(layout.blob(&image.blob(0)), "cut short by a power failure").expect("written");
    pull(&store, &reference).await.expect("fetched again");
    assert_eq!(registry.requests(image.blob(0).as_str()).len(), 1);
}

#[tokio::test]
async fn without_kept_blobs_images_run_but_cannot_be_saved() {
    let (home, registry) = (tempfile::tempdir().expect("tmp"), TestRegistry::start().await);
    let reference = registry.push("app:v1", &one_file("f"));
    let store = Store::open(home.path(), Options { keep_blobs: false, ..options() }).await.expect("opens");
    pull(&store, &reference).await.expect("pulled");
    assert_eq!(names_in(&home.path().join("blobs/sha256")).len(), 2);
    let saved = store.save(&[reference], ArchiveFormat::Oci, &home.path().join("x.tar")).await;
    assert!(matches!(saved, Err(ImageError::BlobGone(_))) && !home.path().join("x.tar").exists());
}

/// A small file system of our own, unmounted at the end.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new(size: &str) -> Option<SmallDisk> {
        let folder = tempfile::tempdir().expect("tmp");
        let option = format!("size={size}");
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &option, "tmpfs"])
            .arg(folder.path())
            .output();
        match mounted.is_ok_and(|output| output.status.success()) {
            true => Some(SmallDisk(folder)),
            false => {
                eprintln!("skipped: a small disk needs the right to mount");
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(std::process::Command::new("umount").arg("-l").arg(self.0.path()).status());
    }
}

#[tokio::test]
async fn a_full_disk_is_told_and_leaves_nothing_behind() {
    let Some(disk) = SmallDisk::new("2m") else { return };
    let registry = TestRegistry::start().await;
    let store = store(disk.path()).await;
    let zeros = TestImage::new(vec![Layer::default().file("zeros", vec![0; 4 << 20]).tar()], Compression::Gzip);
    let plain = TestImage::new(vec![Layer::default().file("zeros", vec![1; 4 << 20]).tar()], Compression::None);
    for (name, image) in [("unpack:v1", &zeros), ("download:v1", &plain)] {
        let error = pull(&store, &registry.push(name, image)).await.expect_err("too large");
        assert!(error.to_string().contains("no space left on device"), "{error}");
        assert!(names_in(&disk.path().join("staging")).is_empty() && names_in(&disk.path().join("partial")).is_empty());
        assert!(names_in(&disk.path().join("layers")).is_empty());
    }
    pull(&store, &registry.push("small:v1", &one_file("f"))).await.expect("what fits still works");
}
