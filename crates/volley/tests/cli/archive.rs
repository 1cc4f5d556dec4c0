//! Images that the tests build: one layer with one file, as `docker save` writes them.

use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use volley_cluster::images::digest::Digest;

/// An image's parts, each with the digest that others know it by.
pub struct Built {
    pub layer: Vec<u8>,
    pub config: Vec<u8>,
}

pub fn build(content: &str) -> Built {
    let layer = tar(&[("greeting", content.as_bytes())]);
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let config = json!({
        "architecture": architecture,
        "os": "linux",
        "config": {"Cmd": ["/bin/true"]},
        "rootfs": {"type": "layers", "diff_ids": [Digest::of(&layer).as_str()]},
    });
    Built { layer, config: config.to_string().into_bytes() }
}

/// Writes what `docker save` would.
pub fn write(folder: &Path, name: &str, content: &str) -> PathBuf {
    let path = folder.join(format!("{}.tar", name.replace(['/', ':'], "-")));
    std::fs::write(&path, bytes(name, content)).expect("the test's folder can be written to");
    path
}

pub fn bytes(name: &str, content: &str) -> Vec<u8> {
    let built = build(content);
    let list = json!([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]).to_string();
    tar(&[("layer.tar", &built.layer), ("config.json", &built.config), ("manifest.json", list.as_bytes())])
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("in memory");
    encoder.finish().expect("in memory")
}

fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        builder.append_data(&mut header, name, *content).expect("in memory");
    }
    builder.into_inner().expect("in memory")
}
