//! A server with one made-up pod per name, whose exec, attach and port-forward run local processes and reach local ports.
//!
//! It exists to try real clients against `streams` without a cluster: `streams_server 127.0.0.1:8001 /tmp/logs/0.log date`,
//! then `kubectl --server http://127.0.0.1:8001 exec -it p -- sh`. What the command prints goes to that log, for `logs`.

use bytes::Bytes;
use futures::StreamExt;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use rustix::fs::{Mode, OFlags};
use rustix::pty::OpenptFlags;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Stdio;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use volley_api::kube::status::ApiError;
use volley_cluster::apiserver::request::{Query, ResourcePath};
use volley_cluster::streams::forward::{Target, run_port_forward};
use volley_cluster::streams::logs::Output;
use volley_cluster::streams::logs::options::LogOptions;
use volley_cluster::streams::logs::reader::{LogReader, stream};
use volley_cluster::streams::logs::writer::{LogLimits, LogWriter};
use volley_cluster::streams::session::{Outcome, Streams, run_exec};
use volley_cluster::streams::upgrade::{CommandOptions, Purpose, agree, forward_ports};

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// The one container that has a log.
#[derive(Clone)]
struct Container {
    log: PathBuf,
    ended: CancellationToken,
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = TcpListener::bind(address).await?;
    let log = std::env::args().nth(2).unwrap_or_else(|| "0.log".to_owned()).into();
    let container = Container { log, ended: CancellationToken::new() };
    if let Some(program) = std::env::args().nth(3) {
        start(&container, &program)?;
    }
    println!("http://{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let container = container.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| async { Ok::<_, Infallible>(respond(request, &container).await) });
            let connection = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
            let _ = connection.with_upgrades().await;
        });
    }
}

/// Runs the command whose output is the log, as a node would: the output is read on its own thread, without a runtime.
fn start(container: &Container, program: &str) -> io::Result<()> {
    let (mut reader, writer) = io::pipe()?;
    let mut child = std::process::Command::new(program).args(std::env::args().skip(4)).stdout(writer).spawn()?;
    let mut log = LogWriter::open(&container.log, LogLimits { file_bytes_max: 1 << 20, files_max: 5 })?;
    let ended = container.ended.clone();
    std::thread::spawn(move || {
        let mut buffer = vec![0u8; 64 * 1024];
        while let Ok(len @ 1..) = reader.read(&mut buffer) {
            log.write(Output::Stdout, &buffer[..len], Timestamp::now()).expect("the log can be written");
        }
        log.finish(Timestamp::now()).expect("the log can be written");
        let _ = child.wait();
        ended.cancel();
    });
    Ok(())
}

async fn respond(mut request: Request<Incoming>, container: &Container) -> Answer {
    let path = request.uri().path().to_owned();
    let upgrade = request.extensions_mut().remove::<OnUpgrade>();
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let target = ResourcePath::parse(&path).unwrap_or_default();
    let result = match (request.method(), path.as_str(), target.subresource.as_str()) {
        (_, _, "exec" | "attach") => command(&request, &query, &target, upgrade),
        (_, _, "portforward") => forward(&request, &query, &target, upgrade),
        (&Method::GET, _, "log") => logs(&query, &target, container),
        (_, "/api", _) => Ok(value(&json!({"kind": "APIVersions", "versions": ["v1"]}))),
        (_, "/apis", _) => Ok(value(&json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": []}))),
        (_, "/api/v1", _) => Ok(value(&resources())),
        (&Method::GET, _, "") if target.plural == "pods" => Ok(value(&pod(&target))),
        _ => Err(ApiError::unknown_resource()),
    };
    result.unwrap_or_else(|error| {
        let mut answer = value(&error.to_status());
        *answer.status_mut() = http::StatusCode::from_u16(error.code).unwrap_or_default();
        answer
    })
}

fn value(value: &Value) -> Answer {
    let mut answer = Response::new(Full::new(value.to_string().into()).boxed_unsync());
    answer.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    answer
}

fn resources() -> Value {
    let pods = json!({"name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod", "shortNames": ["po"],
        "verbs": ["get", "list"]});
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": [pods]})
}

fn pod(target: &ResourcePath) -> Value {
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": target.name, "namespace": target.namespace, "uid": "1"},
        "spec": {"containers": [{"name": "main", "image": "host", "stdin": true, "tty": target.name == "terminal"}]},
        "status": {"phase": "Running"},
    })
}

fn logs(query: &Query, target: &ResourcePath, container: &Container) -> Result<Answer, ApiError> {
    let options = LogOptions::parse(query, &target.name)?;
    let reader = LogReader::open(&container.log, &options.read(Timestamp::now()))
        .map_err(|error| ApiError::internal(error.to_string()))?;
    let pieces = stream(reader, options.follow.then(|| container.ended.clone()));
    Ok(Response::new(StreamBody::new(pieces.map(|piece| Ok(Frame::data(piece)))).boxed_unsync()))
}

fn command(
    request: &Request<Incoming>,
    query: &Query,
    target: &ResourcePath,
    upgrade: Option<OnUpgrade>,
) -> Result<Answer, ApiError> {
    let mut options = CommandOptions::parse(query)?;
    if target.subresource == "attach" {
        options.command = ["sh", "-c", "echo attached; cat"].map(str::to_owned).to_vec();
    }
    let mut agreed = agree(Purpose::Command, request.headers())?;
    let upgrade = upgrade.ok_or_else(|| ApiError::bad_request("Upgrade request required"))?;
    let answer = agreed.answer();
    tokio::spawn(async move {
        let Ok(transport) = agreed.transport(upgrade).await else { return };
        let command = options.command.clone();
        let start = |streams| async {
            let outcome = if options.wants.tty {
                run_terminal(options.command, streams).await
            } else {
                run(options.command, streams).await
            };
            outcome.unwrap_or_else(|error| Outcome::Error(format!("error executing command in container: {error}")))
        };
        let result = run_exec(transport, options.wants, &command, start).await;
        eprintln!("{command:?}: {result:?}");
    });
    Ok(answer.map(|()| UnsyncBoxBody::default()))
}

fn forward(
    request: &Request<Incoming>,
    query: &Query,
    target: &ResourcePath,
    upgrade: Option<OnUpgrade>,
) -> Result<Answer, ApiError> {
    let ports = forward_ports(query)?;
    let mut agreed = agree(Purpose::PortForward, request.headers())?;
    let upgrade = upgrade.ok_or_else(|| ApiError::bad_request("Upgrade request required"))?;
    let target = Target { pod: target.name.clone(), uid: "1".to_owned() };
    let answer = agreed.answer();
    tokio::spawn(async move {
        let Ok(transport) = agreed.transport(upgrade).await else { return };
        let result = run_port_forward(transport, target, &ports, |port| TcpStream::connect(("127.0.0.1", port))).await;
        eprintln!("port-forward: {result:?}");
    });
    Ok(answer.map(|()| UnsyncBoxBody::default()))
}

async fn run(command: Vec<String>, streams: Streams) -> io::Result<Outcome> {
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut process = Command::new(program);
    process.args(arguments).kill_on_drop(true);
    let pipe = |wanted: bool| if wanted { Stdio::piped() } else { Stdio::null() };
    process
        .stdin(pipe(streams.stdin.is_some()))
        .stdout(pipe(streams.stdout.is_some()))
        .stderr(pipe(streams.stderr.is_some()));
    let mut child = process.spawn()?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let input = async {
        if let (Some(mut from), Some(mut to)) = (streams.stdin, stdin) {
            while let Some(piece) = from.recv().await {
                if to.write_all(&piece).await.is_err() {
                    return;
                }
            }
        }
    };
    let outputs = async { tokio::join!(pump(stdout, streams.stdout), pump(stderr, streams.stderr), child.wait()).2 };
    let status = tokio::select! {
        status = outputs => status?,
        () = async { input.await; std::future::pending().await } => return Ok(Outcome::Exit(0)),
    };
    Ok(outcome(status))
}

fn outcome(status: std::process::ExitStatus) -> Outcome {
    status.code().map_or_else(|| Outcome::Signal(status.signal().unwrap_or_default()), Outcome::Exit)
}

async fn pump(from: Option<impl AsyncRead + Unpin>, to: Option<mpsc::Sender<Bytes>>) {
    let (Some(mut from), Some(to)) = (from, to) else { return };
    let mut buffer = bytes::BytesMut::new();
    loop {
        buffer.reserve(32 * 1024);
        if !matches!(from.read_buf(&mut buffer).await, Ok(1..)) || to.send(buffer.split().freeze()).await.is_err() {
            return;
        }
    }
}

/// Runs a command on its own terminal; `setsid --ctty` makes it the controlling one.
async fn run_terminal(command: Vec<String>, streams: Streams) -> io::Result<Outcome> {
    let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    rustix::pty::grantpt(&master)?;
    rustix::pty::unlockpt(&master)?;
    let name = rustix::pty::ptsname(&master, Vec::new())?;
    let slave = rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty())?;
    let mut process = Command::new("setsid");
    process.args(["--ctty", "--wait"]).args(command).kill_on_drop(true);
    process.stdin(Stdio::from(slave.try_clone()?)).stdout(Stdio::from(slave.try_clone()?)).stderr(Stdio::from(slave));
    let mut child = process.spawn()?;
    // The command holds copies of the terminal; it has to be gone here for its end to be seen.
    drop(process);
    let (mut output, mut input) = (std::fs::File::from(master.try_clone()?), std::fs::File::from(master.try_clone()?));
    if let Some(to) = streams.stdout {
        std::thread::spawn(move || {
            let mut buffer = vec![0u8; 32 * 1024];
            while let Ok(len @ 1..) = output.read(&mut buffer) {
                if to.blocking_send(Bytes::copy_from_slice(&buffer[..len])).is_err() {
                    return;
                }
            }
        });
    }
    if let Some(mut from) = streams.stdin {
        std::thread::spawn(move || {
            while let Some(piece) = from.blocking_recv() {
                if input.write_all(&piece).is_err() {
                    return;
                }
            }
        });
    }
    let resizes = async {
        let Some(mut sizes) = streams.resize else { return std::future::pending().await };
        while sizes.changed().await.is_ok() {
            let Some(size) = *sizes.borrow_and_update() else { continue };
            let size = rustix::termios::Winsize { ws_row: size.height, ws_col: size.width, ws_xpixel: 0, ws_ypixel: 0 };
            let _ = rustix::termios::tcsetwinsize(&master, size);
        }
        std::future::pending().await
    };
    tokio::select! {
        status = child.wait() => Ok(outcome(status?)),
        () = resizes => Ok(Outcome::Exit(0)),
    }
}
