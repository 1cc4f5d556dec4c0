//! What a kubelet and a Prometheus ask the operator: /healthz, /readyz and /metrics.

use anyhow::{Context, Result};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use volley_operator::health::{Health, Stage};

/// A question is one short line; what follows it is not read.
const QUESTION_MAX: usize = 4096;
const PATIENCE: Duration = Duration::from_secs(5);
/// Those who ask are few; more at once wait.
const ASKERS_MAX: usize = 16;

/// Go's way of writing addresses is taken as well: `:8081` is every address.
pub async fn bind(address: &str) -> Result<TcpListener> {
    let full = if address.starts_with(':') { format!("[::]{address}") } else { address.to_owned() };
    let bound = match TcpListener::bind(&full).await {
        // A machine without IPv6.
        Err(_) if address.starts_with(':') => TcpListener::bind(format!("0.0.0.0{address}")).await,
        bound => bound,
    };
    bound.with_context(|| format!("failed to listen on `{address}`"))
}

pub async fn serve(listener: TcpListener, health: Arc<Health>) {
    let places = Arc::new(Semaphore::new(ASKERS_MAX));
    while let Ok(place) = places.clone().acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let health = health.clone();
        tokio::spawn(async move {
            // One who went away, or asks too slowly, gets no answer.
            let _ = tokio::time::timeout(PATIENCE, answer(stream, &health)).await;
            drop(place);
        });
    }
}

async fn answer(mut stream: TcpStream, health: &Health) -> std::io::Result<()> {
    let mut question = Vec::new();
    let mut part = [0; 512];
    while !question.windows(4).any(|end| end == b"\r\n\r\n") && question.len() < QUESTION_MAX {
        match stream.read(&mut part).await? {
            0 => break,
            count => question.extend_from_slice(&part[..count]),
        }
    }
    let question = String::from_utf8_lossy(&question);
    let path = question.split_whitespace().nth(1).unwrap_or_default();
    let (status, text) = said(path.split('?').next().unwrap_or_default(), health);
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    stream.write_all((head + &text).as_bytes()).await?;
    stream.shutdown().await
}

fn said(path: &str, health: &Health) -> (&'static str, String) {
    match path {
        "/healthz" | "/livez" => ("200 OK", "ok\n".to_owned()),
        // One that stands by is as ready as it can be: a rollout must not wait for it to lead.
        "/readyz" => match health.stage() {
            Stage::Standby | Stage::Working => ("200 OK", health.words() + "\n"),
            Stage::Starting | Stage::Stopped => ("503 Service Unavailable", health.words() + "\n"),
        },
        "/metrics" => ("200 OK", health.metrics() + &health.scheduling.render()),
        _ => ("404 Not Found", "there are /healthz, /readyz and /metrics\n".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ask(address: std::net::SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn a_kubelet_is_answered() {
        let listener = bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(serve(listener, Arc::default()));
        assert!(ask(address, "/healthz").await.starts_with("HTTP/1.1 200 OK\r\n"));
        let ready = ask(address, "/readyz?verbose").await;
        let is_told = ready.starts_with("HTTP/1.1 503 ") && ready.contains("reads what there is");
        assert!(is_told, "{ready}");
        assert!(ask(address, "/nothing").await.starts_with("HTTP/1.1 404 Not Found\r\n"));
        task.abort();
    }

    #[tokio::test]
    async fn addresses_are_taken_as_go_writes_them() {
        let listener = bind(":0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    }
}
