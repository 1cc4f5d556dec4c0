//! WebSocket messages of RFC 6455, server's side, on a connection that is already upgraded (spec K-WS-5).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The largest message, whole or in fragments; clients send at most 1 MiB and a channel byte.
pub const MESSAGE_BYTES_MAX: usize = 1024 * 1024 + 1024;
/// Bytes read from the connection at a time.
const READ_BYTES: usize = 32 * 1024;
const CONTROL_BYTES_MAX: usize = 125;
/// Appended to the client's key before hashing; a constant of the protocol.
const KEY_SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum WebSocketError {
    #[error("message is larger than {MESSAGE_BYTES_MAX} bytes")]
    TooLarge,
    #[error("frame is not masked")]
    Unmasked,
    #[error("frame is malformed")]
    Malformed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Text and binary alike: some clients send bytes of a channel as text.
    Data(Bytes),
    Ping(Bytes),
    Close,
}

/// `Sec-WebSocket-Accept` for a client's `Sec-WebSocket-Key`.
pub fn accept_key(key: &str) -> String {
    let hash = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{KEY_SUFFIX}").as_bytes());
    STANDARD.encode(hash)
}

pub fn binary(parts: &[&[u8]]) -> Bytes {
    frame(BINARY, parts)
}

pub fn text(parts: &[&[u8]]) -> Bytes {
    frame(TEXT, parts)
}

pub fn pong(payload: &[u8]) -> Bytes {
    frame(PONG, &[payload])
}

/// A close frame with code 1000.
pub fn close() -> Bytes {
    frame(CLOSE, &[&1000u16.to_be_bytes()])
}

fn frame(opcode: u8, parts: &[&[u8]]) -> Bytes {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = BytesMut::with_capacity(len + 10);
    out.put_u8(0x80 | opcode);
    match len {
        0..=125 => out.put_u8(len as u8),
        126..=0xffff => {
            out.put_u8(126);
            out.put_u16(len as u16);
        }
        _ => {
            out.put_u8(127);
            out.put_u64(len as u64);
        }
    }
    parts.iter().for_each(|part| out.put_slice(part));
    out.freeze()
}

/// Cuts received bytes into messages.
#[derive(Default)]
pub struct Decoder {
    buffer: BytesMut,
    /// The fragments of a message that is not complete.
    fragments: Option<BytesMut>,
}

impl Decoder {
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// The next message, or `None` when more bytes are needed.
    pub fn message(&mut self) -> Result<Option<Message>, WebSocketError> {
        loop {
            let Some((first, payload)) = self.frame()? else { return Ok(None) };
            let (is_final, opcode) = (first & 0x80 != 0, first & 0x0f);
            match (opcode, &mut self.fragments) {
                (PING, _) => return Ok(Some(Message::Ping(payload.freeze()))),
                (CLOSE, _) => return Ok(Some(Message::Close)),
                (PONG, _) => {}
                (TEXT | BINARY, None) if is_final => return Ok(Some(Message::Data(payload.freeze()))),
                (TEXT | BINARY, None) => self.fragments = Some(payload),
                (CONTINUATION, Some(fragments)) => {
                    if fragments.len() + payload.len() > MESSAGE_BYTES_MAX {
                        return Err(WebSocketError::TooLarge);
                    }
                    fragments.extend_from_slice(&payload);
                    if let Some(whole) = self.fragments.take_if(|_| is_final) {
                        return Ok(Some(Message::Data(whole.freeze())));
                    }
                }
                _ => return Err(WebSocketError::Malformed),
            }
        }
    }

    /// One unmasked frame: its first byte and its payload.
    fn frame(&mut self) -> Result<Option<(u8, BytesMut)>, WebSocketError> {
        let [first, second, ..] = self.buffer[..] else { return Ok(None) };
        if second & 0x80 == 0 {
            return Err(WebSocketError::Unmasked);
        }
        let mut head = &self.buffer[2..];
        let len = match second & 0x7f {
            126 => head.try_get_u16().map(u64::from),
            127 => head.try_get_u64(),
            short => Ok(u64::from(short)),
        };
        let Ok(len) = len else { return Ok(None) };
        let is_control = first & 0x08 != 0;
        if first & 0x70 != 0 || is_control && (len > CONTROL_BYTES_MAX as u64 || first & 0x80 == 0) {
            return Err(WebSocketError::Malformed);
        }
        if len > MESSAGE_BYTES_MAX as u64 {
            return Err(WebSocketError::TooLarge);
        }
        let len = len as usize;
        if head.len() < 4 + len {
            return Ok(None);
        }
        let mask: [u8; 4] = head[..4].try_into().expect("four bytes");
        let head_len = self.buffer.len() - head.len() + 4;
        self.buffer.advance(head_len);
        let mut payload = self.buffer.split_to(len);
        for (at, byte) in payload.iter_mut().enumerate() {
            *byte ^= mask[at % 4];
        }
        Ok(Some((first, payload)))
    }
}

/// Messages of a connection; `None` when the client hung up without a close frame.
pub async fn next_message(
    decoder: &mut Decoder,
    reader: &mut (impl AsyncRead + Unpin),
) -> Result<Option<Message>, super::StreamError> {
    loop {
        if let Some(message) = decoder.message()? {
            return Ok(Some(message));
        }
        decoder.buffer().reserve(READ_BYTES);
        if reader.read_buf(decoder.buffer()).await? == 0 {
            return Ok(None);
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A client's frame: masked.
    pub fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = frame(0, &[payload]).to_vec();
        bytes[0] = first;
        bytes[1] |= 0x80;
        let mask = [1, 2, 3, 4];
        let at = bytes.len() - payload.len();
        bytes.splice(at..at, mask);
        for (i, byte) in bytes[at + 4..].iter_mut().enumerate() {
            *byte ^= mask[i % 4];
        }
        bytes
    }

    fn all(bytes: &[u8], step: usize) -> Result<Vec<Message>, WebSocketError> {
        let (mut decoder, mut messages) = (Decoder::default(), Vec::new());
        for piece in bytes.chunks(step) {
            decoder.buffer().extend_from_slice(piece);
            while let Some(message) = decoder.message()? {
                messages.push(message);
            }
        }
        Ok(messages)
    }

    #[test]
    fn accept_key_is_that_of_the_standard_s_example() {
        assert_eq!(accept_key("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    // K-WS-5
    #[test]
    fn fragments_are_joined_and_pings_between_them_are_seen() {
        let bytes = [
            masked(0x02, b"\0he"),
            masked(0x89, b"p"),
            masked(0x80, b"llo"),
            masked(0x81, b"\0text"),
            masked(0x8a, b""),
            masked(0x88, &[3, 232]),
        ]
        .concat();
        let expected = vec![
            Message::Ping(Bytes::from_static(b"p")),
            Message::Data(Bytes::from_static(b"\0hello")),
            Message::Data(Bytes::from_static(b"\0text")),
            Message::Close,
        ];
        for step in [1, 2, 7, 1000] {
            assert_eq!(all(&bytes, step), Ok(expected.clone()));
        }
    }

    // K-WS-5
    #[test]
    fn one_mebibyte_is_taken_and_more_is_refused() {
        let payload = vec![7u8; 1024 * 1024 + 1];
        assert_eq!(all(&masked(0x82, &payload), 65536), Ok(vec![Message::Data(payload.into())]));
        let large = masked(0x82, &vec![7u8; MESSAGE_BYTES_MAX + 1]);
        assert_eq!(all(&large, 65536), Err(WebSocketError::TooLarge));
        let half = vec![0u8; MESSAGE_BYTES_MAX / 2 + 1];
        assert_eq!(all(&[masked(0x02, &half), masked(0x80, &half)].concat(), 65536), Err(WebSocketError::TooLarge));
    }

    #[test]
    fn frames_that_break_the_rules_are_refused() {
        assert_eq!(all(&frame(BINARY, &[b"x"]), 100), Err(WebSocketError::Unmasked));
        for first in [0xc2, 0x80, 0x83, 0x09] {
            assert_eq!(all(&masked(first, b"x"), 100), Err(WebSocketError::Malformed), "{first:#x}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn random_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..600), step in 1usize..100) {
            let _ = all(&bytes, step);
            // The same with a plausible start, to get past the first checks.
            bytes.splice(0..0, masked(0x02, b"abc"));
            let _ = all(&bytes, step);
        }
    }
}
