//! Single objects that a job owns beside its pods and services: made, kept as wanted, deleted once.

use super::round::Round;
use crate::control::{Action, Propagation, difference};
use crate::job::head::target_of;
use serde_json::{Map, Value};
use volley_api::kube::text;

/// What must change for an object, or a part of one, to say what is wanted; what others added is theirs.
pub fn changes(current: Option<&Value>, wanted: Map<String, Value>) -> Option<Value> {
    let mut patch = Map::new();
    for (key, value) in wanted {
        let old = current.and_then(|current| current.get(&key)).unwrap_or(&Value::Null);
        patch.extend(difference(old, &value).map(|inner| (key, inner)));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// The object if the job owns it; one of that name that somebody else owns is not touched.
pub fn own<'a>(round: &Round<'a>, seen: Option<&'a Value>) -> Option<&'a Value> {
    seen.filter(|object| round.head.controls_object(object))
}

impl Round<'_> {
    pub fn create(&mut self, object: Value) {
        self.plan.actions.push(Action::Create { object, event: None });
    }

    pub fn patch(&mut self, object: &Value, patch: Value) {
        self.plan.actions.push(Action::Patch { target: target_of(object), patch });
    }

    /// Deletes an object unless that is under way, and says whether it did.
    pub fn delete(&mut self, object: &Value) -> bool {
        let is_new = text(object, "metadata.deletionTimestamp").is_empty();
        if is_new {
            let target = target_of(object);
            self.plan.actions.push(Action::Delete { target, propagation: Propagation::Background });
        }
        is_new
    }
}
