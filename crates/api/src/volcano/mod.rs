//! Volcano's objects on the wire (spec/volcano.md 1 and 2): what they look like, what is filled in, what is refused.
//!
//! `types` reads a Job's spec and status; `defaults`, `validate` and `update` are admission of Jobs, `queue` of Queues,
//! `group` of PodGroups, `cron` of CronJobs; `kinds` lists them all. `arguments` reads the arguments of job plugins as Go's flags are read.

pub mod arguments;
pub mod cron;
pub mod defaults;
pub mod definition;
pub mod group;
pub mod kinds;
pub mod policies;
pub mod queue;
pub mod types;
pub mod update;
pub mod validate;

pub const BATCH: &str = "batch.volcano.sh/v1alpha1";
pub const SCHEDULING: &str = "scheduling.volcano.sh/v1beta1";
pub const BUS: &str = "bus.volcano.sh/v1alpha1";

/// The job plugins that there are, in the order in which they edit a pod: `hcclrank` reads what the others set.
pub const PLUGINS: [&str; 8] = ["svc", "ssh", "env", "pytorch", "tensorflow", "mpi", "ray", "hcclrank"];

/// Labels and annotations (spec/volcano.md 1.7).
pub mod keys {
    pub const TASK: &str = "volcano.sh/task-spec";
    pub const INDEX: &str = "volcano.sh/task-index";
    pub const JOB: &str = "volcano.sh/job-name";
    pub const NAMESPACE: &str = "volcano.sh/job-namespace";
    pub const VERSION: &str = "volcano.sh/job-version";
    pub const RETRY: &str = "volcano.sh/job-retry-count";
    pub const QUEUE: &str = "volcano.sh/queue-name";
    pub const PARTITION: &str = "volcano.sh/partition-id";
    pub const TEMPLATE: &str = "volcano.sh/template-uid";
    pub const PREEMPTABLE: &str = "volcano.sh/preemptable";
    pub const COOLDOWN: &str = "volcano.sh/cooldown-time";
    pub const REVOCABLE_ZONE: &str = "volcano.sh/revocable-zone";
    pub const MIN_AVAILABLE: &str = "volcano.sh/jdb-min-available";
    pub const MAX_UNAVAILABLE: &str = "volcano.sh/jdb-max-unavailable";
    pub const NUMA_POLICY: &str = "volcano.sh/numa-topology-policy";
    pub const OUT_OF_SYNC: &str = "volcano.sh/controller-out-of-sync";
    pub const SCHEDULED: &str = "volcano.sh/cronjob-scheduled-timestamp";
    pub const HIERARCHY: &str = "volcano.sh/hierarchy";
    pub const HIERARCHY_WEIGHTS: &str = "volcano.sh/hierarchy-weights";
    pub const GROUP: &str = "scheduling.k8s.io/group-name";
}
