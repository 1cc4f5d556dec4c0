//! How long running jobs will take, from what their objects say: an estimate, a time limit, or how long they took before.
//!
//! The scheduler reads an annotation of the PodGroup and the pods' own deadlines; what the jobs above them say is filled in
//! there, in the copy of the cluster that questions are asked about.

use super::world::World;
use super::{list, moment, name};
use crate::gang::read::ESTIMATE;
use crate::gang::snapshot::Kind;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use volley_api::kube::time::parse_duration;
use volley_api::kube::{at, text};

/// `jobs` are those of all kinds, running or ended.
pub fn fill_in(world: &mut World, jobs: &[Value]) {
    let past = history(jobs);
    let mut known: BTreeMap<&str, i64> = BTreeMap::new();
    for job in jobs {
        if let Some(seconds) = said(job).or_else(|| past.get(&series(job)).copied()) {
            known.insert(text(job, "metadata.uid"), seconds);
        }
    }
    let of = |object: &Value| {
        list(object, "metadata.ownerReferences").find_map(|owner| known.get(text(owner, "uid")).copied())
    };
    for group in world.of_mut(Kind::PodGroup) {
        let is_said = group["metadata"]["annotations"][ESTIMATE].is_string();
        if let Some(seconds) = of(group).filter(|_| !is_said) {
            group["metadata"]["annotations"][ESTIMATE] = json!(format!("{seconds}s"));
        }
    }
    for pod in world.of_mut(Kind::Pod) {
        let is_limited = at(pod, "spec.activeDeadlineSeconds").is_some_and(Value::is_i64);
        if let Some(seconds) = of(pod).filter(|_| !is_limited) {
            pod["spec"]["activeDeadlineSeconds"] = json!(seconds);
        }
    }
}

/// By the job's own word, or its limit.
fn said(job: &Value) -> Option<i64> {
    let estimate = Some(text(job, "spec.runningEstimate")).filter(|said| !said.is_empty()).and_then(parse_duration);
    let limit = ["spec.runPolicy.activeDeadlineSeconds", "spec.activeDeadlineSeconds"];
    let limit = limit.into_iter().find_map(|path| at(job, path).and_then(Value::as_i64));
    estimate.map(|estimate| estimate.as_secs()).or(limit).filter(|seconds| *seconds > 0)
}

/// What makes jobs runs of the same one: the kind, the namespace, and the owner or the name without its number.
fn series(job: &Value) -> (String, String, String) {
    let owner = list(job, "metadata.ownerReferences").next().map(|owner| text(owner, "uid"));
    let base = name(job).trim_end_matches(|letter: char| letter.is_ascii_digit()).trim_end_matches('-');
    let owner = owner.unwrap_or(base).to_owned();
    (format!("{}/{}", text(job, "apiVersion"), text(job, "kind")), text(job, "metadata.namespace").to_owned(), owner)
}

/// How long the runs of each series took that have succeeded, on average.
fn history(jobs: &[Value]) -> BTreeMap<(String, String, String), i64> {
    let mut found: BTreeMap<(String, String, String), Vec<i64>> = BTreeMap::new();
    for job in jobs {
        if let Some(seconds) = took(job) {
            found.entry(series(job)).or_default().push(seconds);
        }
    }
    found.into_iter().map(|(key, all)| (key, all.iter().sum::<i64>() / all.len().max(1) as i64)).collect()
}

fn took(job: &Value) -> Option<i64> {
    let has_succeeded = text(job, "status.state.phase") == "Completed"
        || list(job, "status.conditions")
            .any(|one| matches!(text(one, "type"), "Complete" | "Succeeded") && text(one, "status") == "True");
    if !has_succeeded {
        return None;
    }
    let told = parse_duration(text(job, "status.runningDuration")).map(|duration| duration.as_secs());
    let begun = moment(job, "status.startTime")?.as_second();
    told.or_else(|| Some(moment(job, "status.completionTime")?.as_second() - begun)).filter(|seconds| *seconds > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world() -> World {
        let owner = json!([{"uid": "u"}]);
        World {
            objects: vec![
                (Kind::PodGroup, vec![json!({"metadata": {"name": "g", "ownerReferences": owner}})]),
                (Kind::Pod, vec![json!({"metadata": {"name": "p", "ownerReferences": owner}, "spec": {}})]),
            ],
            ..World::default()
        }
    }

    #[track_caller]
    fn check(jobs: &[Value], seconds: Option<i64>) {
        let mut world = world();
        fill_in(&mut world, jobs);
        let group = world.of(Kind::PodGroup)[0]["metadata"]["annotations"][ESTIMATE].as_str();
        assert_eq!(group, seconds.map(|seconds| format!("{seconds}s")).as_deref());
        assert_eq!(world.of(Kind::Pod)[0]["spec"]["activeDeadlineSeconds"].as_i64(), seconds);
    }

    #[test]
    fn estimates_come_from_the_jobs_word_its_limit_or_its_past() {
        let job = |spec: Value| json!({"kind": "Job", "metadata": {"uid": "u", "name": "train-3", "namespace": "d"}, "spec": spec});
        check(&[job(json!({}))], None);
        check(&[job(json!({"runningEstimate": "1h"}))], Some(3600));
        check(&[job(json!({"runPolicy": {"activeDeadlineSeconds": 60}}))], Some(60));
        let past = |name: &str, end: &str| {
            json!({"kind": "Job", "metadata": {"uid": name, "name": name, "namespace": "d"}, "status": {
                "startTime": "2026-01-01T00:00:00Z", "completionTime": end,
                "conditions": [{"type": "Complete", "status": "True"}]}})
        };
        let earlier = [past("train-1", "2026-01-01T00:10:00Z"), past("train-2", "2026-01-01T00:20:00Z")];
        check(&[&earlier[..], &[job(json!({}))]].concat(), Some(900));
        check(&[past("other-1", "2026-01-01T00:10:00Z"), job(json!({}))], None);
    }
}
