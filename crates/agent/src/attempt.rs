//! One attempt of one item, made ready: its job is looked up, its order put together and rendered.
//!
//! `plan::launch` decides what is submitted; here only what it needs is gathered, and secrets are filled in at the end.

use crate::item::Item;
use crate::runner::Failure;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use volley_client::Client;
use volley_client::items::Run;
use volley_client::jobs::JobPath;
use volley_plan::launch::kubernetes::Manifests;
use volley_plan::launch::order::{self, Code, CodeSource, Job, Order, RunSpec, Station, Template};
use volley_plan::launch::secrets::{Secret, SecretValue};
use volley_plan::launch::{self, Refusal, Submission, job, names, registries, walk};
use volley_plan::queue::template;

/// The base image of code whose job and queue name none.
const BASE_IMAGE: &str = "python:3.12-slim";
/// Runs of a launch that names no project are kept there, as W&B's clients do it.
const PROJECT_DEFAULT: &str = "uncategorized";

/// What is the same for all attempts of an agent.
pub struct Bench {
    pub client: Client,
    pub station: Station,
    /// The credential that workloads get.
    pub key: String,
    /// The image that fetches code inside a cluster.
    pub fetcher_image: String,
    /// The base image of code, where neither the job nor the queue names one.
    pub base_image: Option<String>,
    /// Docker's own file, for what registries ask for.
    pub docker: Value,
}

/// What is submitted for an attempt, or why nothing is.
pub struct Prepared {
    pub run: Run,
    pub order: Option<Order>,
    pub submission: Result<Submission, String>,
    key: String,
    /// What the pull secret holds.
    pull: Option<String>,
    /// Several containers write to its console, so that lines say whose they are.
    pub is_plural: bool,
}

#[derive(Clone)]
pub struct Attempt {
    pub key: String,
    pub item: Item,
    pub prepared: Arc<Prepared>,
}

impl Attempt {
    pub fn manifests(&self) -> Result<&Manifests, Failure> {
        match &self.prepared.submission {
            Ok(Submission::Kubernetes(manifests)) => Ok(manifests),
            Ok(Submission::Container(_) | Submission::Process(_)) => {
                Err(Failure::Refused("the launch is not for a cluster".to_owned()))
            }
            Err(refusal) => Err(Failure::Refused(refusal.clone())),
        }
    }

    /// What the keys of a Secret hold.
    pub fn contents(&self, secret: &Secret) -> Result<Map<String, Value>, Failure> {
        let value = |value: &SecretValue| match value {
            SecretValue::ApiKey => Ok(self.prepared.key.clone()),
            SecretValue::Text(text) => Ok(text.clone()),
            SecretValue::Named(name) => Err(Failure::Refused(format!(
                "secret `{name}` of team `{}` is not known; hint: put it into a Secret of the cluster, and refer to that in the queue's config",
                self.item.entity
            ))),
            SecretValue::Registry => {
                let unknown = || Failure::Refused("no credentials for the registry are known".to_owned());
                self.prepared.pull.clone().ok_or_else(unknown)
            }
        };
        secret.values.iter().map(|(name, held)| Ok((name.clone(), Value::from(value(held)?)))).collect()
    }
}

impl Bench {
    /// Makes an attempt ready. What stands against it is told in it; an error is worth another try.
    pub async fn prepare(&self, item: &Item) -> Result<Prepared, Failure> {
        let (spec, refusals) = match RunSpec::read(&item.spec) {
            Ok(spec) => (spec, Vec::new()),
            Err(refusals) => (RunSpec::default(), refusals),
        };
        let mut spec = spec;
        let given = |value: String, other: &str| if value.is_empty() { other.to_owned() } else { value };
        spec.entity = given(spec.entity, &item.entity);
        spec.project = given(spec.project, PROJECT_DEFAULT);
        spec.author = spec.author.or_else(|| item.user.clone());
        let made = || names::item_key(&item.id)[..8].to_owned();
        let run_id = item.run.as_ref().map(|run| run.name.clone()).or_else(|| spec.run_id.clone()).unwrap_or_else(made);
        let run = item.run.clone().unwrap_or_else(|| Run {
            entity: spec.entity.clone(),
            project: spec.project.clone(),
            name: run_id.clone(),
        });
        let own_key = item.spec["_wandb_api_key"].as_str().filter(|key| !key.is_empty());
        let key = own_key.unwrap_or(&self.key).to_owned();
        let refused = |refusals: Vec<Refusal>, run: Run, key: String| Prepared {
            run,
            order: None,
            submission: Err(told(&refusals)),
            key,
            pull: None,
            is_plural: false,
        };
        if !refusals.is_empty() {
            return Ok(refused(refusals, run, key));
        }
        let mut order = self.order(item, spec, run_id);
        if let Err(refusal) = self.add_job(&mut order).await? {
            return Ok(refused(vec![refusal], run, key));
        }
        let pull = registries::pull_config(&self.docker, &order);
        let station = Station { has_registry_credentials: pull.is_some(), ..self.station.clone() };
        let submission = launch::render(&order, &station).map(|rendered| rendered.submission);
        let is_plural = submission.as_ref().is_ok_and(is_plural);
        Ok(Prepared {
            run,
            order: Some(order),
            submission: submission.map_err(|refusals| told(&refusals)),
            key,
            pull,
            is_plural,
        })
    }

    fn order(&self, item: &Item, spec: RunSpec, run_id: String) -> Order {
        let config = order::config_of(&item.spec, &spec.resource);
        let template =
            item.template.as_ref().map(|(raw, values)| Template { raw: raw.clone(), values: values.clone() });
        Order {
            item: item.id.clone(),
            attempt: item.attempt,
            queue: item.queue.clone(),
            queue_entity: item.entity.clone(),
            priority: item.priority,
            run_id,
            config,
            queue_config: template.as_ref().map(|own| template::render(&own.raw, &own.values)),
            template,
            image: spec.image.clone(),
            is_image_job: spec.image.is_some(),
            job: None,
            code: None,
            spec,
        }
    }

    /// Looks up the job that the order names.
    async fn add_job(&self, order: &mut Order) -> Result<Result<(), Refusal>, Failure> {
        let Some(written) = order.spec.job.clone() else { return Ok(Ok(())) };
        let missing = |what: String| Refusal::new("J-11", "job", what, "`volley job ls` shows those that there are");
        let Some([entity, project, name]) = job::reference(&written, &order.spec.entity, &order.spec.project) else {
            return Ok(Err(missing(format!("`{written}` is not the name of a job"))));
        };
        let found = match self.client.job(JobPath { entity, project, name }).await {
            Ok(found) => found,
            Err(error) if error.is_passing() => return Err(error.into()),
            Err(error) => return Ok(Err(missing(format!("job `{written}` cannot be read: {error}")))),
        };
        let Some((version, document)) = found else {
            return Ok(Err(missing(format!("job `{written}` is not there, or its files are gone"))));
        };
        let source = match job::read(&document) {
            Ok(source) => source,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let plain = name.split(':').next().unwrap_or(name).to_owned();
        order.job = Some(Job {
            reference: format!("{entity}/{project}/{plain}:v{version}"),
            name: plain,
            version: format!("v{version}"),
            entry_point: source.entry_point,
        });
        order.is_image_job = source.image.is_some();
        order.image = source.image;
        if let Some(code) = source.code {
            self.add_code(order, code, source.base_image);
        }
        Ok(Ok(()))
    }

    /// Code runs in the job's base image, the queue's, or the agent's (section 5.4, step 6).
    fn add_code(&self, order: &mut Order, source: CodeSource, of_job: Option<String>) {
        let of_queue = order.config.pointer("/builder/base_image").and_then(Value::as_str).map(str::to_owned);
        let chosen = of_job.or(of_queue).or_else(|| self.base_image.clone());
        order.code = Some(Code {
            source,
            is_default_base: chosen.is_none(),
            claim: None,
            fetcher_image: self.fetcher_image.clone(),
        });
        order.image = Some(chosen.unwrap_or_else(|| BASE_IMAGE.to_owned()));
    }
}

fn told(refusals: &[Refusal]) -> String {
    refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn is_plural(submission: &Submission) -> bool {
    let Submission::Kubernetes(manifests) = submission else { return false };
    let templates = walk::templates(&manifests.workload);
    let containers = |pointer: &str| {
        let list = manifests.workload.pointer(&format!("{pointer}/spec/containers"));
        list.and_then(Value::as_array).map_or(0, Vec::len)
    };
    let pods: u64 = templates.iter().map(|template| template.replicas).sum();
    pods > 1 || templates.iter().any(|template| containers(&template.place.pointer) > 1)
}

/// The values of a template, as the queue's items have them.
pub fn values(given: &Value) -> BTreeMap<String, Value> {
    given.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())).collect()
}
