//! Does what a probe or a lifecycle hook asks for, and says how it went in the kubelet's words.
//!
//! The worker completes a handler with `plan::node::handlers`, calls `run` (or `run_hook`), and keeps score with
//! `plan::node::probes::record`. Each call opens its own connection and closes it, so idle probes hold nothing.

mod dial;
mod grpc;
mod http;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};
use volley_api::kube::time::duration_text;
use volley_plan::node::handlers::{Handler, http_verdict};

/// Of what a program answers, so much is kept; upstream's bound.
const OUTPUT_BYTES_MAX: usize = 10 << 10;
/// How long a command that ran out of time has to be ended by the one who runs it.
const EXEC_END_MAX: Duration = Duration::from_secs(5);

/// Runs a probe: its output, or the words of the `Unhealthy` event. `exec` runs a command in the container, ends it
/// after the given time, and returns its exit code and what it has written.
pub async fn run(
    handler: &Handler,
    timeout: Duration,
    exec: impl AsyncFnOnce(&[String], Duration) -> Result<(i32, String), String>,
) -> Result<String, String> {
    match handler {
        Handler::Exec(command) => run_command(command, timeout, exec).await,
        Handler::Http { url, headers } => {
            let answer = http::get(url, headers, timeout).await?;
            http_verdict(answer.status)?;
            let is_redirect = (300..400).contains(&answer.status);
            let warning = if is_redirect { "Probe terminated redirects, Response body: " } else { "" };
            Ok(format!("{warning}{}", answer.body))
        }
        Handler::Tcp { host, port } => dial::connect(host, *port, timeout).await.map(|_| String::new()),
        Handler::Grpc { host, port, service } => grpc::check(host, *port, service, timeout).await,
        Handler::Sleep { seconds } => {
            tokio::time::sleep(Duration::from_secs(*seconds).min(timeout)).await;
            Ok(String::new())
        }
    }
}

/// Runs a lifecycle hook. It differs from a probe in that any answer over HTTP will do.
pub async fn run_hook(
    handler: &Handler,
    timeout: Duration,
    exec: impl AsyncFnOnce(&[String], Duration) -> Result<(i32, String), String>,
) -> Result<String, String> {
    match handler {
        Handler::Http { url, headers } => http::get(url, headers, timeout).await.map(|answer| answer.body),
        handler => run(handler, timeout, exec).await,
    }
}

async fn run_command(
    command: &[String],
    timeout: Duration,
    exec: impl AsyncFnOnce(&[String], Duration) -> Result<(i32, String), String>,
) -> Result<String, String> {
    let started = Instant::now();
    let result = tokio::time::timeout(timeout + EXEC_END_MAX, exec(command, timeout)).await;
    match result {
        Ok(result) if started.elapsed() < timeout => {
            let (code, mut output) = result?;
            output.truncate(output.floor_char_boundary(OUTPUT_BYTES_MAX));
            if code == 0 { Ok(output) } else { Err(output) }
        }
        _ => Err(format!("command timed out: {:?} timed out after {}", command.join(" "), seconds(timeout))),
    }
}

/// A duration as Go prints it.
fn seconds(timeout: Duration) -> String {
    duration_text(jiff::SignedDuration::try_from(timeout).unwrap_or(jiff::SignedDuration::MAX))
}
