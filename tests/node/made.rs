//! Images that the tests build: busybox alone, and others that try what layers can do.

use crate::layer::Layer;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use volley_cluster::images::digest::Digest;

pub const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// The name under which tests load the busybox image.
pub const BUSYBOX: &str = "volley.test/busybox:1";

#[derive(Debug, Clone, Copy)]
pub enum Packing {
    Gzip,
    Zstd,
}

/// An image's documents and blobs.
pub struct Image {
    pub manifest: Vec<u8>,
    pub blobs: Vec<Vec<u8>>,
}

impl Image {
    pub fn new(layers: &[(Vec<u8>, Packing)], config: Value) -> Image {
        Image::for_platform(architecture(), layers, config)
    }

    pub fn for_platform(architecture: &str, layers: &[(Vec<u8>, Packing)], config: Value) -> Image {
        let diff_ids: Vec<Digest> = layers.iter().map(|(tar, _)| Digest::of(tar)).collect();
        let config = json!({"architecture": architecture, "os": "linux", "config": config,
            "rootfs": {"type": "layers", "diff_ids": diff_ids}});
        let config = config.to_string().into_bytes();
        let mut described = Vec::new();
        let mut blobs = Vec::new();
        for (tar, packing) in layers {
            let (bytes, ending) = pack(tar, *packing);
            described.push(descriptor(&format!("{LAYER}+{ending}"), &bytes));
            blobs.push(bytes);
        }
        let config_described = descriptor(CONFIG, &config);
        blobs.push(config);
        let manifest =
            json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config_described, "layers": described});
        Image { manifest: manifest.to_string().into_bytes(), blobs }
    }

    /// The digest of a blob: the layers from the lowest on, then the configuration.
    pub fn blob(&self, at: usize) -> Digest {
        Digest::of(&self.blobs[at])
    }

    /// As an archive that `volley image load` reads.
    pub fn archive(&self, name: &str) -> Vec<u8> {
        let mut described = descriptor(MANIFEST, &self.manifest);
        described["annotations"] = json!({"io.containerd.image.name": name});
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [described]});
        let mut archive = Layer::default().file("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#);
        archive = archive.file("index.json", index.to_string());
        for blob in self.blobs.iter().chain([&self.manifest]) {
            let digest = Digest::of(blob).to_string();
            archive = archive.file(&format!("blobs/{}", digest.replace(':', "/")), blob);
        }
        archive.tar()
    }
}

pub fn architecture() -> &'static str {
    if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" }
}

pub fn descriptor(media_type: &str, bytes: &[u8]) -> Value {
    json!({"mediaType": media_type, "digest": Digest::of(bytes), "size": bytes.len()})
}

fn pack(tar: &[u8], packing: Packing) -> (Vec<u8>, &'static str) {
    match packing {
        Packing::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(tar).unwrap();
            (encoder.finish().unwrap(), "gzip")
        }
        Packing::Zstd => (zstd::stream::encode_all(tar, 1).unwrap(), "zstd"),
    }
}

/// A file system of busybox alone.
pub fn busybox_layer() -> Layer {
    let program = std::fs::read("/bin/busybox").expect("the tests need busybox: apt-get install busybox-static");
    let listed = Command::new("/bin/busybox").arg("--list").output().unwrap();
    let mut layer = Layer::default();
    for (folder, mode) in [("bin", 0o755), ("etc", 0o755), ("tmp", 0o1777), ("root", 0o700), ("home", 0o755)] {
        layer = layer.folder(folder, mode);
    }
    layer = layer.file_with_mode("bin/busybox", program, 0o755);
    for applet in String::from_utf8(listed.stdout).unwrap().lines().filter(|name| *name != "busybox") {
        layer = layer.symlink(&format!("bin/{applet}"), "busybox");
    }
    let users = "root:x:0:0::/root:/bin/sh\napp:x:1000:1001::/home:/bin/sh\n";
    layer.file("etc/passwd", users).file("etc/group", "root:x:0:\napps:x:1001:\nextra:x:1002:app\n")
}

pub fn busybox() -> Image {
    Image::new(&[(busybox_layer().tar(), Packing::Gzip)], json!({"Cmd": ["sh"], "Env": ["PATH=/bin", "FROM=image"]}))
}

/// Four layers that add, replace, delete, hide and link, and one with very many files.
pub fn layered() -> Image {
    let base = busybox_layer().folder("etc/conf", 0o755).file("etc/conf/kept", "base").file("etc/conf/gone", "base");
    let base = base.folder("data", 0o755).file("data/old", "base").file("data/older", "base");
    let replaced = Layer::default().file("etc/conf/kept", "replaced").file("etc/conf/.wh.gone", "");
    let hidden = Layer::default().folder("data", 0o755).file("data/.wh..wh..opq", "").file("data/new", "top");
    let linked = Layer::default().folder("links", 0o755).file("links/one", "same").hard_link("links/two", "links/one");
    let linked = linked.file_with_mode("links/setuid", "", 0o4755).owned_file("links/owned", 1000, 1001);
    let mut many = Layer::default().folder("many", 0o755);
    for number in 0..10_000 {
        many = many.file(&format!("many/{number}"), number.to_string());
    }
    let layers: Vec<_> = [base, replaced, hidden, linked, many].map(|layer| (layer.tar(), Packing::Gzip)).into();
    Image::new(&layers, json!({"Env": ["PATH=/bin"], "WorkingDir": "/links"}))
}

/// Loads the busybox image into a world's store.
pub fn load_busybox(world: &crate::world::World) {
    load(world, &busybox(), BUSYBOX);
}

pub fn load(world: &crate::world::World, image: &Image, name: &str) {
    let path = world.folder.path().join("image.tar");
    std::fs::write(&path, image.archive(name)).unwrap();
    world.volley(&["image", "load", path.to_str().unwrap()]);
    remove(&path);
}

fn remove(path: &Path) {
    std::fs::remove_file(path).unwrap();
}
