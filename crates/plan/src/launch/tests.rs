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
