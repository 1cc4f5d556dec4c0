//! The variables that a workload is given, the same for every runner (section 5.5 of the specification).

use super::order::{Order, Station};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// JSON longer than this is cut into pieces `NAME_0`, `NAME_1`, … which the tracking client joins again.
pub const PIECE_MAX: usize = 32_670;
/// Above this, Kubernetes gets the inputs as files too: all variables of a process share one small space.
pub const FILE_FROM: usize = 8 * 1024;
const SCHEME: &str = "secret://";

/// What a variable holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Given {
    Text(String),
    /// The credential of the run.
    ApiKey,
    /// A team's secret, by name.
    Secret(String),
    /// A field of the pod that it runs in.
    Field(&'static str),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    pub name: String,
    pub value: Given,
    /// It says whose run this is: nobody else's value takes its place.
    pub is_identity: bool,
}

impl Variable {
    pub fn text(name: &str, value: impl Into<String>) -> Variable {
        Variable { name: name.to_owned(), value: Given::Text(value.into()), is_identity: false }
    }

    pub fn identity(name: &str, value: impl Into<String>) -> Variable {
        Variable { is_identity: true, ..Variable::text(name, value) }
    }
}

/// All variables, in the order of the specification, then the same under our own name.
pub fn variables(order: &Order, station: &Station) -> Vec<Variable> {
    let mut all = tracking(order, station);
    all.extend(inputs(order));
    let own: Vec<Variable> = all.iter().filter(|variable| !is_piece(&variable.name)).filter_map(renamed).collect();
    all.extend(own);
    all.push(Variable::identity("VOLLEY_ATTEMPT", order.attempt.to_string()));
    all.extend(secrets(order));
    all
}

fn tracking(order: &Order, station: &Station) -> Vec<Variable> {
    let spec = &order.spec;
    let mut all = vec![
        Variable::identity("WANDB_BASE_URL", &station.base_url),
        Variable { name: "WANDB_API_KEY".to_owned(), value: Given::ApiKey, is_identity: true },
    ];
    if !spec.project.is_empty() {
        all.push(Variable::text("WANDB_PROJECT", &spec.project));
    }
    all.push(Variable::identity("WANDB_ENTITY", &spec.entity));
    all.push(Variable::identity("WANDB_LAUNCH", "True"));
    all.push(Variable::identity("WANDB_RUN_ID", &order.run_id));
    if let (true, Some(image)) = (order.is_image_job, &order.image) {
        all.push(Variable::text("WANDB_DOCKER", image));
    }
    all.extend(spec.name.iter().map(|name| Variable::text("WANDB_NAME", name)));
    if !spec.has_api_key {
        all.extend(spec.author.iter().map(|author| Variable::identity("WANDB_USERNAME", author)));
    }
    all.extend(spec.sweep.iter().map(|sweep| Variable::identity("WANDB_SWEEP_ID", sweep)));
    if spec.resumes > 0 || order.attempt > 1 {
        all.push(Variable::text("WANDB_RESUME", "allow"));
    }
    all.push(Variable::identity("WANDB_LAUNCH_QUEUE_NAME", &order.queue));
    all.push(Variable::identity("WANDB_LAUNCH_QUEUE_ENTITY", &order.queue_entity));
    all.push(Variable::identity("WANDB_LAUNCH_TRACE_ID", &order.item));
    // The agent tells the console of every rank; told by the tracking client as well, each line would come twice.
    all.push(Variable::text("WANDB_CONSOLE", "off"));
    all
}

/// What the launch hands to the program.
fn inputs(order: &Order) -> Vec<Variable> {
    let overrides = &order.spec.overrides;
    let mut all = pieces("WANDB_CONFIG", &json_text(&overrides.run_config));
    all.extend(pieces("WANDB_LAUNCH_FILE_OVERRIDES", &json_text(&overrides.files)));
    let mut artifacts = Map::new();
    if let Some(job) = &order.job {
        artifacts.insert("_wandb_job".to_owned(), json!(job.reference));
    }
    artifacts.extend(overrides.artifacts.clone());
    all.push(Variable::identity("WANDB_ARTIFACTS", json_text(&artifacts)));
    all
}

pub fn json_text(object: &Map<String, Value>) -> String {
    Value::Object(object.clone()).to_string()
}

fn pieces(name: &str, text: &str) -> Vec<Variable> {
    if text.chars().count() <= PIECE_MAX {
        return vec![Variable::identity(name, text)];
    }
    let letters: Vec<char> = text.chars().collect();
    let piece =
        |(index, piece): (usize, &[char])| Variable::identity(&format!("{name}_{index}"), String::from_iter(piece));
    letters.chunks(PIECE_MAX).enumerate().map(piece).collect()
}

fn is_piece(name: &str) -> bool {
    let is_numbered = name.rsplit_once('_').is_some_and(|(_, end)| end.bytes().all(|digit| digit.is_ascii_digit()));
    is_numbered && (name.starts_with("WANDB_CONFIG") || name.starts_with("WANDB_LAUNCH_FILE_OVERRIDES"))
}

fn renamed(variable: &Variable) -> Option<Variable> {
    let name = format!("VOLLEY_{}", variable.name.strip_prefix("WANDB_")?);
    Some(Variable { name, ..variable.clone() })
}

/// `secret://NAME` among the inputs: the program finds the secret in a variable of that name, in capitals.
fn secrets(order: &Order) -> Vec<Variable> {
    let mut names = BTreeSet::new();
    for value in order.spec.overrides.run_config.values().chain(order.spec.overrides.files.values()) {
        gather(value, &mut names);
    }
    let variable = |name: String| Variable { name: name.to_uppercase(), value: Given::Secret(name), is_identity: true };
    names.into_iter().map(variable).collect()
}

fn gather(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => names.extend(secret_name(text).map(str::to_owned)),
        Value::Array(items) => items.iter().for_each(|item| gather(item, names)),
        Value::Object(members) => members.values().for_each(|member| gather(member, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) => (),
    }
}

/// The secret that a text refers to.
pub fn secret_name(text: &str) -> Option<&str> {
    let is_name =
        |name: &str| !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    text.strip_prefix(SCHEME).filter(|name| is_name(name))
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{order, station};
    use super::*;

    fn names(all: &[Variable]) -> Vec<&str> {
        all.iter().map(|variable| variable.name.as_str()).filter(|name| name.starts_with("WANDB_")).collect()
    }

    // A-29, L-24
    #[test]
    fn the_workload_knows_its_run() {
        let all = variables(&order(json!({})), &station());
        assert_eq!(
            names(&all),
            [
                "WANDB_BASE_URL", "WANDB_API_KEY", "WANDB_PROJECT", "WANDB_ENTITY", "WANDB_LAUNCH", "WANDB_RUN_ID",
                "WANDB_DOCKER", "WANDB_USERNAME", "WANDB_LAUNCH_QUEUE_NAME", "WANDB_LAUNCH_QUEUE_ENTITY",
                "WANDB_LAUNCH_TRACE_ID", "WANDB_CONSOLE", "WANDB_CONFIG", "WANDB_LAUNCH_FILE_OVERRIDES",
                "WANDB_ARTIFACTS"
            ]
        );
        let value = |name: &str| all.iter().find(|variable| variable.name == name).unwrap().value.clone();
        assert_eq!(value("VOLLEY_RUN_ID"), Given::Text("ab12cd34".into()));
        assert_eq!(value("VOLLEY_API_KEY"), Given::ApiKey);
        assert_eq!(value("VOLLEY_ATTEMPT"), Given::Text("1".into()));
        assert_eq!(value("WANDB_CONFIG"), Given::Text("{}".into()));
        let mut again = order(json!({}));
        again.attempt = 2;
        again.spec.name = Some("nice".into());
        again.spec.sweep = Some("s".into());
        again.spec.has_api_key = true;
        let all = variables(&again, &station());
        let has = |name: &str| names(&all).contains(&name);
        assert!(has("WANDB_RESUME") && has("WANDB_NAME") && has("WANDB_SWEEP_ID") && !has("WANDB_USERNAME"));
    }

    //
    #[test]
    fn long_inputs_come_in_pieces_that_join_again() {
        let mut order = order(json!({}));
        order.spec.overrides.run_config.insert("text".into(), json!("한".repeat(70_000)));
        let all = variables(&order, &station());
        let pieces: Vec<&Variable> = all.iter().filter(|variable| variable.name.starts_with("WANDB_CONFIG")).collect();
        assert_eq!(
            pieces.iter().map(|piece| &*piece.name).collect::<Vec<_>>(),
            ["WANDB_CONFIG_0", "WANDB_CONFIG_1", "WANDB_CONFIG_2"]
        );
        let text = |piece: &&Variable| match &piece.value {
            Given::Text(text) => text.clone(),
            other => panic!("{other:?}"),
        };
        let joined: String = pieces.iter().map(text).collect();
        assert_eq!(joined, json_text(&order.spec.overrides.run_config));
        assert!(all.iter().any(|variable| variable.name == "WANDB_LAUNCH_FILE_OVERRIDES"));
        assert!(!all.iter().any(|variable| variable.name.starts_with("VOLLEY_CONFIG")));
    }

    //
    #[test]
    fn a_secret_among_the_inputs_becomes_a_variable() {
        let mut order = order(json!({}));
        order.spec.overrides.run_config.insert("token".into(), json!(["secret://hf_token", "secret://not ok"]));
        let all = variables(&order, &station());
        let found = all.iter().find(|variable| variable.name == "HF_TOKEN").unwrap();
        assert_eq!(found.value, Given::Secret("hf_token".into()));
        assert_eq!(all.iter().filter(|variable| matches!(variable.value, Given::Secret(_))).count(), 1);
    }
}
