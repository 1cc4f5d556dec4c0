//! Blobs onto disk: streamed, hashed while they stream, resumed where an earlier attempt ended.
//!
//! The bytes go to `<partial>` and, once their digest is right, are renamed to `<target>`. Dropping the future at any
//! point leaves a partial file that the next attempt continues; a full disk removes it.

use super::digest::{Digest, Hasher};
use super::error::{ImageError, RequestFault};
use super::flight::Stage;
use super::layout::{off_thread, space};
use super::manifest::Descriptor;
use super::registry::{Session, failed};
use super::store::remove_any;
use bytes::Bytes;
use futures::StreamExt;
use reqwest::StatusCode;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use tokio::sync::{mpsc, watch};

/// Attempts in a row that bring no byte before the error is final.
const BARREN_ATTEMPTS_MAX: u32 = 5;
/// All attempts of one blob: a link that breaks after every few bytes must end somewhere.
const ATTEMPTS_MAX: u32 = 100;
/// Whole downloads with a wrong digest: the second one shows that the registry, not a stale partial file, is wrong.
const CORRUPT_MAX: u32 = 2;
/// Chunks between the connection and the disk; at usual chunk sizes well below a megabyte.
const QUEUE_LENGTH: usize = 32;
const READ_SIZE: usize = 1 << 18;

/// One blob and the two places it has on disk.
#[derive(Debug, Clone)]
pub struct Job {
    pub blob: Descriptor,
    pub partial: PathBuf,
    pub target: PathBuf,
}

/// Downloads a blob unless it is there; `done` follows the bytes on disk.
pub async fn download(session: &Session, job: &Job, done: &watch::Sender<Stage>) -> Result<(), ImageError> {
    let (mut barren, mut corrupt, mut reached) = (0, 0, 0);
    let mut last = ImageError::Interrupted;
    for _ in 0..ATTEMPTS_MAX {
        last = match attempt(session, job, done).await {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        match &last {
            error if error.is_transient() => {
                let progress = done.borrow().bytes();
                barren = if progress > reached { 1 } else { barren + 1 };
                reached = progress;
                if barren >= BARREN_ATTEMPTS_MAX {
                    break;
                }
                tokio::time::sleep(session.config().pause(barren)).await;
            }
            ImageError::Corrupt { .. } => {
                corrupt += 1;
                (barren, reached) = (0, 0);
                if corrupt >= CORRUPT_MAX {
                    break;
                }
            }
            ImageError::DiskFull { .. } => {
                let partial = job.partial.clone();
                off_thread(move || remove_any(&partial)).await?;
                break;
            }
            _ => break,
        }
    }
    Err(last)
}

async fn attempt(session: &Session, job: &Job, done: &watch::Sender<Stage>) -> Result<(), ImageError> {
    let opening = job.clone();
    let Some(mut sink) = off_thread(move || Sink::open(&opening)).await? else {
        done.send_replace(Stage::Downloading(job.blob.size));
        return Ok(());
    };
    done.send_replace(Stage::Downloading(sink.length));
    if sink.length < job.blob.size {
        let response = session.blob(&job.blob.digest, sink.length).await?;
        if response.status() != StatusCode::PARTIAL_CONTENT && sink.length > 0 {
            sink = off_thread(move || sink.restarted()).await?;
        }
        sink = transfer(response, sink, job, done).await?;
    }
    let job = job.clone();
    off_thread(move || sink.finish(&job)).await
}

/// Pumps the answer's chunks to a thread that hashes and writes them.
async fn transfer(
    response: reqwest::Response,
    sink: Sink,
    job: &Job,
    done: &watch::Sender<Stage>,
) -> Result<Sink, ImageError> {
    let url = response.url().to_string();
    let (sender, mut receiver) = mpsc::channel::<Bytes>(QUEUE_LENGTH);
    let mut left = job.blob.size - sink.length;
    let report = done.clone();
    let writer = tokio::task::spawn_blocking(move || {
        let mut sink = sink;
        while let Some(bytes) = receiver.blocking_recv() {
            sink.write(&bytes)?;
            report.send_replace(Stage::Downloading(sink.length));
        }
        Ok::<Sink, ImageError>(sink)
    });
    let mut stream = response.bytes_stream();
    let mut broken = None;
    while let Some(chunk) = stream.next().await {
        match chunk {
            Ok(bytes) if bytes.len() as u64 > left => {
                broken = Some(ImageError::TooLarge { what: format!("blob {}", job.blob.digest), limit: job.blob.size });
                break;
            }
            Ok(bytes) => {
                left -= bytes.len() as u64;
                // The writer ends early only with an error, which is taken below.
                if sender.send(bytes).await.is_err() {
                    break;
                }
            }
            Err(error) => {
                broken = Some(failed("Get", &url, &error));
                break;
            }
        }
    }
    drop(sender);
    let sink = writer.await.map_err(|_| ImageError::Interrupted)??;
    match broken {
        Some(error) => Err(error),
        None if sink.length < job.blob.size => {
            Err(ImageError::Request { method: "Get", url, fault: RequestFault::Other("unexpected EOF".to_owned()) })
        }
        None => Ok(sink),
    }
}

/// A partial file under lock, and the digest of what it holds.
struct Sink {
    file: File,
    path: PathBuf,
    hasher: Hasher,
    length: u64,
}

impl Sink {
    /// Opens the partial file and hashes what is there; `None` when somebody finished the blob meanwhile.
    fn open(job: &Job) -> Result<Option<Sink>, ImageError> {
        let failed = |error| ImageError::file("open", &job.partial, error);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&job.partial)
            .map_err(failed)?;
        // A cancelled download's writer may still be at it, or another process.
        flock(&file, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
        if job.target.exists() {
            drop(std::fs::remove_file(&job.partial));
            return Ok(None);
        }
        let mut sink = Sink { file, path: job.partial.clone(), hasher: Hasher::default(), length: 0 };
        sink.read_back(job.blob.size)?;
        let needed = job.blob.size - sink.length;
        match space(&job.partial) {
            Ok(space) if space.free < needed => Err(ImageError::disk_full(&job.partial, needed)),
            _ => Ok(Some(sink)),
        }
    }

    fn read_back(&mut self, size: u64) -> Result<(), ImageError> {
        let failed = |path: &Path, error| ImageError::file("read", path, error);
        let length = self.file.metadata().map_err(|error| failed(&self.path, error))?.len();
        if length > size {
            return self.restart();
        }
        let mut buffer = vec![0; READ_SIZE];
        loop {
            match self.file.read(&mut buffer).map_err(|error| failed(&self.path, error))? {
                0 => return Ok(()),
                count => {
                    self.hasher.update(&buffer[..count]);
                    self.length += count as u64;
                }
            }
        }
    }

    fn restarted(mut self) -> Result<Sink, ImageError> {
        self.restart().map(|()| self)
    }

    fn restart(&mut self) -> Result<(), ImageError> {
        let done = self.file.set_len(0).and_then(|()| self.file.seek(SeekFrom::Start(0)));
        done.map_err(|error| ImageError::file("truncate", &self.path, error))?;
        (self.hasher, self.length) = (Hasher::default(), 0);
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ImageError> {
        self.file.write_all(bytes).map_err(|error| ImageError::file("write", &self.path, error))?;
        self.hasher.update(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Checks the digest and gives the blob its name; wrong bytes are removed at once.
    fn finish(self, job: &Job) -> Result<(), ImageError> {
        let actual: Digest = self.hasher.finish();
        if actual != job.blob.digest {
            drop(std::fs::remove_file(&self.path));
            let (expected, actual) = (job.blob.digest.to_string(), actual.to_string());
            return Err(ImageError::Corrupt { what: "blob".to_owned(), expected, actual });
        }
        std::fs::rename(&self.path, &job.target).map_err(|error| ImageError::file("rename", &self.path, error))
    }
}
