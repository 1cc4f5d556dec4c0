//! The container runner: launches as containers of Docker or Podman on the agent's own machine.
//!
//! `engine` speaks with it, `view` knows its containers. A container is found by its labels, and its folder (`claim`) says
//! what was done with it: a restarted agent goes on where it was.

mod auth;
mod engine;
mod view;

pub use engine::{Engine, EngineError};

use crate::attempt::Attempt;
use crate::claim::{BEGUN, Claim, Claims, STOPPING, VERDICT};
use crate::kube::Wake;
use crate::runner::{Done, Failure, Log, Runner, Sight, Tails};
use crate::source;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;
use view::View;
use volley_api::kube::{text, time};
use volley_client::Client;
use volley_plan::agent::life::{Deed, Workload};
use volley_plan::agent::state::State;
use volley_plan::launch::Submission;
use volley_plan::launch::container::{Gpus, Request, allocate};
use volley_plan::launch::engine::{self as speech, Filled};
use volley_plan::logs::sources::{Run, Source};

/// What a container's log is called.
const MAIN: &str = "container";
const SOURCE: &str = "source";

pub struct ContainerRunner {
    claims: Claims,
    wake: Wake,
    client: Client,
    grace: Duration,
    environment: BTreeMap<String, String>,
    /// Looked for when the first launch needs one.
    engine: OnceCell<Arc<View>>,
    /// Containers that are being stopped.
    stopping: Arc<Mutex<BTreeSet<String>>>,
    /// Held while GPUs are chosen and a container gets them.
    choosing: tokio::sync::Mutex<()>,
}

impl ContainerRunner {
    pub fn new(claims: Claims, wake: Wake, client: Client, grace: SignedDuration) -> ContainerRunner {
        ContainerRunner {
            claims,
            wake,
            client,
            grace: grace.try_into().unwrap_or_default(),
            environment: std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect(),
            engine: OnceCell::new(),
            stopping: Arc::default(),
            choosing: tokio::sync::Mutex::default(),
        }
    }

    pub fn close(&self) {
        self.engine.get().iter().for_each(|view| view.close());
    }

    async fn view(&self) -> Result<Arc<View>, Failure> {
        let open = async || {
            let engine = Engine::find(&self.environment).map_err(Failure::Refused)?;
            Ok(View::open(engine, self.wake.clone()))
        };
        let view: Result<&Arc<View>, Failure> = self.engine.get_or_try_init(open).await;
        Ok(view?.clone())
    }

    /// The container of an attempt, as it is known now.
    fn container(&self, attempt: &Attempt) -> Option<Value> {
        self.engine.get()?.get(&attempt.key, attempt.item.attempt)
    }

    async fn submit(&self, attempt: &Attempt, request: &Request) -> Done {
        let (view, claim) = (self.view().await?, self.claims.of(attempt));
        claim.make()?;
        let id = match self.container(attempt) {
            Some(made) => text(&made, "Id").to_owned(),
            None => self.create(&view, attempt, request, &claim).await?,
        };
        attempt.unless_stopped(async { Ok(claim.write(BEGUN, &id)?) }).await?;
        view.engine.start(&id).await.map_err(|error| refusal(error, "start"))?;
        view.look_at(&id).await?;
        Ok(())
    }

    async fn create(
        &self,
        view: &View,
        attempt: &Attempt,
        request: &Request,
        claim: &Claim,
    ) -> Result<String, Failure> {
        // What waits for a GPU fetches nothing meanwhile; which one it gets is decided below, under the lock.
        choose(&request.gpus, &view.all())?;
        let folder = claim.path.join(SOURCE);
        let code = attempt.prepared.order.as_ref().and_then(|order| order.code.as_ref());
        if let (Some(code), Some(_)) = (code, request.code_folder) {
            attempt.unless_stopped(source::fetch(&self.client, &code.source, &folder)).await?;
            source::open_up(&folder)?;
        }
        attempt.unless_stopped(self.pull(view, request)).await?;
        let _choosing = self.choosing.lock().await;
        let filled = Filled {
            environment: self.variables(attempt, request)?,
            gpus: choose(&request.gpus, &view.all())?,
            source: code.and(folder.to_str()).map(str::to_owned),
        };
        let body = speech::body(request, &filled);
        let made = view.engine.create(&request.name, request.platform.as_deref(), &body).await;
        let id = made.map_err(|error| refusal(error, "make"))?;
        view.look_at(&id).await?;
        Ok(id)
    }

    /// The newest of its name; what is on the machine will do where there is none to be had (C-6).
    async fn pull(&self, view: &View, request: &Request) -> Done {
        let (engine, image) = (&view.engine, request.image.as_str());
        let is_fixed = image.contains("@sha256:");
        if is_fixed && engine.has_image(image).await? {
            return Ok(());
        }
        match engine.pull(image, request.platform.as_deref()).await {
            Ok(()) => Ok(()),
            Err(error) if error.is_passing() => Err(error.into()),
            Err(error) if engine.has_image(image).await? => {
                tracing::warn!(image, %error, "cannot be pulled, and is taken as it is on this machine");
                Ok(())
            }
            Err(error) => Err(Failure::Refused(format!("image `{image}` cannot be pulled: {error}"))),
        }
    }

    fn variables(&self, attempt: &Attempt, request: &Request) -> Result<BTreeMap<String, String>, Failure> {
        let own = |name: &String| Some((name.clone(), self.environment.get(name)?.clone()));
        let mut all: BTreeMap<String, String> = request.passed_on.iter().filter_map(own).collect();
        for variable in &request.variables {
            if let Some(value) = attempt.value(&variable.value)? {
                all.insert(variable.name.clone(), value);
            }
        }
        Ok(all)
    }

    /// Takes containers of this item away that are of these attempts, and what is kept of them.
    async fn remove(&self, key: &str, attempts: impl Fn(u32) -> bool, claims: &[Claim]) -> Done {
        if let Some(view) = self.engine.get() {
            for (attempt, container) in view.of(key).into_iter().filter(|(attempt, _)| attempts(*attempt)) {
                view.engine.remove(text(&container, "Id")).await?;
                view.forget(key, attempt);
            }
        }
        Ok(claims.iter().try_for_each(Claim::remove)?)
    }

    /// Asks it to end, if nobody does; the engine ends it after the grace.
    fn stop(&self, id: &str) {
        let (Some(view), grace) = (self.engine.get().cloned(), self.grace) else { return };
        let (id, stopping) = (id.to_owned(), self.stopping.clone());
        if !stopping.lock().insert(id.clone()) {
            return;
        }
        tokio::spawn(async move {
            let stopped = view.engine.stop(&id, grace).await;
            stopping.lock().remove(&id);
            if let Err(error) = view.look_at(&id).await.and(stopped.map_err(Failure::from)) {
                tracing::warn!(container = id, %error, "failed to stop, will try again");
            }
        });
    }

    fn workload(&self, container: Option<&Value>, claim: &Claim, tails: Tails<'_>) -> Option<Workload> {
        let state = container.and_then(speech::state);
        if state.is_none() && (container.is_some() || !claim.has(BEGUN)) {
            return None;
        }
        let is_removed = container.is_none();
        let failure = match container {
            None => Some("its container was removed by somebody".to_owned()),
            Some(container) => (state == Some(State::Failed)).then(|| told(container, &tails(MAIN, MAIN))),
        };
        let since = container.and_then(|container| time::parse(text(container, "Created")));
        Some(Workload {
            state: state.unwrap_or(State::Failed),
            since: since.unwrap_or_else(Timestamp::now),
            is_being_deleted: is_removed || claim.has(STOPPING),
            is_held: true,
            verdict: claim.read(VERDICT),
            owns_its_own: true,
            is_disrupted: false,
            failure,
        })
    }
}

fn is_running(container: &Value) -> bool {
    speech::state(container).is_some_and(|state| !state.is_final())
}

/// Why it failed, with what the engine itself says of it.
fn told(container: &Value, tail: &[String]) -> String {
    let own = text(container, "State.Error");
    let what = format!("container `{}`", text(container, "Name").trim_start_matches('/'));
    let told = speech::exit(container).reason(&what, tail);
    if own.is_empty() { told } else { format!("{own}; {told}") }
}

/// What asking again will not change ends the launch.
fn refusal(error: EngineError, deed: &str) -> Failure {
    match error {
        EngineError::Refused { message, .. } => {
            Failure::Refused(format!("the container engine does not {deed} it: {message}"))
        }
        other => Failure::from(other),
    }
}

/// The GPUs of a launch, of those that no other container of ours has (C-11).
fn choose(asked: &Gpus, containers: &[Value]) -> Result<Vec<String>, Failure> {
    if *asked == Gpus::None {
        return Ok(Vec::new());
    }
    let entries = std::fs::read_dir("/dev").into_iter().flatten().flatten();
    let number = |name: String| name.strip_prefix("nvidia").and_then(|rest| rest.parse::<u32>().ok());
    let mut all: Vec<u32> = entries.filter_map(|entry| number(entry.file_name().into_string().ok()?)).collect();
    all.sort_unstable();
    let all: Vec<String> = all.iter().map(ToString::to_string).collect();
    // What the machine does not have at all will not become free.
    allocate(asked, &all).map_err(|why| Failure::Refused(format!("{why} on this machine")))?;
    let held = speech::gpus_held(containers.iter());
    let free: Vec<String> = all.into_iter().filter(|gpu| !held.contains(gpu)).collect();
    let is_all_held = *asked == Gpus::All && !held.is_empty();
    match allocate(asked, &free) {
        Ok(gpus) if !is_all_held => Ok(gpus),
        Ok(_) => Err(Failure::Busy("all GPUs are asked for and some are held by other launches".to_owned())),
        Err(why) => Err(Failure::Busy(why)),
    }
}

impl Runner for ContainerRunner {
    fn ready<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Done> {
        Box::pin(async move {
            let claim = self.claims.of(attempt);
            let view = match self.view().await {
                // What runs already waits until its engine is there again.
                Err(Failure::Refused(why)) if claim.has(BEGUN) => return Err(Failure::Busy(why)),
                view => view?,
            };
            view.seen().await?;
            let container = self.container(attempt);
            if let (true, Some(container)) = (claim.has(STOPPING), container.as_ref().filter(|it| is_running(it))) {
                // Asked for before a restart, or in vain.
                self.stop(text(container, "Id"));
            }
            if container.is_some() { Ok(()) } else { self.claims.check(attempt) }
        })
    }

    fn site<'a>(&'a self, _: &'a Attempt) -> BoxFuture<'a, Result<Option<String>, Failure>> {
        Box::pin(async { Ok(Some(self.claims.site()?)) })
    }

    fn observe(&self, attempt: &Attempt, tails: Tails<'_>) -> Sight {
        let (claim, container) = (self.claims.of(attempt), self.container(attempt));
        let all = self.engine.get().map(|view| view.of(&attempt.key)).unwrap_or_default();
        let older = all.iter().any(|(number, _)| *number < attempt.item.attempt);
        let workload = self.workload(container.as_ref(), &claim, tails);
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let place = container.as_ref().map(|container| {
            let gpus = container["Config"]["Labels"][speech::GPUS].as_str().unwrap_or_default();
            let devices: Vec<&str> = gpus.split(',').filter(|gpu| !gpu.is_empty()).collect();
            json!([{ "rank": 0, "role": MAIN, "pod": text(container, "Name").trim_start_matches('/'),
                "node": host.trim(), "phase": text(container, "State.Status"), "gpus": devices.len(), "devices": devices }])
        });
        let ended = container.as_ref().filter(|container| speech::state(container).is_some_and(State::is_final));
        Sight {
            has_older: older || !self.claims.older(attempt).is_empty(),
            pods: all.iter().filter(|(_, container)| is_running(container)).count(),
            has_helpers: workload.is_none() && (claim.is_made() || container.is_some()),
            exit_code: ended.map(|container| speech::exit(container).code),
            place: place.unwrap_or_default(),
            workload,
            ..Sight::default()
        }
    }

    fn act<'a>(&'a self, attempt: &'a Attempt, deed: &'a Deed) -> BoxFuture<'a, Done> {
        Box::pin(async move {
            let (claim, number) = (self.claims.of(attempt), attempt.item.attempt);
            match deed {
                Deed::Acknowledge => claim.make()?,
                Deed::Submit => match &attempt.prepared.submission {
                    Ok(Submission::Container(request)) => self.submit(attempt, request).await?,
                    _ => return Err(Failure::Refused("the launch is not for a container".to_owned())),
                },
                Deed::Mark(reason) => claim.write(VERDICT, reason)?,
                Deed::Delete => {
                    claim.make()?;
                    claim.write(STOPPING, &Timestamp::now())?;
                    if let Some(container) = self.container(attempt) {
                        self.stop(text(&container, "Id"));
                    }
                }
                Deed::Release | Deed::Sweep => self.remove(&attempt.key, |own| own == number, &[claim]).await?,
                Deed::DeleteOlder | Deed::ReleaseOlder => {
                    self.remove(&attempt.key, |own| own < number, &self.claims.older(attempt)).await?;
                }
                Deed::Adopt
                | Deed::Build
                | Deed::CancelBuild
                | Deed::Own
                | Deed::Finish
                | Deed::Fail { .. }
                | Deed::Stopped
                | Deed::Requeue => (),
            }
            Ok(())
        })
    }

    fn sources(&self, attempt: &Attempt, read: &BTreeSet<Run>) -> Vec<Source> {
        let Some(container) = self.container(attempt).filter(|container| speech::state(container).is_some()) else {
            return Vec::new();
        };
        let run = Run { pod_uid: text(&container, "Id").to_owned(), container: MAIN.to_owned(), restarts: 0 };
        let is_running = is_running(&container);
        let source = Source { run, pod: MAIN.to_owned(), is_previous: false, is_running, label: String::new() };
        if read.contains(&source.run) { Vec::new() } else { vec![source] }
    }

    fn open<'a>(
        &'a self,
        _: &'a Attempt,
        source: &'a Source,
        since: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Log, Failure>> {
        Box::pin(async move {
            let since = since.and_then(|since| since.parse::<Timestamp>().ok()).map(Timestamp::as_second);
            Ok(self.view().await?.engine.logs(&source.run.pod_uid, since).await?)
        })
    }
}
