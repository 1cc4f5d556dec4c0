//! A SPDY connection as a set of streams: the driver moves frames, sessions hold `Stream`s.
//!
//! Every queue is bounded by bytes or by the number of streams. Dropping a `StreamWriter` that was not finished resets its
//! stream, so whatever ends a session, the client hears of it.

use super::super::{PIECE_BYTES_MAX, StreamError, linger};
use super::SpdyError;
use super::frame::{CANCEL, Decoder, Encoder, Frame, REFUSED_STREAM};
use super::headers::Headers;
use bytes::{Bytes, BytesMut};
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

/// Open streams of one connection: a thousand forwarded TCP connections.
const STREAMS_MAX: usize = 2048;
/// From here on, streams that both sides are done with are looked for at each new one.
const STREAMS_PRUNE: usize = 256;
/// Pieces that wait for one stream's reader: 2 MiB, then the connection is read no further.
const PIECES_WAITING_MAX: usize = 64;
/// Streams that were opened and not yet looked at by the session.
const STREAMS_WAITING_MAX: usize = 64;
/// Bytes that wait to be written to the client, over all streams.
const OUTGOING_BYTES_MAX: usize = 512 * 1024;
/// After this long without a frame for the client one is sent: a client that is gone without a word is noticed by it.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// What a frame counts beside its bytes, so that empty ones are bounded too.
const FRAME_COST: usize = 64;

/// The session's end of a connection.
pub struct Connection {
    /// Streams as the client opens them; ends with the connection.
    pub incoming: mpsc::Receiver<Stream>,
    outgoing: Outgoing,
}

impl Connection {
    /// Says goodbye after everything queued so far; the driver then flushes, lets the client hang up and ends.
    pub fn close(&self) {
        self.outgoing.send_now(Frame::GoAway { last: 0 });
    }
}

/// One stream that the client opened.
pub struct Stream {
    pub id: u32,
    pub headers: Headers,
    pub reader: StreamReader,
    pub writer: StreamWriter,
}

/// Ends (`None`) when the client half closes or resets the stream, or the connection is lost.
pub struct StreamReader {
    pieces: mpsc::Receiver<Bytes>,
}

impl StreamReader {
    pub async fn next(&mut self) -> Option<Bytes> {
        self.pieces.recv().await
    }
}

pub struct StreamWriter {
    id: u32,
    outgoing: Outgoing,
    reset: CancellationToken,
    is_finished: bool,
    /// Tells the driver that this half is still in use.
    _in_use: Arc<()>,
}

impl StreamWriter {
    /// Waits for room; fails when the client reset the stream or left.
    pub async fn send(&mut self, mut bytes: Bytes) -> Result<(), StreamError> {
        while !bytes.is_empty() {
            let piece = bytes.split_to(bytes.len().min(PIECE_BYTES_MAX));
            if self.reset.is_cancelled() {
                return Err(StreamError::ClientLeft);
            }
            self.outgoing.send(Frame::Data { id: self.id, fin: false, bytes: piece }).await?;
        }
        Ok(())
    }

    /// Half closes the stream.
    pub fn finish(&mut self) {
        if !self.is_finished && !self.reset.is_cancelled() {
            self.is_finished = true;
            self.outgoing.send_now(Frame::Data { id: self.id, fin: true, bytes: Bytes::new() });
        }
    }

    /// Cancelled when the client resets the stream.
    pub fn reset(&self) -> &CancellationToken {
        &self.reset
    }
}

impl Drop for StreamWriter {
    fn drop(&mut self) {
        if !self.is_finished && !self.reset.is_cancelled() {
            self.outgoing.send_now(Frame::Reset { id: self.id, status: CANCEL });
        }
    }
}

/// The queue to the client. One queue keeps the order of a stream's frames; the permits bound its bytes.
#[derive(Clone)]
struct Outgoing {
    frames: mpsc::UnboundedSender<(Frame, Option<OwnedSemaphorePermit>)>,
    room: Arc<Semaphore>,
}

impl Outgoing {
    async fn send(&self, frame: Frame) -> Result<(), StreamError> {
        let cost = match &frame {
            Frame::Data { bytes, .. } => bytes.len() + FRAME_COST,
            _ => FRAME_COST,
        };
        let permit = self.room.clone().acquire_many_owned(cost as u32).await.map_err(|_| StreamError::ClientLeft)?;
        self.frames.send((frame, Some(permit))).map_err(|_| StreamError::ClientLeft)
    }

    /// For the last frame of a stream or of the connection: there are no more of these than streams.
    fn send_now(&self, frame: Frame) {
        // Without a driver there is nobody left to tell.
        let _ = self.frames.send((frame, None));
    }
}

/// Opens the server's side; nothing moves unless the returned future is polled. It ends when either side closes.
pub fn open(
    io: impl AsyncRead + AsyncWrite + Send + 'static,
) -> (Connection, impl Future<Output = Result<(), StreamError>> + Send) {
    let (accept, incoming) = mpsc::channel(STREAMS_WAITING_MAX);
    let (frames, queue) = mpsc::unbounded_channel();
    let outgoing = Outgoing { frames, room: Arc::new(Semaphore::new(OUTGOING_BYTES_MAX)) };
    let connection = Connection { incoming, outgoing: outgoing.clone() };
    let driver = async move {
        let (mut reader, mut writer) = tokio::io::split(io);
        let mut inbound = Inbound { accept, outgoing, streams: HashMap::new(), last: 0 };
        tokio::select! {
            result = inbound.run(&mut reader) => return result,
            result = write_frames(queue, &mut writer) => result?,
        }
        drop(inbound);
        writer.shutdown().await?;
        linger(reader).await;
        Ok(())
    };
    (connection, driver)
}

/// Writes what is queued; ends after a GOAWAY.
async fn write_frames(
    mut queue: mpsc::UnboundedReceiver<(Frame, Option<OwnedSemaphorePermit>)>,
    writer: &mut (impl AsyncWrite + Unpin),
) -> std::io::Result<()> {
    let (mut encoder, mut buffer, mut permits) = (Encoder::default(), BytesMut::new(), Vec::new());
    let (mut is_open, mut ping) = (true, 0u32);
    while is_open {
        let mut next = match tokio::time::timeout(PING_INTERVAL, queue.recv()).await {
            Ok(Some(next)) => next,
            Ok(None) => return Ok(()),
            Err(_) => {
                // Ids of the server's own pings are even.
                ping = ping.wrapping_add(2);
                (Frame::Ping(ping), None)
            }
        };
        loop {
            let (frame, permit) = next;
            encoder.write(&frame, &mut buffer);
            permits.extend(permit);
            is_open = !matches!(frame, Frame::GoAway { .. });
            if !is_open || buffer.len() >= PIECE_BYTES_MAX {
                break;
            }
            match queue.try_recv() {
                Ok(more) => next = more,
                Err(_) => break,
            }
        }
        writer.write_all(&buffer).await?;
        writer.flush().await?;
        buffer.clear();
        permits.clear();
    }
    Ok(())
}

/// A stream as the reading side knows it.
struct Entry {
    pieces: Option<mpsc::Sender<Bytes>>,
    reset: CancellationToken,
    writer_in_use: Weak<()>,
}

impl Entry {
    fn is_done(&self) -> bool {
        self.pieces.as_ref().is_none_or(mpsc::Sender::is_closed) && self.writer_in_use.strong_count() == 0
    }
}

struct Inbound {
    accept: mpsc::Sender<Stream>,
    outgoing: Outgoing,
    streams: HashMap<u32, Entry>,
    last: u32,
}

impl Inbound {
    async fn run(&mut self, reader: &mut (impl AsyncRead + Unpin)) -> Result<(), StreamError> {
        let mut decoder = Decoder::default();
        loop {
            while let Some(frame) = decoder.next_frame()? {
                if matches!(frame, Frame::GoAway { .. }) {
                    // The client opens no more streams; those that are open go on until it hangs up.
                    continue;
                }
                self.frame(frame).await?;
            }
            decoder.buffer().reserve(PIECE_BYTES_MAX);
            // Pieces may not be larger than what the queues of the streams count with.
            let mut limited = (&mut *reader).take(PIECE_BYTES_MAX as u64);
            if limited.read_buf(decoder.buffer()).await? == 0 {
                return Ok(());
            }
        }
    }

    async fn frame(&mut self, frame: Frame) -> Result<(), StreamError> {
        match frame {
            Frame::SynStream { id, fin, headers } => self.opened(id, fin, headers).await?,
            Frame::Data { id, fin, bytes } => {
                // Data for a stream that we reset may still be under way; it is dropped.
                let Some(entry) = self.streams.get_mut(&id) else { return Ok(()) };
                if let Some(pieces) = entry.pieces.as_ref().filter(|_| !bytes.is_empty()) {
                    let _ = pieces.send(bytes).await;
                }
                if fin {
                    entry.pieces = None;
                }
            }
            Frame::Reset { id, .. } => {
                if let Some(entry) = self.streams.remove(&id) {
                    entry.reset.cancel();
                }
            }
            Frame::Ping(id) if id % 2 == 1 => self.outgoing.send(Frame::Ping(id)).await?,
            Frame::Ping(_) | Frame::SynReply { .. } | Frame::GoAway { .. } | Frame::Ignored => {}
        }
        Ok(())
    }

    async fn opened(&mut self, id: u32, fin: bool, headers: Headers) -> Result<(), StreamError> {
        if id.is_multiple_of(2) || id <= self.last {
            return Err(SpdyError::StreamId(id).into());
        }
        self.last = id;
        if self.streams.len() >= STREAMS_PRUNE {
            self.streams.retain(|_, entry| !entry.is_done());
        }
        if self.streams.len() >= STREAMS_MAX {
            return self.outgoing.send(Frame::Reset { id, status: REFUSED_STREAM }).await;
        }
        self.outgoing.send(Frame::SynReply { id, headers: Headers::default() }).await?;
        let (pieces, receiver) = mpsc::channel(PIECES_WAITING_MAX);
        let (reset, in_use) = (CancellationToken::new(), Arc::new(()));
        let entry =
            Entry { pieces: (!fin).then_some(pieces), reset: reset.clone(), writer_in_use: Arc::downgrade(&in_use) };
        self.streams.insert(id, entry);
        let writer = StreamWriter { id, outgoing: self.outgoing.clone(), reset, is_finished: false, _in_use: in_use };
        let stream = Stream { id, headers, reader: StreamReader { pieces: receiver }, writer };
        // A session that takes no more streams drops it, which resets it.
        let _ = self.accept.send(stream).await;
        Ok(())
    }
}

impl Drop for Inbound {
    /// Whoever waits for room or for a reset learns that the client is gone.
    fn drop(&mut self) {
        self.outgoing.room.close();
        self.streams.values().for_each(|entry| entry.reset.cancel());
    }
}
