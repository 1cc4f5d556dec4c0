//! What would be submitted for a launch that is not queued yet, as it is shown to people: without anything secret, and with
//! words where only the queue decides, such as the item's name.

use super::environment::{Given, Variable};
use super::order::{Fetcher, Order, RunSpec, Station, Template, Ticket};
use super::{Refusal, Submission, fields, job, kubernetes, render};
use serde_json::{Map, Value, json};

/// Stands for the name that the queue will give.
const NOT_YET: &str = "preview";
const HIDDEN: &str = "<hidden>";
/// What fetches code, where an agent says nothing else.
const FETCHER_IMAGE: &str = "the agent's own";

/// A launch that is looked at.
pub struct Asked<'a> {
    /// With the queue's arguments and the template's values in place.
    pub spec: &'a Value,
    pub template: Option<Template>,
    pub queue: &'a str,
    pub entity: &'a str,
    pub priority: i64,
    /// The file of the job that the spec names.
    pub job: Option<&'a Value>,
    /// Where the server is.
    pub base_url: &'a str,
}

/// The objects in the order in which they would be submitted, and what is worth knowing of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Preview {
    pub objects: Vec<Value>,
    pub notes: Vec<String>,
}

/// As an agent with usual settings would submit it.
pub fn preview(asked: &Asked<'_>) -> Result<Preview, Vec<Refusal>> {
    let mut spec = RunSpec::read(asked.spec)?;
    if spec.entity.is_empty() {
        asked.entity.clone_into(&mut spec.entity);
    }
    let run_id = spec.run_id.clone().unwrap_or_else(|| NOT_YET.to_owned());
    let ticket = Ticket {
        item: NOT_YET,
        key: NOT_YET.to_owned(),
        attempt: 1,
        queue: asked.queue,
        queue_entity: asked.entity,
        priority: asked.priority,
        run_id,
        template: asked.template.clone(),
    };
    let mut order = Order::new(ticket, spec, asked.spec);
    if let Some(document) = asked.job {
        add_job(&mut order, document).map_err(|refusal| vec![refusal])?;
    }
    let station = Station { base_url: asked.base_url.to_owned(), allows_processes: true, ..Station::default() };
    let rendered = render(&order, &station)?;
    let unread = asked.spec.as_object().map(fields::unknown).unwrap_or_default();
    let notes = unread.iter().chain(&rendered.notes).map(ToString::to_string).collect();
    Ok(Preview { objects: shown(rendered.submission), notes })
}

fn add_job(order: &mut Order, document: &Value) -> Result<(), Refusal> {
    let reference = order.spec.job.clone().unwrap_or_default();
    let (name, version) =
        reference.rsplit('/').next().unwrap_or_default().split_once(':').unwrap_or((&reference, "latest"));
    let fetcher = Fetcher { image: FETCHER_IMAGE.to_owned(), program: None };
    let named = job::Named { reference: &reference, name, version };
    order.add_job(named, job::read(document)?, &job::Bases { fetcher, ..job::Bases::default() });
    Ok(())
}

fn shown(submission: Submission) -> Vec<Value> {
    match submission {
        Submission::Kubernetes(manifests) => {
            let kubernetes::Manifests { secrets, services, workload, .. } = *manifests;
            let secret = |secret: super::secrets::Secret| {
                let hidden: Map<String, Value> = secret.values.keys().map(|key| (key.clone(), json!(HIDDEN))).collect();
                let mut manifest = secret.manifest;
                manifest["stringData"] = Value::Object(hidden);
                manifest
            };
            let secrets = secrets.into_iter().map(secret);
            secrets.chain(services.into_iter().map(|service| service.manifest)).chain([workload]).collect()
        }
        Submission::Container(request) => vec![json!({
            "container": request.name, "image": request.image, "platform": request.platform,
            "entrypoint": request.entry_point, "command": request.command, "workingDir": request.working_dir,
            "environment": environment(&request.variables), "passedOn": request.passed_on, "host": request.host,
        })],
        Submission::Process(request) => {
            vec![json!({ "process": request.words, "environment": environment(&request.variables) })]
        }
    }
}

fn environment(variables: &[Variable]) -> Value {
    let told = |variable: &Variable| {
        let value = match &variable.value {
            Given::Text(text) => json!(text),
            Given::ApiKey | Given::Secret(_) => json!(HIDDEN),
            Given::Field(field) => json!(format!("<{field}>")),
        };
        (variable.name.clone(), value)
    };
    Value::Object(variables.iter().map(told).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(spec: &Value) -> Asked<'_> {
        Asked { spec, template: None, queue: "q", entity: "ann", priority: 2, job: None, base_url: "http://h" }
    }

    #[test]
    fn everything_is_shown_but_what_is_secret() {
        let spec = json!({"resource": "kubernetes", "docker": {"docker_image": "img:1"}, "project": "p",
            "resource_args": {"kubernetes": {"kind": "Job"}}, "overrides": {"args": ["--lr", "1"]}});
        let preview = preview(&asked(&spec)).unwrap();
        let kinds: Vec<_> = preview.objects.iter().map(|object| object["kind"].clone()).collect();
        assert_eq!(kinds, ["Secret", "Job"]);
        let hidden = preview.objects[0]["stringData"].as_object().unwrap();
        assert!(!hidden.is_empty() && hidden.values().all(|value| value == HIDDEN), "{hidden:?}");
        let pod = &preview.objects[1]["spec"]["template"]["spec"];
        assert_eq!(
            (&pod["containers"][0]["image"], &pod["containers"][0]["args"]),
            (&json!("img:1"), &json!(["--lr", "1"]))
        );
    }

    #[test]
    fn a_job_brings_its_image_and_a_process_its_words() {
        let spec = json!({"resource": "kubernetes", "job": "ann/p/train:v1"});
        let document = json!({"source_type": "image", "source": {"image": "img:2"}});
        let rendered = preview(&Asked { job: Some(&document), ..asked(&spec) }).unwrap();
        let workload = rendered.objects.last().unwrap();
        assert_eq!(workload["spec"]["template"]["spec"]["containers"][0]["image"], "img:2");
        let spec = json!({"resource": "local-process", "job": "train"});
        let document = json!({"source_type": "repo", "source": {"git": {"remote": "https://h/r", "commit": "c"},
            "entrypoint": ["python", "t.py"]}});
        let rendered = preview(&Asked { job: Some(&document), ..asked(&spec) }).unwrap();
        assert_eq!(rendered.objects[0]["process"], json!(["python", "t.py"]));
        assert_eq!(rendered.objects[0]["environment"]["WANDB_API_KEY"], HIDDEN);
    }

    // R-1
    #[test]
    fn what_stands_against_it_is_told() {
        let refusals = preview(&asked(&json!({"resource": "kubernetes"}))).unwrap_err();
        assert_eq!(refusals[0].rule, "R-1");
        let spec = json!({"resource": "kubernetes", "image_uri": "i", "lr": 0.1});
        let notes = preview(&asked(&spec)).unwrap().notes;
        assert!(notes[0].starts_with("`lr`: is no field of a run spec"), "{notes:?}");
    }
}
