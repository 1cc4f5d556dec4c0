//! Everything between an upgraded connection and a process: exec, attach and port-forward, and the log files behind `logs`.
//!
//! `upgrade` agrees on a transport with the client; `session` and `forward` run over any of them (`spdy`, `channels`, or SPDY in
//! a WebSocket by `tunnel`); the node provides the other end. `logs` writes and reads container logs and needs none of these.

pub mod upgrade;
pub mod container;
pub mod session;
pub mod forward;
pub mod channels;
pub mod websocket;
pub mod tunnel;
pub mod spdy;
pub mod logs;

use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

/// After our last byte the client has this long to hang up first: closing with its bytes unread would make the kernel send
/// a reset, and that destroys what is still on its way to the client.
const LINGER: Duration = Duration::from_secs(5);
/// The largest piece of data that is moved at once.
const PIECE_BYTES_MAX: usize = 32 * 1024;

/// A byte stream both ways: the client's connection, or one to a process.
pub trait Duplex: AsyncRead + AsyncWrite + Unpin + Send + 'static {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> Duplex for T {}

pub type Io = Box<dyn Duplex>;

/// An upgraded connection and the protocol that was agreed on for it.
pub enum Transport {
    Spdy {
        io: Io,
        version: spdy::Version,
    },
    Channels {
        io: Io,
        protocol: channels::Protocol,
    },
    /// SPDY frames inside WebSocket messages; port-forward only.
    Tunnel {
        io: Io,
    },
}

/// Why a stream session ended early; the client can no longer be told.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    #[error("the connection failed")]
    Connection(#[from] std::io::Error),
    #[error("the client broke the SPDY protocol")]
    Spdy(#[from] spdy::SpdyError),
    #[error("the client broke the WebSocket protocol")]
    WebSocket(#[from] websocket::WebSocketError),
    #[error("the client did not open the streams it asked for")]
    StreamsMissing,
    #[error("a session of this kind cannot run over this transport")]
    Transport,
    #[error("the client left")]
    ClientLeft,
}

/// Reads and forgets until the other side hangs up, or it took too long.
async fn linger(mut reader: impl AsyncRead + Unpin) {
    let mut sink = [0u8; 4096];
    let drained = async { while matches!(reader.read(&mut sink).await, Ok(1..)) {} };
    let _ = tokio::time::timeout(LINGER, drained).await;
}

#[cfg(test)]
mod tests;
