//! exec and attach: one vocabulary for every transport.
//!
//! The node hands `run_exec` a function that joins `Streams` to a process and resolves to its `Outcome`. Its future is dropped
//! when the client leaves: for exec that is the sign to end the process, for attach only to let go of it.

use super::{StreamError, Transport, channels, spdy};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot, watch};
use volley_api::kube::status::ApiError;

/// Pieces that wait between the connection and the process, each way.
const PIECES_WAITING_MAX: usize = 16;

/// What the client asked to be joined with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wants {
    pub stdin: bool,
    pub stdout: bool,
    /// Never together with `tty`: a terminal has one output.
    pub stderr: bool,
    pub tty: bool,
}

/// The size of the client's terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    pub width: u16,
    pub height: u16,
}

impl TerminalSize {
    pub fn parse(json: &[u8]) -> Option<TerminalSize> {
        TerminalSize::of(&serde_json::from_slice(json).ok()?)
    }

    pub(super) fn of(size: &Value) -> Option<TerminalSize> {
        let side = |name: &str| u16::try_from(size[name].as_u64()?).ok();
        Some(TerminalSize { width: side("Width")?, height: side("Height")? })
    }
}

/// The process's end of a session; only what was asked for is there.
pub struct Streams {
    /// Ends when the client closes its input.
    pub stdin: Option<mpsc::Receiver<Bytes>>,
    /// Waits for the client when it is slow, fails when it left. The session ends once all senders are dropped.
    pub stdout: Option<mpsc::Sender<Bytes>>,
    pub stderr: Option<mpsc::Sender<Bytes>>,
    /// The latest size of the client's terminal, `None` until it tells.
    pub resize: Option<watch::Receiver<Option<TerminalSize>>>,
}

/// The client's end of a session, served by a transport.
pub(super) struct ClientEnds {
    pub stdin: Option<mpsc::Sender<Bytes>>,
    pub stdout: Option<mpsc::Receiver<Bytes>>,
    pub stderr: Option<mpsc::Receiver<Bytes>>,
    pub resize: Option<watch::Sender<Option<TerminalSize>>>,
    /// The process starts when this is sent.
    pub ready: oneshot::Sender<()>,
    pub outcome: oneshot::Receiver<Outcome>,
}

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Exit(i32),
    /// Ended by a signal; clients see 128 and its number.
    Signal(i32),
    /// The process could not be started or joined, in whole words such as `error executing command in container: …`.
    Error(String),
}

impl Outcome {
    /// The object that is written on the error channel (spec K-WS-3).
    pub fn status(&self, command: &[String]) -> Value {
        let code = match self {
            Outcome::Exit(0) => return json!({"metadata": {}, "status": "Success"}),
            Outcome::Exit(code) => *code,
            Outcome::Signal(signal) => 128 + signal,
            Outcome::Error(text) => return bare_status(&ApiError::internal(text)),
        };
        json!({
            "metadata": {},
            "status": "Failure",
            "message": format!("command terminated with non-zero exit code: {}", failure(command, code)),
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        })
    }

    /// What protocols before v4 write on the error channel: a text, and nothing on success.
    pub fn legacy_text(&self, command: &[String]) -> String {
        let status = self.status(command);
        status["message"].as_str().unwrap_or_default().to_owned()
    }
}

fn failure(command: &[String], code: i32) -> String {
    format!("error executing command [{}], exit code {code}", command.join(" "))
}

/// A `Status` without kind and version, as the reference writes it inside streams.
fn bare_status(error: &ApiError) -> Value {
    let mut status = error.to_status();
    if let Some(fields) = status.as_object_mut() {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    status
}

/// Joins a client with the process that `start` joins with its `Streams`; returns when both are done with each other.
///
/// `command` is what the outcome's text names.
pub async fn run_exec<F, R>(transport: Transport, wants: Wants, command: &[String], start: F) -> Result<(), StreamError>
where
    F: FnOnce(Streams) -> R,
    R: Future<Output = Outcome>,
{
    let (streams, ends, ready, outcome) = ends(wants);
    let process = async {
        if ready.await.is_ok() {
            // The receiver is gone only when the session is over.
            let _ = outcome.send(start(streams).await);
        }
        std::future::pending::<()>().await;
    };
    let serve = async {
        match transport {
            Transport::Spdy { io, version } => spdy::exec::serve(io, version, wants, command, ends).await,
            Transport::Channels { io, protocol } => channels::serve_exec(io, protocol, command, ends).await,
            Transport::Tunnel { .. } => Err(StreamError::Transport),
        }
    };
    tokio::select! {
        result = serve => result,
        () = process => Ok(()),
    }
}

fn ends(wants: Wants) -> (Streams, ClientEnds, oneshot::Receiver<()>, oneshot::Sender<Outcome>) {
    fn pipe<T>(wanted: bool) -> (Option<mpsc::Sender<T>>, Option<mpsc::Receiver<T>>) {
        wanted.then(|| mpsc::channel(PIECES_WAITING_MAX)).unzip()
    }
    let (stdin_sender, stdin) = pipe(wants.stdin);
    let (stdout, stdout_receiver) = pipe(wants.stdout);
    let (stderr, stderr_receiver) = pipe(wants.stderr && !wants.tty);
    let (resize_sender, resize) = wants.tty.then(|| watch::channel(None)).unzip();
    let (ready, when_ready) = oneshot::channel();
    let (outcome_sender, outcome) = oneshot::channel();
    let streams = Streams { stdin, stdout, stderr, resize };
    let client = ClientEnds {
        stdin: stdin_sender,
        stdout: stdout_receiver,
        stderr: stderr_receiver,
        resize: resize_sender,
        ready,
        outcome,
    };
    (streams, client, when_ready, outcome_sender)
}

/// The next piece of an output that may not have been asked for; `None` when it has ended.
pub(super) async fn next_piece(output: &mut Option<mpsc::Receiver<Bytes>>) -> Option<Bytes> {
    match output {
        Some(receiver) => receiver.recv().await,
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // K-WS-3
    #[test]
    fn outcomes_become_the_status_objects_that_clients_parse() {
        let command = ["sh".to_owned(), "-c".to_owned(), "exit 3".to_owned()];
        assert_eq!(Outcome::Exit(0).status(&command).to_string(), r#"{"metadata":{},"status":"Success"}"#);
        let failure = json!({
            "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": "command terminated with non-zero exit code: error executing command [sh -c exit 3], exit code 3",
            "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
        });
        assert_eq!(Outcome::Exit(3).status(&command), failure);
        assert_eq!(Outcome::Signal(9).status(&command)["details"]["causes"][0]["message"], "137");
        let error = json!({
            "metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500,
            "message": "Internal error occurred: error executing command in container: no such file",
            "details": {"causes": [{"message": "error executing command in container: no such file"}]},
        });
        assert_eq!(Outcome::Error("error executing command in container: no such file".into()).status(&[]), error);
        assert_eq!(Outcome::Exit(0).legacy_text(&[]), "");
    }

    // K-WS-1
    #[test]
    fn terminal_sizes_are_read_and_nonsense_is_not() {
        assert_eq!(TerminalSize::parse(br#"{"Width":80,"Height":24}"#), Some(TerminalSize { width: 80, height: 24 }));
        for bad in [&b""[..], b"{}", br#"{"Width":-1,"Height":2}"#, br#"{"Width":99999,"Height":2}"#, b"[1,2]", b"\xff"]
        {
            assert_eq!(TerminalSize::parse(bad), None);
        }
    }
}
