//! Probes against real servers on loopback.

use super::{OUTPUT_BYTES_MAX, dial, run, run_hook};
use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::TlsAcceptor;
use volley_plan::node::handlers::Handler;

/// An upper bound only; what must answer does so at once.
const PATIENCE: Duration = Duration::from_secs(20);
/// For what never answers.
const SHORT: Duration = Duration::from_millis(200);

type Body = BoxBody<Bytes, Infallible>;

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

async fn no_exec(_: &[String], _: Duration) -> Result<(i32, String), String> {
    panic!("no command is asked for");
}

async fn web(request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let (status, location, text) = match request.uri().path() {
        "/ok" => (200, "", "fine".to_owned()),
        "/query" => (200, "", request.uri().query().unwrap_or_default().to_owned()),
        "/head" => {
            let header = |name: &str| request.headers().get(name).map_or("", |value| value.to_str().unwrap());
            (200, "", format!("{} {} {}", header("host"), header("user-agent"), header("x-own")))
        }
        "/sick" => (503, "", "no".to_owned()),
        "/long" => (200, "", "x".repeat(3 * OUTPUT_BYTES_MAX)),
        "/moved" => (302, "/ok", String::new()),
        "/circle" => (301, "/circle", String::new()),
        "/away" => (302, "http://example.invalid/", "elsewhere".to_owned()),
        _ => std::future::pending().await,
    };
    let body = Full::new(Bytes::from(text)).boxed();
    Ok(Response::builder().status(status).header("location", location).body(body).unwrap())
}

async fn web_server() -> SocketAddr {
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(web)));
        }
    });
    address
}

async fn secure_server() -> SocketAddr {
    let made = rcgen::generate_simple_self_signed(["somebody.else".to_owned()]).unwrap();
    let key = rustls_pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let stream = acceptor.accept(stream).await.unwrap();
                http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(web)).await
            });
        }
    });
    address
}

fn get(url: &str) -> Handler {
    let headers = [("User-Agent", "kube-probe/1.35"), ("X-Own", "yes")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Handler::Http { url: url.to_owned(), headers: headers.to_vec() }
}

// K 16.1
#[tokio::test]
async fn http_answers_are_judged_in_the_kubelets_words() {
    let address = web_server().await;
    let cases = [
        ("/ok", Ok("fine".to_owned())),
        ("/query?a=b", Ok("a=b".to_owned())),
        ("/head", Ok(format!("{address} kube-probe/1.35 yes"))),
        ("/sick", Err("HTTP probe failed with statuscode: 503".to_owned())),
        ("/long", Ok("x".repeat(OUTPUT_BYTES_MAX))),
        ("/moved", Ok("fine".to_owned())),
        ("/away", Ok("Probe terminated redirects, Response body: elsewhere".to_owned())),
        ("/circle", Err(format!("Get \"http://{address}/circle\": stopped after 10 redirects"))),
    ];
    for (path, expected) in cases {
        assert_eq!(run(&get(&format!("http://{address}{path}")), PATIENCE, no_exec).await, expected, "{path}");
    }
    assert_eq!(run_hook(&get(&format!("http://{address}/sick")), PATIENCE, no_exec).await, Ok("no".to_owned()));
}

#[tokio::test]
async fn certificates_are_not_checked() {
    let address = secure_server().await;
    assert_eq!(run(&get(&format!("https://{address}/ok")), PATIENCE, no_exec).await, Ok("fine".to_owned()));
    let plain = web_server().await;
    let said = run(&get(&format!("https://{plain}/ok")), PATIENCE, no_exec).await;
    assert_eq!(said, Err(format!("Get \"https://{plain}/ok\": http: server gave HTTP response to HTTPS client")));
}

#[tokio::test]
async fn what_does_not_answer_over_http_is_named() {
    let address = web_server().await;
    let url = format!("http://{address}/never");
    let late = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";
    assert_eq!(run(&get(&url), SHORT, no_exec).await, Err(format!("Get {url:?}: {late}")));
    let (closed, address) = listen().await;
    drop(closed);
    let url = format!("http://{address}/");
    let expected = format!("Get {url:?}: dial tcp {address}: connect: connection refused");
    assert_eq!(run(&get(&url), PATIENCE, no_exec).await, Err(expected));
    let (rude, address) = listen().await;
    tokio::spawn(async move {
        let (mut stream, _) = rude.accept().await.unwrap();
        let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut [0; 1024]).await;
    });
    let url = format!("http://{address}/");
    assert_eq!(run(&get(&url), PATIENCE, no_exec).await, Err(format!("Get {url:?}: EOF")));
    let (ruder, address) = listen().await;
    tokio::spawn(async move {
        let (stream, _) = ruder.accept().await.unwrap();
        // What was sent and never read makes the kernel reset the connection.
        stream.peek(&mut [0; 1]).await.unwrap();
    });
    let url = format!("http://{address}/");
    let said = run(&get(&url), PATIENCE, no_exec).await.unwrap_err();
    assert!(said.starts_with(&format!("Get {url:?}: read tcp 127.0.0.1:")), "{said}");
    assert!(said.ends_with(&format!("->{address}: read: connection reset by peer")), "{said}");
}

#[tokio::test]
async fn a_port_is_open_or_it_is_said_why_not() {
    let (listener, address) = listen().await;
    let tcp = |address: SocketAddr| Handler::Tcp { host: address.ip().to_string(), port: address.port() };
    assert_eq!(run(&tcp(address), PATIENCE, no_exec).await, Ok(String::new()));
    drop(listener);
    let expected = format!("dial tcp {address}: connect: connection refused");
    assert_eq!(run(&tcp(address), PATIENCE, no_exec).await, Err(expected));
    let nobody = Handler::Tcp { host: "nobody.invalid".to_owned(), port: 1 };
    assert_eq!(run(&nobody, PATIENCE, no_exec).await, Err("dial tcp: lookup nobody.invalid: no such host".to_owned()));
}

#[tokio::test]
async fn a_port_that_takes_nobody_in_is_a_timeout() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    // Fills the queue of those that wait to be accepted; from then on the kernel lets nobody in.
    let mut waiting = Vec::new();
    while let Ok(stream) = tokio::time::timeout(SHORT, TcpStream::connect(address)).await {
        waiting.push(stream.unwrap());
        assert!(waiting.len() < 64, "the queue never fills");
    }
    let said = dial::connect("127.0.0.1", address.port(), SHORT).await.map(drop);
    assert_eq!(said, Err(format!("dial tcp {address}: i/o timeout")));
}

/// The health of the service named in the request, as a gRPC server tells it.
async fn health(request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
    assert_eq!(request.headers()["content-type"], "application/grpc");
    let message = request.into_body().collect().await.unwrap().to_bytes();
    let service = String::from_utf8(message.get(7..).unwrap_or_default().to_vec()).unwrap();
    let (code, health) = match service.as_str() {
        "" | "well" => ("0", vec![0, 0, 0, 0, 2, 8, 1]),
        "sick" => ("0", vec![0, 0, 0, 0, 2, 8, 2]),
        "bare" => ("12", vec![]),
        "web" => {
            return Ok(Response::builder().status(StatusCode::BAD_GATEWAY).body(Empty::new().boxed()).unwrap());
        }
        "never" => std::future::pending().await,
        _ => ("5", vec![]),
    };
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", code.parse().unwrap());
    trailers.insert("grpc-message", "unknown%20service".parse().unwrap());
    let body = Full::new(Bytes::from(health)).with_trailers(std::future::ready(Some(Ok(trailers))));
    Ok(Response::builder().header("content-type", "application/grpc").body(body.boxed()).unwrap())
}

#[tokio::test]
async fn grpc_health_is_told_in_the_kubelets_words() {
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let server = http2::Builder::new(TokioExecutor::new());
            tokio::spawn(server.serve_connection(TokioIo::new(stream), service_fn(health)));
        }
    });
    let check = |address: SocketAddr, service: &str| Handler::Grpc {
        host: address.ip().to_string(),
        port: address.port(),
        service: service.to_owned(),
    };
    let none =
        "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unknown service";
    let unknown = "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service";
    let web = "error: health rpc probe failed: rpc error: code = Unavailable desc = \
        unexpected HTTP status code received from server: 502 (Bad Gateway)";
    let cases = [
        ("", Ok("service healthy")),
        ("well", Ok("service healthy")),
        ("sick", Err("service unhealthy (responded with \"NOT_SERVING\")")),
        ("bare", Err(none)),
        ("nobody", Err(unknown)),
        ("web", Err(web)),
    ];
    for (service, expected) in cases {
        let said = run(&check(address, service), PATIENCE, no_exec).await;
        assert_eq!(said.as_deref().map_err(String::as_str), expected, "{service}");
    }
    let late = "timeout: health rpc did not complete within 200ms".to_owned();
    assert_eq!(run(&check(address, "never"), SHORT, no_exec).await, Err(late));
    let (closed, address) = listen().await;
    drop(closed);
    let late = format!("timeout: failed to connect service \"{address}\" within 200ms: context deadline exceeded");
    assert_eq!(run(&check(address, ""), SHORT, no_exec).await, Err(late));
}

#[tokio::test]
async fn commands_answer_with_their_exit_code_within_their_time() {
    let handler = Handler::Exec(vec!["check".to_owned(), "it".to_owned()]);
    let exits = |code: i32, output: &str| {
        let output = output.to_owned();
        async move |command: &[String], _: Duration| {
            assert_eq!(command, ["check", "it"]);
            Ok((code, output))
        }
    };
    assert_eq!(run(&handler, PATIENCE, exits(0, "fine")).await, Ok("fine".to_owned()));
    assert_eq!(run(&handler, PATIENCE, exits(1, "cat: no such file\n")).await, Err("cat: no such file\n".to_owned()));
    let long = "é".repeat(OUTPUT_BYTES_MAX);
    assert_eq!(run(&handler, PATIENCE, exits(1, &long)).await.unwrap_err().len(), OUTPUT_BYTES_MAX);
    let broken = async |_: &[String], _: Duration| Err("no such container".to_owned());
    assert_eq!(run(&handler, PATIENCE, broken).await, Err("no such container".to_owned()));
    let slow = async |_: &[String], timeout: Duration| {
        tokio::time::sleep(timeout).await;
        Ok((137, String::new()))
    };
    let late = "command timed out: \"check it\" timed out after 200ms".to_owned();
    assert_eq!(run(&handler, SHORT, slow).await, Err(late));
}

#[tokio::test]
async fn a_probe_can_run_beside_others_and_a_hook_can_sleep() {
    let handler = Handler::Exec(vec!["true".to_owned()]);
    let spawned = tokio::spawn(async move {
        let owned = String::from("done");
        let exec = async move |command: &[String], _: Duration| {
            tokio::task::yield_now().await;
            Ok((0, format!("{command:?} {owned}")))
        };
        run(&handler, PATIENCE, exec).await
    });
    assert_eq!(spawned.await.unwrap(), Ok("[\"true\"] done".to_owned()));
    tokio::time::pause();
    let (sleep, started) = (Handler::Sleep { seconds: 3600 }, tokio::time::Instant::now());
    assert_eq!(run_hook(&sleep, Duration::from_secs(30), no_exec).await, Ok(String::new()));
    assert_eq!(started.elapsed().as_secs(), 30);
}
