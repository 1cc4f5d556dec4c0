//! A file that grows, read until whoever writes it is over.

use crate::runner::Log;
use futures::TryStreamExt as _;
use futures::stream::try_unfold;
use std::io;
use std::path::Path;
use std::time::Duration;
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;

const CHUNK: usize = 64 << 10;
/// A line is seen this late at most.
const PAUSE: Duration = Duration::from_millis(50);

struct Reading<F> {
    file: File,
    is_over: F,
    /// Whoever wrote was over before the last look: what is there now is all.
    was_over: bool,
}

pub async fn open(path: &Path, is_over: impl Fn() -> bool + Send + 'static) -> io::Result<Log> {
    let reading = Reading { file: File::open(path).await?, is_over, was_over: false };
    Ok(Box::pin(try_unfold(reading, next).into_async_read()))
}

async fn next<F: Fn() -> bool>(mut reading: Reading<F>) -> io::Result<Option<(Vec<u8>, Reading<F>)>> {
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = reading.file.read(&mut chunk).await?;
        if count > 0 {
            chunk.truncate(count);
            return Ok(Some((chunk, reading)));
        }
        if reading.was_over {
            return Ok(None);
        }
        reading.was_over = (reading.is_over)();
        if !reading.was_over {
            tokio::time::sleep(PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::AsyncBufReadExt as _;
    use std::io::Write as _;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[tokio::test]
    async fn a_file_is_read_until_its_writer_is_over_and_not_a_line_less() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut file = std::fs::File::create(&path).unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let mut log = open(&path, move || over.load(Ordering::SeqCst)).await.unwrap();
        file.write_all(b"one\n").unwrap();
        let mut line = String::new();
        log.read_line(&mut line).await.unwrap();
        file.write_all(b"two\n").unwrap();
        is_over.store(true, Ordering::SeqCst);
        log.read_line(&mut line).await.unwrap();
        assert_eq!(line, "one\ntwo\n");
        assert_eq!(log.read_line(&mut line).await.unwrap(), 0);
    }
}
