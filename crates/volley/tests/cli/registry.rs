//! A registry on loopback that has one image, `app:1`, for whoever knows the password.

use crate::archive::{Built, gzip};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use volley_cluster::images::digest::Digest;

/// `user:password`.
pub const SECRET: &str = "dXNlcjpwYXNzd29yZA==";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Serves until the test's process ends; `host:port`.
pub fn start(built: &Built) -> String {
    let layer = gzip(&built.layer);
    let described = |kind: &str, bytes: &[u8]| {
        let kind = format!("application/vnd.oci.image.{kind}");
        json!({"mediaType": kind, "digest": Digest::of(bytes).as_str(), "size": bytes.len()})
    };
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": described("config.v1+json", &built.config),
        "layers": [described("layer.v1.tar+gzip", &layer)],
    });
    let manifest = manifest.to_string().into_bytes();
    let blob = |bytes: &[u8]| format!("/v2/app/blobs/{}", Digest::of(bytes));
    let files = BTreeMap::from([
        (blob(&built.config), built.config.clone()),
        (blob(&layer), layer),
        (format!("/v2/app/manifests/{}", Digest::of(&manifest)), manifest.clone()),
        ("/v2/app/manifests/1".to_owned(), manifest),
    ]);
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound socket has an address").to_string();
    let files = Arc::new(files);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let files = files.clone();
            std::thread::spawn(move || answer(stream, &files));
        }
    });
    address
}

/// One request a connection.
fn answer(mut stream: TcpStream, files: &BTreeMap<String, Vec<u8>>) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines().map_while(Result::ok);
    let request = lines.next()?;
    let headers: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let is_known = headers.iter().any(|header| header.ends_with(&format!("Basic {SECRET}")));
    let path = request.split(' ').nth(1)?;
    let kind = if path.contains("manifests") { MANIFEST } else { "application/octet-stream" };
    let (status, extra, body) = match (is_known, files.get(path)) {
        (false, _) => ("401 Unauthorized", "WWW-Authenticate: Basic realm=\"test\"\r\n", &[][..]),
        (true, None) => ("404 Not Found", "", &[][..]),
        (true, Some(body)) => ("200 OK", "", body.as_slice()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\n{extra}Content-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).ok()?;
    if request.starts_with("HEAD") { Some(()) } else { stream.write_all(body).ok() }
}
