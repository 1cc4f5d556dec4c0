//! Pulling, against a registry on loopback: what arrives, what is asked for, and what happens when things break.

use super::auth::Keyring;
use super::error::ImageError;
use super::fixtures::{
    DOCKER_MANIFEST, Door, Fault, Layer, TestImage, TestRegistry, names_in, options, quiet, small_image, store,
};
use super::flight::{Progress, Stage};
use super::inflate::Compression;
use super::manifest::OCI_INDEX;
use super::pull::PullPolicy;
use super::reference::Reference;
use super::registry::HostConfig;
use super::store::{Image, Options, Store};
use parking_lot::Mutex;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

async fn pull(store: &Store, reference: &Reference) -> Result<Image, ImageError> {
    store.pull(reference, &Keyring::default(), PullPolicy::Always, quiet()).await
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).expect(name)
}

/// Bytes that do not compress, so that a blob is about as large as its layer.
fn noise(size: usize) -> Vec<u8> {
    let mut state = 1u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(size).collect()
}

fn large_image() -> TestImage {
    TestImage::new(vec![Layer::default().file("noise", noise(300_000)).tar()], Compression::Gzip)
}

#[tokio::test]
async fn an_image_is_pulled_once_and_then_used_offline() {
    let (home, registry) = (tempfile::tempdir().expect("tmp"), TestRegistry::start().await);
    let image = small_image(Compression::Gzip);
    let reference = registry.push("team/app:v1", &image);
    let store = store(home.path()).await;
    let pulled = pull(&store, &reference).await.expect("pulled");
    assert_eq!(pulled.digest, image.digest());
    assert_eq!(pulled.pinned(), format!("{}/team/app@{}", registry.address, image.digest()));
    assert_eq!(read(&pulled.layers[0], "etc/name"), "top");
    assert_eq!(read(&pulled.layers[1], "etc/name"), "base");
    let config = &pulled.config;
    assert_eq!(
        (config.entrypoint.as_slice(), config.cmd.as_slice()),
        (&["/bin/app".to_owned()][..], &["serve".to_owned()][..])
    );
    assert_eq!((config.user.as_str(), config.workdir.as_str(), config.stop_signal.as_str()), ("7:8", "/w", "SIGINT"));
    assert_eq!(
        (config.volumes.as_slice(), config.exposed.as_slice()),
        (&["/data".to_owned()][..], &["80/tcp".to_owned()][..])
    );
    let (base, lower) = pulled.lowerdir();
    assert_eq!((base, lower.len()), (home.path().join("layers"), 33));

    pull(&store, &reference).await.expect("again");
    assert_eq!(registry.requests("/blobs/").len(), 3, "a second pull asks only for the manifest");
    registry.shut();
    drop(store);
    let store = super::fixtures::store(home.path()).await;
    for name in ["team/app:v1".to_owned(), format!("team/app@{}", image.digest())] {
        let offline =
            store.pull(&registry.reference(&name), &Keyring::default(), PullPolicy::IfNotPresent, quiet()).await;
        assert_eq!(offline.expect("offline").layers, pulled.layers);
    }
    let error = pull(&store, &reference).await.expect_err("nobody answers");
    assert!(error.to_string().ends_with("connect: connection refused"), "{error}");
    assert!(
        error
            .to_string()
            .starts_with(&format!("failed to pull and unpack image \"{reference}\": failed to resolve reference")),
        "{error}"
    );
    assert_eq!(error.reason(), "ErrImagePull");
    let never = store.pull(&registry.reference("other"), &Keyring::default(), PullPolicy::Never, quiet()).await;
    assert_eq!(never.expect_err("absent").reason(), "ErrImageNeverPull");
}

#[tokio::test]
async fn all_compressions_and_both_kinds_of_manifest_are_understood() {
    let (home, registry) = (tempfile::tempdir().expect("tmp"), TestRegistry::start().await);
    let store = store(home.path()).await;
    for (at, compression) in [Compression::None, Compression::Gzip, Compression::Zstd].into_iter().enumerate() {
        for kind in [DOCKER_MANIFEST, super::manifest::OCI_MANIFEST] {
            let layer = Layer::default().file("which", format!("{at}{kind}")).tar();
            let reference = registry.push(&format!("x:{at}"), &TestImage::of_type(kind, vec![layer], compression));
            let image = pull(&store, &reference).await.expect("pulled");
            assert_eq!(read(&image.layers[0], "which"), format!("{at}{kind}"));
        }
    }
}

#[tokio::test]
async fn an_index_gives_the_machines_platform_or_says_what_there_is() {
    let (home, registry) = (tempfile::tempdir().expect("tmp"), TestRegistry::start().await);
    let store = store(home.path()).await;
    let image = small_image(Compression::Zstd);
    registry.push("multi:amd64", &image);
    let entry = |architecture: &str| {
        json!({"mediaType": image.media_type, "digest": image.digest(), "size": image.manifest.len(),
            "platform": {"os": "linux", "architecture": architecture}})
    };
    let index = |entries: &[&str]| {
        let manifests: Vec<_> = entries.iter().map(|name| entry(name)).collect();
        json!({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": manifests}).to_string().into_bytes()
    };
    let both = registry.push_document("multi:both", OCI_INDEX, index(&["arm64", "amd64"]));
    let pulled = pull(&store, &both).await.expect("pulled");
    assert_eq!(pulled.digest, super::digest::Digest::of(&index(&["arm64", "amd64"])));
    let other = registry.push_document("multi:other", OCI_INDEX, index(&["arm64", "s390x"]));
    let error = pull(&store, &other).await.expect_err("no platform").to_string();
    assert!(
        error.ends_with(
            "no match for platform in manifest: linux/amd64 is not among linux/arm64, linux/s390x: not found"
        ),
        "{error}"
    );
}

#[tokio::test]
async fn registries_behind_tokens_or_passwords_are_entered_with_the_right_secret() {
    let (home, registry) = (tempfile::tempdir().expect("tmp"), TestRegistry::start().await);
    let store = store(home.path()).await;
    let reference = registry.push("private/app:v1", &small_image(Compression::Gzip));
    let keyring = |password: &str| {
        let auths = json!({registry.address.to_string(): {"username": "user", "password": password}});
        Keyring::from_dockercfg(auths.to_string().as_bytes(), "test").expect("keyring")
    };
    let good = |door| (door, keyring("secret"), true);
    for (door, ring, is_welcome) in [
        good(Door::Basic),
        good(Door::Token),
        (Door::Basic, keyring("wrong"), false),
        (Door::Token, keyring("wrong"), false),
        (Door::Basic, Keyring::default(), false),
        (Door::Token, Keyring::default(), false),
        (
            Door::Token,
            keyring("wrong").and(
                Keyring::from_dockercfg(
                    json!({format!("{}/private", registry.address): {"username": "user", "password": "secret"}})
                        .to_string()
                        .as_bytes(),
                    "t",
                )
                .expect("keyring"),
            ),
            true,
        ),
    ] {
        registry.close_door(door, false);
        let pulled = store.pull(&reference, &ring, PullPolicy::Always, quiet()).await;
        match pulled {
            Ok(_) => assert!(is_welcome),
            Err(error) => {
                assert!(!is_welcome, "{error}");
                assert!(
                    error
                        .to_string()
                        .contains("pull access denied, repository does not exist or may require authorization: "),
                    "{error}"
                );
            }
        }
    }
    registry.close_door(Door::Token, true);
    store.pull(&reference, &Keyring::default(), PullPolicy::Always, quiet()).await.expect("anonymous tokens");
}

#[tokio::test]
async fn a_corrupt_blob_is_refused_and_nothing_of_it_stays() {
    let (home, registry) = (tempfile::tempdir().expect("tmp"), TestRegistry::start().await);
    let store = store(home.path()).await;
    let image = small_image(Compression::Gzip);
    let reference = registry.push("app:v1", &image);
    registry.fault(&image.blob(1), &[Fault::Corrupt, Fault::Corrupt]);
    let error = pull(&store, &reference).await.expect_err("corrupt").to_string();
    assert!(error.contains(&format!("failed verification: expected {}", image.blob(1))), "{error}");
    assert_eq!(store.get(&reference).await.expect("readable"), None);
    assert!(names_in(&home.path().join("partial")).is_empty());
    assert!(!home.path().join("layers").join(image.diff_ids[1].short()).exists());
    registry.fault(&image.blob(1), &[Fault::Corrupt]);
    pull(&store, &reference).await.expect("the second answer is right");
}

#[tokio::test]
async fn manifests_and_layers_that_are_not_what_they_claim_are_refused() {
    let (home, registry) = (tempfile::tempdir().expect("tmp"), TestRegistry::start().await);
    let store = store(home.path()).await;
    let image = small_image(Compression::Gzip);
    registry.push("app:v1", &image);
    let pinned = registry.reference(&format!("app@{}", super::digest::Digest::of(b"other")));
    registry.push_document(
        &format!("app@{}", super::digest::Digest::of(b"other")),
        &image.media_type,
        image.manifest.clone(),
    );
    let error = pull(&store, &pinned).await.expect_err("wrong manifest").to_string();
    assert!(error.contains("failed verification"), "{error}");

    let mut lying = TestImage::new(vec![Layer::default().file("a", "a").tar()], Compression::Gzip);
    lying.config = String::from_utf8(lying.config.clone())
        .expect("json")
        .replace(lying.diff_ids[0].hex(), image.diff_ids[0].hex())
        .into_bytes();
    let mut manifest: serde_json::Value = serde_json::from_slice(&lying.manifest).expect("json");
    manifest["config"] = json!({"digest": super::digest::Digest::of(&lying.config), "size": lying.config.len()});
    lying.manifest = manifest.to_string().into_bytes();
    let reference = registry.push("lying:v1", &lying);
    let error = pull(&store, &reference).await.expect_err("wrong diff id").to_string();
    assert!(error.contains("uncompressed layer"), "{error}");
    assert!(names_in(&home.path().join("staging")).is_empty());
}

#[tokio::test]
async fn a_broken_download_goes_on_where_it_ended() {
    let (home, registry) = (tempfile::tempdir().expect("tmp"), TestRegistry::start().await);
    let store = store(home.path()).await;
    let image = large_image();
    let reference = registry.push("large:v1", &image);
    registry.fault(&image.blob(0), &[Fault::Status(503), Fault::Cut(100_000), Fault::Cut(50_000)]);
    pull(&store, &reference).await.expect("resumed");
    let path = format!("/v2/large/blobs/{}", image.blob(0));
    let asked = registry.requests(&path);
    assert_eq!(asked, [path.clone(), path.clone(), format!("{path} bytes=100000-"), format!("{path} bytes=150000-")]);
}

#[tokio::test]
async fn a_registry_without_ranges_starts_again_and_one_that_only_fails_is_given_up() {
    let (home, registry) = (tempfile::tempdir().expect("tmp"), TestRegistry::start().await);
    let store = store(home.path()).await;
    let image = large_image();
    let reference = registry.push("large:v1", &image);
    registry.fault(&image.blob(0), &[Fault::Status(500); 20]);
    let error = pull(&store, &reference).await.expect_err("given up").to_string();
    assert!(error.contains("unexpected status from GET request to"), "{error}");
    assert_eq!(registry.requests("/blobs/").len(), 1 + 5);
    registry.fault(&image.blob(0), &[Fault::Cut(1000), Fault::NoRange]);
    pull(&store, &reference).await.expect("whole");
}

#[tokio::test]
async fn a_cancelled_pull_leaves_a_partial_file_that_the_next_one_continues() {
    let (home, registry) = (tempfile::tempdir().expect("tmp"), TestRegistry::start().await);
    let store = store(home.path()).await;
    let image = large_image();
    let reference = registry.push("large:v1", &image);
    registry.fault(&image.blob(0), &[Fault::Hang(70_000)]);
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let on_progress = Arc::new(move |progress: &Progress| sender.send(progress.stage).unwrap_or_default());
    let task = tokio::spawn({
        let (store, reference) = (store.clone(), reference.clone());
        async move { store.pull(&reference, &Keyring::default(), PullPolicy::Always, on_progress).await }
    });
    while receiver.recv().await != Some(Stage::Downloading(70_000)) {}
    task.abort();
    drop(task.await);
    assert_eq!(names_in(&home.path().join("partial")), [image.blob(0).hex()]);
    drop(store);
    let store = super::fixtures::store(home.path()).await;
    pull(&store, &reference).await.expect("continued");
    assert_eq!(registry.requests("bytes=70000-").len(), 1);
    assert!(names_in(&home.path().join("partial")).is_empty());
}

#[tokio::test]
async fn pulls_that_share_a_layer_download_it_once() {
    let (home, registry) = (tempfile::tempdir().expect("tmp"), TestRegistry::start().await);
    let store = store(home.path()).await;
    let shared = Layer::default().file("shared", noise(100_000)).tar();
    let references: Vec<Reference> = (0..8)
        .map(|number| {
            let own = Layer::default().file("own", number.to_string()).tar();
            registry.push(&format!("app{number}:v1"), &TestImage::new(vec![shared.clone(), own], Compression::Gzip))
        })
        .collect();
    let pulled =
        futures::future::try_join_all(references.iter().map(|reference| pull(&store, reference))).await.expect("all");
    let blob = TestImage::new(vec![shared], Compression::Gzip).blob(0);
    assert_eq!(registry.requests(blob.as_str()).len(), 1);
    assert!(pulled.iter().all(|image| image.layers[1] == pulled[0].layers[1]));
    assert_eq!(names_in(&home.path().join("layers")).len(), 2 * (1 + 8));
}

#[tokio::test]
async fn progress_is_told_for_each_layer() {
    let (home, registry) = (tempfile::tempdir().expect("tmp"), TestRegistry::start().await);
    let store = store(home.path()).await;
    let image = large_image();
    let reference = registry.push("large:v1", &image);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = seen.clone();
    let on_progress = Arc::new(move |progress: &Progress| sink.lock().push(progress.clone()));
    store.pull(&reference, &Keyring::default(), PullPolicy::Always, on_progress).await.expect("pulled");
    let seen = seen.lock();
    let total = image.layers[0].len() as u64;
    assert!(seen.iter().all(|progress| progress.layer == image.blob(0) && progress.total == total));
    assert!(seen.iter().is_sorted_by_key(|progress| {
        progress.stage.bytes().max(if progress.stage == Stage::Waiting { 0 } else { 1 }).min(1)
    }));
    assert_eq!(seen.last().expect("told").stage, Stage::Done);
}

#[tokio::test]
async fn unknown_images_and_names_are_told_in_the_known_words() {
    let (home, registry) = (tempfile::tempdir().expect("tmp"), TestRegistry::start().await);
    let store = store(home.path()).await;
    let reference = registry.reference("none:v1");
    let error = pull(&store, &reference).await.expect_err("missing");
    assert_eq!(
        error.to_string(),
        format!(
            "failed to pull and unpack image \"{reference}\": failed to resolve reference \"{reference}\": {reference}: not found"
        )
    );
    let old = registry.push_document(
        "old:v1",
        "application/vnd.docker.distribution.manifest.v1+json",
        br#"{"schemaVersion":1}"#.to_vec(),
    );
    assert!(pull(&store, &old).await.expect_err("old").to_string().contains("is not supported"));
}

#[tokio::test]
async fn mirrors_are_asked_first_and_the_registry_when_they_fail() {
    let home = tempfile::tempdir().expect("tmp");
    let (mirror, origin) = (TestRegistry::start().await, TestRegistry::start().await);
    let mut settings = options();
    let host = HostConfig { mirrors: vec![format!("http://{}", mirror.address)], ..HostConfig::default() };
    settings.registries.hosts.insert(origin.address.to_string(), host);
    let store = Store::open(home.path(), Options { ..settings }).await.expect("opens");
    let image = small_image(Compression::Gzip);
    mirror.push("app:v1", &image);
    pull(&store, &origin.reference("app:v1")).await.expect("from the mirror");
    assert!(origin.requests("").is_empty());
    let only_here = TestImage::new(vec![Layer::default().file("o", "o").tar()], Compression::Gzip);
    let reference = origin.push("own:v1", &only_here);
    pull(&store, &reference).await.expect("from the registry");
    mirror.shut();
    origin.push("app:v1", &image);
    pull(&store, &origin.reference("app:v1")).await.expect("the mirror is gone");
}
