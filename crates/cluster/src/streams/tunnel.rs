//! SPDY inside a WebSocket: the byte stream of port-forward cut into binary messages at arbitrary places (spec K-SPDY-5).

use super::websocket::{self, Decoder, Message};
use super::{Io, PIECE_BYTES_MAX, StreamError, channels, linger};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;

/// Bytes between the WebSocket and the SPDY connection, each way.
const TUNNEL_BYTES: usize = 64 * 1024;
const PONGS_WAITING_MAX: usize = 8;

/// The byte stream inside, and the future that moves it; it ends when either side closes.
pub(super) fn open(io: Io) -> (DuplexStream, impl Future<Output = Result<(), StreamError>> + Send) {
    let (inside, outside) = tokio::io::duplex(TUNNEL_BYTES);
    let driver = async move {
        let (mut reader, mut writer) = tokio::io::split(io);
        let (mut from_spdy, mut to_spdy) = tokio::io::split(outside);
        let (pongs, mut pongs_waiting) = mpsc::channel(PONGS_WAITING_MAX);
        let inbound = async {
            let mut decoder = Decoder::default();
            loop {
                match websocket::next_message(&mut decoder, &mut reader).await? {
                    Some(Message::Data(bytes)) => to_spdy.write_all(&bytes).await?,
                    Some(Message::Ping(payload)) => {
                        let _ = pongs.try_send(websocket::pong(&payload));
                    }
                    Some(Message::Close) | None => return Ok::<(), StreamError>(()),
                }
            }
        };
        let outbound = async {
            let mut piece = vec![0u8; PIECE_BYTES_MAX];
            loop {
                tokio::select! {
                    Some(pong) = pongs_waiting.recv() => channels::send(&mut writer, pong).await?,
                    len = from_spdy.read(&mut piece) => match len? {
                        0 => break,
                        len => channels::send(&mut writer, websocket::binary(&[&piece[..len]])).await?,
                    },
                }
            }
            channels::send(&mut writer, websocket::close()).await
        };
        tokio::select! {
            result = inbound => return result,
            result = outbound => result?,
        }
        writer.shutdown().await?;
        linger(reader).await;
        Ok(())
    };
    (inside, driver)
}
