//! Writing to groups: Volcano's in one call, those of others to the object and then to its status.
//!
//! The rest of the shell speaks of all groups in Volcano's words; here they become those of the group's own kind.

use crate::calls::{Calls, Refusal};
use crate::kinds::{GROUPS, KINDS, Row};
use crate::shell::Shell;
use serde_json::{Value, json};
use volley_plan::gang::objects::Key;
use volley_plan::pod_groups::{Origin, STATUS};

/// What is written to a group.
#[derive(Debug)]
pub struct GroupWrite {
    pub row: Row,
    pub key: Key,
    patch: Value,
    /// For a status of another kind than Volcano's.
    own: Option<Value>,
}

impl Shell {
    /// The write that a merge patch in Volcano's words comes to.
    pub fn group_write(&self, key: &Key, mut patch: Value) -> GroupWrite {
        let row = self.view.groups.get(key).copied().unwrap_or(GROUPS);
        let origin = KINDS[row].origin();
        let told = patch.as_object_mut().filter(|_| origin != Origin::Volcano).and_then(|patch| patch.remove("status"));
        let Some(Value::Object(told)) = told else { return GroupWrite { row, key: key.clone(), patch, own: None } };
        let gangs = &self.view.snapshot.gangs;
        let group = gangs.find(key).and_then(|gang| gangs[gang].group.as_ref());
        let mut status = group.and_then(|group| group.status.as_object()).cloned().unwrap_or_default();
        status.extend(told);
        let status = Value::Object(status);
        patch["metadata"]["annotations"][STATUS] = status.to_string().into();
        let own = json!({"metadata": {"uid": patch["metadata"]["uid"]}, "status": origin.own_status(&status)});
        GroupWrite { row, key: key.clone(), patch, own: Some(own) }
    }
}

impl Calls {
    pub async fn write_group(&self, write: &GroupWrite) -> Result<Value, Refusal> {
        let GroupWrite { row, key, patch, own } = write;
        match own {
            None => self.patch_status(*row, key, patch).await,
            Some(own) => {
                self.patch(*row, key, patch).await?;
                self.patch_status(*row, key, own).await
            }
        }
    }
}
