//! What the node remembers of a pod over its own restarts: one file per pod, replaced as a whole.
//!
//! It survives the process, not the machine: after a power loss nothing runs any more, and a pod starts anew from its
//! object. So the file is never synced.

use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use volley_plan::node::seen::Seen;

const FILE: &str = "record.json";
const NEW_FILE: &str = "record.json.new";

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// The object as it was last seen: a pod that was deleted meanwhile is still ended properly.
    pub pod: Pod,
    pub seen: Seen,
    /// Devices by container.
    pub granted: BTreeMap<String, Vec<String>>,
}

impl Record {
    /// `None` when there is none, or none that can be read: the pod then counts as not seen.
    pub fn read(folder: &Path) -> Option<Record> {
        let text = fs::read(folder.join(FILE)).ok()?;
        match serde_json::from_slice(&text) {
            Ok(record) => Some(record),
            Err(error) => {
                tracing::warn!(folder = %folder.display(), %error, "a pod's record cannot be read");
                None
            }
        }
    }

    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let new = folder.join(NEW_FILE);
        fs::write(&new, serde_json::to_vec(self)?)?;
        fs::rename(new, folder.join(FILE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_back_and_a_broken_one_counts_as_none() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Record::read(folder.path()).is_none());
        let seen = Seen { sandbox_number: 3, ..Seen::default() };
        let granted = BTreeMap::from([("c".to_owned(), vec!["GPU-1".to_owned()])]);
        Record { pod: Pod::default(), seen: seen.clone(), granted }.write(folder.path()).unwrap();
        assert_eq!(Record::read(folder.path()).unwrap().seen, seen);
        fs::write(folder.path().join(FILE), "{").unwrap();
        assert!(Record::read(folder.path()).is_none());
    }
}
