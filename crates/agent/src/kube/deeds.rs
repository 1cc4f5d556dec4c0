//! Deeds on a cluster. Each finds what an earlier try has done, so that it may be done again after a crash.

use super::Cluster;
use super::calls::{self, Kind, code, place, refusal};
use super::sight::{self, VERDICT};
use super::view::{Row, key_of};
use crate::attempt::Attempt;
use crate::runner::{Done, Failure};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use volley_api::kube::{text, time};
use volley_plan::agent::life::Deed;
use volley_plan::launch::kubernetes::Manifests;
use volley_plan::launch::label;
use volley_plan::launch::secrets::{Secret, owned};
use volley_plan::launch::services::{self, Auxiliary};

/// Services beside a workload have no common sign of readiness that could be watched.
const READY_PAUSE: Duration = Duration::from_millis(200);
/// Writers of the same object are few; each try reads it anew.
const TRIES_MAX: usize = 5;

pub async fn act(cluster: &Arc<Cluster>, attempt: &Attempt, deed: &Deed) -> Done {
    match deed {
        Deed::Submit => submit(cluster, attempt, attempt.manifests()?).await,
        Deed::Own => own(cluster, attempt).await,
        Deed::Mark(reason) => mark(cluster, attempt, reason).await,
        Deed::Delete => delete(cluster, present(cluster, attempt).into_iter().collect()).await,
        Deed::DeleteOlder => delete(cluster, older(cluster, attempt)).await,
        Deed::Release => release(cluster, present(cluster, attempt).into_iter().collect()).await,
        Deed::ReleaseOlder => release(cluster, older(cluster, attempt)).await,
        Deed::Sweep => sweep(cluster, attempt).await,
        Deed::Adopt
        | Deed::Acknowledge
        | Deed::Build
        | Deed::CancelBuild
        | Deed::Finish
        | Deed::Fail { .. }
        | Deed::Stopped
        | Deed::Requeue => Ok(()),
    }
}

fn present(cluster: &Cluster, attempt: &Attempt) -> Option<Value> {
    sight::present(&cluster.view.around(&attempt.key), attempt).cloned()
}

/// Attempts before this one; after a requeue also the one that was preempted.
fn older(cluster: &Cluster, attempt: &Attempt) -> Vec<Value> {
    let around = cluster.view.around(&attempt.key);
    sight::older(&around, attempt).into_iter().cloned().collect()
}

/// Takes an answer into the view, as the watch will do a moment later.
fn learn(cluster: &Cluster, row: Row, object: Value) {
    cluster.view.learn(row, object);
}

async fn submit(cluster: &Arc<Cluster>, attempt: &Attempt, manifests: &Manifests) -> Done {
    for secret in &manifests.secrets {
        put_secret(cluster, attempt, manifests, secret).await?;
    }
    for service in &manifests.services {
        put_service(cluster, service).await?;
    }
    for service in &manifests.services {
        attempt.unless_stopped(wait_until_ready(cluster, service)).await?;
    }
    let watched = attempt.unless_stopped(cluster.kind_of(&manifests.workload)).await?;
    let what = format!("{} `{}`", watched.kind.resource.kind, manifests.name());
    match calls::create(&cluster.client, &watched.kind, &manifests.namespace, &manifests.workload).await {
        Ok(made) => learn(cluster, row_of(&watched.kind), made),
        Err(error) if code(&error) == 409 => {
            let found = calls::get(&cluster.client, &watched.kind, &manifests.namespace, manifests.name()).await?;
            match found {
                Some(found) if key_of(&found) == Some(&attempt.key) => learn(cluster, row_of(&watched.kind), found),
                Some(_) => {
                    return Err(Failure::Refused(format!(
                        "{what} is there already, and is not of this item; hint: put `${{run_id}}` into the name in the queue's config"
                    )));
                }
                // It went between the two calls; the next look tries again.
                None => return Err(Failure::from(error)),
            }
        }
        Err(error) => return Err(refusal(error, &what)),
    }
    Ok(())
}

fn row_of(kind: &Kind) -> Row {
    if kind.resource.api_version == "v1" && kind.resource.kind == "Pod" { Row::Pod } else { Row::Workload }
}

/// Makes the Secret with what its keys hold; one of ours that is there gets what it should have (K-24).
async fn put_secret(cluster: &Cluster, attempt: &Attempt, manifests: &Manifests, secret: &Secret) -> Done {
    let kind = Kind::new("v1", "Secret", "secrets");
    let mut object = secret.manifest.clone();
    object["stringData"] = Value::Object(attempt.contents(secret)?);
    let namespace = manifests.namespace.as_str();
    let what = format!("Secret `{}`", secret.name());
    let made = match calls::create(&cluster.client, &kind, namespace, &object).await {
        Err(error) if code(&error) == 404 && cluster.makes_namespaces => {
            make_namespace(cluster, namespace).await?;
            calls::create(&cluster.client, &kind, namespace, &object).await
        }
        made => made,
    };
    let mut made = match made {
        Ok(made) => made,
        Err(error) if code(&error) == 409 => {
            let found = calls::get(&cluster.client, &kind, namespace, secret.name()).await?;
            let is_ours = |found: &Value| found["metadata"]["labels"][label::CREATED_BY] == "launch-agent";
            if found.is_some_and(|found| !is_ours(&found)) {
                return Err(Failure::Refused(format!("{what} is there already, and no agent has made it")));
            }
            let patch =
                json!({ "metadata": { "labels": object["metadata"]["labels"] }, "stringData": object["stringData"] });
            let patched = calls::patch(&cluster.client, &kind, &object, &patch).await?;
            patched.ok_or_else(|| Failure::from(error))?
        }
        Err(error) => return Err(refusal(error, &what)),
    };
    made["data"] = Value::Null;
    learn(cluster, Row::Helper, made);
    Ok(())
}

async fn make_namespace(cluster: &Cluster, name: &str) -> Done {
    let kind = Kind { is_namespaced: false, ..Kind::new("v1", "Namespace", "namespaces") };
    let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
    match calls::create(&cluster.client, &kind, "", &object).await {
        Ok(_) => Ok(()),
        Err(error) if code(&error) == 409 => Ok(()),
        Err(error) => Err(refusal(error, &format!("namespace `{name}`"))),
    }
}

async fn put_service(cluster: &Cluster, service: &Auxiliary) -> Done {
    let kind = cluster.plain_kind(&service.manifest).await?;
    let (namespace, name) = place(&service.manifest);
    match calls::create(&cluster.client, &kind, namespace, &service.manifest).await {
        Ok(_) => Ok(()),
        Err(error) if code(&error) == 409 => Ok(()),
        Err(error) => Err(refusal(error, &format!("{} `{name}` beside the workload", kind.resource.kind))),
    }
}

async fn wait_until_ready(cluster: &Cluster, service: &Auxiliary) -> Done {
    let Some(seconds) = service.wait_seconds else { return Ok(()) };
    let kind = cluster.plain_kind(&service.manifest).await?;
    let (namespace, name) = place(&service.manifest);
    let end = Instant::now() + Duration::from_secs(seconds);
    loop {
        let found = calls::get(&cluster.client, &kind, namespace, name).await?;
        let object = found.ok_or_else(|| Failure::Refused(format!("service `{name}` was deleted while it started")))?;
        let made = time::parse(text(&object, "metadata.creationTimestamp")).unwrap_or_else(Timestamp::now);
        let age = Timestamp::now().duration_since(made).as_secs();
        if services::is_ready(&object, endpoints(cluster, &object).await?, age) {
            return Ok(());
        }
        if Instant::now() >= end {
            let what = format!("service `{name}` ({}) was not ready after {seconds} s", kind.resource.kind);
            return Err(Failure::Refused(what));
        }
        tokio::time::sleep(READY_PAUSE).await;
    }
}

/// How many ready addresses a Service has.
async fn endpoints(cluster: &Cluster, object: &Value) -> Result<usize, Failure> {
    if text(object, "kind") != "Service" {
        return Ok(0);
    }
    let (namespace, name) = place(object);
    let found = calls::get(&cluster.client, &Kind::new("v1", "Endpoints", "endpoints"), namespace, name).await?;
    let subsets = found.map(|found| found["subsets"].as_array().cloned().unwrap_or_default()).unwrap_or_default();
    Ok(subsets.iter().filter_map(|subset| subset["addresses"].as_array()).map(Vec::len).sum())
}

/// What stands beside the workload goes with it (L-36, K-63).
async fn own(cluster: &Cluster, attempt: &Attempt) -> Done {
    let Some(workload) = present(cluster, attempt) else { return Ok(()) };
    let secret = Kind::new("v1", "Secret", "secrets");
    let patch = |manifest: &Value| json!({ "metadata": { "ownerReferences": owned(manifest, &workload)["metadata"]["ownerReferences"] } });
    let helpers: Vec<Value> = match attempt.manifests() {
        Ok(manifests) => manifests.secrets.iter().map(|secret| secret.manifest.clone()).collect(),
        Err(_) => cluster.view.around(&attempt.key).helpers,
    };
    for helper in &helpers {
        if let Some(mut made) = calls::patch(&cluster.client, &secret, helper, &patch(helper)).await? {
            made["data"] = Value::Null;
            learn(cluster, Row::Helper, made);
        }
    }
    for each in services_of(attempt) {
        let kind = cluster.plain_kind(&each.manifest).await?;
        calls::patch(&cluster.client, &kind, &each.manifest, &patch(&each.manifest)).await?;
    }
    Ok(())
}

/// Services beside the workload; of a launch that is refused now they are not known, and go with it.
fn services_of(attempt: &Attempt) -> &[Auxiliary] {
    attempt.manifests().map(|manifests| manifests.services.as_slice()).unwrap_or_default()
}

async fn mark(cluster: &Arc<Cluster>, attempt: &Attempt, reason: &str) -> Done {
    let Some(workload) = present(cluster, attempt) else { return Ok(()) };
    let watched = cluster.kind_of(&workload).await?;
    let patch = json!({ "metadata": { "annotations": { VERDICT: reason } } });
    if let Some(marked) = calls::patch(&cluster.client, &watched.kind, &workload, &patch).await? {
        learn(cluster, row_of(&watched.kind), marked);
    }
    Ok(())
}

async fn delete(cluster: &Arc<Cluster>, workloads: Vec<Value>) -> Done {
    for workload in workloads {
        if text(&workload, "metadata.deletionTimestamp").is_empty() || sight::is_deleted_alone(&workload) {
            let watched = cluster.kind_of(&workload).await?;
            calls::delete(&cluster.client, &watched.kind, &workload).await?;
            refresh(cluster, &watched.kind, &workload).await?;
        }
    }
    Ok(())
}

/// Takes our finalizer off, and no other.
async fn release(cluster: &Arc<Cluster>, workloads: Vec<Value>) -> Done {
    for workload in workloads {
        let watched = cluster.kind_of(&workload).await?;
        let mut object = workload;
        for tries_left in (0..TRIES_MAX).rev() {
            let all = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
            let kept: Vec<Value> = all.into_iter().filter(|each| each != label::FINALIZER).collect();
            let patch = json!({ "metadata": { "finalizers": kept, "uid": object["metadata"]["uid"],
                "resourceVersion": object["metadata"]["resourceVersion"] } });
            match calls::patch(&cluster.client, &watched.kind, &object, &patch).await {
                Ok(_) => break,
                Err(error) if code(&error) == 409 && tries_left > 0 => {
                    let (namespace, name) = place(&object);
                    let Some(found) = calls::get(&cluster.client, &watched.kind, namespace, name).await? else { break };
                    if found["metadata"]["uid"] != object["metadata"]["uid"] || !sight::is_held(&found) {
                        break;
                    }
                    object = found;
                }
                Err(error) => return Err(error.into()),
            }
        }
        refresh(cluster, &watched.kind, &object).await?;
    }
    Ok(())
}

/// Looks again at an object whose fate a call has changed, so that the next decision is by what is.
async fn refresh(cluster: &Cluster, kind: &Kind, object: &Value) -> Done {
    let (namespace, name) = place(object);
    match calls::get(&cluster.client, kind, namespace, name).await? {
        Some(found) => learn(cluster, row_of(kind), found),
        None => drop(cluster.view.forget(&super::view::place(row_of(kind), object), None)),
    }
    Ok(())
}

async fn sweep(cluster: &Arc<Cluster>, attempt: &Attempt) -> Done {
    let helpers = cluster.view.around(&attempt.key).helpers;
    let namespaces: BTreeSet<&str> = match attempt.manifests() {
        Ok(manifests) => BTreeSet::from([manifests.namespace.as_str()]),
        Err(_) => helpers.iter().map(|helper| text(helper, "metadata.namespace")).collect(),
    };
    let selector = format!("{}={},{}=launch-agent", label::ITEM, attempt.key, label::CREATED_BY);
    let mut kinds = vec![Kind::new("v1", "Secret", "secrets")];
    for service in services_of(attempt) {
        kinds.push(cluster.plain_kind(&service.manifest).await?);
    }
    for kind in &kinds {
        for namespace in &namespaces {
            calls::delete_all(&cluster.client, kind, namespace, &selector).await?;
        }
    }
    for helper in &helpers {
        cluster.view.forget(&super::view::place(Row::Helper, helper), None);
    }
    cluster.view.settle(&attempt.key);
    Ok(())
}
