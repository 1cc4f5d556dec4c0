//! How verbs talk to the running process: one line of JSON each way over `$VOLLEY_HOME/volley.sock`, and before the answer
//! a line for each step of what takes long.
//!
//! The socket answers from the moment a process has claimed the home; questions wait until it is ready. A socket that
//! nobody answers belongs to a process that is gone.

use crate::failure::Report;
use crate::home::Home;
use crate::host::StopRequest;
use crate::host::running::Running;
use crate::image::map::MapRow;
use crate::image::work::{ImageAsk, Listed, Step};
use crate::status::Status;
use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, Permissions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net as blocking;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use volley_cluster::node::GpuHolding;

/// Longest path that fits a socket's address (108 bytes with the final zero).
const SOCKET_PATH_BYTES_MAX: usize = 107;
/// A request is a word and a few paths or names.
const REQUEST_BYTES_MAX: u64 = 64 << 10;
/// Steps that wait for a slow reader; further ones are left out, since each tells all.
const STEPS_MAX: usize = 64;
/// A healthy process answers in milliseconds, one that reads a very large store in seconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Ask {
    Status,
    /// Write a backup of the cluster to this absolute path.
    Backup(PathBuf),
    Image(ImageAsk),
    /// Read the kept image maps again, and say which hold.
    Maps,
    Gpus,
    /// End the pods, giving each this long, and stop; the connection closes when everything has ended.
    Down {
        grace_s: u64,
    },
}

impl Ask {
    /// How long to wait for the next line; without end where the work has none that we know.
    fn patience(&self) -> Option<Duration> {
        match self {
            Ask::Status | Ask::Maps | Ask::Gpus => Some(ANSWER_TIMEOUT),
            Ask::Down { grace_s } => Some(ANSWER_TIMEOUT.saturating_add(Duration::from_secs(*grace_s))),
            Ask::Backup(_) | Ask::Image(_) => None,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    Status(Status),
    Saved(Saved),
    Images(Vec<Listed>),
    Maps(Vec<MapRow>),
    Gpus(Vec<GpuHolding>),
    /// Not the answer yet.
    Step(Step),
    Stopping,
    Failed(Report),
}

/// What a backup holds.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Saved {
    pub file: PathBuf,
    pub revision: u64,
    pub objects: usize,
    pub bytes: u64,
}

/// Asks the running process; `None` when there is none, or when it ended instead of answering.
pub fn ask(home: &Home, question: &Ask) -> Result<Option<Answer>> {
    ask_with(home, question, |_| ())
}

/// The same for what takes long: `on_step` hears how far it is.
pub fn ask_with(home: &Home, question: &Ask, on_step: impl Fn(Step)) -> Result<Option<Answer>> {
    let Some(stream) = connect(home)? else { return Ok(None) };
    stream.set_read_timeout(question.patience())?;
    let mut stream = BufReader::new(stream);
    let mut request = Some(serde_json::to_string(question)? + "\n");
    loop {
        let line = exchange(&mut stream, request.take()).with_context(|| {
            let log = home.log();
            format!("the running process did not answer\nhint: its log is `{}`", log.display())
        })?;
        if line.is_empty() {
            return Ok(None);
        }
        match serde_json::from_str(&line).with_context(|| format!("the running process answered `{line}`"))? {
            Answer::Step(step) => on_step(step),
            Answer::Failed(report) => return Err(report.into()),
            Answer::Stopping => {
                wait_for_end(stream, home)?;
                return Ok(Some(Answer::Stopping));
            }
            answer => return Ok(Some(answer)),
        }
    }
}

fn connect(home: &Home) -> Result<Option<blocking::UnixStream>> {
    let path = home.socket();
    let connected = reach(&path, |path| blocking::UnixStream::connect(path));
    match connected {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => Ok(None),
        Err(error) => Err(error).with_context(|| format!("failed to connect to `{}`", path.display())),
    }
}

/// A line there, if there is one to send, and one back; an empty one from a process that ends, whether or not it took ours.
fn exchange(stream: &mut BufReader<blocking::UnixStream>, request: Option<String>) -> Result<String> {
    let mut line = String::new();
    let sent = stream.get_mut().write_all(request.unwrap_or_default().as_bytes());
    match sent.and_then(|()| stream.read_line(&mut line)) {
        Err(error) if !matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => Err(error.into()),
        Ok(_) | Err(_) => Ok(line),
    }
}

/// The process keeps the connection of the one who stopped it, and its end closes it; a line before that says what failed.
fn wait_for_end(mut stream: impl Read, home: &Home) -> Result<()> {
    let mut rest = String::new();
    stream.read_to_string(&mut rest).with_context(|| {
        let log = home.log();
        format!("the process takes long to end\nhint: its log is `{}`", log.display())
    })?;
    match serde_json::from_str(&rest) {
        Ok(Answer::Failed(report)) => Err(report.into()),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Binds the socket, in place of one that a dead process left. Call it with the home claimed.
pub fn bind(home: &Home) -> Result<UnixListener> {
    let path = home.socket();
    if let Err(error) = fs::remove_file(&path)
        && error.kind() != ErrorKind::NotFound
    {
        return Err(error).with_context(|| format!("failed to remove `{}`", path.display()));
    }
    let bound = reach(&path, |path| UnixListener::bind(path));
    let listener = bound.with_context(|| format!("failed to listen on `{}`", path.display()))?;
    // The folder keeps others out unless its owner opened it; the socket must even then.
    fs::set_permissions(&path, Permissions::from_mode(0o600))
        .with_context(|| format!("failed to protect `{}`", path.display()))?;
    Ok(listener)
}

/// Calls `act` with a path to the socket that fits its address: a long one goes by way of the open folder.
fn reach<T>(path: &Path, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    if path.as_os_str().len() <= SOCKET_PATH_BYTES_MAX {
        return act(path);
    }
    let folder = File::open(path.parent().unwrap_or(Path::new("/")))?;
    let through = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    act(&through.join(path.file_name().unwrap_or_default()))
}

/// Answers until the process ends. Who asks for a stop is handed on by `stops`, to be told of the end.
pub async fn serve(
    listener: UnixListener,
    running: watch::Receiver<Option<Arc<Running>>>,
    stops: mpsc::Sender<StopRequest>,
) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (running, stops) = (running.clone(), stops.clone());
                tokio::spawn(async move {
                    if let Err(error) = converse(stream, running, stops).await {
                        tracing::debug!(%error, "a conversation on the control socket ended early");
                    }
                });
            }
            Err(error) => {
                // Out of file handles, most likely: wait for some to come back rather than spin.
                tracing::warn!(%error, "the control socket could not accept");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn converse(
    mut stream: UnixStream,
    mut running: watch::Receiver<Option<Arc<Running>>>,
    stops: mpsc::Sender<StopRequest>,
) -> Result<()> {
    let mut line = String::new();
    let (reader, _) = stream.split();
    tokio::io::BufReader::new(reader.take(REQUEST_BYTES_MAX)).read_line(&mut line).await?;
    let answer = match serde_json::from_str(&line) {
        Ok(Ask::Down { grace_s }) => {
            send(&mut stream, &Answer::Stopping).await?;
            let request = StopRequest { grace: Duration::from_secs(grace_s), asked: stream };
            stops.send(request).await.map_err(|_| anyhow!("the process is stopping already"))?;
            return Ok(());
        }
        Ok(Ask::Status) => Ok(Answer::Status(ready(&mut running).await?.status().await)),
        Ok(Ask::Backup(file)) => ready(&mut running).await?.backup(file).await.map(Answer::Saved),
        Ok(Ask::Image(question)) => work(&mut stream, ready(&mut running).await?, question).await?.map(Answer::Images),
        Ok(Ask::Maps) => ready(&mut running).await?.read_maps().map(Answer::Maps),
        Ok(Ask::Gpus) => ready(&mut running).await?.gpus().map(Answer::Gpus),
        Err(error) => Err(anyhow!(error).context("the request is not understood")),
    };
    let answer = answer.unwrap_or_else(|error| Answer::Failed(Report::from(&error)));
    send(&mut stream, &answer).await
}

/// Works on images and tells each step; gives up, by an error, when nobody listens any more.
async fn work(stream: &mut UnixStream, running: Arc<Running>, question: ImageAsk) -> Result<Result<Vec<Listed>>> {
    let (sender, mut steps) = mpsc::channel(STEPS_MAX);
    // The next step tells as much as one that finds no room.
    let on_step = Arc::new(move |step| drop(sender.try_send(step)));
    let work = running.work_on_images(question, on_step);
    tokio::pin!(work);
    let mut nothing = [0];
    loop {
        tokio::select! {
            done = &mut work => return Ok(done),
            Some(step) = steps.recv() => send(stream, &Answer::Step(step)).await?,
            // Whoever asked says nothing more, so this is their end.
            _ = stream.read(&mut nothing) => return Err(anyhow!("the one who asked has gone")),
        }
    }
}

async fn ready(running: &mut watch::Receiver<Option<Arc<Running>>>) -> Result<Arc<Running>> {
    let seen = running.wait_for(Option::is_some).await.context("the process ended while it started")?;
    seen.clone().context("`wait_for` returned something else than it waited for")
}

/// Tells the one who asked for the end that it went wrong.
pub async fn tell_failure(stream: &mut UnixStream, error: &anyhow::Error) -> Result<()> {
    send(stream, &Answer::Failed(Report::from(error))).await
}

async fn send(stream: &mut UnixStream, answer: &Answer) -> Result<()> {
    let line = serde_json::to_string(answer)? + "\n";
    Ok(stream.write_all(line.as_bytes()).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_socket_and_a_dead_socket_both_mean_that_nothing_runs() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::find(Some(folder.path())).unwrap();
        assert!(ask(&home, &Ask::Status).unwrap().is_none());
        drop(blocking::UnixListener::bind(home.socket()).unwrap());
        assert!(ask(&home, &Ask::Status).unwrap().is_none());
    }

    #[test]
    fn a_socket_in_a_very_deep_folder_is_reached() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("d".repeat(200));
        fs::create_dir(&deep).unwrap();
        let path = deep.join("volley.sock");
        let _listener = reach(&path, |path| blocking::UnixListener::bind(path)).unwrap();
        reach(&path, |path| blocking::UnixStream::connect(path)).unwrap();
    }

    #[test]
    fn questions_are_a_word_and_what_belongs_to_it() {
        assert_eq!(serde_json::to_string(&Ask::Status).unwrap(), r#""status""#);
        assert_eq!(serde_json::to_string(&Ask::Backup("/a b".into())).unwrap(), r#"{"backup":"/a b"}"#);
        assert_eq!(serde_json::to_string(&Ask::Down { grace_s: 3 }).unwrap(), r#"{"down":{"grace_s":3}}"#);
    }
}
