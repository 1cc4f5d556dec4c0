//! Which object a user means by `train`, `job/train` or `pytorchjobs.kubeflow.org/train`.

use crate::target::{Cluster, Resource};
use anyhow::{Result, bail};
use futures::future::try_join_all;
use serde_json::Value;
use volley_plan::logs::kinds::{self, Kind};

pub fn resource(kind: &Kind) -> Resource {
    Resource { api_version: kind.api_version, plural: kind.plural }
}

/// The object, or a message that says what there is instead.
pub async fn resolve(cluster: &Cluster, namespace: &str, text: &str) -> Result<(Kind, Value)> {
    let (word, name) = match text.split_once('/') {
        Some((word, name)) => (Some(word), name),
        None => (None, text),
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
        kinds.into_iter().zip(objects).filter_map(|(kind, object)| Some((kind, object?))).collect();
    choose(found, name, namespace, word)
}

fn choose(mut found: Vec<(Kind, Value)>, name: &str, namespace: &str, word: Option<&str>) -> Result<(Kind, Value)> {
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
        (None, _) => bail!(
            "there is no {} `{name}` in namespace `{namespace}`\nhint: -n names another namespace; `volley vcjob list` \
             and `kubectl get pods` show what is there",
            word.unwrap_or("job or pod"),
        ),
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
        let (kind, _) = choose(vec![seen("job", "a", "")], "x", "default", None).unwrap();
        assert_eq!(kind.name, "job");
    }

    #[test]
    fn what_belongs_to_another_of_the_same_name_is_not_meant() {
        let (kind, _) = choose(vec![seen("vcjob", "a", ""), seen("pod", "b", "a")], "x", "default", None).unwrap();
        assert_eq!(kind.name, "vcjob");
    }

    #[test]
    fn of_several_the_user_has_to_say_which() {
        let both = vec![seen("vcjob", "a", ""), seen("job", "b", "")];
        let told = choose(both, "x", "default", None).unwrap_err().to_string();
        assert!(told.starts_with("`x` may be vcjob/x or job.batch/x in namespace `default`\nhint: "), "{told}");
    }

    #[test]
    fn nothing_is_told_with_its_namespace() {
        let told = choose(Vec::new(), "x", "team", Some("vcjob")).unwrap_err().to_string();
        assert!(told.starts_with("there is no vcjob `x` in namespace `team`"), "{told}");
    }
}
