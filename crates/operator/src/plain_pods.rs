//! Pods that no job of ours made but our scheduler is to place: each gets a PodGroup, its own or its owner's.

use crate::apply::Synced;
use crate::cache::controller;
use crate::kinds::{self, own};
use crate::queue::Key;
use crate::shell::Shell;
use crate::volcano::silent;
use volley_api::kube::text;
use volley_plan::job::plain_pods::{self, Observed};

impl Shell {
    pub async fn sync_plain_pod(&self, key: &Key) -> Synced {
        let Some(pod) = self.cache.get(key.kind, &key.namespace, &key.name) else { return Ok(None) };
        let owner = match controller(&pod) {
            Some(owner) => match kinds::find(text(owner, "apiVersion"), text(owner, "kind")) {
                Some(kind) => self.ask(kind, &key.namespace, text(owner, "name")).await?,
                None => None,
            },
            None => None,
        };
        let group = self.cache.get(own::group(), &key.namespace, &plain_pods::group_name(&pod));
        let names = &self.options.realm.names;
        let plan = plain_pods::plan(&Observed { pod: &pod, owner: owner.as_ref(), group: group.as_deref() }, names);
        self.apply(plan, &silent).await
    }

    /// Keeps an owner's group in step with it.
    pub async fn sync_owner(&self, key: &Key) -> Synced {
        let Some(owner) = self.ask(key.kind, &key.namespace, &key.name).await? else { return Ok(None) };
        let name = plain_pods::group_of(text(&owner, "metadata.uid"));
        let group = self.cache.get(own::group(), &key.namespace, &name);
        self.apply(plain_pods::plan_owner(&owner, group.as_deref()), &silent).await
    }
}
