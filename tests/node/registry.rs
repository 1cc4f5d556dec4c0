//! Debian's `docker-registry` on loopback, filled by plain HTTP.

use crate::command::eventually;
use crate::http::Request;
use crate::made::{Image, MANIFEST};
use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;
use volley_cluster::images::digest::Digest;

/// bcrypt of `secret`, at the lowest cost.
const PASSWORD_LINE: &str = "volley:$2b$04$0TN6810AjctQKtNeh2uhdOjJe2B0a/OiTAmj26tUnNdhj9zV9tKTm\n";
/// base64 of `volley:secret`.
pub const BASIC: &str = "dm9sbGV5OnNlY3JldA==";

/// A registry; it ends when dropped.
pub struct Registry {
    pub address: String,
    folder: TempDir,
    child: Child,
}

impl Registry {
    pub fn open() -> Registry {
        Registry::start("")
    }

    /// One that wants a user and a password.
    pub fn closed() -> Registry {
        Registry::start("auth:\n  htpasswd:\n    realm: test\n    path: PASSWORDS\n")
    }

    fn start(auth: &str) -> Registry {
        let folder = tempfile::tempdir().unwrap();
        // The registry takes no listening socket, so a free port is found and given back just before.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let passwords = folder.path().join("passwords");
        fs::write(&passwords, PASSWORD_LINE).unwrap();
        let auth = auth.replace("PASSWORDS", passwords.to_str().unwrap());
        let storage = folder.path().join("storage");
        let config = format!(
            "version: 0.1\nlog:\n  accesslog:\n    disabled: false\nstorage:\n  filesystem:\n    rootdirectory: {}\n\
             http:\n  addr: {address}\n{auth}",
            storage.display()
        );
        fs::write(folder.path().join("config.yml"), config).unwrap();
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new("docker-registry");
        command.arg("serve").arg(folder.path().join("config.yml")).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let child = command.spawn().expect("the tests need docker-registry: `make setup` installs it");
        let registry = Registry { address, folder, child };
        eventually("the registry answers", || registry.send("GET", "/v2/", "", b"").ok());
        registry
    }

    pub fn reference(&self, name: &str) -> String {
        format!("{}/{name}", self.address)
    }

    /// Uploads an image as `repository:tag`; the reference.
    pub fn push(&self, name: &str, image: &Image) -> String {
        let (repository, tag) = name.split_once(':').unwrap();
        for blob in &image.blobs {
            self.push_blob(repository, blob);
        }
        self.push_document(repository, tag, MANIFEST, &image.manifest);
        self.reference(name)
    }

    fn push_blob(&self, repository: &str, blob: &[u8]) {
        let begun = self.send("POST", &format!("/v2/{repository}/blobs/uploads/"), "", b"").unwrap();
        assert_eq!(begun.code, 202, "{}", begun.text());
        let place = begun.header("location").to_owned();
        let path = &place[place.find("/v2/").unwrap()..];
        let joint = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{joint}digest={}", Digest::of(blob));
        let ended = self.send("PUT", &path, "application/octet-stream", blob).unwrap();
        assert_eq!(ended.code, 201, "{}", ended.text());
    }

    pub fn push_document(&self, repository: &str, tag: &str, media_type: &str, bytes: &[u8]) {
        let answer = self.send("PUT", &format!("/v2/{repository}/manifests/{tag}"), media_type, bytes).unwrap();
        assert_eq!(answer.code, 201, "{}", answer.text());
    }

    fn send(&self, method: &str, path: &str, media_type: &str, body: &[u8]) -> std::io::Result<crate::http::Answer> {
        let basic = format!("Basic {BASIC}");
        let headers = [("Authorization", basic.as_str()), ("Content-Type", media_type)];
        Request { address: &self.address, method, path, headers: &headers, body }.send()
    }

    /// Where a blob lies on disk, for tests that damage it.
    pub fn blob_path(&self, digest: &Digest) -> PathBuf {
        let hex = digest.to_string().split_once(':').unwrap().1.to_owned();
        self.folder.path().join("storage/docker/registry/v2/blobs/sha256").join(&hex[..2]).join(&hex).join("data")
    }

    /// How often a path was fetched whole or in part.
    pub fn downloads(&self, digest: &Digest) -> usize {
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap();
        let wanted = digest.to_string();
        log.lines().filter(|line| line.contains("\"GET /v2/") && line.contains(&wanted)).count()
    }

    pub fn stop(&mut self) {
        let _gone_already = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.stop();
    }
}
