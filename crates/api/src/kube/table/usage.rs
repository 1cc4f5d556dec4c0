//! Rows of what nodes and pods use, as `kubectl get podmetrics` shows them.

use super::Cell::{self, Made, Text};
use super::cell::list;
use super::{Column, Printer};
use crate::kube::quantity::Quantity;
use crate::kube::text;
use serde_json::Value;

const METRICS: &str = "metrics.k8s.io";
const WINDOW: Column = Column::text("Window", "The time over which it was measured.", Text("window"));

const fn cpu(cell: Cell) -> Column {
    Column::text("cpu", "Processor time per second.", cell)
}

const fn memory(cell: Cell) -> Column {
    Column::text("memory", "Memory that cannot be dropped at once.", cell)
}

pub(super) const PRINTERS: &[Printer] = &[
    Printer::of(METRICS, "NodeMetrics").columns(&[
        Column::NAME,
        cpu(Text("usage.cpu")),
        memory(Text("usage.memory")),
        WINDOW,
    ]),
    Printer::of(METRICS, "PodMetrics").columns(&[
        Column::NAME,
        cpu(Made(|pod| sum(pod, "usage.cpu"))),
        memory(Made(|pod| sum(pod, "usage.memory"))),
        WINDOW,
    ]),
];

fn sum(pod: &Value, path: &str) -> Value {
    let amounts = list(pod, "containers").iter().filter_map(|container| Quantity::parse(text(container, path)).ok());
    amounts.reduce(|all, one| all + one).unwrap_or(Quantity::ZERO).to_string().into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn a_pod_uses_what_its_containers_use() {
        let container = |cpu: &str, memory: &str| json!({"name": "c", "usage": {"cpu": cpu, "memory": memory}});
        let pod = json!({"metadata": {"name": "p"}, "window": "10s",
            "containers": [container("1500000n", "1024Ki"), container("500000n", "2Mi")]});
        let cells = super::super::cells("metrics.k8s.io", "PodMetrics", &pod, jiff::Timestamp::UNIX_EPOCH);
        assert_eq!(cells, ["p", "2m", "3Mi", "10s"]);
    }
}
