//! WebSocket channels: `v5.channel.k8s.io` and its elders, one byte of channel number before each message (spec K-WS-1 to 4).

use super::session::{ClientEnds, Outcome, TerminalSize, next_piece};
use super::websocket::{self, Decoder, Message};
use super::{Io, StreamError, linger};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf, Bytes};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot, watch};

pub const STDIN: u8 = 0;
pub const STDOUT: u8 = 1;
pub const STDERR: u8 = 2;
pub const ERROR: u8 = 3;
pub const RESIZE: u8 = 4;
/// v5: the second byte is the channel that the client closes.
const CLOSE: u8 = 255;
/// Pongs that wait to be written; a client that floods with pings loses some.
const PONGS_WAITING_MAX: usize = 8;

/// An unasked pong goes to the client this often. It tells kubectl that we live when its pings wait behind input that the
/// process does not read, and it lets us notice a client that is gone without a word.
const PONG_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Before the outcome was a `Status`.
    V1,
    V4,
    /// Adds closing of a channel.
    V5,
}

/// A subprotocol of the WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocol {
    pub version: Version,
    /// Text messages: the channel as a digit, then base64.
    pub is_base64: bool,
}

impl Protocol {
    pub const fn binary(version: Version) -> Protocol {
        Protocol { version, is_base64: false }
    }

    pub const fn base64(version: Version) -> Protocol {
        Protocol { version, is_base64: true }
    }

    /// A message for the client, as a WebSocket frame.
    pub fn frame(self, channel: u8, bytes: &[u8]) -> Bytes {
        if self.is_base64 {
            websocket::text(&[&[b'0' + channel], STANDARD.encode(bytes).as_bytes()])
        } else {
            websocket::binary(&[&[channel], bytes])
        }
    }

    /// A message of the client; `None` when it is empty or not readable, which the reference ignores too.
    pub fn parse(self, mut message: Bytes) -> Option<Incoming> {
        let first = message.try_get_u8().ok()?;
        if self.is_base64 {
            let bytes = STANDARD.decode(&message).ok()?;
            return Some(Incoming::Data { channel: first.checked_sub(b'0')?, bytes: bytes.into() });
        }
        if first == CLOSE && self.version == Version::V5 {
            return Some(Incoming::Closed { channel: message.try_get_u8().ok()? });
        }
        Some(Incoming::Data { channel: first, bytes: message })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    Data { channel: u8, bytes: Bytes },
    Closed { channel: u8 },
}

pub(super) async fn serve_exec(
    io: Io,
    protocol: Protocol,
    command: &[String],
    ends: ClientEnds,
) -> Result<(), StreamError> {
    let (mut reader, mut writer) = tokio::io::split(io);
    let (pongs, pongs_waiting) = mpsc::channel(PONGS_WAITING_MAX);
    // The session may be over already if nobody waits.
    let _ = ends.ready.send(());
    let mut outputs =
        Outputs { protocol, pongs: pongs_waiting, stdout: ends.stdout, stderr: ends.stderr, outcome: ends.outcome };
    tokio::select! {
        result = inputs(&mut reader, protocol, pongs, ends.stdin, ends.resize) => {
            result?;
            // The client said goodbye or hung up; whether it hears ours does not matter.
            let _ = send(&mut writer, websocket::close()).await;
            return Err(StreamError::ClientLeft);
        }
        result = outputs.run(&mut writer, command) => result?,
    }
    writer.shutdown().await?;
    linger(reader).await;
    Ok(())
}

/// Hands the client's messages to the process until the client leaves.
async fn inputs(
    reader: &mut (impl AsyncRead + Unpin),
    protocol: Protocol,
    pongs: mpsc::Sender<Bytes>,
    mut stdin: Option<mpsc::Sender<Bytes>>,
    resize: Option<watch::Sender<Option<TerminalSize>>>,
) -> Result<(), StreamError> {
    let mut decoder = Decoder::default();
    while let Some(incoming) = next_incoming(&mut decoder, reader, protocol, &pongs).await? {
        match incoming {
            Incoming::Data { channel: STDIN, bytes } => {
                if let Some(process) = stdin.as_ref().filter(|_| !bytes.is_empty())
                    && process.send(bytes).await.is_err()
                {
                    stdin = None;
                }
            }
            Incoming::Data { channel: RESIZE, bytes } => {
                if let (Some(process), Some(size)) = (&resize, TerminalSize::parse(&bytes)) {
                    process.send_replace(Some(size));
                }
            }
            Incoming::Closed { channel: STDIN } => stdin = None,
            Incoming::Data { .. } | Incoming::Closed { .. } => {}
        }
    }
    Ok(())
}

/// What is written to the client: output, pongs between it, and the outcome at the end.
struct Outputs {
    protocol: Protocol,
    pongs: mpsc::Receiver<Bytes>,
    stdout: Option<mpsc::Receiver<Bytes>>,
    stderr: Option<mpsc::Receiver<Bytes>>,
    outcome: oneshot::Receiver<Outcome>,
}

impl Outputs {
    async fn run(&mut self, writer: &mut (impl AsyncWrite + Unpin), command: &[String]) -> Result<(), StreamError> {
        let protocol = self.protocol;
        send(writer, first_message(protocol, self.stdout.is_some(), self.stderr.is_some())).await?;
        while self.stdout.is_some() || self.stderr.is_some() {
            let (channel, piece) = tokio::select! {
                pong = next_pong(&mut self.pongs) => {
                    send(writer, pong).await?;
                    continue;
                }
                piece = next_piece(&mut self.stdout), if self.stdout.is_some() => (STDOUT, piece),
                piece = next_piece(&mut self.stderr), if self.stderr.is_some() => (STDERR, piece),
            };
            match piece {
                Some(bytes) => send(writer, protocol.frame(channel, &bytes)).await?,
                None if channel == STDOUT => self.stdout = None,
                None => self.stderr = None,
            }
        }
        let outcome = loop {
            tokio::select! {
                pong = next_pong(&mut self.pongs) => send(writer, pong).await?,
                outcome = &mut self.outcome => break outcome.map_err(|_| StreamError::ClientLeft)?,
            }
        };
        let text = match protocol.version {
            Version::V4 | Version::V5 => outcome.status(command).to_string(),
            Version::V1 => outcome.legacy_text(command),
        };
        if !text.is_empty() {
            send(writer, protocol.frame(ERROR, text.as_bytes())).await?;
        }
        send(writer, websocket::close()).await
    }
}

/// A pong that the client asked for, or one that is due.
async fn next_pong(asked: &mut mpsc::Receiver<Bytes>) -> Bytes {
    match tokio::time::timeout(PONG_INTERVAL, asked.recv()).await {
        Ok(Some(pong)) => pong,
        // The reading side is gone, and with it this session.
        Ok(None) => std::future::pending().await,
        Err(_) => websocket::pong(b""),
    }
}

/// One empty message on the lowest channel that we write: some clients wait for a first frame (spec K-WS-2).
fn first_message(protocol: Protocol, has_stdout: bool, has_stderr: bool) -> Bytes {
    let channel = match (has_stdout, has_stderr) {
        (true, _) => STDOUT,
        (false, true) => STDERR,
        (false, false) => ERROR,
    };
    protocol.frame(channel, b"")
}

/// The next message on a channel, `None` when the client closed or hung up; pings are answered by whoever writes.
pub(super) async fn next_incoming(
    decoder: &mut Decoder,
    reader: &mut (impl AsyncRead + Unpin),
    protocol: Protocol,
    pongs: &mpsc::Sender<Bytes>,
) -> Result<Option<Incoming>, StreamError> {
    loop {
        match websocket::next_message(decoder, reader).await? {
            Some(Message::Data(message)) => {
                if let Some(incoming) = protocol.parse(message) {
                    return Ok(Some(incoming));
                }
            }
            Some(Message::Ping(payload)) => {
                let _ = pongs.try_send(websocket::pong(&payload));
            }
            Some(Message::Close) | None => return Ok(None),
        }
    }
}

pub(super) async fn send(writer: &mut (impl AsyncWrite + Unpin), frame: Bytes) -> Result<(), StreamError> {
    writer.write_all(&frame).await?;
    Ok(writer.flush().await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // K-WS-1 K-WS-4
    #[test]
    fn only_v5_closes_a_channel() {
        let close = Bytes::from_static(&[255, 0]);
        assert_eq!(Protocol::binary(Version::V5).parse(close.clone()), Some(Incoming::Closed { channel: 0 }));
        let data = Incoming::Data { channel: 255, bytes: Bytes::from_static(&[0]) };
        assert_eq!(Protocol::binary(Version::V4).parse(close), Some(data));
    }

    // K-WS-4
    #[test]
    fn base64_messages_are_digits_and_text() {
        let protocol = Protocol::base64(Version::V4);
        let data = Incoming::Data { channel: 0, bytes: Bytes::from_static(b"hi") };
        assert_eq!(protocol.parse(Bytes::from_static(b"0aGk=")), Some(data));
        assert_eq!(&protocol.frame(1, b"hi")[..], b"\x81\x051aGk=");
        assert_eq!(protocol.parse(Bytes::from_static(b"0%%")), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_message_is_parsed_or_ignored(bytes in proptest::collection::vec(any::<u8>(), 0..50), is_base64: bool) {
            for version in [Version::V1, Version::V4, Version::V5] {
                let _ = Protocol { version, is_base64 }.parse(bytes.clone().into());
            }
        }
    }
}
