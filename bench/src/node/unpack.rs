//! Images: from an archive to a root file system, beside skopeo and umoci, and beside tar alone.

use crate::table::{Row, Table};
use anyhow::{Context, Result, ensure};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const NAME: &str = "bench.test/tree:1";
const MB: usize = 1 << 20;

pub fn rates(program: &Path, folder: &Path, quick: bool, table: &mut Table) -> Result<()> {
    for megabytes in if quick { &[4, 40][..] } else { &[4, 40, 400] } {
        let folder = folder.join(format!("unpack-{megabytes}"));
        let files = write_tree(&folder.join("tree"), megabytes * MB)?;
        let scale = |packing| format!("{megabytes} MB in {files} files, {packing}");
        for (packing, pack) in [("gzip", &["gzip", "-6"]), ("zstd", &["zstd", "-3"])] {
            let rate = |seconds: f64| *megabytes as f64 / seconds;
            let case = Case::make(folder.join(packing), &folder.join("tree"), packing, pack)?;
            let ours = rate(case.volley(program)?);
            let mut add = |name, seconds: f64| {
                let (scale, reference) = (scale(packing), (name, rate(seconds)));
                table.add(Row { figure: "image unpacked", scale, value: ours, unit: "MB/s", reference });
            };
            add(if packing == "gzip" { "gzip and tar" } else { "zstd and tar" }, case.tar(pack[0])?);
            // Debian's umoci reads gzip only.
            if packing == "gzip" {
                match case.umoci() {
                    Ok(seconds) => add("skopeo copy + umoci unpack", seconds),
                    Err(error) => eprintln!("no umoci to compare with: {error}"),
                }
            }
        }
        fs::remove_dir_all(&folder)?;
    }
    Ok(())
}

/// One image as an archive, and its only layer.
struct Case {
    folder: PathBuf,
}

impl Case {
    fn make(folder: PathBuf, tree: &Path, packing: &str, pack: &[&str]) -> Result<Case> {
        fs::create_dir_all(&folder)?;
        let layer = folder.join("layer");
        let script = format!("tar -cf - -C \"$1\" . | {} > \"$2\"", pack.join(" "));
        timed(Command::new("sh").args(["-c", &script, "sh"]).arg(tree).arg(&layer))?;
        write_layout(&layer, packing, NAME, &folder.join("image.tar"))?;
        Ok(Case { folder })
    }

    fn volley(&self, program: &Path) -> Result<f64> {
        let home = self.folder.join("home");
        timed(Command::new(program).args(["image", "load"]).arg(self.folder.join("image.tar")).arg("--home").arg(home))
    }

    /// Unpacking alone: nothing is verified, stored or kept.
    fn tar(&self, unpacker: &str) -> Result<f64> {
        let root = self.folder.join("tar");
        fs::create_dir(&root)?;
        let script = format!("{unpacker} -dc < \"$1\" | tar -xf - -C \"$2\"");
        timed(Command::new("sh").args(["-c", &script, "sh"]).arg(self.folder.join("layer")).arg(root))
    }

    fn umoci(&self) -> Result<f64> {
        let layout = self.folder.join("layout");
        let from = format!("oci-archive:{}", self.folder.join("image.tar").display());
        let to = format!("oci:{}:bench", layout.display());
        let copied = timed(Command::new("skopeo").args(["--insecure-policy", "copy", "--quiet", &from, &to]))?;
        let image = format!("{}:bench", layout.display());
        let unpacked = timed(Command::new("umoci").args(["unpack", "--image", &image]).arg(self.folder.join("umoci")))?;
        Ok(copied + unpacked)
    }
}

fn timed(command: &mut Command) -> Result<f64> {
    let program = command.get_program().to_owned();
    let begun = Instant::now();
    let output =
        command.stdout(Stdio::null()).output().with_context(|| format!("failed to run {}", program.display()))?;
    let seconds = begun.elapsed().as_secs_f64();
    ensure!(output.status.success(), "{}: {}", program.display(), String::from_utf8_lossy(&output.stderr));
    Ok(seconds)
}

/// Files of many sizes that pack about as well as programs and texts do; how many there are.
fn write_tree(folder: &Path, bytes: usize) -> Result<usize> {
    let (mut left, mut files, mut state) = (bytes, 0, 0x2545_f491_4f6c_dd1d_u64);
    // Most files are small, most bytes are in large ones.
    let sizes = [1, 2, 2, 4, 4, 8, 16, 32, 64, 512].map(|kilobytes| kilobytes * 1024);
    for size in sizes.into_iter().cycle() {
        let folder = folder.join(format!("{}", files / 100));
        if files % 100 == 0 {
            fs::create_dir_all(&folder)?;
        }
        let size = size.min(left);
        fs::write(folder.join(format!("file-{files}")), content(size, &mut state))?;
        (left, files) = (left - size, files + 1);
        if left == 0 {
            break;
        }
    }
    Ok(files)
}

/// Runs of random bytes and of bytes that came before.
fn content(size: usize, state: &mut u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size + 64);
    while bytes.len() < size {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        let back = (*state >> 32) as usize % 4096 + 1;
        match bytes.len().checked_sub(back) {
            Some(from) => bytes.extend_from_within(from..(from + 24).min(bytes.len())),
            None => bytes.extend_from_slice(&state.to_le_bytes()),
        }
        if state.is_multiple_of(3) {
            bytes.extend_from_slice(&state.to_le_bytes());
        }
    }
    bytes.truncate(size);
    bytes
}

/// An OCI archive of one image with one layer.
pub fn write_layout(layer: &Path, packing: &str, name: &str, archive: &Path) -> Result<()> {
    let folder = archive.with_extension("layout");
    let blobs = folder.join("blobs/sha256");
    fs::create_dir_all(&blobs)?;
    let unpacked = Command::new(packing).arg("-dc").stdin(fs::File::open(layer)?).output()?;
    ensure!(unpacked.status.success(), "{packing} failed");
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let config = json!({"architecture": architecture, "os": "linux", "config": {"Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [sha256(&unpacked.stdout)]}});
    let add = |kind: &str, bytes: &[u8]| -> Result<Value> {
        let digest = sha256(bytes);
        fs::write(blobs.join(digest.trim_start_matches("sha256:")), bytes)?;
        Ok(json!({"mediaType": format!("application/vnd.oci.image.{kind}"), "digest": digest, "size": bytes.len()}))
    };
    let layer = add(&format!("layer.v1.tar+{packing}"), &fs::read(layer)?)?;
    let config = add("config.v1+json", config.to_string().as_bytes())?;
    let manifest = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config, "layers": [layer]});
    let mut manifest = add("manifest.v1+json", manifest.to_string().as_bytes())?;
    manifest["annotations"] = json!({"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name});
    fs::write(folder.join("index.json"), json!({"schemaVersion": 2, "manifests": [manifest]}).to_string())?;
    fs::write(folder.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#)?;
    timed(Command::new("tar").arg("-cf").arg(archive).arg("-C").arg(&folder).arg("."))?;
    Ok(fs::remove_dir_all(&folder)?)
}

fn sha256(bytes: &[u8]) -> String {
    let mut text = "sha256:".to_owned();
    for byte in digest(&SHA256, bytes).as_ref() {
        let _infallible = write!(text, "{byte:02x}");
    }
    text
}
