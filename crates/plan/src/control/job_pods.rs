//! The pods of a Job as they are sent to the server, and what their annotations say (K-JOB-2).

use super::job::{Round, TRACKING_FINALIZER};
use super::job_policy::Verdict;
use super::{controller_reference, name_of, to_value};
use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
const FAILURE_COUNT: &str = "batch.kubernetes.io/job-index-failure-count";
const IGNORED_FAILURE_COUNT: &str = "batch.kubernetes.io/job-index-ignored-failure-count";
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// A generated name has at most 63 characters, five of which the server adds.
const GENERATE_NAME_MAX: usize = 58;

fn annotation<T: std::str::FromStr>(pod: &Pod, key: &str) -> Option<T> {
    pod.metadata.annotations.as_ref()?.get(key)?.parse().ok()
}

pub fn completion_index(pod: &Pod) -> Option<i32> {
    annotation(pod, COMPLETION_INDEX).filter(|index| *index >= 0)
}

/// How often this index had failed before the pod was made.
pub fn failures_before(pod: &Pod) -> i32 {
    annotation(pod, FAILURE_COUNT).unwrap_or(0)
}

/// How many pods this index had before this one: failures that count and failures that were ignored.
pub fn attempts(pod: &Pod) -> i32 {
    failures_before(pod) + annotation::<i32>(pod, IGNORED_FAILURE_COUNT).unwrap_or(0)
}

/// A new pod of the Job, for an index or none, which takes over the failure counts of the pod it replaces.
pub fn build(round: &Round, index: Option<i32>, replaced: Option<&Pod>) -> Value {
    let job_name = name_of(&round.job.metadata);
    let template = &round.spec.template;
    let made_by_user = template.metadata.clone().unwrap_or_default();
    let mut metadata = ObjectMeta {
        generate_name: Some(format!("{job_name}-")),
        namespace: round.job.metadata.namespace.clone(),
        labels: made_by_user.labels,
        annotations: made_by_user.annotations,
        finalizers: made_by_user.finalizers,
        owner_references: Some(vec![controller_reference(round.job)]),
        ..ObjectMeta::default()
    };
    let finalizers = metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|name| name == TRACKING_FINALIZER) {
        finalizers.push(TRACKING_FINALIZER.to_owned());
    }
    let mut spec = template.spec.clone().unwrap_or_default();
    if let Some(index) = index {
        let suffix = format!("-{index}-");
        let kept = job_name.len().min(GENERATE_NAME_MAX - suffix.len());
        metadata.generate_name = Some(format!("{}{suffix}", &job_name[..kept]));
        metadata.labels.get_or_insert_default().insert(COMPLETION_INDEX.to_owned(), index.to_string());
        metadata.annotations.get_or_insert_default().insert(COMPLETION_INDEX.to_owned(), index.to_string());
        spec.hostname = Some(format!("{job_name}-{index}"));
        spec.init_containers.iter_mut().flatten().for_each(add_index_variable);
        spec.containers.iter_mut().for_each(add_index_variable);
        if round.failed_indexes.is_some() {
            add_failure_counts(round, replaced, &mut metadata);
        }
    }
    to_value(&Pod { metadata, spec: Some(spec), status: None })
}

fn add_index_variable(container: &mut Container) {
    let variables = container.env.get_or_insert_default();
    if variables.iter().any(|variable| variable.name == INDEX_VARIABLE) {
        return;
    }
    let field_path = format!("metadata.labels['{COMPLETION_INDEX}']");
    let source = EnvVarSource {
        field_ref: Some(ObjectFieldSelector { api_version: None, field_path }),
        ..EnvVarSource::default()
    };
    variables.push(EnvVar { name: INDEX_VARIABLE.to_owned(), value: None, value_from: Some(source) });
}

fn add_failure_counts(round: &Round, replaced: Option<&Pod>, metadata: &mut ObjectMeta) {
    let (mut counted, mut ignored) = (0, 0);
    if let Some(pod) = replaced {
        counted = failures_before(pod);
        ignored = attempts(pod) - counted;
        match round.verdict(pod) {
            Verdict::Ignore => ignored += 1,
            Verdict::Count | Verdict::FailIndex | Verdict::FailJob(_) => counted += 1,
        }
    }
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.insert(FAILURE_COUNT.to_owned(), counted.to_string());
    if ignored > 0 {
        annotations.insert(IGNORED_FAILURE_COUNT.to_owned(), ignored.to_string());
    }
}
