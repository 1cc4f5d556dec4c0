//! exec and attach over SPDY: named streams, the outcome on the error stream (spec K-SPDY-3).

use super::super::session::{ClientEnds, Outcome, TerminalSize, Wants};
use super::super::{Io, StreamError};
use super::Version;
use super::connection::{self, Connection, StreamReader, StreamWriter};
use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// The client has this long to open its streams.
const STREAMS_TIMEOUT: Duration = Duration::from_secs(30);
/// A resize message is about thirty bytes; what has not become one by here is none.
const RESIZE_BYTES_MAX: usize = 1024;

type Opened = BTreeMap<String, connection::Stream>;

pub(in super::super) async fn serve(
    io: Io,
    version: Version,
    wants: Wants,
    command: &[String],
    ends: ClientEnds,
) -> Result<(), StreamError> {
    let (connection, driver) = connection::open(io);
    let mut driver = std::pin::pin!(driver);
    tokio::select! {
        result = session(connection, version, wants, command, ends) => result?,
        result = &mut driver => return result.and(Err(StreamError::ClientLeft)),
    }
    driver.await
}

async fn session(
    mut connection: Connection,
    version: Version,
    wants: Wants,
    command: &[String],
    ends: ClientEnds,
) -> Result<(), StreamError> {
    let expected = expected(version, wants);
    let opened = tokio::time::timeout(STREAMS_TIMEOUT, gather(&mut connection, &expected)).await;
    let mut opened = opened.map_err(|_| StreamError::StreamsMissing)?.ok_or(StreamError::ClientLeft)?;
    // The session may be over already if nobody waits.
    let _ = ends.ready.send(());
    let mut halves = |name: &str| opened.remove(name).map(|stream| (stream.reader, stream.writer)).unzip();
    let (stdin, stdin_writer) = halves("stdin");
    let (resize, resize_writer) = halves("resize");
    let ((_, stdout), (_, stderr)) = (halves("stdout"), halves("stderr"));
    let (_, error): (Option<StreamReader>, Option<StreamWriter>) = halves("error");
    let inputs = async {
        tokio::join!(copy_in(stdin, ends.stdin), resizes(resize, ends.resize));
        std::future::pending::<()>().await;
    };
    let outputs = async { tokio::join!(copy_out(ends.stdout, stdout), copy_out(ends.stderr, stderr), ends.outcome).2 };
    let outcome = tokio::select! {
        outcome = outputs => outcome.map_err(|_| StreamError::ClientLeft)?,
        () = inputs => return Ok(()),
    };
    if let Some(mut error) = error {
        error.send(outcome_bytes(&outcome, version, command)).await?;
        error.finish();
    }
    // The unfinished writers of stdin and resize are dropped before the goodbye, which resets those streams.
    drop((stdin_writer, resize_writer));
    connection.close();
    Ok(())
}

fn expected(version: Version, wants: Wants) -> Vec<&'static str> {
    let all = [
        ("error", true),
        ("stdin", wants.stdin),
        ("stdout", wants.stdout),
        ("stderr", wants.stderr && !wants.tty),
        ("resize", wants.tty && version.has_resize()),
    ];
    all.into_iter().filter(|(_, wanted)| *wanted).map(|(name, _)| name).collect()
}

/// Waits until all expected streams are open; others are reset by being dropped.
async fn gather(connection: &mut Connection, expected: &[&str]) -> Option<Opened> {
    let mut opened = Opened::new();
    while opened.len() < expected.len() {
        let stream = connection.incoming.recv().await?;
        let name = stream.headers.get("streamtype").unwrap_or_default().to_owned();
        if expected.contains(&name.as_str()) {
            opened.entry(name).or_insert(stream);
        }
    }
    Some(opened)
}

fn outcome_bytes(outcome: &Outcome, version: Version, command: &[String]) -> Bytes {
    if version.has_status() { outcome.status(command).to_string().into() } else { outcome.legacy_text(command).into() }
}

async fn copy_in(stream: Option<StreamReader>, process: Option<mpsc::Sender<Bytes>>) {
    let (Some(mut stream), Some(process)) = (stream, process) else { return };
    while let Some(piece) = stream.next().await {
        if process.send(piece).await.is_err() {
            // The process no longer reads; what the client still sends must not hold up the connection.
            while stream.next().await.is_some() {}
            return;
        }
    }
}

async fn copy_out(process: Option<mpsc::Receiver<Bytes>>, stream: Option<StreamWriter>) {
    let (Some(mut process), Some(mut stream)) = (process, stream) else { return };
    while let Some(piece) = process.recv().await {
        if stream.send(piece).await.is_err() {
            return;
        }
    }
    stream.finish();
}

/// Sizes are JSON objects one after another, cut anywhere.
async fn resizes(stream: Option<StreamReader>, process: Option<watch::Sender<Option<TerminalSize>>>) {
    let (Some(mut stream), Some(process)) = (stream, process) else { return };
    let mut buffer = BytesMut::new();
    while let Some(piece) = stream.next().await {
        buffer.extend_from_slice(&piece);
        let consumed = {
            let mut values = serde_json::Deserializer::from_slice(&buffer).into_iter::<serde_json::Value>();
            let mut consumed = 0;
            while let Some(Ok(value)) = values.next() {
                consumed = values.byte_offset();
                if let Some(size) = TerminalSize::of(&value) {
                    process.send_replace(Some(size));
                }
            }
            consumed
        };
        let _ = buffer.split_to(consumed);
        if buffer.len() > RESIZE_BYTES_MAX {
            buffer.clear();
        }
    }
}
