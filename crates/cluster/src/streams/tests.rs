//! Whole sessions over connections in memory: a client that speaks the wire protocol, and a made-up process.

use super::channels::{Protocol, Version};
use super::forward::{Target, run_port_forward};
use super::session::{Outcome, Streams, TerminalSize, Wants, run_exec};
use super::spdy::frame::{CANCEL, Decoder, Encoder, Frame};
use super::spdy::headers::Headers;
use super::websocket::tests::masked;
use super::*;
use bytes::{Buf, Bytes, BytesMut};
use serde_json::Value;
use std::collections::BTreeMap;
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::sync::oneshot;

const ALL: Wants = Wants { stdin: true, stdout: true, stderr: true, tty: false };

/// A client's end of a SPDY connection.
struct SpdyClient {
    io: DuplexStream,
    encoder: Encoder,
    decoder: Decoder,
}

impl SpdyClient {
    fn new() -> (SpdyClient, Io) {
        let (io, server) = tokio::io::duplex(4096);
        (SpdyClient { io, encoder: Encoder::default(), decoder: Decoder::default() }, Box::new(server))
    }

    fn bytes(&mut self, frame: &Frame) -> BytesMut {
        let mut bytes = BytesMut::new();
        self.encoder.write(frame, &mut bytes);
        bytes
    }

    async fn send(&mut self, frame: Frame) {
        let bytes = self.bytes(&frame);
        self.io.write_all(&bytes).await.unwrap();
    }

    async fn open(&mut self, id: u32, headers: &[(&str, &str)]) {
        let headers = headers.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        self.send(Frame::SynStream { id, fin: false, headers: Headers(headers) }).await;
        assert_eq!(self.next().await, Some(Frame::SynReply { id, headers: Headers::default() }));
    }

    async fn data(&mut self, id: u32, bytes: &'static [u8], fin: bool) {
        self.send(Frame::Data { id, fin, bytes: Bytes::from_static(bytes) }).await;
    }

    async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.decoder.next_frame().unwrap() {
                return Some(frame);
            }
            if self.io.read_buf(self.decoder.buffer()).await.unwrap() == 0 {
                return None;
            }
        }
    }

    /// All that comes until the server hangs up or says goodbye.
    async fn rest(&mut self) -> Seen {
        let mut seen = Seen::default();
        while let Some(frame) = self.next().await {
            match frame {
                Frame::Data { id, fin, bytes } => {
                    *seen.data.entry(id).or_default() += std::str::from_utf8(&bytes).unwrap();
                    seen.finished.extend(fin.then_some(id));
                }
                Frame::Reset { id, status } => seen.resets.push((id, status)),
                Frame::Ping(id) => seen.pings.push(id),
                Frame::GoAway { .. } => break,
                other => panic!("{other:?}"),
            }
        }
        seen.finished.sort();
        seen
    }
}

#[derive(Default)]
struct Seen {
    data: BTreeMap<u32, String>,
    finished: Vec<u32>,
    resets: Vec<(u32, u32)>,
    pings: Vec<u32>,
}

/// Reads all of stdin, prints it to stdout and its length to stderr, and ends with code 3.
async fn echo(mut streams: Streams) -> Outcome {
    let (mut stdin, stdout, stderr) = (streams.stdin.take().unwrap(), streams.stdout.unwrap(), streams.stderr.unwrap());
    let mut len = 0;
    while let Some(piece) = stdin.recv().await {
        len += piece.len();
        stdout.send(piece).await.unwrap();
    }
    stderr.send(len.to_string().into()).await.unwrap();
    Outcome::Exit(3)
}

// K-SPDY-3 K-WS-3
#[tokio::test]
async fn exec_over_spdy_half_closes_stdin_and_writes_the_outcome() {
    let (mut client, io) = SpdyClient::new();
    let server = tokio::spawn(async move {
        run_exec(Transport::Spdy { io, version: spdy::Version::V4 }, ALL, &["sh".to_owned()], echo).await
    });
    for (id, name) in [(1, "error"), (3, "stdin"), (5, "stdout"), (7, "stderr")] {
        client.open(id, &[("streamtype", name)]).await;
    }
    client.data(3, b"hello ", false).await;
    client.send(Frame::Ping(1)).await;
    client.data(3, b"world", true).await;
    let seen = client.rest().await;
    assert_eq!((seen.data[&5].as_str(), seen.data[&7].as_str()), ("hello world", "11"));
    let status: Value = serde_json::from_str(&seen.data[&1]).unwrap();
    assert_eq!(status["details"]["causes"][0]["message"], "3");
    assert_eq!((seen.finished, seen.resets, seen.pings), (vec![1, 5, 7], vec![(3, CANCEL)], vec![1]));
    drop(client);
    server.await.unwrap().unwrap();
}

// K-SPDY-3
#[tokio::test]
async fn resizes_over_spdy_may_be_cut_anywhere() {
    let (mut client, io) = SpdyClient::new();
    let wants = Wants { stdout: true, tty: true, ..Default::default() };
    let server = tokio::spawn(async move {
        let start = |streams: Streams| async move {
            let mut sizes = streams.resize.unwrap();
            let wanted = Some(TerminalSize { width: 132, height: 40 });
            sizes.wait_for(|size| *size == wanted).await.unwrap();
            Outcome::Exit(0)
        };
        run_exec(Transport::Spdy { io, version: spdy::Version::V4 }, wants, &[], start).await
    });
    for (id, name) in [(1, "error"), (3, "stdout"), (5, "resize")] {
        client.open(id, &[("streamtype", name)]).await;
    }
    client.data(5, b"{\"Width\":80,\"Height\":24}\n{\"Wid", false).await;
    client.data(5, b"th\":132,\"Height\":40}\n", false).await;
    assert_eq!(client.rest().await.data[&1], r#"{"metadata":{},"status":"Success"}"#);
    drop(client);
    server.await.unwrap().unwrap();
}

/// A process that runs until it is dropped, which it tells.
fn endless(dropped: oneshot::Sender<()>) -> impl FnOnce(Streams) -> futures::future::BoxFuture<'static, Outcome> {
    struct Tell(Option<oneshot::Sender<()>>);
    impl Drop for Tell {
        fn drop(&mut self) {
            let _ = self.0.take().unwrap().send(());
        }
    }
    let tell = Tell(Some(dropped));
    move |streams| {
        Box::pin(async move {
            let _held = (tell, streams);
            std::future::pending().await
        })
    }
}

#[tokio::test]
async fn process_is_let_go_when_the_client_leaves() {
    let (mut client, io) = SpdyClient::new();
    let (dropped, when_dropped) = oneshot::channel();
    let wants = Wants { stdout: true, ..Default::default() };
    let transport = Transport::Spdy { io, version: spdy::Version::V4 };
    let mut server = Box::pin(run_exec(transport, wants, &[], endless(dropped)));
    let client = async {
        for (id, name) in [(1, "error"), (3, "stdout")] {
            client.open(id, &[("streamtype", name)]).await;
        }
        drop(client);
    };
    let (result, ()) = tokio::join!(server.as_mut(), client);
    assert!(matches!(result, Err(StreamError::ClientLeft)));
    drop(server);
    when_dropped.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn client_that_opens_too_few_streams_is_left() {
    let (mut client, io) = SpdyClient::new();
    let server = tokio::spawn(run_exec(Transport::Spdy { io, version: spdy::Version::V4 }, ALL, &[], echo));
    client.open(1, &[("streamtype", "error")]).await;
    client.open(3, &[("streamtype", "nonsense")]).await;
    assert!(matches!(server.await.unwrap(), Err(StreamError::StreamsMissing)));
}

#[tokio::test]
async fn stream_ids_must_be_odd_and_rise() {
    for id in [2, 1] {
        let (mut client, io) = SpdyClient::new();
        let server = tokio::spawn(run_exec(Transport::Spdy { io, version: spdy::Version::V4 }, ALL, &[], echo));
        client.open(1, &[("streamtype", "error")]).await;
        client.send(Frame::SynStream { id, fin: false, headers: Headers::default() }).await;
        assert!(matches!(server.await.unwrap(), Err(StreamError::Spdy(spdy::SpdyError::StreamId(_)))));
    }
}

/// The unmasked messages of a server, as (first byte, payload).
struct ChannelClient {
    io: DuplexStream,
    buffer: BytesMut,
}

impl ChannelClient {
    fn new() -> (ChannelClient, Io) {
        let (io, server) = tokio::io::duplex(4096);
        (ChannelClient { io, buffer: BytesMut::new() }, Box::new(server))
    }

    async fn send(&mut self, channel: u8, bytes: &[u8]) {
        self.io.write_all(&masked(0x82, &[&[channel], bytes].concat())).await.unwrap();
    }

    async fn next(&mut self) -> Option<(u8, Bytes)> {
        loop {
            if let [first, len, ..] = self.buffer[..] {
                let (head, len) = match len {
                    126 if self.buffer.len() >= 4 => (4, usize::from((&self.buffer[2..4]).get_u16())),
                    126 => (4, usize::MAX - 4),
                    len => (2, usize::from(len)),
                };
                if self.buffer.len() >= head + len {
                    self.buffer.advance(head);
                    return Some((first, self.buffer.split_to(len).freeze()));
                }
            }
            if self.io.read_buf(&mut self.buffer).await.unwrap() == 0 {
                return None;
            }
        }
    }

    /// Everything on each channel until the close frame; pongs stand under 200.
    async fn rest(&mut self) -> BTreeMap<u8, Vec<u8>> {
        let mut channels = BTreeMap::<u8, Vec<u8>>::new();
        loop {
            match self.next().await.expect("a close frame comes first") {
                (0x88, payload) => {
                    assert_eq!(payload, 1000u16.to_be_bytes()[..]);
                    return channels;
                }
                (0x8a, payload) => channels.entry(200).or_default().extend_from_slice(&payload),
                (first, mut payload) => {
                    assert_eq!(first, 0x82);
                    channels.entry(payload.get_u8()).or_default().extend_from_slice(&payload);
                }
            }
        }
    }
}

// K-WS-1 K-WS-2 K-WS-3 K-WS-5
#[tokio::test]
async fn exec_over_v5_channels_closes_stdin_and_ends_with_a_status() {
    let (mut client, io) = ChannelClient::new();
    let transport = Transport::Channels { io, protocol: Protocol::binary(Version::V5) };
    let server = tokio::spawn(async move { run_exec(transport, ALL, &["sh".to_owned()], echo).await });
    assert_eq!(client.next().await, Some((0x82, Bytes::from_static(&[1]))));
    client.io.write_all(&masked(0x89, b"are you there")).await.unwrap();
    assert_eq!(client.next().await, Some((0x8a, Bytes::from_static(b"are you there"))));
    client.send(0, b"hello").await;
    client.send(255, &[0]).await;
    let channels = client.rest().await;
    assert_eq!((&channels[&1][..], &channels[&2][..]), (&b"hello"[..], &b"5"[..]));
    let status: Value = serde_json::from_slice(&channels[&3]).unwrap();
    assert_eq!(status["reason"], "NonZeroExitCode");
    drop(client);
    server.await.unwrap().unwrap();
}

// K-WS-4
#[tokio::test]
async fn v4_client_leaves_by_closing() {
    let (mut client, io) = ChannelClient::new();
    let transport = Transport::Channels { io, protocol: Protocol::binary(Version::V4) };
    let (dropped, when_dropped) = oneshot::channel();
    let mut server = Box::pin(run_exec(transport, ALL, &[], endless(dropped)));
    let leave = async {
        client.send(255, &[0]).await;
        client.io.write_all(&masked(0x88, &[3, 232])).await.unwrap();
        client.rest().await
    };
    let (result, _) = tokio::join!(server.as_mut(), leave);
    assert!(matches!(result, Err(StreamError::ClientLeft)));
    drop(server);
    when_dropped.await.unwrap();
}

/// A pod that answers each connection with its port and what it read until the end; port 1 refuses.
async fn pod(port: u16) -> std::io::Result<DuplexStream> {
    if port == 1 {
        return Err(std::io::ErrorKind::ConnectionRefused.into());
    }
    let (near, mut far) = tokio::io::duplex(1024);
    tokio::spawn(async move {
        let mut text = format!("{port}:");
        far.read_to_string(&mut text).await.unwrap();
        far.write_all(text.as_bytes()).await.unwrap();
    });
    Ok(near)
}

fn target() -> Target {
    Target { pod: "p".to_owned(), uid: "u".to_owned() }
}

async fn forward_three(client: &mut SpdyClient) {
    for (id, request) in [(1, "0"), (5, "1")] {
        client.open(id, &[("streamtype", "error"), ("port", "80"), ("requestid", request)]).await;
        client.data(id, b"", true).await;
        client.open(id + 2, &[("streamtype", "data"), ("port", "80"), ("requestid", request)]).await;
    }
    client.data(7, b"second", true).await;
    client.data(3, b"first", true).await;
    client.open(9, &[("streamtype", "data"), ("port", "1"), ("requestid", "2")]).await;
    client
        .send(Frame::SynStream {
            id: 11,
            fin: true,
            headers: Headers(vec![
                ("streamtype".into(), "error".into()),
                ("port".into(), "1".into()),
                ("requestid".into(), "2".into()),
            ]),
        })
        .await;
    let (mut data, mut finished) = (BTreeMap::<u32, String>::new(), Vec::new());
    while finished.len() < 6 {
        match client.next().await.unwrap() {
            Frame::Data { id, fin, bytes } => {
                *data.entry(id).or_default() += std::str::from_utf8(&bytes).unwrap();
                finished.extend(fin.then_some(id));
            }
            Frame::SynReply { id: 11, .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((data[&3].as_str(), data[&7].as_str()), ("80:first", "80:second"));
    assert_eq!(data[&11], "error forwarding port 1 to pod p, uid u: connection refused");
}

// K-SPDY-4
#[tokio::test]
async fn port_forward_over_spdy_joins_pairs_and_reports_failures() {
    let (mut client, io) = SpdyClient::new();
    let transport = Transport::Spdy { io, version: spdy::Version::V1 };
    let server = tokio::spawn(async move { run_port_forward(transport, target(), &[], pod).await });
    forward_three(&mut client).await;
    drop(client);
    server.await.unwrap().unwrap();
}

// K-SPDY-4
#[tokio::test]
async fn reset_of_a_data_stream_ends_its_connection_and_its_error_stream() {
    let (mut client, io) = SpdyClient::new();
    let transport = Transport::Spdy { io, version: spdy::Version::V1 };
    let server = tokio::spawn(async move { run_port_forward(transport, target(), &[], pod).await });
    client.open(1, &[("streamtype", "error"), ("port", "80"), ("requestid", "0")]).await;
    client.open(3, &[("streamtype", "data"), ("port", "80"), ("requestid", "0")]).await;
    client.send(Frame::Reset { id: 3, status: CANCEL }).await;
    assert_eq!(client.next().await, Some(Frame::Data { id: 1, fin: true, bytes: Bytes::new() }));
    drop(client);
    server.await.unwrap().unwrap();
}

// K-SPDY-5
#[tokio::test]
async fn port_forward_through_a_tunnel_is_the_same_cut_at_any_byte() {
    let (mut client, inside) = SpdyClient::new();
    let (mut outside, io) = ChannelClient::new();
    let server = tokio::spawn(async move { run_port_forward(Transport::Tunnel { io }, target(), &[], pod).await });
    // What kubectl does: bytes of the SPDY side in small masked messages, and back.
    let tunnel = tokio::spawn(async move {
        let (mut from_client, mut to_client) = tokio::io::split(inside);
        let mut bytes = [0u8; 7];
        loop {
            tokio::select! {
                len = from_client.read(&mut bytes) => match len.unwrap() {
                    0 => return outside.io.write_all(&masked(0x88, &[3, 232])).await.unwrap(),
                    len => outside.io.write_all(&masked(0x82, &bytes[..len])).await.unwrap(),
                },
                message = outside.next() => to_client.write_all(&message.unwrap().1).await.unwrap(),
            }
        }
    });
    forward_three(&mut client).await;
    drop(client);
    tunnel.await.unwrap();
    server.await.unwrap().unwrap();
}

// K-PF-1
#[tokio::test]
async fn port_forward_over_channels_begins_with_the_port_numbers() {
    let (mut client, io) = ChannelClient::new();
    let transport = Transport::Channels { io, protocol: Protocol::binary(Version::V4) };
    let connect = |port: u16| async move {
        if port == 1 {
            return Err(std::io::ErrorKind::ConnectionRefused.into());
        }
        let (near, mut far) = tokio::io::duplex(1024);
        tokio::spawn(async move {
            let mut asked = [0u8; 3];
            far.read_exact(&mut asked).await.unwrap();
            far.write_all(b"got ").await.unwrap();
            far.write_all(&asked).await.unwrap();
        });
        Ok(near)
    };
    let server = tokio::spawn(async move { run_port_forward(transport, target(), &[8080, 1], connect).await });
    client.send(0, b"abc").await;
    client.send(9, b"no such port").await;
    let channels = client.rest().await;
    assert_eq!(channels[&0], b"\x90\x1fgot abc");
    assert_eq!(channels[&1], b"\x90\x1f");
    assert_eq!(channels[&2], b"\x01\x00");
    assert_eq!(&channels[&3][..2], b"\x01\x00");
    assert_eq!(&channels[&3][2..], b"error forwarding port 1 to pod p, uid u: connection refused");
    drop(client);
    server.await.unwrap().unwrap();
}

/// What the API server does with a request: it reads the body, takes the request apart and puts it together again.
async fn served(request: http::Request<hyper::body::Incoming>) -> http::Response<http_body_util::Full<Bytes>> {
    let (parts, body) = request.into_parts();
    let body = http_body_util::BodyExt::collect(body).await.unwrap().to_bytes();
    let mut request = http::Request::from_parts(parts, body);
    let connection = request.extensions_mut().remove::<hyper::upgrade::OnUpgrade>();
    let mut agreed = upgrade::agree(upgrade::Purpose::Command, request.headers()).unwrap();
    let answer = agreed.answer();
    tokio::spawn(async move {
        let transport = agreed.transport(connection.expect("hyper offers the connection")).await.unwrap();
        run_exec(transport, ALL, &[], echo).await
    });
    answer.map(|()| http_body_util::Full::default())
}

/// Sends a request's head to a server in memory; the connection comes back once the answer's head is read.
async fn upgraded(head: &str) -> (String, DuplexStream) {
    let (mut client, server) = tokio::io::duplex(4096);
    tokio::spawn(async move {
        let service =
            hyper::service::service_fn(|request| async { Ok::<_, std::convert::Infallible>(served(request).await) });
        let builder = hyper_util::server::conn::auto::Builder::new(hyper_util::rt::TokioExecutor::new());
        let _ = builder.serve_connection_with_upgrades(hyper_util::rt::TokioIo::new(server), service).await;
    });
    client.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(client.read_u8().await.unwrap());
    }
    (String::from_utf8(answer).unwrap(), client)
}

// K-EXEC-2 K-SPDY-1
#[tokio::test]
async fn connection_survives_the_way_through_the_api_server() {
    let (answer, io) = upgraded(
        "GET /exec HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n",
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{answer}");
    let mut client = ChannelClient { io, buffer: BytesMut::new() };
    client.send(0, b"hello").await;
    client.send(255, &[0]).await;
    assert_eq!(client.rest().await[&1], b"hello");

    let (answer, io) = upgraded(
        "POST /exec HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n\
         X-Stream-Protocol-Version: v5.channel.k8s.io\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n",
    )
    .await;
    assert!(answer.contains("x-stream-protocol-version: v4.channel.k8s.io\r\n"), "{answer}");
    let mut client = SpdyClient { io, encoder: Encoder::default(), decoder: Decoder::default() };
    for (id, name) in [(1, "error"), (3, "stdin"), (5, "stdout"), (7, "stderr")] {
        client.open(id, &[("streamtype", name)]).await;
    }
    client.data(3, b"hello", true).await;
    assert_eq!(client.rest().await.data[&5], "hello");
}

/// Runs a session for a moment with a process that only prints and a client that only sends; neither is read.
async fn pressed(transport: Transport, client: impl Future<Output = ()>) -> usize {
    let printed = std::sync::atomic::AtomicUsize::new(0);
    let start = |streams: Streams| {
        let printed = &printed;
        async move {
            // All of it is held, stdin too: input that nobody can read any more is thrown away instead.
            let streams = streams;
            let stdout = streams.stdout.as_ref().unwrap();
            while stdout.send(Bytes::from(vec![0; PIECE_BYTES_MAX])).await.is_ok() {
                printed.fetch_add(PIECE_BYTES_MAX, std::sync::atomic::Ordering::Relaxed);
            }
            Outcome::Exit(0)
        }
    };
    let moment = Duration::from_secs(1);
    let session = async { tokio::join!(run_exec(transport, ALL, &[], start), client) };
    assert!(tokio::time::timeout(moment, session).await.is_err(), "both wait");
    printed.into_inner()
}

#[tokio::test(start_paused = true)]
async fn sides_that_are_not_read_wait_instead_of_filling_memory() {
    const BYTES_MAX: usize = 4 << 20;
    let (mut client, io) = SpdyClient::new();
    let mut sent = 0;
    let flood = async {
        for (id, name) in [(1, "error"), (3, "stdin"), (5, "stdout"), (7, "stderr")] {
            client.open(id, &[("streamtype", name)]).await;
        }
        loop {
            client.data(3, &[0; 1000], false).await;
            sent += 1000;
        }
    };
    let printed = pressed(Transport::Spdy { io, version: spdy::Version::V4 }, flood).await;
    assert!(printed < BYTES_MAX && sent < BYTES_MAX, "{printed} {sent}");

    let (mut client, io) = ChannelClient::new();
    let mut sent = 0;
    let flood = async {
        loop {
            client.send(0, &[0; 1000]).await;
            sent += 1000;
        }
    };
    let transport = Transport::Channels { io, protocol: Protocol::binary(Version::V5) };
    let printed = pressed(transport, flood).await;
    assert!(printed < BYTES_MAX && sent < BYTES_MAX, "{printed} {sent}");
}
