//! Which object a user means by `train`, `job/train` or `pytorchjobs.kubeflow.org/train`.

use crate::target::{Cluster, Resource};
use anyhow::{Result, bail};
use futures::future::try_join_all;
use serde_json::Value;
use volley_api::kube::text;
use volley_plan::gang::hint::nearest;
use volley_plan::logs::kinds::{self, Kind};

pub fn resource(kind: &Kind) -> Resource {
    Resource { api_version: kind.api_version, plural: kind.plural }
}

/// So many names are easily read.
const NAMES_MAX: usize = 5;

/// The object, or a message that says what there is instead.
pub async fn resolve(cluster: &Cluster, namespace: &str, asked: &str) -> Result<(Kind, Value)> {
    let (word, name) = match asked.split_once('/') {
        Some((word, name)) => (Some(word), name),
        None => (None, asked),
    };
    let kinds: Vec<Kind> =
        kinds::all().into_iter().filter(|kind| word.is_none_or(|word| kind.is_called(word))).collect();
    let words: Vec<&str> = kinds::all().iter().map(|kind| kind.name).collect();
    if kinds.is_empty() {
        bail!("`{}` is no kind with logs\nhint: there are {}", word.unwrap_or_default(), words.join(", "));
    }
    let paths = kinds.iter().map(|kind| resource(kind).one(Some(namespace), name)).collect::<Result<Vec<_>>>()?;
    let objects = try_join_all(paths.iter().map(|path| cluster.find(path))).await?;
    let found: Vec<(Kind, Value)> =
        kinds.iter().cloned().zip(objects).filter_map(|(kind, object)| Some((kind, object?))).collect();
    if found.is_empty() {
        let others = others(cluster, namespace, &kinds).await?;
        bail!(
            "there is no {} `{name}` in namespace `{namespace}`\nhint: {}",
            word.unwrap_or("job or pod"),
            hint(name, namespace, &others)
        );
    }
    choose(found, name, namespace)
}

/// What there is of these kinds, as far as it may be listed: in all namespaces, or at least in this one.
async fn others(cluster: &Cluster, namespace: &str, kinds: &[Kind]) -> Result<Vec<(Kind, Value)>> {
    let mut found = Vec::new();
    for kind in kinds {
        let everywhere = cluster.list(&resource(kind).all(None)?).await;
        let listed = match everywhere {
            Ok(listed) => listed,
            Err(_) => cluster.list(&resource(kind).all(Some(namespace))?).await.unwrap_or_default(),
        };
        found.extend(listed.into_iter().map(|object| (kind.clone(), object)));
    }
    Ok(found)
}

/// The same name elsewhere, or the nearest one here; pods of jobs are asked about by their jobs.
fn hint(name: &str, namespace: &str, others: &[(Kind, Value)]) -> String {
    let elsewhere = others.iter().find(|(_, object)| text(object, "metadata.name") == name);
    if let Some((kind, object)) = elsewhere {
        let there = text(object, "metadata.namespace");
        return format!("{}/{name} is in namespace `{there}`: add -n {there}", full_word(kind));
    }
    let is_meant = |(_, object): &&(Kind, Value)| {
        text(object, "metadata.namespace") == namespace && object["metadata"]["ownerReferences"].is_null()
    };
    let here: Vec<&(Kind, Value)> = others.iter().filter(is_meant).collect();
    let near = nearest(name, here.iter().map(|(_, object)| text(object, "metadata.name")));
    let near = here.iter().find(|(_, object)| Some(text(object, "metadata.name")) == near);
    match near {
        Some((kind, object)) => format!("did you mean {}/{}?", full_word(kind), text(object, "metadata.name")),
        None if !here.is_empty() && here.len() <= NAMES_MAX => {
            let names =
                here.iter().map(|(kind, object)| format!("{}/{}", full_word(kind), text(object, "metadata.name")));
            format!("there is {}; -n names another namespace", names.collect::<Vec<_>>().join(", "))
        }
        None => "-n names another namespace; `volley vcjob list` and `kubectl get pods` show what is there".to_owned(),
    }
}

fn choose(mut found: Vec<(Kind, Value)>, name: &str, namespace: &str) -> Result<(Kind, Value)> {
    // What one of them owns is part of it: the job of a job of another kind, the pod of a job.
    let uids: Vec<Value> = found.iter().map(|(_, object)| object["metadata"]["uid"].clone()).collect();
    found.retain(|(_, object)| {
        let owners = object["metadata"]["ownerReferences"].as_array();
        !owners.into_iter().flatten().any(|owner| uids.contains(&owner["uid"]))
    });
    let full: Vec<String> = found.iter().map(|(kind, _)| format!("{}/{name}", full_word(kind))).collect();
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => Ok(only),
        (Some(_), false) => bail!(
            "`{name}` may be {} in namespace `{namespace}`\nhint: write `{}` to say which",
            full.join(" or "),
            full[0]
        ),
        // What owns another of them is never owned by it.
        (None, _) => bail!("nothing called `{name}` in namespace `{namespace}` is its own"),
    }
}

/// A word that means this kind and no other.
fn full_word(kind: &Kind) -> &str {
    if kind.name == "job" { "job.batch" } else { kind.name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn seen(name: &str, uid: &str, owner: &str) -> (Kind, Value) {
        let kind = kinds::all().into_iter().find(|kind| kind.name == name).unwrap();
        (kind, json!({"metadata": {"uid": uid, "ownerReferences": [{"uid": owner}]}}))
    }

    #[test]
    fn the_only_one_is_meant() {
        let (kind, _) = choose(vec![seen("job", "a", "")], "x", "default").unwrap();
        assert_eq!(kind.name, "job");
    }

    #[test]
    fn what_belongs_to_another_of_the_same_name_is_not_meant() {
        let (kind, _) = choose(vec![seen("vcjob", "a", ""), seen("pod", "b", "a")], "x", "default").unwrap();
        assert_eq!(kind.name, "vcjob");
    }

    #[test]
    fn of_several_the_user_has_to_say_which() {
        let both = vec![seen("vcjob", "a", ""), seen("job", "b", "")];
        let told = choose(both, "x", "default").unwrap_err().to_string();
        assert!(told.starts_with("`x` may be vcjob/x or job.batch/x in namespace `default`\nhint: "), "{told}");
    }

    #[test]
    fn what_is_not_there_is_told_where_it_is_or_what_is_called_nearly_so() {
        let named = |kind: &str, namespace: &str, name: &str, owners: Value| {
            let (kind, _) = seen(kind, "", "");
            (kind, json!({"metadata": {"namespace": namespace, "name": name, "ownerReferences": owners}}))
        };
        let others = [
            named("vcjob", "team", "train", Value::Null),
            named("pod", "default", "trail-0", json!([{"uid": "u"}])),
            named("job", "default", "trains", Value::Null),
        ];
        assert_eq!(hint("train", "default", &others), "vcjob/train is in namespace `team`: add -n team");
        assert_eq!(hint("trani", "default", &others), "did you mean job.batch/trains?");
        assert_eq!(hint("other", "default", &others), "there is job.batch/trains; -n names another namespace");
        assert_eq!(hint("trail-1", "default", &others[..2]).split(';').next(), Some("-n names another namespace"));
    }
}
