//! Before the operator starts: what the cluster lacks for it, in one message with what to do.

use anyhow::{Context, Result, bail};
use k8s_openapi::api::authorization::v1::{SelfSubjectRulesReview, SelfSubjectRulesReviewSpec};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::api::PostParams;
use kube::{Api, Client};
use std::collections::BTreeSet;
use volley_api::volcano::SCHEDULING;
use volley_operator::Options;
use volley_operator::manifests::{self, Grant};
use volley_plan::job::training::Gang;

/// A message that names more is not read.
const NAMED_MAX: usize = 12;
/// Where the PodGroups of scheduler-plugins are.
const PLUGINS: &str = "scheduling.x-k8s.io/v1alpha1";
const CRDS: &str = "hint: `volley operator manifests --only crds | kubectl apply -f -` installs them";
const RBAC: &str = "hint: `volley operator manifests --only rbac | kubectl apply -f -` makes an account with these rights; \
                    run the operator as it, or have an administrator bind its ClusterRole to you";

/// Fails when the operator could do nothing, and warns when it could do only a part.
pub async fn check(client: &Client, options: &Options) -> Result<()> {
    let election = options.election.as_ref();
    check_groups(client, options.training.gang.as_ref()).await?;
    let missing = missing_kinds(client).await?;
    if missing.len() == manifests::kinds().len() {
        bail!("none of the kinds that the operator looks after is defined on this cluster: {}\n{CRDS}", some(&missing));
    }
    if !missing.is_empty() {
        tracing::warn!("not defined on this cluster, and left alone until they are: {}; {CRDS}", some(&missing));
    }
    if let Some(election) = election {
        check_namespace(client, &election.namespace).await?;
    }
    let namespace = election.map_or("default", |election| &election.namespace);
    let lacking = lacking_rights(client, namespace, election.is_some()).await?;
    if !lacking.is_empty() {
        bail!("this account may not do what the operator does: {}\n{RBAC}", some(&lacking));
    }
    Ok(())
}

/// By asking what is served, which every account may do.
async fn missing_kinds(client: &Client) -> Result<Vec<String>> {
    let wanted = manifests::kinds();
    let mut served = BTreeSet::new();
    for version in wanted.iter().map(|(version, _)| version).collect::<BTreeSet<_>>() {
        match client.list_api_group_resources(version).await {
            Ok(list) => served.extend(list.resources.into_iter().map(|found| (version.clone(), found.name))),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error).context("failed to ask the cluster which kinds it serves"),
        }
    }
    let missing = wanted.into_iter().filter(|kind| !served.contains(kind));
    Ok(missing.map(|(version, plural)| format!("{plural}.{}", version.split('/').next().unwrap_or_default())).collect())
}

/// Jobs that wait for a PodGroup that nobody can make would wait for ever (PT-CFG-1).
async fn check_groups(client: &Client, gang: Option<&Gang>) -> Result<()> {
    let (version, scheduler) = match gang {
        None => return Ok(()),
        Some(Gang::Volcano) => (SCHEDULING, "volcano"),
        Some(Gang::Plugins(name)) => (PLUGINS, name.as_str()),
    };
    let is_served = |list: &APIResourceList| list.resources.iter().any(|found| found.kind == "PodGroup");
    match client.list_api_group_resources(version).await {
        Ok(list) if is_served(&list) => Ok(()),
        Ok(_) | Err(kube::Error::Api(_)) => bail!(
            "--gang-scheduler-name is `{scheduler}`, and its PodGroup ({version}) is not defined on this cluster\n\
             hint: install that scheduler's definitions, or leave the option out"
        ),
        Err(error) => Err(error).context("failed to ask the cluster which kinds it serves"),
    }
}

async fn check_namespace(client: &Client, name: &str) -> Result<()> {
    match Api::<Namespace>::all(client.clone()).get_opt(name).await {
        Ok(None) => bail!(
            "the namespace `{name}`, where replicas agree on who works, is not there\nhint: `kubectl create namespace \
             {name}`, or name another with --lease-namespace; --leader-elect=false works without, if this is the only replica"
        ),
        // Who may not look at namespaces may still use one.
        Ok(Some(_)) | Err(kube::Error::Api(_)) => Ok(()),
        Err(error) => Err(error).context("failed to reach the cluster's API"),
    }
}

async fn lacking_rights(client: &Client, namespace: &str, elects: bool) -> Result<Vec<String>> {
    let spec = SelfSubjectRulesReviewSpec { namespace: Some(namespace.to_owned()) };
    let review = SelfSubjectRulesReview { spec, ..SelfSubjectRulesReview::default() };
    let answer = Api::<SelfSubjectRulesReview>::all(client.clone()).create(&PostParams::default(), &review).await;
    let status = answer.context("failed to ask the cluster what this account may do")?.status.unwrap_or_default();
    // An authorizer that cannot list its rules may still allow everything.
    if status.incomplete {
        return Ok(Vec::new());
    }
    let granted: Vec<Grant> = status
        .resource_rules
        .into_iter()
        .filter(|rule| rule.resource_names.as_ref().is_none_or(Vec::is_empty))
        .map(|rule| Grant {
            groups: rule.api_groups.unwrap_or_default(),
            resources: rule.resources.unwrap_or_default(),
            verbs: rule.verbs,
        })
        .collect();
    Ok(manifests::lacking(&granted, elects))
}

fn some(names: &[String]) -> String {
    let named = names.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(NAMED_MAX) {
        Some(more @ 1..) => format!("{named}, and {more} more"),
        _ => named,
    }
}
