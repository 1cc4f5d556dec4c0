//! A run spec out of a file and flags, with all that stands against it told at once.

use super::Launch;
use crate::queue::document::Document;
use crate::remote::Session;
use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::process::Command;
use volley_client::jobs::JobPath;
use volley_plan::launch::fields;
use volley_plan::launch::layers::{self, Mode};
use volley_plan::launch::order::PROJECT_DEFAULT;
use volley_plan::queue::template::{self, Variable};

const PRIORITIES: [&str; 4] = ["critical", "high", "medium", "low"];
/// As W&B's clients send it where somebody has chosen none.
const PRIORITY_DEFAULT: i64 = 2;
/// What `resource_args` may be cut by.
const RESOURCES: [&str; 6] = ["kubernetes", "local-container", "local-process", "docker", "sagemaker", "vertex"];

/// What is submitted.
pub struct Launching {
    pub spec: Value,
    pub values: Value,
    pub priority: Option<i64>,
    pub queue_entity: String,
    /// What in the file nobody reads.
    pub notes: Vec<String>,
}

/// What stands against a launch, a line each.
pub fn told(problems: &[impl AsRef<str>]) -> String {
    match problems {
        [only] => only.as_ref().replacen("; hint: ", "\nhint: ", 1),
        all => {
            let lines: Vec<String> = all.iter().map(|problem| format!("\n  - {}", problem.as_ref())).collect();
            format!("{} things stand against this launch:{}", all.len(), lines.concat())
        }
    }
}

impl Launching {
    pub async fn read(launch: &Launch, session: &Session) -> Result<Launching> {
        let mut problems = Vec::new();
        let mut spec = match &launch.config {
            Some(config) => object(config, "the run spec")?,
            None => Map::new(),
        };
        problems.extend(fields::wrong(&spec).iter().map(ToString::to_string));
        let notes = fields::unknown(&spec).iter().map(ToString::to_string).collect();
        let mut values = take_object(&mut spec, "template_variables");
        let of_file = || launch.remote.entity.clone().or_else(|| text(&spec, "entity"));
        let queue_entity = text(&spec, "queue_entity").or_else(of_file).unwrap_or_else(|| session.entity.clone());
        fill_in(&mut spec, launch, session, &mut problems);
        let queue = session.client.queue(&queue_entity, &launch.queue).await?;
        let variables = match &queue {
            Some(queue) => declared(queue),
            None => {
                problems.push(missing_queue(session, &queue_entity, &launch.queue).await?);
                Vec::new()
            }
        };
        for word in &launch.variables {
            match word.split_once('=') {
                Some((name, value)) => drop(values.insert(name.to_owned(), template::worded(&variables, name, value))),
                None => problems.push(format!("`--set-var {word}` has no value; hint: {word}=VALUE")),
            }
        }
        let has_priorities = queue.as_ref().is_some_and(|queue| queue["prioritizationMode"] == "V0");
        let priority = priority(launch.priority.as_deref(), queue.is_some() && !has_priorities, &mut problems);
        let filled = template::values(&variables, &values).unwrap_or_else(|found| {
            problems.extend(found.iter().filter(|_| queue.is_some()).map(ToString::to_string));
            BTreeMap::new()
        });
        let config = queue.as_ref().map(|queue| template::render(&Document::read(queue).spec.config, &filled));
        add_resource_args(&mut spec, launch, queue.as_ref().zip(config), &mut values, &mut problems)?;
        check_source(&spec, launch, queue.as_ref(), &mut problems);
        if !problems.is_empty() {
            bail!("{}", told(&problems));
        }
        if let Some(uri) = &launch.uri {
            let job = make_job(launch, session, uri, &mut spec).await?;
            spec.insert("job".to_owned(), job.into());
        }
        settle_project(&mut spec);
        Ok(Launching { spec: Value::Object(spec), values: Value::Object(values), priority, queue_entity, notes })
    }
}

/// What the flags say goes before what the file says.
fn fill_in(spec: &mut Map<String, Value>, launch: &Launch, session: &Session, problems: &mut Vec<String>) {
    if text(spec, "entity").is_none() || launch.remote.entity.is_some() {
        spec.insert("entity".to_owned(), session.entity.clone().into());
    }
    let given =
        [("project", &launch.project), ("name", &launch.name), ("job", &launch.job), ("resource", &launch.resource)];
    for (field, value) in given {
        if let Some(value) = value.as_ref().filter(|value| !value.is_empty()) {
            spec.insert(field.to_owned(), value.clone().into());
        }
    }
    if let Some(image) = launch.docker_image.as_ref().filter(|image| !image.is_empty()) {
        spec.insert("docker".to_owned(), json!({ "docker_image": image }));
        // The flag replaces what the file would run.
        if launch.job.is_none() {
            spec.remove("job");
        }
    }
    let mut overrides = take_object(spec, "overrides");
    if let (Some(command), true) = (&launch.entry_point, launch.uri.is_none()) {
        match split(command) {
            Some(words) => drop(overrides.insert("entry_point".to_owned(), words.into())),
            None => problems.push(format!("`--entry-point {command}` has a quote that does not end")),
        }
    }
    if let Some(dockerfile) = &launch.dockerfile {
        overrides.insert("dockerfile".to_owned(), dockerfile.clone().into());
    }
    if !launch.arguments.is_empty() {
        overrides.insert("args".to_owned(), launch.arguments.clone().into());
    }
    if !overrides.is_empty() {
        spec.insert("overrides".to_owned(), Value::Object(overrides));
    }
}

/// Exactly one thing says what runs; a process of the agent's machine may be a command alone.
fn check_source(spec: &Map<String, Value>, launch: &Launch, queue: Option<&Value>, problems: &mut Vec<String>) {
    let has_image = spec.get("docker").is_some_and(|docker| docker["docker_image"].is_string())
        || text(spec, "image_uri").is_some();
    let sources = [text(spec, "job").is_some(), has_image, launch.uri.is_some()];
    let of_queue = queue.and_then(|queue| queue["defaultResourceConfig"]["resource"].as_str());
    let is_process = text(spec, "resource").as_deref().or(of_queue) == Some("local-process");
    let has_command = spec.get("overrides").is_some_and(|overrides| overrides["entry_point"].is_array());
    match sources.iter().filter(|is_given| **is_given).count() {
        1 => (),
        0 if is_process && has_command => (),
        0 => problems.push("nothing says what runs; hint: -d IMAGE, -j JOB or -u URL".to_owned()),
        _ => {
            problems.push("more than one thing says what runs; hint: either an image, a job or a repository".to_owned())
        }
    }
}

async fn missing_queue(session: &Session, entity: &str, name: &str) -> Result<String> {
    let queues = session.client.queues(entity).await?;
    let names: Vec<&str> = queues.iter().filter_map(|queue| queue["name"].as_str()).collect();
    Ok(match names.is_empty() {
        true => {
            format!("there is no queue `{name}` in `{entity}`; hint: `volley queue create {name} -f FILE` makes one")
        }
        false => format!("there is no queue `{name}` in `{entity}`; hint: there is {}", names.join(", ")),
    })
}

/// The template variables of a queue as the server tells them.
fn declared(queue: &Value) -> Vec<Variable> {
    let told = queue["defaultResourceConfig"]["templateVariables"].as_array();
    let one = |variable: &Value| {
        let schema: Value = serde_json::from_str(variable["schema"].as_str()?).ok()?;
        Some((variable["name"].as_str()?.to_owned(), json!({ "schema": schema })))
    };
    let all: Map<String, Value> = told.into_iter().flatten().filter_map(one).collect();
    template::declare(&Value::Object(all).to_string()).unwrap_or_default()
}

fn priority(written: Option<&str>, lacks_priorities: bool, problems: &mut Vec<String>) -> Option<i64> {
    let written = written?;
    let named = PRIORITIES.iter().position(|name| name.eq_ignore_ascii_case(written));
    let number = named.or_else(|| written.parse().ok().filter(|number| *number < PRIORITIES.len()));
    let Some(number) = number.and_then(|number| i64::try_from(number).ok()) else {
        problems.push(format!("`{written}` is no priority; hint: {}", PRIORITIES.join(", ")));
        return None;
    };
    if lacks_priorities && number != PRIORITY_DEFAULT {
        problems.push("this queue has no priorities; hint: leave --priority out".to_owned());
    }
    Some(number)
}

fn add_resource_args(
    spec: &mut Map<String, Value>,
    launch: &Launch,
    queue: Option<(&Value, Value)>,
    values: &mut Map<String, Value>,
    problems: &mut Vec<String>,
) -> Result<()> {
    let Some(written) = &launch.resource_args else {
        return Ok(());
    };
    if launch.replace && !values.is_empty() {
        problems.push("--replace and template values exclude each other; hint: leave one of them out".to_owned());
    }
    let given = object(written, "the resource arguments")?;
    let of_queue = queue.as_ref().and_then(|(queue, _)| queue["defaultResourceConfig"]["resource"].as_str());
    let resource = launch.resource.as_deref().or(of_queue).unwrap_or("kubernetes");
    let is_cut = !given.is_empty() && given.keys().all(|key| RESOURCES.contains(&key.as_str()) || key == resource);
    let mut args = if is_cut { Value::Object(given) } else { json!({ resource: given }) };
    if let (Some((_, config)), false) = (&queue, launch.replace)
        && let Some(own) = args.get_mut(resource)
    {
        problems.extend(layers::check(config, own).iter().map(ToString::to_string));
        *own = layers::effective(config, Some(own), Mode::Merge);
        // They are in it already.
        values.clear();
    }
    spec.insert("resource_args".to_owned(), args);
    Ok(())
}

/// Where the run goes if nobody said it: where its job is, if that is known.
fn settle_project(spec: &mut Map<String, Value>) {
    if text(spec, "project").is_some() {
        return;
    }
    let job = text(spec, "job").unwrap_or_default();
    let parts: Vec<&str> = job.split('/').collect();
    let project = match parts[..] {
        [project, _] | [_, project, _] => project,
        _ => PROJECT_DEFAULT,
    };
    spec.insert("project".to_owned(), project.into());
}

/// A job of a repository at the commit that is meant now; gives its path.
async fn make_job(launch: &Launch, session: &Session, uri: &str, spec: &mut Map<String, Value>) -> Result<String> {
    settle_project(spec);
    let project = text(spec, "project").unwrap_or_default();
    let is_allowed = ["https://", "ssh://", "git@"].iter().any(|start| uri.starts_with(start));
    if !is_allowed {
        bail!(
            "`{uri}` is no repository that agents may fetch\nhint: https://… or ssh://…; for a folder, `wandb job create code` \
             makes a job, then `volley launch -j`"
        );
    }
    let command = launch.entry_point.as_deref().unwrap_or_default();
    let words = split(command).ok_or_else(|| anyhow!("`--entry-point {command}` has a quote that does not end"))?;
    let commit = commit(uri, launch.git_version.as_deref().unwrap_or("HEAD"))?;
    let types = json!({ "wb_type": "typedDict", "params": { "type_map": {} } });
    let mut source = json!({ "git": { "remote": uri, "commit": commit }, "entrypoint": words, "notebook": false });
    if let Some(image) = &launch.base_image {
        source["base_image"] = image.clone().into();
    }
    let file = json!({ "_version": "v0", "source_type": "repo", "source": source, "input_types": types,
        "output_types": types, "runtime": "" });
    let base = uri.trim_end_matches('/').rsplit('/').next().unwrap_or(uri).trim_end_matches(".git");
    let name = launch.job_name.clone().unwrap_or_else(|| format!("job-{base}"));
    let path = JobPath { entity: &session.entity, project: &project, name: &name };
    let version = session.client.create_job(path, &file, &["latest".to_owned()]).await?;
    eprintln!("job `{}/{project}/{name}:v{version}` at commit {commit}", session.entity);
    Ok(format!("{}/{project}/{name}:v{version}", session.entity))
}

/// The commit that a name means in a repository now, so that the run can be repeated.
fn commit(uri: &str, name: &str) -> Result<String> {
    let is_commit = name.len() == 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_commit {
        return Ok(name.to_owned());
    }
    let listed = Command::new("git").args(["ls-remote", "--", uri, name]).env("GIT_TERMINAL_PROMPT", "0").output();
    let listed = listed.context("failed to run git\nhint: install it, or name a commit by its 40 digits")?;
    if !listed.status.success() {
        let why = String::from_utf8_lossy(&listed.stderr);
        bail!("`{uri}` cannot be read: {}", why.trim());
    }
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let found = text.lines().filter_map(|line| line.split_whitespace().next()).next();
    found.map(str::to_owned).ok_or_else(|| anyhow!("`{uri}` has no branch or tag `{name}`"))
}

/// JSON text, a JSON or YAML file, or stdin.
fn object(written: &str, what: &str) -> Result<Map<String, Value>> {
    let text = match written {
        "-" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).context("failed to read stdin")?;
            text
        }
        json if json.trim_start().starts_with('{') => json.to_owned(),
        file => fs::read_to_string(file).with_context(|| format!("failed to read {what} from `{file}`"))?,
    };
    let value: Value = serde_saphyr::from_str(&text)
        .with_context(|| format!("{what} in `{written}` is neither JSON nor YAML\nhint: `volley check {written}`"))?;
    match value {
        Value::Object(object) => Ok(object),
        _ => bail!("{what} in `{written}` is not an object"),
    }
}

fn take_object(spec: &mut Map<String, Value>, field: &str) -> Map<String, Value> {
    match spec.remove(field) {
        Some(Value::Object(object)) => object,
        _ => Map::new(),
    }
}

fn text(spec: &Map<String, Value>, field: &str) -> Option<String> {
    spec.get(field).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Words as a shell would split them; nothing if a quote does not end.
fn split(command: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut letters = command.chars();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\\', None) => word.get_or_insert_default().extend(letters.next()),
            ('\\', Some('"')) => match letters.next()? {
                escaped @ ('"' | '\\' | '$' | '`') => word.get_or_insert_default().push(escaped),
                other => word.get_or_insert_default().extend(['\\', other]),
            },
            ('"' | '\'', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (end, Some(open)) if end == open => quote = None,
            (blank, None) if blank.is_whitespace() => words.extend(word.take()),
            (other, _) => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_as_a_shell_would() {
        let words = |command: &str| split(command).unwrap();
        assert_eq!(words("python train.py  --lr 0.1"), ["python", "train.py", "--lr", "0.1"]);
        assert_eq!(words(r#"sh -c 'echo "$A b"' "" a\ b "x\"y""#), ["sh", "-c", "echo \"$A b\"", "", "a b", "x\"y"]);
        assert_eq!(split("'open"), None);
    }

    #[test]
    fn several_problems_have_a_line_each_and_one_its_hint() {
        assert_eq!(told(&["a; hint: b"]), "a\nhint: b");
        assert_eq!(told(&["a", "b"]), "2 things stand against this launch:\n  - a\n  - b");
    }

    #[test]
    fn a_run_goes_where_its_job_is_unless_somebody_says_otherwise() {
        let settled = |spec: Value| {
            let mut spec = spec.as_object().cloned().unwrap();
            settle_project(&mut spec);
            spec["project"].as_str().unwrap().to_owned()
        };
        assert_eq!(settled(json!({"job": "ann/p/train:v1"})), "p");
        assert_eq!(settled(json!({"job": "ann/p/train:v1", "project": "q"})), "q");
        assert_eq!(settled(json!({"job": "train"})), PROJECT_DEFAULT);
    }

    #[test]
    fn priorities_have_names_and_need_a_queue_that_has_them() {
        let mut problems = Vec::new();
        assert_eq!(priority(Some("High"), false, &mut problems), Some(1));
        assert_eq!(priority(Some("medium"), true, &mut problems), Some(2));
        assert_eq!(priority(None, true, &mut problems), None);
        assert!(problems.is_empty());
        priority(Some("low"), true, &mut problems);
        priority(Some("urgent"), false, &mut problems);
        assert_eq!(problems.len(), 2);
    }
}
