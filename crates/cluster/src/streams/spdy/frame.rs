//! SPDY frames: bytes in, frames out, and back. No I/O; `connection` feeds it.

use super::SpdyError;
use super::headers::{Deflater, Headers, Inflater};
use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The largest control frame that is taken in; those of real clients stay below 200 bytes.
const CONTROL_BYTES_MAX: usize = 16 * 1024;
const VERSION: u16 = 3;
const HEADER_BYTES: usize = 8;
const FLAG_FIN: u8 = 1;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const HEADERS: u16 = 8;

/// Reasons of RST_STREAM.
pub const REFUSED_STREAM: u32 = 3;
pub const CANCEL: u32 = 5;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    SynStream {
        id: u32,
        fin: bool,
        headers: Headers,
    },
    SynReply {
        id: u32,
        headers: Headers,
    },
    Reset {
        id: u32,
        status: u32,
    },
    Ping(u32),
    GoAway {
        last: u32,
    },
    /// A data frame, or a piece of a long one; `fin` stands on the last piece.
    Data {
        id: u32,
        fin: bool,
        bytes: Bytes,
    },
    /// SETTINGS, WINDOW_UPDATE, HEADERS and types to come.
    Ignored,
}

/// A data frame of which a part has not arrived yet.
struct Unfinished {
    id: u32,
    fin: bool,
    left: usize,
}

/// Cuts the received bytes into frames.
#[derive(Default)]
pub struct Decoder {
    buffer: BytesMut,
    unfinished: Option<Unfinished>,
    inflater: Inflater,
}

impl Decoder {
    /// Where received bytes are appended; it is emptied by `next_frame` up to one control frame.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// The next frame, or `None` when more bytes are needed.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, SpdyError> {
        if let Some(unfinished) = self.unfinished.take() {
            return Ok(self.data(unfinished));
        }
        if self.buffer.len() < HEADER_BYTES {
            return Ok(None);
        }
        let first = u32::from_be_bytes(self.buffer[..4].try_into().expect("four bytes"));
        let second = u32::from_be_bytes(self.buffer[4..8].try_into().expect("four bytes"));
        let (flags, len) = ((second >> 24) as u8, (second & 0x00ff_ffff) as usize);
        if first >> 31 == 0 {
            self.buffer.advance(HEADER_BYTES);
            return Ok(self.data(Unfinished { id: first, fin: flags & FLAG_FIN != 0, left: len }));
        }
        let (version, kind) = ((first >> 16 & 0x7fff) as u16, first as u16);
        if version != VERSION {
            return Err(SpdyError::Version(version));
        }
        if len > CONTROL_BYTES_MAX {
            return Err(SpdyError::ControlLength { kind, len });
        }
        if self.buffer.len() < HEADER_BYTES + len {
            return Ok(None);
        }
        self.buffer.advance(HEADER_BYTES);
        let payload = self.buffer.split_to(len).freeze();
        self.control(kind, flags, payload).map(Some)
    }

    fn data(&mut self, mut unfinished: Unfinished) -> Option<Frame> {
        if self.buffer.is_empty() && unfinished.left > 0 {
            self.unfinished = Some(unfinished);
            return None;
        }
        let bytes = self.buffer.split_to(unfinished.left.min(self.buffer.len())).freeze();
        unfinished.left -= bytes.len();
        let frame = Frame::Data { id: unfinished.id, fin: unfinished.fin && unfinished.left == 0, bytes };
        if unfinished.left > 0 {
            self.unfinished = Some(unfinished);
        }
        Some(frame)
    }

    fn control(&mut self, kind: u16, flags: u8, mut payload: Bytes) -> Result<Frame, SpdyError> {
        let len = payload.len();
        let short = SpdyError::ControlLength { kind, len };
        let word = |payload: &mut Bytes| payload.try_get_u32().map_err(|_| short_of(kind, len));
        Ok(match kind {
            SYN_STREAM => {
                let id = word(&mut payload)? & 0x7fff_ffff;
                // The associated stream, the priority and the credential slot mean nothing to us.
                if payload.len() < 6 {
                    return Err(short);
                }
                payload.advance(6);
                Frame::SynStream { id, fin: flags & FLAG_FIN != 0, headers: self.inflater.read(&payload)? }
            }
            SYN_REPLY => Frame::SynReply { id: word(&mut payload)?, headers: self.inflater.read(&payload)? },
            RST_STREAM => Frame::Reset { id: word(&mut payload)? & 0x7fff_ffff, status: word(&mut payload)? },
            PING => Frame::Ping(word(&mut payload)?),
            GOAWAY => Frame::GoAway { last: word(&mut payload)? },
            HEADERS => {
                word(&mut payload)?;
                // Its block is part of the one zlib stream, so it has to be read all the same.
                self.inflater.read(&payload)?;
                Frame::Ignored
            }
            _ => Frame::Ignored,
        })
    }
}

fn short_of(kind: u16, len: usize) -> SpdyError {
    SpdyError::ControlLength { kind, len }
}

/// Writes frames as bytes.
#[derive(Default)]
pub struct Encoder {
    deflater: Deflater,
}

impl Encoder {
    pub fn write(&mut self, frame: &Frame, out: &mut BytesMut) {
        match frame {
            Frame::SynStream { id, fin, headers } => {
                let block = self.deflater.write(headers);
                control(out, SYN_STREAM, if *fin { FLAG_FIN } else { 0 }, 10 + block.len());
                out.put_u32(*id);
                out.put_bytes(0, 6);
                out.put_slice(&block);
            }
            Frame::SynReply { id, headers } => {
                let block = self.deflater.write(headers);
                control(out, SYN_REPLY, 0, 4 + block.len());
                out.put_u32(*id);
                out.put_slice(&block);
            }
            Frame::Reset { id, status } => words(out, RST_STREAM, &[*id, *status]),
            Frame::Ping(id) => words(out, PING, &[*id]),
            Frame::GoAway { last } => words(out, GOAWAY, &[*last, 0]),
            Frame::Data { id, fin, bytes } => {
                out.put_u32(*id);
                out.put_u32(u32::from(*fin) << 24 | bytes.len() as u32);
                out.put_slice(bytes);
            }
            Frame::Ignored => {}
        }
    }
}

fn control(out: &mut BytesMut, kind: u16, flags: u8, len: usize) {
    out.put_u16(0x8000 | VERSION);
    out.put_u16(kind);
    out.put_u32(u32::from(flags) << 24 | len as u32);
}

fn words(out: &mut BytesMut, kind: u16, words: &[u32]) {
    control(out, kind, 0, 4 * words.len());
    words.iter().for_each(|word| out.put_u32(*word));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn samples() -> Vec<Frame> {
        let headers = Headers(vec![("streamtype".into(), "error".into())]);
        vec![
            Frame::SynStream { id: 1, fin: false, headers: headers.clone() },
            Frame::SynStream { id: 3, fin: true, headers },
            Frame::SynReply { id: 1, headers: Headers::default() },
            Frame::Data { id: 3, fin: false, bytes: Bytes::from_static(b"hello") },
            Frame::Ping(7),
            Frame::Data { id: 3, fin: true, bytes: Bytes::new() },
            Frame::Reset { id: 1, status: CANCEL },
            Frame::GoAway { last: 3 },
        ]
    }

    fn encoded(frames: &[Frame]) -> BytesMut {
        let (mut encoder, mut out) = (Encoder::default(), BytesMut::new());
        frames.iter().for_each(|frame| encoder.write(frame, &mut out));
        out
    }

    fn decoded(decoder: &mut Decoder, pieces: impl Iterator<Item = Vec<u8>>) -> Result<Vec<Frame>, SpdyError> {
        let mut frames = Vec::new();
        for piece in pieces {
            decoder.buffer().extend_from_slice(&piece);
            while let Some(frame) = decoder.next_frame()? {
                frames.push(frame);
            }
        }
        Ok(frames)
    }

    // K-SPDY-2
    #[test]
    fn frames_survive_the_wire() {
        let bytes = encoded(&samples());
        assert_eq!(decoded(&mut Decoder::default(), [bytes.to_vec()].into_iter()), Ok(samples()));
    }

    // K-SPDY-2 K-SPDY-5
    #[test]
    fn bytes_may_be_cut_anywhere() {
        let bytes = encoded(&samples());
        let frames = decoded(&mut Decoder::default(), bytes.iter().map(|byte| vec![*byte])).unwrap();
        let (mut data, mut fins) = (Vec::new(), 0);
        for frame in &frames {
            if let Frame::Data { bytes, fin, .. } = frame {
                data.extend_from_slice(bytes);
                fins += usize::from(*fin);
            }
        }
        assert_eq!((data.as_slice(), fins), (&b"hello"[..], 1));
        assert_eq!(frames.iter().filter(|f| !matches!(f, Frame::Data { .. })).count(), 6);
    }

    #[test]
    fn long_data_frame_is_handed_on_in_pieces_without_being_gathered() {
        let mut decoder = Decoder::default();
        let mut head = BytesMut::new();
        head.put_u32(5);
        head.put_u32(u32::from(FLAG_FIN) << 24 | 0x00ff_ffff);
        let pieces = [head.to_vec()].into_iter().chain((0..4).map(|_| vec![1u8; 1000]));
        let frames = decoded(&mut decoder, pieces).unwrap();
        assert_eq!(frames.len(), 4);
        assert!(frames.iter().all(|f| matches!(f, Frame::Data { id: 5, fin: false, bytes } if bytes.len() == 1000)));
        assert!(decoder.buffer().is_empty());
    }

    #[test]
    fn oversized_control_frame_and_other_versions_are_refused() {
        let mut out = BytesMut::new();
        control(&mut out, SYN_STREAM, 0, CONTROL_BYTES_MAX + 1);
        let refused = decoded(&mut Decoder::default(), [out.to_vec()].into_iter());
        assert_eq!(refused, Err(SpdyError::ControlLength { kind: SYN_STREAM, len: CONTROL_BYTES_MAX + 1 }));
        let version_two = vec![0x80, 2, 0, 6, 0, 0, 0, 4, 0, 0, 0, 1];
        assert_eq!(decoded(&mut Decoder::default(), [version_two].into_iter()), Err(SpdyError::Version(2)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn random_bytes_never_panic_and_stay_bounded(pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..20)) {
            let mut decoder = Decoder::default();
            let _ = decoded(&mut decoder, pieces.into_iter());
            prop_assert!(decoder.buffer().len() <= CONTROL_BYTES_MAX + HEADER_BYTES + 200);
        }

        #[test]
        fn damaged_frames_never_panic(at in 0usize..100, value: u8) {
            let mut bytes = encoded(&samples()).to_vec();
            let at = at % bytes.len();
            bytes[at] = value;
            let _ = decoded(&mut Decoder::default(), [bytes].into_iter());
        }
    }
}
