//! Reading a training job: the object becomes a value in which every default of the reference is filled in (PT-DEF).
//!
//! The planner works on this and never looks at the raw object again.

use super::kinds::{Kind, Row};
use super::types::{ElasticPolicy, JobStatus, ReplicaSpec, RunPolicy};
use super::{Rules, fill, validate};
use crate::kube::field::{FieldError, Problem};
use crate::kube::{at, text};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A training job of any kind.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingJob {
    pub row: &'static Row,
    pub name: String,
    pub namespace: String,
    pub uid: String,
    /// In the order of the row's replica types.
    pub replicas: Vec<Replica>,
    pub run_policy: RunPolicy,
    pub elastic: Option<ElasticPolicy>,
    /// `None` where the deprecated integer of the elastic policy stands in for it.
    pub nproc_per_node: Option<String>,
    /// TFJob: `AllWorkers`, or worker 0 decides.
    pub waits_for_all_workers: bool,
    /// TFJob.
    pub has_dynamic_workers: bool,
    /// MPIJob.
    pub slots_per_worker: i32,
    /// MPIJob: where the launcher's commands run.
    pub main_container: Option<String>,
    pub status: JobStatus,
}

/// One replica type of a job, with its defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct Replica {
    pub type_: &'static str,
    pub count: i32,
    pub restart_policy: RestartPolicy,
    /// As JSON, so that fields we do not know reach the pods.
    pub template: Value,
    /// The number of the port that the job's addresses name.
    pub port: Option<i32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestartPolicy {
    Always,
    OnFailure,
    Never,
    ExitCode,
}

impl RestartPolicy {
    pub const NAMES: [&str; 4] = ["Always", "OnFailure", "Never", "ExitCode"];

    pub fn parse(text: &str) -> Option<RestartPolicy> {
        match text {
            "Always" => Some(RestartPolicy::Always),
            "OnFailure" => Some(RestartPolicy::OnFailure),
            "Never" => Some(RestartPolicy::Never),
            "ExitCode" => Some(RestartPolicy::ExitCode),
            _ => None,
        }
    }

    /// What the pod is told; exit codes are judged by us (PT-POD-5).
    pub fn of_pod(self) -> &'static str {
        match self {
            RestartPolicy::Always => "Always",
            RestartPolicy::OnFailure => "OnFailure",
            RestartPolicy::Never | RestartPolicy::ExitCode => "Never",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CleanPodPolicy {
    None,
    Running,
    All,
}

impl CleanPodPolicy {
    pub const NAMES: [&str; 3] = ["None", "Running", "All"];

    pub fn parse(text: &str) -> Option<CleanPodPolicy> {
        match text {
            "None" => Some(CleanPodPolicy::None),
            "Running" => Some(CleanPodPolicy::Running),
            "All" => Some(CleanPodPolicy::All),
            _ => None,
        }
    }
}

impl TrainingJob {
    /// Reads a stored object; what admission would refuse is refused here too, for clusters where nobody admits.
    pub fn read(row: &'static Row, object: &Value, rules: Rules) -> Result<TrainingJob, Vec<FieldError>> {
        let errors = validate::validate(row, object, None, rules);
        if !errors.is_empty() {
            return Err(errors);
        }
        let mut spec = object.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
        if !rules.is_strict {
            fill::fold_legacy(row, &mut spec, None);
        } else if let (Some(policy), true) = (spec.get("cleanPodPolicy").cloned(), row.container.is_none()) {
            let run_policy = spec.entry("runPolicy").or_insert_with(|| json!({}));
            if run_policy.get("cleanPodPolicy").is_none() {
                run_policy["cleanPodPolicy"] = policy;
            }
        }
        let field = |name: &str| spec.get(name).unwrap_or(&Value::Null);
        let elastic: Option<ElasticPolicy> = part("spec.elasticPolicy", field("elasticPolicy"))?;
        let nproc: Option<String> = part("spec.nprocPerNode", field("nprocPerNode"))?;
        let is_replaced = elastic.as_ref().is_some_and(|policy| policy.n_proc_per_node.is_some());
        Ok(TrainingJob {
            row,
            name: text(object, "metadata.name").to_owned(),
            namespace: text(object, "metadata.namespace").to_owned(),
            uid: text(object, "metadata.uid").to_owned(),
            replicas: replicas(row, field(row.replica_specs))?,
            run_policy: part::<Option<RunPolicy>>("spec.runPolicy", field("runPolicy"))?.unwrap_or_default(),
            elastic,
            nproc_per_node: nproc.or_else(|| (!is_replaced).then(|| "auto".to_owned())),
            waits_for_all_workers: field("successPolicy") == "AllWorkers",
            has_dynamic_workers: field("enableDynamicWorker") == &Value::Bool(true),
            slots_per_worker: part::<Option<i32>>("spec.slotsPerWorker", field("slotsPerWorker"))?.unwrap_or(1),
            main_container: part("spec.mainContainer", field("mainContainer"))?,
            status: part::<Option<JobStatus>>("status", object.get("status").unwrap_or(&Value::Null))?
                .unwrap_or_default(),
        })
    }

    pub fn replica(&self, type_: &str) -> Option<&Replica> {
        self.replicas.iter().find(|replica| replica.type_ == type_)
    }

    /// The replica whose pod decides for the job, if the job has one.
    pub fn leader(&self) -> Option<&Replica> {
        self.row.leaders.iter().find_map(|type_| self.replica(type_))
    }

    /// All pods that the job asks for.
    pub fn total(&self) -> i32 {
        self.replicas.iter().fold(0, |sum, replica| sum.saturating_add(replica.count))
    }

    pub fn is_suspended(&self) -> bool {
        self.run_policy.suspend == Some(true)
    }

    /// The name of a pod and of its service (PT-POD-1); MPI's only launcher goes without an index.
    pub fn pod_name(&self, type_: &str, index: i32) -> String {
        let type_ = type_.to_lowercase();
        match self.row.container {
            None if type_ == "launcher" => format!("{}-{type_}", self.name),
            Some(_) | None => format!("{}-{type_}-{index}", self.name),
        }
    }
}

impl Replica {
    pub fn containers(&self) -> &[Value] {
        at(&self.template, "spec.containers").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    /// The index of the container that trains.
    pub fn main_container(&self, row: &Row) -> Option<usize> {
        let containers = self.containers();
        match row.container {
            Some(name) => containers.iter().position(|container| text(container, "name") == name),
            None => (!containers.is_empty()).then_some(0),
        }
    }

    /// Gives the main container the kind's port unless it has one of that name (PT-DEF-4).
    fn add_port(&mut self, row: &Row) {
        let (Some((name, number)), Some(index)) = (row.port, self.main_container(row)) else {
            return;
        };
        let container = &mut self.template["spec"]["containers"][index];
        let ports = container.get("ports").and_then(Value::as_array).cloned().unwrap_or_default();
        let named = ports.iter().find(|port| text(port, "name") == name);
        let given = named.and_then(|port| port.get("containerPort")).and_then(Value::as_i64);
        self.port = given.and_then(|port| i32::try_from(port).ok()).or(Some(number));
        if named.is_none() {
            let added = json!({ "name": name, "containerPort": number });
            container["ports"] = ports.into_iter().chain([added]).collect();
        }
    }
}

/// One part of the object as its type; a value of another shape is a problem at its path.
fn part<T: DeserializeOwned>(path: &str, value: &Value) -> Result<T, Vec<FieldError>> {
    serde_json::from_value(value.clone())
        .map_err(|error| vec![FieldError::new(path, Problem::TypeInvalid, format!("Invalid value: {error}"))])
}

fn replicas(row: &'static Row, specs: &Value) -> Result<Vec<Replica>, Vec<FieldError>> {
    let mut replicas = Vec::new();
    let entries = specs.as_object().into_iter().flatten();
    let entries: Vec<_> = entries.filter_map(|(key, spec)| Some((row.replica_type(key)?, spec))).collect();
    for type_ in row.replica_types {
        let Some((_, spec)) = entries.iter().find(|(key, _)| key == type_) else {
            continue;
        };
        let spec: ReplicaSpec = part(&format!("spec.{}[{type_}]", row.replica_specs), spec)?;
        let policy = spec.restart_policy.as_deref().unwrap_or(row.restart_policy);
        let mut replica = Replica {
            type_,
            // A launcher may do all the work itself.
            count: spec.replicas.unwrap_or(if row.kind == Kind::Mpi && *type_ == "Worker" { 0 } else { 1 }),
            // Validation has refused every other word; an empty one means the default.
            restart_policy: RestartPolicy::parse(policy)
                .or(RestartPolicy::parse(row.restart_policy))
                .unwrap_or(RestartPolicy::Never),
            template: spec.template,
            port: None,
        };
        replica.add_port(row);
        replicas.push(replica);
    }
    Ok(replicas)
}
