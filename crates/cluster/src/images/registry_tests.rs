//! The same pulls against Debian's `docker-registry`, where it is installed: another's idea of the protocol.

use super::auth::Keyring;
use super::digest::Digest;
use super::fixtures::{Layer, TestImage, quiet, small_image, store};
use super::inflate::Compression;
use super::pull::PullPolicy;
use super::reference::Reference;
use reqwest::header::{CONTENT_TYPE, LOCATION};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// Lines of its log within which the registry says where it listens.
const LOG_LINES_MAX: usize = 50;

struct Registry {
    address: String,
    _process: Child,
    _home: tempfile::TempDir,
}

/// Starts the registry on a free port; `None` where it is not installed.
async fn start() -> Option<Registry> {
    let home = tempfile::tempdir().expect("tmp");
    let (config, data) = (home.path().join("config.yml"), home.path().join("data"));
    let text = format!(
        "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: 127.0.0.1:0}}\n",
        data.display()
    );
    std::fs::write(&config, text).expect("written");
    let started = Command::new("docker-registry")
        .arg("serve")
        .arg(&config)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn();
    let Ok(mut process) = started else {
        eprintln!("skipped: docker-registry is not installed");
        return None;
    };
    let mut log = BufReader::new(process.stderr.take().expect("piped")).lines();
    for _ in 0..LOG_LINES_MAX {
        let line = log.next_line().await.expect("readable").expect("the registry runs");
        if let Some((_, rest)) = line.split_once("listening on ") {
            let address = rest.split(['"', ' ', ',']).next().unwrap_or_default().to_owned();
            // The log must be read on, or the registry would wait for its reader.
            tokio::spawn(async move { while let Ok(Some(_)) = log.next_line().await {} });
            return Some(Registry { address, _process: process, _home: home });
        }
    }
    panic!("the registry does not say where it listens");
}

impl Registry {
    async fn push(&self, name: &str, tag: &str, image: &TestImage) -> Reference {
        super::fixtures::install_tls();
        let client = reqwest::Client::builder().tls_certs_only([]).build().expect("client");
        let base = format!("http://{}/v2/{name}", self.address);
        for blob in image.layers.iter().chain([&image.config]) {
            let begun = client.post(format!("{base}/blobs/uploads/")).send().await.expect("begun");
            let place =
                begun.headers().get(LOCATION).and_then(|place| place.to_str().ok()).expect("a place").to_owned();
            let put = client.put(format!("{place}&digest={}", Digest::of(blob))).body(blob.clone()).send().await;
            assert_eq!(put.expect("put").status(), 201);
        }
        let manifest = client.put(format!("{base}/manifests/{tag}")).header(CONTENT_TYPE, &image.media_type);
        assert_eq!(manifest.body(image.manifest.clone()).send().await.expect("put").status(), 201);
        Reference::parse(&format!("{}/{name}:{tag}", self.address)).expect("well formed")
    }
}

#[tokio::test]
async fn debians_registry_serves_images_resumes_and_names_what_is_missing() {
    let Some(registry) = start().await else { return };
    let home = tempfile::tempdir().expect("tmp");
    let store = store(home.path()).await;
    for (tag, compression) in [("plain", Compression::None), ("gzip", Compression::Gzip), ("zstd", Compression::Zstd)] {
        let image = small_image(compression);
        let reference = registry.push("team/app", tag, &image).await;
        let pulled = store.pull(&reference, &Keyring::default(), PullPolicy::Always, quiet()).await.expect("pulled");
        assert_eq!(pulled.digest, image.digest());
        assert_eq!(std::fs::read_to_string(pulled.layers[0].join("etc/name")).expect("unpacked"), "top");
    }
    let image = TestImage::new(vec![Layer::default().file("large", vec![3; 100_000]).tar()], Compression::None);
    let reference = registry.push("large", "v1", &image).await;
    std::fs::write(home.path().join("partial").join(image.blob(0).hex()), &image.layers[0][..60_000])
        .expect("a partial file");
    store.pull(&reference, &Keyring::default(), PullPolicy::Always, quiet()).await.expect("resumed");
    let missing = Reference::parse(&format!("{}/none:v1", registry.address)).expect("well formed");
    let error = store.pull(&missing, &Keyring::default(), PullPolicy::Always, quiet()).await.expect_err("missing");
    assert!(error.to_string().ends_with(&format!("{missing}: not found")), "{error}");
}
