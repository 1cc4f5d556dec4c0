//! Looks at a job and its pods, now and again.

use super::resolve::resource;
use crate::target::{Cluster, escaped};
use crate::vcjob::PODS;
use anyhow::Result;
use serde_json::Value;
use std::collections::BTreeSet;
use volley_plan::logs::kinds::Kind;
use volley_plan::logs::sources::{self, Found, Run, Wanted};

/// What is looked at.
#[derive(Clone)]
pub struct Looker {
    pub cluster: Cluster,
    pub namespace: String,
    pub kind: Kind,
    pub object: Value,
    pub wanted: Wanted,
}

/// What was seen.
pub struct Look {
    pub has_ended: bool,
    pods: Vec<Value>,
}

impl Looker {
    /// Sees the job first: when it has ended, its pods are as they will stay.
    pub async fn look(&self) -> Result<Look> {
        let name = self.name();
        let path = resource(&self.kind).one(Some(&self.namespace), name)?;
        let object = self.cluster.find(&path).await?;
        let object = object.filter(|object| object["metadata"]["uid"] == self.object["metadata"]["uid"]);
        let has_ended = object.as_ref().is_none_or(|object| self.kind.has_ended(object));
        let pods = match self.kind.selector(&self.object) {
            None => object.into_iter().collect(),
            Some(selector) => {
                let all = PODS.all(Some(&self.namespace))?;
                let mut pods = self.cluster.list(&format!("{all}?labelSelector={}", escaped(&selector))).await?;
                pods.retain(|pod| self.kind.owns(&self.object, pod));
                pods
            }
        };
        Ok(Look { has_ended, pods })
    }

    pub fn find(&self, look: &Look, read: &BTreeSet<Run>) -> Found {
        sources::find(&self.object, &look.pods, &self.wanted, read)
    }

    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// `vcjob/train`
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.kind.name, self.name())
    }
}
