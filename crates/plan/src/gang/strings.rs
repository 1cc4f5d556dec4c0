//! Text that many objects share is kept once: names of nodes, queues and tasks, labels.

use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What nobody holds any more is dropped whenever the set has grown to twice its last size, but not below this.
const SWEEP_MIN: usize = 1024;

#[derive(Debug, Clone, Default)]
pub struct Strings {
    kept: BTreeSet<Arc<str>>,
    sweep_at: usize,
}

impl Strings {
    pub fn keep(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.kept.get(text) {
            return known.clone();
        }
        if self.kept.len() >= self.sweep_at.max(SWEEP_MIN) {
            self.kept.retain(|text| Arc::strong_count(text) > 1);
            self.sweep_at = self.kept.len() * 2;
        }
        let text: Arc<str> = text.into();
        self.kept.insert(text.clone());
        text
    }

    pub fn labels(&mut self, map: Option<&Value>) -> Labels {
        let entries = map.and_then(Value::as_object).into_iter().flatten();
        let pairs = entries.filter_map(|(key, value)| Some((key, value.as_str()?)));
        let mut labels: Vec<_> = pairs.map(|(key, value)| (self.keep(key), self.keep(value))).collect();
        labels.sort();
        Labels(labels.into_boxed_slice())
    }
}

/// Labels, sorted by key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels(Box<[(Arc<str>, Arc<str>)]>);

impl Labels {
    pub fn get(&self, key: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(known, _)| (**known).cmp(key)).ok()?;
        Some(&self.0[at].1)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }
}
