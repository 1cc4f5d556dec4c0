//! What is run: busybox alone, as an image for us and as a bundle for others, with one and the same command.

use super::unpack::write_layout;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

pub const IMAGE: &str = "bench.test/busybox:1";
/// Where a container finds the bells.
const BELLS: &str = "/bells";

pub struct Bundle {
    folder: PathBuf,
    root: PathBuf,
    /// On the machine.
    pub bells: PathBuf,
}

impl Bundle {
    pub fn make(folder: &Path) -> Result<Bundle> {
        let (root, bells) = (folder.join("root"), folder.join("bells"));
        for name in ["bin", "proc", "dev", "sys", "tmp", "etc", "bells"] {
            fs::create_dir_all(root.join(name))?;
        }
        fs::create_dir_all(&bells)?;
        let hint = "busybox is missing\nhint: `make setup` installs it (Debian: busybox-static)";
        fs::copy("/bin/busybox", root.join("bin/busybox")).context(hint)?;
        for applet in ["sh", "sleep", "echo"] {
            symlink("busybox", root.join("bin").join(applet))?;
        }
        let bundle = Bundle { folder: folder.to_owned(), root, bells };
        bundle.pack()?;
        Ok(bundle)
    }

    pub fn archive(&self) -> PathBuf {
        self.folder.join("busybox.tar")
    }

    fn pack(&self) -> Result<()> {
        let layer = self.folder.join("layer.tar.gz");
        let status = Command::new("tar").arg("-czf").arg(&layer).arg("-C").arg(&self.root).arg(".").status()?;
        ensure!(status.success(), "tar failed");
        write_layout(&layer, "gzip", IMAGE, &self.archive())
    }

    /// A folder that crun and runc take, for one container.
    pub fn write(&self, folder: &Path, name: &str) -> Result<()> {
        fs::create_dir_all(folder)?;
        Ok(fs::write(folder.join("config.json"), self.config(name).to_string())?)
    }

    /// As `runc spec` words it, with our command and the bells.
    fn config(&self, name: &str) -> Value {
        let mount = |to: &str, kind: &str, options: Value| json!({"destination": to, "type": kind, "source": kind, "options": options});
        let namespaces = ["pid", "network", "ipc", "uts", "mount"].map(|kind| json!({"type": kind}));
        let capabilities = json!(["CAP_AUDIT_WRITE", "CAP_KILL", "CAP_NET_BIND_SERVICE"]);
        json!({
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": 0, "gid": 0}, "args": command(name), "cwd": "/", "env": ["PATH=/bin"], "noNewPrivileges": true,
                "capabilities": {"bounding": capabilities, "effective": capabilities, "permitted": capabilities},
            },
            "root": {"path": self.root, "readonly": true},
            "hostname": name,
            "mounts": [
                mount("/proc", "proc", json!([])),
                mount("/dev", "tmpfs", json!(["nosuid", "strictatime", "mode=755", "size=65536k"])),
                mount("/dev/pts", "devpts", json!(["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"])),
                mount("/dev/shm", "tmpfs", json!(["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"])),
                mount("/dev/mqueue", "mqueue", json!(["nosuid", "noexec", "nodev"])),
                mount("/sys", "sysfs", json!(["nosuid", "noexec", "nodev", "ro"])),
                {"destination": BELLS, "type": "bind", "source": self.bells, "options": ["bind"]},
            ],
            "linux": {
                "resources": {"devices": [{"allow": false, "access": "rwm"}]},
                "namespaces": namespaces,
                "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"],
                "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
            },
        })
    }

    /// A pod that runs the same.
    pub fn pod(bells: &Path, name: &str, image: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": image, "imagePullPolicy": "IfNotPresent", "command": command(name),
                    "volumeMounts": [{"name": "bells", "mountPath": BELLS}]}],
                "volumes": [{"name": "bells", "hostPath": {"path": bells}}],
            },
        })
    }
}

/// Rings, and stays.
fn command(name: &str) -> [String; 3] {
    ["sh".to_owned(), "-c".to_owned(), format!("echo {name} > {BELLS}/bell; exec sleep 3600")]
}
