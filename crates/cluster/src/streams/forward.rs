//! Port-forward over every transport: pairs of SPDY streams, or pairs of WebSocket channels (spec K-SPDY-4, K-SPDY-5, K-PF-1).

use super::channels::{Incoming, Protocol, next_incoming, send};
use super::spdy::connection::{self, Connection, Stream, StreamWriter};
use super::{Duplex, Io, LINGER, PIECE_BYTES_MAX, StreamError, Transport, linger, tunnel, websocket};
use bytes::{Bytes, BytesMut};
use std::collections::HashMap;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The second stream of a pair has this long to follow the first.
const PAIR_TIMEOUT: Duration = Duration::from_secs(30);
/// Streams that wait for their partner; the pairs of a real client follow each other at once.
const HALF_PAIRS_MAX: usize = 256;
/// Pieces that wait between a WebSocket and one port, each way.
const PIECES_WAITING_MAX: usize = 16;

/// What is forwarded to, for the texts of errors: `pod web, uid 0c…`.
pub struct Target {
    pub pod: String,
    pub uid: String,
}

impl Target {
    fn failure(&self, port: u16, error: &io::Error) -> String {
        format!("error forwarding port {port} to pod {}, uid {}: {error}", self.pod, self.uid)
    }
}

/// Forwards connections until the client leaves; `connect` opens one to a port of the pod.
///
/// `ports` matters only to channels, where the client names its ports beforehand.
pub async fn run_port_forward<C, R, S>(
    transport: Transport,
    target: Target,
    ports: &[u16],
    connect: C,
) -> Result<(), StreamError>
where
    C: Fn(u16) -> R,
    R: Future<Output = io::Result<S>> + Send + 'static,
    S: Duplex,
{
    match transport {
        Transport::Spdy { io, .. } => over_spdy(io, target, connect).await,
        Transport::Tunnel { io } => {
            let (inside, tunnel) = tunnel::open(io);
            let spdy = async {
                let result = over_spdy(inside, target, connect).await;
                // The tunnel sees the end of its inner stream, says goodbye and ends by itself.
                result.and(std::future::pending().await)
            };
            tokio::select! {
                result = tunnel => result,
                result = spdy => result,
            }
        }
        Transport::Channels { io, protocol } => over_channels(io, protocol, &target, ports, connect).await,
    }
}

async fn over_spdy<C, R, S>(io: impl Duplex, target: Target, connect: C) -> Result<(), StreamError>
where
    C: Fn(u16) -> R,
    R: Future<Output = io::Result<S>> + Send + 'static,
    S: Duplex,
{
    let (connection, driver) = connection::open(io);
    tokio::select! {
        result = driver => result,
        () = pairs(connection, target, connect) => Ok(()),
    }
}

/// Joins the streams of the client in pairs; each pair is a task that ends with this future.
async fn pairs<C, R, S>(mut connection: Connection, target: Target, connect: C)
where
    C: Fn(u16) -> R,
    R: Future<Output = io::Result<S>> + Send + 'static,
    S: Duplex,
{
    let target = std::sync::Arc::new(target);
    let mut waiting: HashMap<String, (Stream, Instant)> = HashMap::new();
    let mut tasks = JoinSet::new();
    loop {
        let stream = tokio::select! {
            stream = connection.incoming.recv() => stream,
            Some(_) = tasks.join_next() => continue,
        };
        let Some(stream) = stream else { break };
        waiting.retain(|_, (_, since)| since.elapsed() < PAIR_TIMEOUT);
        let Some((data, error)) = pair(&mut waiting, stream) else { continue };
        let port = data.headers.get("port").and_then(|port| port.parse::<u16>().ok()).filter(|port| *port > 0);
        let Some(port) = port else { continue };
        let (connected, target) = (connect(port), target.clone());
        tasks.spawn(async move { forward(data, error.writer, connected.await, &target, port).await });
    }
}

/// The data and error streams of one request, once both are there.
fn pair(waiting: &mut HashMap<String, (Stream, Instant)>, stream: Stream) -> Option<(Stream, Stream)> {
    let is_data = stream.headers.get("streamtype") == Some("data");
    // Clients older than request ids open the error stream right before its data stream.
    let request = match stream.headers.get("requestid") {
        Some(id) => id.to_owned(),
        None if is_data => format!("stream {}", stream.id.saturating_sub(2)),
        None => format!("stream {}", stream.id),
    };
    match waiting.remove(&request) {
        Some((other, _)) if is_data => Some((stream, other)),
        Some((other, _)) => Some((other, stream)),
        None => {
            if waiting.len() < HALF_PAIRS_MAX {
                waiting.insert(request, (stream, Instant::now()));
            }
            None
        }
    }
}

/// Moves bytes between a stream and a connection until both directions have ended or either side breaks.
async fn forward<S: Duplex>(
    data: Stream,
    mut error: StreamWriter,
    connected: io::Result<S>,
    target: &Target,
    port: u16,
) {
    let Stream { mut reader, mut writer, .. } = data;
    let pod = match connected {
        Ok(pod) => pod,
        Err(failure) => {
            let _ = error.send(target.failure(port, &failure).into()).await;
            error.finish();
            writer.finish();
            return;
        }
    };
    let reset = writer.reset().clone();
    let (mut from_pod, mut to_pod) = tokio::io::split(pod);
    let upward = async {
        while let Some(piece) = reader.next().await {
            if to_pod.write_all(&piece).await.is_err() {
                // The pod closed its end; what the client still sends must not hold up its other connections.
                while reader.next().await.is_some() {}
                return;
            }
        }
        let _ = to_pod.shutdown().await;
    };
    let downward = async {
        let mut buffer = BytesMut::new();
        let result = loop {
            match next_piece(&mut from_pod, &mut buffer).await {
                Ok(Some(piece)) => {
                    if writer.send(piece).await.is_err() {
                        break Ok(());
                    }
                }
                Ok(None) => break Ok(()),
                Err(failure) => break Err(failure),
            }
        };
        writer.finish();
        result
    };
    // kubectl keeps its connection until the error stream ends, so that comes with the pod's last byte. It hangs up then;
    // who does not is given a moment, for a pod that may still read.
    let ended = CancellationToken::new();
    let downward = async {
        if let Err(failure) = downward.await {
            let _ = error.send(target.failure(port, &failure).into()).await;
        }
        error.finish();
        ended.cancel();
    };
    let late = async {
        ended.cancelled().await;
        tokio::time::sleep(LINGER).await;
    };
    tokio::select! {
        _ = async { tokio::join!(downward, upward) } => {}
        () = late => {}
        () = reset.cancelled() => {}
    }
    error.finish();
}

/// The next piece that the pod sent; `None` when it closed its end.
async fn next_piece(pod: &mut (impl AsyncRead + Unpin), buffer: &mut BytesMut) -> io::Result<Option<Bytes>> {
    buffer.reserve(PIECE_BYTES_MAX);
    let len = pod.read_buf(buffer).await?;
    Ok((len > 0).then(|| buffer.split().freeze()))
}

/// Port i has channels 2i (data) and 2i + 1 (error); each begins with the port's number (spec K-PF-1).
async fn over_channels<C, R, S>(
    io: Io,
    protocol: Protocol,
    target: &Target,
    ports: &[u16],
    connect: C,
) -> Result<(), StreamError>
where
    C: Fn(u16) -> R,
    R: Future<Output = io::Result<S>> + Send + 'static,
    S: Duplex,
{
    let (mut reader, mut writer) = tokio::io::split(io);
    let (frames, mut queue) = mpsc::channel(PIECES_WAITING_MAX);
    let (mut to_ports, mut from_client) = (Vec::new(), Vec::new());
    for _ in ports {
        let (sender, receiver) = mpsc::channel::<Bytes>(PIECES_WAITING_MAX);
        to_ports.push(sender);
        from_client.push(receiver);
    }
    let pongs = frames.clone();
    let inbound = async {
        let mut decoder = websocket::Decoder::default();
        while let Some(incoming) = next_incoming(&mut decoder, &mut reader, protocol, &pongs).await? {
            // No client closes a channel here: port-forward knows only v4.
            let Incoming::Data { channel, bytes } = incoming else { continue };
            let is_data = channel % 2 == 0 && !bytes.is_empty();
            if let Some(port) = to_ports.get(usize::from(channel / 2)).filter(|_| is_data) {
                // A port that has ended takes no more; the others go on.
                let _ = port.send(bytes).await;
            }
        }
        Ok::<(), StreamError>(())
    };
    let each = ports.iter().zip(from_client).enumerate().map(|(at, (port, input))| {
        let out = ChannelPair { protocol, data: 2 * at as u8, frames: frames.clone() };
        over_channel(out, input, target, *port, connect(*port))
    });
    let sessions = futures::future::join_all(each);
    drop(frames);
    let outbound = write_queue(&mut writer, &mut queue);
    tokio::select! {
        result = inbound => return result,
        result = outbound => return result,
        _ = sessions => {}
    }
    while let Ok(frame) = queue.try_recv() {
        send(&mut writer, frame).await?;
    }
    send(&mut writer, websocket::close()).await?;
    writer.shutdown().await?;
    linger(reader).await;
    Ok(())
}

async fn write_queue(
    writer: &mut (impl AsyncWrite + Unpin),
    queue: &mut mpsc::Receiver<Bytes>,
) -> Result<(), StreamError> {
    while let Some(frame) = queue.recv().await {
        send(writer, frame).await?;
    }
    // All senders are gone only when every port has ended.
    std::future::pending().await
}

/// The channels of one port, towards the client.
struct ChannelPair {
    protocol: Protocol,
    data: u8,
    frames: mpsc::Sender<Bytes>,
}

impl ChannelPair {
    async fn data(&self, bytes: &[u8]) -> Result<(), StreamError> {
        self.frames.send(self.protocol.frame(self.data, bytes)).await.map_err(|_| StreamError::ClientLeft)
    }

    async fn error(&self, bytes: &[u8]) -> Result<(), StreamError> {
        self.frames.send(self.protocol.frame(self.data + 1, bytes)).await.map_err(|_| StreamError::ClientLeft)
    }
}

async fn over_channel<S: Duplex>(
    out: ChannelPair,
    mut input: mpsc::Receiver<Bytes>,
    target: &Target,
    port: u16,
    connected: impl Future<Output = io::Result<S>>,
) -> Result<(), StreamError> {
    out.data(&port.to_le_bytes()).await?;
    out.error(&port.to_le_bytes()).await?;
    let pod = match connected.await {
        Ok(pod) => pod,
        Err(failure) => return out.error(target.failure(port, &failure).as_bytes()).await,
    };
    let (mut from_pod, mut to_pod) = tokio::io::split(pod);
    let upward = async {
        while let Some(piece) = input.recv().await {
            if to_pod.write_all(&piece).await.is_err() {
                break;
            }
        }
        let _ = to_pod.shutdown().await;
        std::future::pending::<()>().await;
    };
    // The client cannot half close before v5, so a port has ended when its pod has nothing more to say.
    let downward = async {
        let mut buffer = BytesMut::new();
        while let Some(piece) = next_piece(&mut from_pod, &mut buffer).await? {
            if out.data(&piece).await.is_err() {
                break;
            }
        }
        Ok(())
    };
    let result = tokio::select! {
        result = downward => result,
        () = upward => Ok(()),
    };
    match result {
        Ok(()) => Ok(()),
        Err(failure) => out.error(target.failure(port, &failure).as_bytes()).await,
    }
}
