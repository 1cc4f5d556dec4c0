//! Volcano's kinds as a table (spec/volcano.md 1.1): what a CustomResourceDefinition says beside its schema.

/// One kind.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub short_names: &'static [&'static str],
    pub is_namespaced: bool,
    /// Clients write a PodGroup's status with the whole object, so it has no subresource of its own (API-4).
    pub has_status: bool,
    pub columns: &'static [Column],
}

/// One column of `kubectl get`, beside the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    pub kind: &'static str,
    pub path: &'static str,
    /// Columns of priority 1 are shown by `-o wide` only.
    pub priority: i32,
}

const fn column(name: &'static str, kind: &'static str, path: &'static str, priority: i32) -> Column {
    Column { name, kind, path, priority }
}

const AGE: Column = column("Age", "date", ".metadata.creationTimestamp", 0);

pub const KINDS: &[Kind] = &[
    Kind {
        group: "batch.volcano.sh",
        version: "v1alpha1",
        kind: "Job",
        plural: "jobs",
        short_names: &["vcjob", "vj"],
        is_namespaced: true,
        has_status: true,
        columns: &[
            column("STATUS", "string", ".status.state.phase", 0),
            column("minAvailable", "integer", ".status.minAvailable", 0),
            column("RUNNINGS", "integer", ".status.running", 0),
            AGE,
            column("QUEUE", "string", ".spec.queue", 1),
        ],
    },
    Kind {
        group: "batch.volcano.sh",
        version: "v1alpha1",
        kind: "CronJob",
        plural: "cronjobs",
        short_names: &["cronvcjob", "cronvj"],
        is_namespaced: true,
        has_status: true,
        columns: &[
            column("SCHEDULE", "string", ".spec.schedule", 0),
            column("SUSPEND", "boolean", ".spec.suspend", 0),
            column("LAST-SCHEDULE", "date", ".status.lastScheduleTime", 0),
            AGE,
        ],
    },
    Kind {
        group: "bus.volcano.sh",
        version: "v1alpha1",
        kind: "Command",
        plural: "commands",
        short_names: &[],
        is_namespaced: true,
        has_status: false,
        columns: &[],
    },
    Kind {
        group: "scheduling.volcano.sh",
        version: "v1beta1",
        kind: "PodGroup",
        plural: "podgroups",
        short_names: &["pg", "podgroup-v1beta1"],
        is_namespaced: true,
        has_status: false,
        columns: &[
            column("STATUS", "string", ".status.phase", 0),
            column("minMember", "integer", ".spec.minMember", 0),
            column("RUNNINGS", "integer", ".status.running", 0),
            AGE,
            column("QUEUE", "string", ".spec.queue", 1),
        ],
    },
    Kind {
        group: "scheduling.volcano.sh",
        version: "v1beta1",
        kind: "Queue",
        plural: "queues",
        short_names: &["q", "queue-v1beta1"],
        is_namespaced: false,
        has_status: true,
        columns: &[column("PARENT", "string", ".spec.parent", 0)],
    },
    Kind {
        group: "topology.volcano.sh",
        version: "v1alpha1",
        kind: "HyperNode",
        plural: "hypernodes",
        short_names: &["hn"],
        is_namespaced: false,
        has_status: true,
        columns: &[
            column("Tier", "string", ".spec.tier", 0),
            column("TierName", "string", ".spec.tierName", 0),
            column("NodeCount", "integer", ".status.nodeCount", 0),
            AGE,
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    // API-1, API-2, API-3, API-4
    #[test]
    fn columns_are_those_that_readers_of_kubectl_know() {
        let columns = |kind: &str, priority: i32| -> Vec<&str> {
            let row = KINDS.iter().find(|row| row.kind == kind).unwrap();
            row.columns.iter().filter(|column| column.priority == priority).map(|column| column.name).collect()
        };
        assert_eq!(columns("Job", 0), ["STATUS", "minAvailable", "RUNNINGS", "Age"]);
        assert_eq!(columns("Job", 1), ["QUEUE"]);
        assert_eq!(columns("PodGroup", 0), ["STATUS", "minMember", "RUNNINGS", "Age"]);
        assert_eq!(columns("PodGroup", 1), ["QUEUE"]);
        assert_eq!(columns("Queue", 0), ["PARENT"]);
        assert_eq!(columns("HyperNode", 0), ["Tier", "TierName", "NodeCount", "Age"]);
        let with_status: Vec<&str> = KINDS.iter().filter(|row| row.has_status).map(|row| row.kind).collect();
        assert_eq!(with_status, ["Job", "CronJob", "Queue", "HyperNode"]);
    }
}
