//! What the machine does without us: bare synced appends, bare JSON parsing.

use anyhow::Result;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

const ROUND: Duration = Duration::from_millis(700);

/// One writer, one growing file, one `fdatasync` for each value.
pub fn synced_appends_per_second(folder: &Path, bytes: usize) -> Result<f64> {
    let mut file = tempfile::tempfile_in(folder)?;
    let value = vec![b'x'; bytes];
    let (start, mut count) = (Instant::now(), 0u32);
    while start.elapsed() < ROUND {
        file.write_all(&value)?;
        file.sync_data()?;
        count += 1;
    }
    Ok(f64::from(count) / start.elapsed().as_secs_f64())
}

/// How long a client needs to parse these bytes into plain JSON values, in milliseconds.
pub fn parse_ms(bytes: &[u8]) -> Result<f64> {
    let start = Instant::now();
    let value: serde_json::Value = serde_json::from_slice(bytes)?;
    let elapsed = start.elapsed().as_secs_f64() * 1000.0;
    drop(value);
    Ok(elapsed)
}
