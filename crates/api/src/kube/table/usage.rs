//! Rows of what nodes and pods use, as `kubectl get podmetrics` shows them.

use super::cell::{self, list};
use super::{Column, Printer};
use crate::kube::quantity::Quantity;
use crate::kube::text;
use jiff::Timestamp;
use serde_json::Value;

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("cpu", "Processor time per second."),
    Column::text("memory", "Memory that cannot be dropped at once."),
    Column::text("Window", "The time over which it was measured."),
];

pub const PRINTERS: &[Printer] = &[
    Printer { group: "metrics.k8s.io", kind: "NodeMetrics", columns: COLUMNS, cells: node_cells },
    Printer { group: "metrics.k8s.io", kind: "PodMetrics", columns: COLUMNS, cells: pod_cells },
];

fn node_cells(node: &Value, _now: Timestamp) -> Vec<Value> {
    vec![
        cell::name(node),
        text(node, "usage.cpu").into(),
        text(node, "usage.memory").into(),
        text(node, "window").into(),
    ]
}

fn pod_cells(pod: &Value, _now: Timestamp) -> Vec<Value> {
    let sum = |path: &str| {
        let amounts =
            list(pod, "containers").iter().filter_map(|container| Quantity::parse(text(container, path)).ok());
        amounts.reduce(|all, one| all + one).unwrap_or(Quantity::ZERO).to_string()
    };
    vec![cell::name(pod), sum("usage.cpu").into(), sum("usage.memory").into(), text(pod, "window").into()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_uses_what_its_containers_use() {
        let container = |cpu: &str, memory: &str| json!({"name": "c", "usage": {"cpu": cpu, "memory": memory}});
        let pod = json!({"metadata": {"name": "p"}, "window": "10s",
            "containers": [container("1500000n", "1024Ki"), container("500000n", "2Mi")]});
        assert_eq!(pod_cells(&pod, Timestamp::UNIX_EPOCH), ["p", "2m", "3Mi", "10s"]);
    }
}
