//! Warnings: what is accepted but probably not meant, told in `Warning` headers (spec K-ADM-8).

use super::text;
use serde_json::Value;
use std::collections::BTreeSet;

/// The warnings for a new object of this kind.
pub fn of(group: &str, kind: &str, object: &Value) -> Vec<String> {
    let template = match (group, kind) {
        ("", "Pod") => Some(("spec".to_owned(), &object["spec"])),
        ("batch", "CronJob") => Some((
            "spec.jobTemplate.spec.template.spec".to_owned(),
            &object["spec"]["jobTemplate"]["spec"]["template"]["spec"],
        )),
        ("batch", "Job") | ("apps", _) => Some(("spec.template.spec".to_owned(), &object["spec"]["template"]["spec"])),
        _ => None,
    };
    template.map(|(path, spec)| pod_spec(&path, spec)).unwrap_or_default()
}

fn pod_spec(path: &str, spec: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for list in ["initContainers", "containers"] {
        for (i, container) in spec[list].as_array().into_iter().flatten().enumerate() {
            let mut seen = BTreeSet::new();
            for (j, variable) in container["env"].as_array().into_iter().flatten().enumerate() {
                let name = text(variable, "name");
                if !seen.insert(name) {
                    warnings.push(format!(
                        "{path}.{list}[{i}].env[{j}]: hides previous definition of \"{name}\", which may be dropped when using apply"
                    ));
                }
            }
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // K-ADM-8
    #[test]
    fn a_hidden_variable_is_told() {
        let spec = json!({"containers": [{"env": [{"name": "A"}, {"name": "A"}, {"name": "B"}]}]});
        let text = "hides previous definition of \"A\", which may be dropped when using apply";
        assert_eq!(of("", "Pod", &json!({"spec": spec})), [format!("spec.containers[0].env[1]: {text}")]);
        let job = json!({"spec": {"template": {"spec": spec}}});
        assert_eq!(of("batch", "Job", &job), [format!("spec.template.spec.containers[0].env[1]: {text}")]);
        assert!(of("", "ConfigMap", &json!({})).is_empty());
    }
}
