//! What is refused: every problem of an object at once, with paths and texts as the reference words them.
//!
//! A kind's own rules stand in the table of its file; `create` and `update` add what is true of all kinds. Objects
//! come here decoded, defaulted and admitted, with their name already generated.

pub mod place;
mod compare;
pub mod metadata;
mod pod;
mod pod_affinity;
mod pod_container;
mod pod_env;
mod pod_probe;
mod pod_resources;
mod pod_security;
pub mod pod_update;
mod pod_volumes;
mod job;
mod job_policy;
mod cron_job;
mod schedule;
mod workloads;
mod rollout;
mod service;
mod address;
mod endpoints;
mod ingress;
mod network_policy;
mod config;
mod quota;
mod limit_range;
mod event;
mod claim;
mod volume;
mod storage;
mod access;
mod policy;
pub mod reviews;
pub mod status;

use super::field::FieldError;
use super::text;
use metadata::{metadata, metadata_update, name_rule};
use place::{Place, problems};
use serde_json::Value;

/// The rules of one built-in kind beyond its metadata.
struct Rule {
    group: &'static str,
    kind: &'static str,
    is_namespaced: bool,
    /// What holds whenever the object is written.
    always: fn(&Place),
    /// What holds for a new object only.
    create: fn(&Place),
    /// What holds for a change only; the stored object comes second.
    update: fn(&Place, &Value),
    /// Fields that stay as they were created.
    fixed: &'static [&'static str],
}

impl Rule {
    const fn of(group: &'static str, kind: &'static str, always: fn(&Place)) -> Rule {
        Rule { group, kind, is_namespaced: true, always, create: |_| {}, update: |_, _| {}, fixed: &[] }
    }

    const fn cluster_wide(self) -> Rule {
        Rule { is_namespaced: false, ..self }
    }

    const fn on_create(self, create: fn(&Place)) -> Rule {
        Rule { create, ..self }
    }

    const fn on_update(self, update: fn(&Place, &Value)) -> Rule {
        Rule { update, ..self }
    }

    const fn fixed(self, fixed: &'static [&'static str]) -> Rule {
        Rule { fixed, ..self }
    }
}

/// One row set per file; the first match wins.
const TABLES: &[&[Rule]] = &[
    pod::RULES,
    job::RULES,
    cron_job::RULES,
    workloads::RULES,
    service::RULES,
    endpoints::RULES,
    ingress::RULES,
    network_policy::RULES,
    config::RULES,
    quota::RULES,
    limit_range::RULES,
    event::RULES,
    volume::RULES,
    storage::RULES,
    access::RULES,
    policy::RULES,
];

fn rule(group: &str, kind: &str) -> Option<&'static Rule> {
    TABLES.iter().flat_map(|table| table.iter()).find(|rule| rule.group == group && rule.kind == kind)
}

/// Everything wrong with a new object of a built-in kind.
///
/// A kind without a row has its metadata checked; its scope is then read off the object itself.
pub fn create(group: &str, kind: &str, object: &Value) -> Vec<FieldError> {
    let rule = rule(group, kind);
    let meta = &object["metadata"];
    let is_namespaced = rule.map_or_else(|| !text(meta, "namespace").is_empty(), |rule| rule.is_namespaced);
    let mut errors = metadata(meta, name_rule(group, kind), is_namespaced);
    errors.extend(finalizers(group, meta));
    if let Some(rule) = rule {
        errors.extend(problems(object, "", |object| {
            (rule.always)(object);
            (rule.create)(object);
        }));
    }
    errors
}

/// Everything wrong with replacing `old` by `new`, of a built-in kind.
pub fn update(group: &str, kind: &str, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = metadata_update(&new["metadata"], &old["metadata"]);
    errors.extend(finalizers(group, &new["metadata"]));
    if let Some(rule) = rule(group, kind) {
        errors.extend(problems(new, "", |new| {
            (rule.always)(new);
            new.fixed(old, rule.fixed);
            (rule.update)(new, old);
        }));
    }
    errors
}

/// Custom resource definitions have a finalizer without a domain, and the reference's rule is laxer there.
fn finalizers(group: &str, meta: &Value) -> Vec<FieldError> {
    if group == "apiextensions.k8s.io" { Vec::new() } else { metadata::standard_finalizers(meta) }
}

#[cfg(test)]
mod kinds_tests;
