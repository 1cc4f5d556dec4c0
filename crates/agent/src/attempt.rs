//! One attempt of one item, made ready: its job is looked up, its order put together and rendered.
//!
//! `plan::launch` decides what is submitted; here only what it needs is gathered, and secrets are filled in at the end.

use crate::item::Item;
use crate::runner::Failure;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use volley_client::Client;
use volley_client::items::Run;
use volley_client::jobs::JobPath;
use volley_plan::launch::build::{self, Builder, Recipe};
use volley_plan::launch::environment::Given;
use volley_plan::launch::kubernetes::Manifests;
use volley_plan::launch::order::{CodeSource, Order, PROJECT_DEFAULT, RunSpec, Station, Template, Ticket};
use volley_plan::launch::secrets::{Secret, SecretValue};
use volley_plan::launch::{self, Refusal, Submission, job, registries, walk};

/// What is the same for all attempts of an agent.
pub struct Bench {
    pub client: Client,
    pub station: Station,
    /// The credential that workloads get of a server that makes none for them.
    pub key: String,
    /// What code runs in, and what fetches it.
    pub bases: job::Bases,
    pub builder: Builder,
    /// Docker's own file, for what registries ask for.
    pub docker: Value,
}

/// What is submitted for an attempt, or why nothing is.
pub struct Prepared {
    pub run: Run,
    pub order: Option<Order>,
    /// How its image is made, before it runs.
    pub recipe: Option<Recipe>,
    pub submission: Result<Submission, String>,
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
    /// What the workload is known to the server by; there when it is submitted.
    pub credential: Option<String>,
    /// Nobody wants it any more.
    pub stop: CancellationToken,
}

impl Attempt {
    /// Does what may take long, unless the item is to be stopped before it is done.
    pub async fn unless_stopped<T>(&self, slow: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        unless(&self.stop, slow).await
    }

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
        secret.values.iter().map(|(name, held)| Ok((name.clone(), Value::from(self.held(held)?)))).collect()
    }

    fn held(&self, value: &SecretValue) -> Result<String, Failure> {
        match value {
            SecretValue::ApiKey => self.credential.clone().ok_or(Failure::Lost),
            SecretValue::Text(text) => Ok(text.clone()),
            SecretValue::Named(name) => Err(Failure::Refused(format!(
                "secret `{name}` of team `{}` is not known; hint: put it into a Secret of the cluster, and refer to that in the queue's config",
                self.item.entity
            ))),
            SecretValue::Registry => {
                let unknown = || Failure::Refused("no credentials for the registry are known".to_owned());
                self.prepared.pull.clone().ok_or_else(unknown)
            }
        }
    }

    /// What a variable holds outside of a cluster, where there are no fields of a pod.
    pub fn value(&self, given: &Given) -> Result<Option<String>, Failure> {
        match given {
            Given::Text(text) => Ok(Some(text.clone())),
            Given::ApiKey => self.held(&SecretValue::ApiKey).map(Some),
            Given::Secret(name) => self.held(&SecretValue::Named(name.clone())).map(Some),
            Given::Field(_) => Ok(None),
        }
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
        let made = || item.key().chars().take(8).collect();
        let run_id = item.run.as_ref().map(|run| run.name.clone()).or_else(|| spec.run_id.clone()).unwrap_or_else(made);
        let run = item.run.clone().unwrap_or_else(|| Run {
            entity: spec.entity.clone(),
            project: spec.project.clone(),
            name: run_id.clone(),
        });
        let refused = |refusals: Vec<Refusal>, run: Run| Prepared {
            run,
            order: None,
            recipe: None,
            submission: Err(told(&refusals)),
            pull: None,
            is_plural: false,
        };
        if !refusals.is_empty() {
            return Ok(refused(refusals, run));
        }
        let template = item.template.as_ref();
        let ticket = Ticket {
            item: &item.id,
            key: item.key(),
            attempt: item.attempt,
            queue: &item.queue,
            queue_entity: &item.entity,
            priority: item.priority,
            run_id,
            template: template.map(|own| Template { raw: own.0.clone(), values: own.1.clone() }),
        };
        let mut order = Order::new(ticket, spec, &item.spec);
        let recipe = match self.add_job(&mut order).await? {
            Ok(recipe) => recipe,
            Err(refusal) => return Ok(refused(vec![refusal], run)),
        };
        let pull = registries::pull_config(&self.docker, &order);
        let station = Station { has_registry_credentials: pull.is_some(), ..self.station.clone() };
        let submission = launch::render(&order, &station).map(|rendered| rendered.submission);
        let is_plural = submission.as_ref().is_ok_and(is_plural);
        Ok(Prepared {
            run,
            order: Some(order),
            recipe,
            submission: submission.map_err(|refusals| told(&refusals)),
            pull,
            is_plural,
        })
    }

    /// Looks up the job that the order names; gives how its image is made, where it has to be.
    async fn add_job(&self, order: &mut Order) -> Result<Result<Option<Recipe>, Refusal>, Failure> {
        let Some(written) = order.spec.job.clone() else { return Ok(Ok(None)) };
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
        let mut source = match job::read(&document) {
            Ok(source) => source,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if let Some(CodeSource::Artifact { id, reference }) = &mut source.code {
            *reference = match self.client.artifact_reference(id).await {
                Ok(Some(found)) => Some(found),
                Err(error) if error.is_passing() => return Err(error.into()),
                Ok(None) | Err(_) => return Ok(Err(missing(format!("the code of job `{written}` is gone")))),
            };
        }
        let plain = name.split(':').next().unwrap_or(name).to_owned();
        let version = format!("v{version}");
        let reference = format!("{entity}/{project}/{plain}:{version}");
        let named = job::Named { reference: &reference, name: &plain, version: &version };
        order.add_job(named, source.clone(), &self.bases);
        let recipe = build::recipe(order, &source, &self.builder);
        if let Ok(Some(recipe)) = &recipe {
            order.run_built(&recipe.image);
        }
        Ok(recipe)
    }
}

async fn unless<T>(stop: &CancellationToken, slow: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::select! {
        biased;
        () = stop.cancelled() => Err(Failure::Busy("it is being stopped".to_owned())),
        done = slow => done,
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

#[cfg(test)]
mod tests {
    use super::*;

    // L-16, L-34
    #[tokio::test]
    async fn a_stop_does_not_wait_for_what_takes_long() {
        let stop = CancellationToken::new();
        assert!(unless(&stop, async { Ok(1) }).await.is_ok_and(|done| done == 1));
        stop.cancel();
        let pull = std::future::pending::<Result<(), Failure>>();
        assert!(matches!(unless(&stop, pull).await, Err(Failure::Busy(_))));
        let started = unless(&stop, async { Ok(()) }).await;
        assert!(started.is_err(), "nothing begins after a stop");
    }
}
