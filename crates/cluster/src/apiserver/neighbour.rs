//! Who is on the other end of a plain loopback connection (spec K-HTTP-2).
//!
//! kubectl sends no credentials over `http://`, so such a connection is trusted by what the kernel says of its other end:
//! a process of our own user (or root), in our own mount namespace, which keeps containers out. A browser of that user
//! is kept out by its headers. `docs/decisions/002-plain-http.md` says why.

use http::HeaderMap;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Whether the process at `peer`, connected to our `local` port, may act as the user that runs this server.
pub fn is_own(peer: SocketAddr, local: SocketAddr) -> bool {
    let Some((uid, inode)) = socket(peer, local) else { return false };
    let Ok(own) = fs::metadata("/proc/self") else { return false };
    (uid == own.uid() || uid == 0) && is_in_our_namespace(inode)
}

/// Whether a request could come from a page in a browser, or through a name that somebody else controls.
pub fn is_from_a_page(headers: &HeaderMap) -> bool {
    let has = |name: &str| headers.contains_key(name);
    let host = headers.get("host").and_then(|value| value.to_str().ok()).unwrap_or_default();
    has("origin") || has("sec-fetch-site") || has("referer") || !is_loopback_name(host)
}

fn is_loopback_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    // An absent Host is HTTP/2 or HTTP/1.0, which no page can send in the clear.
    name.is_empty() || name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Owner and inode of the peer's socket, from the kernel's table.
fn socket(peer: SocketAddr, local: SocketAddr) -> Option<(u32, u64)> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    tables.iter().flat_map(|table| table.lines().skip(1)).find_map(|line| {
        let mut parts = line.split_whitespace();
        let (own, other) = (parts.nth(1)?, parts.next()?);
        let ends = port(own)? == peer.port() && port(other)? == local.port();
        let uid = parts.nth(4)?.parse().ok()?;
        let inode = parts.nth(1)?.parse().ok()?;
        ends.then_some((uid, inode))
    })
}

/// The port of `0100007F:1F90`.
fn port(address: &str) -> Option<u16> {
    u16::from_str_radix(address.rsplit_once(':')?.1, 16).ok()
}

/// Whether some process that holds this socket sees the same file system as we do.
fn is_in_our_namespace(inode: u64) -> bool {
    let wanted = format!("socket:[{inode}]");
    let namespace = |process: &Path| fs::read_link(process.join("ns/mnt")).ok();
    let own = namespace(Path::new("/proc/self"));
    let Ok(processes) = fs::read_dir("/proc") else { return false };
    let holds = |process: &Path| {
        let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        files.into_iter().any(|file| fs::read_link(file.path()).is_ok_and(|link| link.as_os_str() == wanted.as_str()))
    };
    own.is_some()
        && processes
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().bytes().all(|b| b.is_ascii_digit()))
            .any(|entry| holds(&entry.path()) && namespace(&entry.path()) == own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    // K-HTTP-2
    #[test]
    fn our_own_connection_is_recognised() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let local = listener.local_addr().expect("bound");
        let client = TcpStream::connect(local).expect("connected");
        let peer = client.local_addr().expect("connected");
        assert!(is_own(peer, local));
        let nobody = SocketAddr::new(peer.ip(), 1);
        assert!(!is_own(nobody, local));
    }

    #[test]
    fn pages_and_foreign_names_are_refused() {
        let headers = |pairs: &[(&'static str, &'static str)]| {
            pairs.iter().map(|(k, v)| (http::HeaderName::from_static(k), http::HeaderValue::from_static(v))).collect()
        };
        assert!(!is_from_a_page(&headers(&[("host", "127.0.0.1:6443")])));
        assert!(!is_from_a_page(&headers(&[("host", "localhost")])));
        assert!(!is_from_a_page(&headers(&[("host", "[::1]:6443")])));
        assert!(is_from_a_page(&headers(&[("host", "evil.example:6443")])));
        assert!(is_from_a_page(&headers(&[("host", "localhost"), ("origin", "http://evil.example")])));
        assert!(is_from_a_page(&headers(&[("host", "localhost"), ("sec-fetch-site", "cross-site")])));
    }
}
