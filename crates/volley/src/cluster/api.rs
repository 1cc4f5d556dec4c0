//! `volley cluster api`: which kinds run here, which are only stored, and which are not served.
//!
//! The first two lists are the server's own catalogue. The third names what the rest of Kubernetes has, so that a
//! user need not find out by a 404.

use crate::output::{Output, Show};
use anyhow::Result;
use clap::Args;
use serde::Serialize;
use std::collections::BTreeSet;
use std::process::ExitCode;
use volley_cluster::apiserver::catalogue::{Catalogue, Resource, Role};
use volley_cluster::store::{self, Store};

const EXAMPLES: &str = "\
Examples:
  volley cluster api
  volley cluster api -o wide                 with kinds and short names
  volley cluster api -o json | jq -r '.stored[].resource'

Runs: something here acts on it. Stored: kept, listed and watched, but nothing acts on it; writers are warned.
Not served: a 404. Custom resources are served as soon as their definition is applied.";

/// List the kinds that run, are only stored, or are not served
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Api {
    #[command(flatten)]
    output: Output,
}

/// Kinds of Kubernetes that are left out, as group version, resource, kind.
const LEFT_OUT: &[(&str, &str, &str)] = &[
    ("admissionregistration.k8s.io/v1", "mutatingadmissionpolicies", "MutatingAdmissionPolicy"),
    ("admissionregistration.k8s.io/v1", "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io/v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy"),
    ("admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"),
    ("apiregistration.k8s.io/v1", "apiservices", "APIService"),
    ("certificates.k8s.io/v1", "certificatesigningrequests", "CertificateSigningRequest"),
    ("certificates.k8s.io/v1beta1", "clustertrustbundles", "ClusterTrustBundle"),
    ("coordination.k8s.io/v1beta1", "leasecandidates", "LeaseCandidate"),
    ("flowcontrol.apiserver.k8s.io/v1", "flowschemas", "FlowSchema"),
    ("flowcontrol.apiserver.k8s.io/v1", "prioritylevelconfigurations", "PriorityLevelConfiguration"),
    ("internal.apiserver.k8s.io/v1alpha1", "storageversions", "StorageVersion"),
    ("networking.k8s.io/v1", "ipaddresses", "IPAddress"),
    ("networking.k8s.io/v1", "servicecidrs", "ServiceCIDR"),
    ("storage.k8s.io/v1", "volumeattributesclasses", "VolumeAttributesClass"),
    ("storagemigration.k8s.io/v1beta1", "storageversionmigrations", "StorageVersionMigration"),
];

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Kind {
    api_version: String,
    resource: String,
    kind: String,
    short_names: Vec<String>,
    namespaced: Option<bool>,
}

/// The three lists.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Lists {
    runs: Vec<Kind>,
    stored: Vec<Kind>,
    not_served: Vec<Kind>,
}

impl Api {
    pub fn run(self) -> Result<ExitCode> {
        self.output.print(&lists())?;
        Ok(ExitCode::SUCCESS)
    }
}

fn lists() -> Lists {
    // The catalogue wants a store for its buckets; one in memory costs nothing and is gone at the end.
    let memory = Store::<()>::in_memory(store::Options::default());
    let catalogue = Catalogue::new(|name| memory.bucket(name), &[]);
    let (mut runs, mut stored) = (Vec::new(), Vec::new());
    for resource in catalogue.all() {
        match resource.role {
            // A question that is answered is as alive as can be.
            Role::Runs | Role::Answered => runs.push(Kind::of(resource)),
            Role::Stored => stored.push(Kind::of(resource)),
        }
    }
    let served: BTreeSet<(String, &str)> = catalogue.all().map(|r| (r.api_version(), &*r.plural)).collect();
    let not_served = LEFT_OUT.iter().filter(|(version, plural, _)| !served.contains(&((*version).to_owned(), *plural)));
    Lists { runs, stored, not_served: not_served.map(Kind::left_out).collect() }
}

impl Kind {
    fn of(resource: &std::sync::Arc<Resource>) -> Kind {
        Kind {
            api_version: resource.api_version(),
            resource: resource.plural.to_string(),
            kind: resource.kind.to_string(),
            short_names: resource.short_names.iter().map(ToString::to_string).collect(),
            namespaced: Some(resource.namespaced),
        }
    }

    fn left_out((api_version, resource, kind): &(&str, &str, &str)) -> Kind {
        Kind {
            api_version: (*api_version).to_owned(),
            resource: (*resource).to_owned(),
            kind: (*kind).to_owned(),
            short_names: Vec::new(),
            namespaced: None,
        }
    }

    /// As kubectl names it: `pods`, `jobs.batch`.
    fn name(&self) -> String {
        match self.api_version.split_once('/') {
            Some((group, _)) => format!("{}.{group}", self.resource),
            None => self.resource.clone(),
        }
    }
}

impl Lists {
    fn all(&self) -> impl Iterator<Item = (&'static str, &Kind)> {
        [("Runs", &self.runs), ("Stored", &self.stored), ("Not served", &self.not_served)]
            .into_iter()
            .flat_map(|(word, kinds)| kinds.iter().map(move |kind| (word, kind)))
    }
}

impl Show for Lists {
    fn rows(&self, wide: bool) -> Vec<Vec<String>> {
        let mut headings = vec!["HERE", "RESOURCE", "APIVERSION"];
        if wide {
            headings.extend(["KIND", "SHORTNAMES", "NAMESPACED"]);
        }
        let mut rows = vec![headings.into_iter().map(str::to_owned).collect()];
        for (word, kind) in self.all() {
            let mut row = vec![word.to_owned(), kind.resource.clone(), kind.api_version.clone()];
            if wide {
                let namespaced = kind.namespaced.map_or_else(String::new, |yes| yes.to_string());
                row.extend([kind.kind.clone(), kind.short_names.join(","), namespaced]);
            }
            rows.push(row);
        }
        rows
    }

    /// Only what is served, ready for `kubectl get`.
    fn names(&self) -> Vec<String> {
        self.runs.iter().chain(&self.stored).map(Kind::name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_in_exactly_one_list() {
        let lists = lists();
        let names: Vec<(&str, &str)> =
            lists.all().map(|(_, kind)| (kind.api_version.as_str(), kind.resource.as_str())).collect();
        assert_eq!(names.len(), names.iter().collect::<BTreeSet<_>>().len());
        let find = |wanted: &str| lists.all().find(|(_, kind)| kind.name() == wanted).map(|(word, _)| word);
        assert_eq!(find("pods"), Some("Runs"));
        assert_eq!(find("jobs.batch"), Some("Runs"));
        assert_eq!(find("statefulsets.apps"), Some("Stored"));
        assert_eq!(find("apiservices.apiregistration.k8s.io"), Some("Not served"));
    }
}
