//! For whom pods are placed, where, and in which queue if they name none: the flags of Volcano's scheduler that say so (CFG-5).

use crate::GANG_SCHEDULERS;
use serde_json::Value;
use volley_api::kube::{at, text};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Realm {
    /// Pods that ask for a scheduler of these names are placed by group.
    pub names: Vec<String>,
    /// Labels of nodes, of which a node must have one; none means all nodes.
    pub nodes: Vec<(String, String)>,
    /// The queue of groups that name none.
    pub default_queue: String,
}

impl Default for Realm {
    fn default() -> Self {
        let names = GANG_SCHEDULERS.map(str::to_owned).to_vec();
        Realm { names, nodes: Vec::new(), default_queue: "default".to_owned() }
    }
}

impl Realm {
    pub fn has_node(&self, node: &Value) -> bool {
        let label = |key: &str| at(node, "metadata.labels").and_then(|labels| labels.get(key)).and_then(Value::as_str);
        self.nodes.is_empty() || self.nodes.iter().any(|(key, value)| label(key) == Some(value))
    }

    /// The queue that the group is in.
    pub fn queue_of<'a>(&'a self, group: &'a Value) -> &'a str {
        Some(text(group, "spec.queue")).filter(|queue| !queue.is_empty()).unwrap_or(&self.default_queue)
    }
}
