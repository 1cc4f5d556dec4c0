//! The pod's memory on disk: one JSON line per event, written before anybody is told. The shim writes, the node reads.
//!
//! Ends are synced, and all lines before them: nobody could find them out again. Starts outlive the node as they are, and a
//! machine that loses its power has lost the processes, too.
//! A line that a crash cut short is the last one and is ignored; what it would have said was told to nobody.

use super::wire::{ContainerState, Exit, PodState, ProcessId, Started};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    Shim(ProcessId),
    Started { container: String, name: String, attempt: u32, started: Started },
    Exited { container: String, exit: Exit },
    Forgotten { container: String },
}

pub struct Records(File);

impl Records {
    pub fn open(path: &Path) -> io::Result<Records> {
        Ok(Records(OpenOptions::new().create(true).append(true).open(path)?))
    }

    pub fn append(&mut self, record: &Record) -> io::Result<()> {
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        self.0.write_all(&line)?;
        match record {
            Record::Exited { .. } | Record::Forgotten { .. } => self.0.sync_data(),
            Record::Shim(_) | Record::Started { .. } => Ok(()),
        }
    }
}

/// What the records add up to; none when no shim ever wrote.
pub fn read(path: &Path) -> io::Result<Option<PodState>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut state: Option<PodState> = None;
    for record in text.lines().map_while(|line| serde_json::from_str::<Record>(line).ok()) {
        match (record, &mut state) {
            (Record::Shim(shim), _) => state = Some(PodState { shim, containers: BTreeMap::new() }),
            (record, Some(state)) => apply(state, record),
            (_, None) => {}
        }
    }
    Ok(state)
}

fn apply(state: &mut PodState, record: Record) {
    match record {
        Record::Shim(shim) => state.shim = shim,
        Record::Started { container, name, attempt, started } => {
            state.containers.insert(container, ContainerState { name, attempt, started, exit: None });
        }
        Record::Exited { container, exit } => {
            if let Some(found) = state.containers.get_mut(&container) {
                found.exit = Some(exit);
            }
        }
        Record::Forgotten { container } => {
            state.containers.remove(&container);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    #[test]
    fn a_line_cut_short_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.log");
        let process = ProcessId { pid: 7, start_ticks: 70 };
        let mut records = Records::open(&path).unwrap();
        records.append(&Record::Shim(process)).unwrap();
        let started = Started { process, at: Timestamp::UNIX_EPOCH, warnings: Vec::new() };
        let record = Record::Started { container: "a".into(), name: "a".into(), attempt: 0, started };
        records.append(&record).unwrap();
        records.0.write_all(b"{\"exited\":{\"container\":\"a\",\"ex").unwrap();
        let state = read(&path).unwrap().unwrap();
        assert_eq!((state.shim, state.containers["a"].exit.clone()), (process, None));
    }
}
