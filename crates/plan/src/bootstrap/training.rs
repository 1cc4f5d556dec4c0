//! The definitions of training kinds, which every embedded cluster serves from its first request on.
//!
//! Each carries the number of its edition. At start the API server looks whether `is_current` holds for all `names`; if
//! not, `outdated` says which to write: those that are missing, deleted ones too, and those of an older edition. Whoever
//! changes one keeps the change until the next edition, or for good with a higher number.

use crate::admit::training::RULES;
use serde_json::{Value, json};
use volley_api::kube::text;
use volley_api::kubeflow::kinds::ROWS;
use volley_api::{kubeflow, volcano};

const EDITION_KEY: &str = "volley.sh/edition";
/// To be raised with every change of a definition; a test knows the sum of those that go with it.
const EDITION: u32 = 5;

/// The definitions to be written, as they are to be stored: new ones bare, changed ones with their old metadata and status.
pub fn outdated(look_up: impl Fn(&str) -> Option<Value>) -> Vec<Value> {
    let mut written = Vec::new();
    for mut definition in definitions() {
        definition["metadata"]["annotations"] = json!({ EDITION_KEY: EDITION.to_string() });
        let Some(mut stored) = look_up(text(&definition, "metadata.name")) else {
            written.push(definition);
            continue;
        };
        if !is_current(&stored["metadata"]) && has_same_versions(&stored, &definition) {
            stored["spec"] = definition["spec"].take();
            stored["metadata"]["annotations"][EDITION_KEY] = EDITION.to_string().into();
            written.push(stored);
        }
    }
    written
}

/// The names of all of them.
pub fn names() -> impl Iterator<Item = String> {
    let volcano = volcano::kinds::KINDS.iter().map(|row| format!("{}.{}", row.plural, row.group));
    volcano.chain(ROWS.iter().map(|row| format!("{}.{}", row.plural, kubeflow::GROUP)))
}

fn definitions() -> impl Iterator<Item = Value> {
    let training = ROWS.iter().map(|row| kubeflow::definition::definition(row, RULES));
    volcano::definition::definitions().into_iter().chain(training)
}

/// Whether a definition with this metadata may stay as it is. One without a number is older than all of ours: somebody
/// brought it along.
pub fn is_current(metadata: &Value) -> bool {
    let written = metadata["annotations"][EDITION_KEY].as_str();
    written.and_then(|number| number.parse::<u32>().ok()).is_some_and(|edition| edition >= EDITION)
}

/// Objects in a version that we do not know could not be read any more, so such a definition is left alone.
fn has_same_versions(stored: &Value, definition: &Value) -> bool {
    let kept = stored["status"]["storedVersions"].as_array().into_iter().flatten();
    kept.into_iter().all(|version| *version == definition["spec"]["versions"][0]["name"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::custom::definition;

    /// What a cluster with these definitions is asked for.
    fn looked_up(stored: &[Value]) -> impl Fn(&str) -> Option<Value> + '_ {
        |name| stored.iter().find(|definition| text(definition, "metadata.name") == name).cloned()
    }

    fn written_names(written: &[Value]) -> Vec<&str> {
        written.iter().map(|definition| text(definition, "metadata.name")).collect()
    }

    // API-1, PT-RES-1
    #[test]
    fn a_new_cluster_gets_all_definitions_and_an_up_to_date_one_none() {
        let all = outdated(|_| None);
        assert_eq!(written_names(&all), names().collect::<Vec<_>>());
        for made in &all {
            let mut made = made.clone();
            definition::fill(&mut made);
            assert_eq!(definition::check(&made), [], "{}", made["metadata"]["name"]);
            assert!(definition::warnings(&made, None).is_empty());
        }
        assert!(outdated(looked_up(&all)).is_empty());
        assert_eq!(written_names(&outdated(looked_up(&all[1..]))), [text(&all[0], "metadata.name")]);
    }

    #[test]
    fn an_older_edition_is_replaced_and_a_users_change_stays() {
        let mut stored = outdated(|_| None);
        stored.iter_mut().for_each(|definition| definition["spec"]["conversion"] = json!("changed"));
        assert!(outdated(looked_up(&stored)).is_empty());
        stored[0]["metadata"] =
            json!({"name": stored[0]["metadata"]["name"], "uid": "u", "annotations": {"own": "mark"}});
        stored[1]["metadata"]["annotations"][EDITION_KEY] = json!("99");
        stored[2]["metadata"]["annotations"][EDITION_KEY] = json!("0");
        stored[2]["status"] = json!({"storedVersions": ["v1", "v9"]});
        let written = outdated(looked_up(&stored));
        assert_eq!(written_names(&written), [text(&stored[0], "metadata.name")]);
        assert_eq!(written[0]["metadata"]["annotations"], json!({"own": "mark", EDITION_KEY: EDITION.to_string()}));
        assert_eq!((&written[0]["metadata"]["uid"], written[0]["spec"].get("conversion")), (&json!("u"), None));
    }

    /// The sum (FNV-1a) of all definitions of this edition.
    const SUM: u64 = 0x4d78_4f28_40e9_7eea;

    #[test]
    fn a_changed_definition_is_a_new_edition() {
        let text: String = definitions().map(|definition| definition.to_string()).collect();
        let step = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let sum = text.bytes().fold(0xcbf2_9ce4_8422_2325, step);
        assert_eq!(sum, SUM, "a definition has changed: raise EDITION, then set SUM to {sum:#x}");
    }
}
