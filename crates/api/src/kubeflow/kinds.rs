//! The table of training jobs: everything in which PyTorchJob, TFJob, MPIJob, XGBoostJob, PaddleJob and JAXJob differ
//! as data. What differs as behaviour (environment, success, failure) is a `match` on `Kind` in the planner.

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    PyTorch,
    TensorFlow,
    Mpi,
    XgBoost,
    Paddle,
    Jax,
}

/// One kind of training job.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    pub kind: Kind,
    /// The kind on the wire, which also starts every condition's reason.
    pub name: &'static str,
    pub plural: &'static str,
    pub singular: &'static str,
    /// The field of `spec` that maps replica types to replicas.
    pub replica_specs: &'static str,
    /// In the order in which they are worked on (PT-REC-1).
    pub replica_types: &'static [&'static str],
    /// The types whose pod decides for the job when there is one.
    pub leaders: &'static [&'static str],
    /// Without a leader, whether worker 0 is labelled as the master.
    pub worker_zero_leads: bool,
    /// The container that trains; MPI has no name for it and takes the first.
    pub container: Option<&'static str>,
    pub port: Option<(&'static str, i32)>,
    pub restart_policy: &'static str,
    /// The value of the label `operator-name` and the source of events.
    pub component: &'static str,
    /// The value of the metrics' label `framework`.
    pub framework: &'static str,
    pub has_scale: bool,
}

const MASTER: &[&str] = &["Master"];
const MASTER_AND_WORKER: &[&str] = &["Master", "Worker"];

pub static ROWS: [Row; 6] = [
    Row {
        kind: Kind::PyTorch,
        name: "PyTorchJob",
        plural: "pytorchjobs",
        singular: "pytorchjob",
        replica_specs: "pytorchReplicaSpecs",
        replica_types: MASTER_AND_WORKER,
        leaders: MASTER,
        worker_zero_leads: true,
        container: Some("pytorch"),
        port: Some(("pytorchjob-port", 23456)),
        restart_policy: "OnFailure",
        component: "pytorchjob-controller",
        framework: "pytorch",
        has_scale: true,
    },
    Row {
        kind: Kind::TensorFlow,
        name: "TFJob",
        plural: "tfjobs",
        singular: "tfjob",
        replica_specs: "tfReplicaSpecs",
        replica_types: &["Chief", "Master", "PS", "Worker", "Evaluator"],
        leaders: &["Chief", "Master"],
        worker_zero_leads: true,
        container: Some("tensorflow"),
        port: Some(("tfjob-port", 2222)),
        restart_policy: "Never",
        component: "tfjob-controller",
        framework: "tensorflow",
        has_scale: false,
    },
    Row {
        kind: Kind::Mpi,
        name: "MPIJob",
        plural: "mpijobs",
        singular: "mpijob",
        replica_specs: "mpiReplicaSpecs",
        replica_types: &["Launcher", "Worker"],
        leaders: &["Launcher"],
        worker_zero_leads: false,
        container: None,
        port: None,
        restart_policy: "Never",
        component: "mpijob-controller",
        framework: "mpi",
        has_scale: false,
    },
    Row {
        kind: Kind::XgBoost,
        name: "XGBoostJob",
        plural: "xgboostjobs",
        singular: "xgboostjob",
        replica_specs: "xgbReplicaSpecs",
        replica_types: MASTER_AND_WORKER,
        leaders: MASTER,
        worker_zero_leads: false,
        container: Some("xgboost"),
        port: Some(("xgboostjob-port", 9999)),
        restart_policy: "Never",
        component: "xgboostjob-controller",
        framework: "xgboost",
        has_scale: false,
    },
    Row {
        kind: Kind::Paddle,
        name: "PaddleJob",
        plural: "paddlejobs",
        singular: "paddlejob",
        replica_specs: "paddleReplicaSpecs",
        replica_types: MASTER_AND_WORKER,
        leaders: MASTER,
        worker_zero_leads: false,
        container: Some("paddle"),
        port: Some(("master", 36543)),
        restart_policy: "OnFailure",
        component: "paddlejob-controller",
        framework: "paddle",
        has_scale: true,
    },
    Row {
        kind: Kind::Jax,
        name: "JAXJob",
        plural: "jaxjobs",
        singular: "jaxjob",
        replica_specs: "jaxReplicaSpecs",
        replica_types: &["Worker"],
        leaders: &[],
        worker_zero_leads: true,
        container: Some("jax"),
        port: Some(("jaxjob-port", 6666)),
        restart_policy: "Never",
        component: "jaxjob-controller",
        framework: "jax",
        has_scale: true,
    },
];

/// The row of a kind by its name on the wire.
pub fn row(kind: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == kind)
}

impl Row {
    /// The row's own spelling of a replica type, whatever the case it is written in (PT-DEF-2).
    pub fn replica_type(&self, written: &str) -> Option<&'static str> {
        self.replica_types.iter().copied().find(|name| name.eq_ignore_ascii_case(written))
    }

    /// A reason of this kind: `PyTorchJob` and `Running` make `PyTorchJobRunning`.
    pub fn reason(&self, word: &str) -> String {
        format!("{}{word}", self.name)
    }

    /// The columns of `kubectl get` beyond the name, with the paths they show (PT-RES-1).
    pub fn columns(&self) -> [(&'static str, &'static str, &'static str); 2] {
        [("State", "string", ".status.conditions[-1:].type"), ("Age", "date", ".metadata.creationTimestamp")]
    }

    /// The paths of the subresource `scale`: spec, status, selector.
    pub fn scale(&self) -> Option<[String; 3]> {
        let status = |field: &str| format!(".status.replicaStatuses.Worker.{field}");
        self.has_scale
            .then(|| [format!(".spec.{}.Worker.replicas", self.replica_specs), status("active"), status("selector")])
    }
}
