//! Rendering as a whole: what must hold whatever is launched.

use super::fixtures::{order, station};
use super::*;
use serde_json::{Value, json};

fn manifests(config: Value) -> kubernetes::Manifests {
    match render(&order(config), &station()).unwrap().submission {
        Submission::Kubernetes(manifests) => *manifests,
        other => panic!("{other:?}"),
    }
}

// R-7, K-39
#[test]
fn no_value_of_a_secret_is_in_what_is_rendered() {
    let mut order = order(json!({"spec": {"template": {"spec": {"containers": [
        {"env": [{"name": "T", "value": "secret://hf"}, {"name": "K", "value": "${WANDB_API_KEY}"}]}]}}}}));
    // An admin's: a launch that asks for one is refused.
    order.queue_config = Some(order.config.clone());
    order.spec.has_api_key = true;
    let mut station = station();
    station.environment.insert("WANDB_API_KEY".into(), "TOPSECRET".into());
    station.environment_allowed.push("*".into());
    let rendered = render(&order, &station).unwrap();
    assert!(!format!("{rendered:?}").contains("TOPSECRET"));
}

// L-27, L-33
#[test]
fn rendering_again_gives_the_same_and_another_attempt_another_name() {
    let config = json!({"metadata": {"name": "train-${run_id}"}});
    assert_eq!(manifests(config.clone()), manifests(config.clone()));
    let mut second = order(config);
    second.attempt = 2;
    let Submission::Kubernetes(second) = render(&second, &station()).unwrap().submission else { panic!() };
    assert_eq!(second.name(), "train-ab12cd34-2");
    assert_eq!(second.workload["metadata"]["labels"][label::ATTEMPT], "2");
}

// N-2
#[test]
fn each_resource_has_its_form() {
    let mut order = order(json!({}));
    order.spec.resource = "local-container".into();
    assert!(matches!(render(&order, &station()).unwrap().submission, Submission::Container(_)));
    order.spec.resource = "local-process".into();
    assert!(render(&order, &station()).is_err());
    order.spec.resource = "sagemaker".into();
    assert_eq!(render(&order, &station()).unwrap_err()[0].rule, "N-2");
}

// T-12
#[test]
fn what_a_submitter_chose_is_never_expanded() {
    let raw = json!({"metadata": {"annotations": {"a": "{{note}}", "b": "${run_name} {{note}}", "c": "${author}"}}});
    let values = std::collections::BTreeMap::from([("note".to_owned(), json!("${run_id} {{note}}"))]);
    let mut order = order(crate::queue::template::render(&raw, &values));
    order.template = Some(order::Template { raw, values });
    order.spec.name = Some("{{note}}".into());
    let Submission::Kubernetes(made) = render(&order, &station()).unwrap().submission else { panic!() };
    let annotations = &made.workload["metadata"]["annotations"];
    assert_eq!(annotations["a"], "${run_id} {{note}}");
    assert_eq!(annotations["b"], "{{note}} ${run_id} {{note}}");
    assert_eq!(annotations["c"], "alice");
}

// T-3, T-4, T-7, T-8, T-9, T-10, T-11, T-14
#[test]
fn template_values_keep_their_type_into_the_manifest() {
    use crate::queue::template::{Code, check, declare, render, values};
    let declared = r#"{"gpus": {"schema": {"type": "integer", "minimum": 1, "maximum": 4, "default": 1}},
        "name": {"schema": {"type": "string", "enum": ["a", "b"]}}}"#;
    let variables = declare(declared).unwrap();
    let config = json!({"limits": {"nvidia.com/gpu": "{{gpus}}"}, "list": ["{{name}}-{{ gpus }}", "{{{{x}}"]});
    assert!(check(&config, &variables).is_empty());
    let given = |text: &str| serde_json::from_str(text).unwrap();
    let chosen = values(&variables, &given(r#"{"gpus": 2.0, "name": "a"}"#)).unwrap();
    assert_eq!(render(&config, &chosen), json!({"limits": {"nvidia.com/gpu": 2}, "list": ["a-2", "{{x}}"]}));
    let codes = |text: &str| -> Vec<Code> {
        values(&variables, &given(text)).unwrap_err().into_iter().map(|problem| problem.code).collect()
    };
    assert_eq!(codes(r#"{"gpus": 0, "name": "a"}"#), [Code::Minimum]);
    assert_eq!(codes(r#"{"gpus": 5, "name": "a"}"#), [Code::Maximum]);
    assert_eq!(codes(r#"{"gpus": "two", "name": "c"}"#), [Code::Type, Code::Choice]);
    assert_eq!(codes(r#"{"other": 1}"#), [Code::Unknown, Code::Missing]);
}
