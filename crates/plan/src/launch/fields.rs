//! The fields of a run spec (section 3 of the specification): which there are, and of what type each is.
//!
//! `wrong` tells all that cannot be read, when a spec is submitted and again when it is rendered. `unknown` tells what
//! nobody reads; that stops nothing, as W&B's clients may send what we do not know.

use super::layers::joined;
use super::{Note, Refusal};
use serde_json::{Map, Value};

#[derive(Clone, Copy)]
enum Form {
    Text,
    Whole,
    /// A list of texts and numbers.
    Words,
    Object,
    /// Known, and for others to read.
    Any,
}

use Form::{Any, Object, Text, Whole, Words};

type Table = [(&'static str, Form)];

const SPEC: &Table = &[
    ("_resume_count", Whole),
    ("_wandb_api_key", Text),
    ("additional_services", Any),
    ("author", Text),
    ("builder", Any),
    ("docker", Object),
    ("entity", Text),
    ("git", Any),
    ("image_uri", Text),
    ("job", Text),
    ("name", Text),
    ("overrides", Object),
    ("project", Text),
    ("python_version", Any),
    ("queue_entity", Text),
    ("registry", Any),
    ("repository", Any),
    ("resource", Text),
    ("resource_args", Object),
    ("run_id", Text),
    ("sweep_id", Text),
    ("template_variables", Object),
    ("uri", Text),
];
const DOCKER: &Table = &[("docker_image", Text), ("user_id", Whole)];
const OVERRIDES: &Table = &[
    ("args", Words),
    ("artifacts", Object),
    ("dockerfile", Text),
    ("entry_point", Words),
    ("files", Object),
    ("run_config", Object),
    ("working_dir", Text),
];
/// What `resource_args` is cut by, with W&B's older names.
const RESOURCES: &Table = &[
    ("builder", Any),
    ("docker", Object),
    ("gcp-vertex", Object),
    ("kubernetes", Object),
    ("local", Object),
    ("local-container", Object),
    ("local-process", Object),
    ("sagemaker", Object),
    ("slurm", Object),
    ("vertex", Object),
];
const PARTS: [(&str, &Table); 3] = [("docker", DOCKER), ("overrides", OVERRIDES), ("resource_args", RESOURCES)];

/// Everything in a spec that is not of its type. What is `null` is not there.
pub fn wrong(spec: &Map<String, Value>) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    judge(spec, SPEC, "", &mut refusals);
    for (part, table) in PARTS {
        if let Some(members) = spec.get(part).and_then(Value::as_object) {
            judge(members, table, part, &mut refusals);
        }
    }
    let args = spec.get("resource_args").and_then(Value::as_object);
    if let Some(args) = args.filter(|args| !args.is_empty() && args.keys().all(|key| !is_in(RESOURCES, key))) {
        let keys: Vec<String> = args.keys().map(|key| format!("`{key}`")).collect();
        let what = format!("has {}, but no config by the name of its resource", keys.join(", "));
        let hint = "put all of it one level down, below `kubernetes` or what the queue's resource is";
        refusals.push(Refusal::new("Q-5", "resource_args", what, hint));
    }
    refusals.extend(services(spec));
    refusals
}

fn judge(members: &Map<String, Value>, table: &Table, at: &str, refusals: &mut Vec<Refusal>) {
    for (key, form) in table {
        let Some(value) = members.get(*key).filter(|value| !value.is_null()) else { continue };
        let is_word = |item: &Value| item.is_string() || item.is_number();
        let (is_fit, what, hint) = match form {
            Text => (value.is_string(), "must be a text", "write it in quotes"),
            Whole => (value.is_u64(), "must be a whole number", "write it without quotes"),
            Words => {
                let is_fit = value.as_array().is_some_and(|items| items.iter().all(is_word));
                (is_fit, "must be a list of texts", "write one word per item")
            }
            Object => (value.is_object(), "must be an object", "write its keys and values below it"),
            Any => continue,
        };
        if !is_fit {
            refusals.push(Refusal::new("R-2", &joined(at, key), what, hint));
        }
    }
}

fn services(spec: &Map<String, Value>) -> Vec<Refusal> {
    let hint = "write a list of `name` and `config`, which is a manifest";
    let wrong = |path: &str, what: &str| Refusal::new("K-60", path, what, hint);
    match spec.get("additional_services") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(items)) => {
            let is_fit = |item: &Value| item.get("config").is_some_and(Value::is_object);
            let bad = items.iter().enumerate().filter(|(_, item)| !is_fit(item));
            bad.map(|(index, _)| wrong(&format!("additional_services[{index}]"), "has no `config`")).collect()
        }
        Some(_) => vec![wrong("additional_services", "must be a list")],
    }
}

/// Keys of a spec that nobody reads.
pub fn unknown(spec: &Map<String, Value>) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut tell = |at: &str, key: &str, text: &str| {
        notes.push(Note { rule: "R-1", path: joined(at, key), text: text.to_owned() });
    };
    for key in spec.keys().filter(|key| !is_in(SPEC, key)) {
        match key.as_str() {
            "queue" => tell("", key, "a run spec does not choose its queue; `--queue` does"),
            "priority" => tell("", key, "a run spec does not choose its priority; `--priority` does"),
            moved if is_in(OVERRIDES, moved) => tell("", key, "has no effect here; it belongs into `overrides`"),
            _ => {
                tell("", key, "is no field of a run spec, and has no effect; a run's config is `overrides.run_config`")
            }
        }
    }
    for (part, table) in PARTS {
        let members = spec.get(part).and_then(Value::as_object).into_iter().flatten();
        for (key, _) in members.filter(|(key, _)| !is_in(table, key)) {
            let known: Vec<&str> = table.iter().map(|(key, _)| *key).collect();
            tell(part, key, &format!("is not known there, and has no effect; known are {}", known.join(", ")));
        }
    }
    notes
}

fn is_in(table: &Table, key: &str) -> bool {
    table.iter().any(|(known, _)| *known == key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(spec: &Value) -> (Vec<String>, Vec<String>) {
        let spec = spec.as_object().unwrap();
        let refused = wrong(spec).iter().map(ToString::to_string).collect();
        (refused, unknown(spec).iter().map(ToString::to_string).collect())
    }

    // R-1, R-2
    #[test]
    fn what_w_and_bs_clients_send_is_known() {
        let of_the_command_line = json!({"entity": "alice", "project": "p", "docker": {"docker_image": "img:1"},
            "resource": null, "git": {}, "overrides": {}});
        let of_a_scheduler = json!({"uri": "placeholder-uri-scheduler", "job": null, "name": "Scheduler.WANDB_SWEEP_ID",
            "entity": "alice", "project": null, "docker": {}, "resource": "local-process", "git": {"version": "main"},
            "overrides": {"run_config": {"launch": {}, "scheduler": {}}, "args": ["--queue", "q", "-n", 8],
                "entry_point": ["wandb", "scheduler"]}, "run_id": "WANDB_SWEEP_ID", "registry": {"url": "r"}});
        let with_everything = json!({"job": "a/b/c:v0", "image_uri": null, "queue_entity": "team", "author": "alice",
            "sweep_id": "s", "python_version": 3.9, "builder": {"type": "noop"}, "repository": "r", "_resume_count": 1,
            "additional_services": [{"name": "s", "config": {"kind": "Service"}}], "_wandb_api_key": "k",
            "template_variables": {"n": 1}, "docker": {"docker_image": "", "user_id": 1000},
            "resource_args": {"kubernetes": {"kind": "Job"}, "docker": null},
            "overrides": {"files": {}, "artifacts": {}, "dockerfile": "D", "working_dir": "w", "args": null}});
        for spec in [of_the_command_line, of_a_scheduler, with_everything] {
            assert_eq!(told(&spec), (Vec::new(), Vec::new()), "{spec}");
        }
    }

    // R-2
    #[test]
    fn every_wrong_type_is_told_with_its_path() {
        let spec = json!({"name": 5, "docker": "img", "run_id": ["a"], "resource_args": [], "_resume_count": "1",
            "overrides": {"run_config": [1], "args": "--a", "entry_point": [{}], "dockerfile": 1},
            "template_variables": [1], "additional_services": [{"name": "s"}]});
        let (refused, noted) = told(&spec);
        assert_eq!(
            refused,
            [
                "`_resume_count`: must be a whole number; hint: write it without quotes",
                "`docker`: must be an object; hint: write its keys and values below it",
                "`name`: must be a text; hint: write it in quotes",
                "`resource_args`: must be an object; hint: write its keys and values below it",
                "`run_id`: must be a text; hint: write it in quotes",
                "`template_variables`: must be an object; hint: write its keys and values below it",
                "`overrides.args`: must be a list of texts; hint: write one word per item",
                "`overrides.dockerfile`: must be a text; hint: write it in quotes",
                "`overrides.entry_point`: must be a list of texts; hint: write one word per item",
                "`overrides.run_config`: must be an object; hint: write its keys and values below it",
                "`additional_services[0]`: has no `config`; hint: write a list of `name` and `config`, which is a manifest",
            ]
        );
        assert!(noted.is_empty(), "{noted:?}");
        for (args, path) in [
            (json!({"spec": {}, "kind": "Job"}), "resource_args"),
            (json!({"kubernetes": 3}), "resource_args.kubernetes"),
        ] {
            let (refused, _) = told(&json!({ "resource_args": args }));
            assert!(refused.len() == 1 && refused[0].starts_with(&format!("`{path}`: ")), "{refused:?}");
        }
    }

    // R-1
    #[test]
    fn what_nobody_reads_is_told() {
        let spec = json!({"lr": 0.1, "run_config": {"lr": 1}, "queue": "gpus", "priority": "high",
            "overrides": {"unknown": 1}, "resource_args": {"kubernetes": {}, "spec": {}}});
        let (refused, noted) = told(&spec);
        assert!(refused.is_empty(), "{refused:?}");
        let paths: Vec<&str> = noted.iter().filter_map(|note| note.split('`').nth(1)).collect();
        assert_eq!(paths, ["lr", "priority", "queue", "run_config", "overrides.unknown", "resource_args.spec"]);
        assert_eq!(noted[2], "`queue`: a run spec does not choose its queue; `--queue` does");
        assert_eq!(noted[3], "`run_config`: has no effect here; it belongs into `overrides`");
    }
}
