//! Opens connections; what goes wrong is said as Go's net package says it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpStream;

/// Connects, or says why not, for example `dial tcp 10.1.2.3:80: connect: connection refused`.
pub async fn connect(host: &str, port: u16, timeout: Duration) -> Result<TcpStream, String> {
    let attempt = tokio::time::timeout(timeout, dial(host, port)).await;
    attempt.unwrap_or_else(|_| match address(host, port) {
        Some(address) => Err(format!("dial tcp {address}: i/o timeout")),
        None => Err(format!("dial tcp: lookup {host}: i/o timeout")),
    })
}

/// The same without a limit: its callers have one for all that they do.
pub async fn dial(host: &str, port: u16) -> Result<TcpStream, String> {
    let address = match address(host, port) {
        Some(address) => address,
        None => {
            let found = tokio::net::lookup_host((host, port)).await.ok().and_then(|mut found| found.next());
            found.ok_or_else(|| format!("dial tcp: lookup {host}: no such host"))?
        }
    };
    let stream = TcpStream::connect(address).await;
    stream.map_err(|error| format!("dial tcp {address}: connect: {}", go_text(&error)))
}

fn address(host: &str, port: u16) -> Option<SocketAddr> {
    let plain = host.trim_start_matches('[').trim_end_matches(']');
    Some(SocketAddr::new(plain.parse::<IpAddr>().ok()?, port))
}

/// The system's words without Rust's addition: `connection refused`.
pub fn go_text(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}
