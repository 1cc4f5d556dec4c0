//! One look at one item: what is seen of it, what the plan says, and the doing of it.

use crate::attempt::Attempt;
use crate::desk::{Desk, End};
use crate::item::{Entry, Item, Told};
use crate::runner::{Done, Failure, Runner, Sight};
use crate::shell::Shell;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use volley_plan::agent::life::{self, Deed, Image, Seen, Stage, Standing};
use volley_plan::agent::state::State;
use volley_plan::agent::trouble::Cause;
use volley_plan::launch::Submission;
use volley_plan::launch::resource::Kind;
use volley_plan::queue::item::is_in_reach;

/// A look that is followed by another at once: each does at least one deed, and a life has fewer than these.
const ROUNDS_MAX: usize = 12;
/// What may end by the clock is looked at this often.
const CLOCK: Duration = Duration::from_secs(10);
/// What waits for something of this machine is tried again after this.
const BUSY: Duration = Duration::from_secs(1);
/// So long a look waits for what it is to look at, which is seen within this unless something is wrong.
const READY_MAX: Duration = Duration::from_secs(10);

impl Shell {
    pub async fn visit(&self, key: &str) -> Result<Option<Duration>, Failure> {
        for _ in 0..ROUNDS_MAX {
            let Some(entry) = self.table.get(key) else { return Ok(None) };
            let item = &entry.item;
            let is_anothers = item.is_open() && !item.is_mine && !item.is_orphaned;
            if is_anothers {
                self.lose(key);
                return Ok(None);
            }
            if item.is_open() && !item.is_mine {
                match self.take_over(key, &entry).await {
                    Ok(Some(adopted)) => {
                        tracing::info!(item = item.id, "adopted from an agent that is gone");
                        self.table.put(adopted);
                        continue;
                    }
                    Ok(None) => return Ok(Some(CLOCK)),
                    Err(Failure::Lost) => {
                        self.lose(key);
                        return Ok(None);
                    }
                    Err(error) => return Err(error),
                }
            }
            let attempt = match self.attempt(key, &entry).await {
                Err(Failure::Lost) => {
                    self.lose(key);
                    return Ok(None);
                }
                attempt => attempt?,
            };
            match self.look(&attempt, &entry).await {
                Ok(Step::Again) => (),
                Ok(Step::Rest(again)) => return Ok(again),
                Err(Failure::Lost) => {
                    tracing::info!(item = item.id, "another agent has it now");
                    self.lose(key);
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Some(Duration::from_millis(1)))
    }

    /// Takes over an item whose agent is gone, if it runs where this agent would see it.
    async fn take_over(&self, key: &str, entry: &Entry) -> Result<Option<Item>, Failure> {
        let site = match self.site(&self.attempt(key, entry).await?).await {
            Err(Failure::Refused(_)) => None,
            site => site?,
        };
        match is_in_reach(entry.item.site.as_deref(), site.as_deref()) {
            true => self.desk.adopt(&entry.item, site.as_deref()).await.map(Some),
            false => Ok(None),
        }
    }

    /// The cluster or the machine that an attempt runs on, where it has a name.
    async fn site(&self, attempt: &Attempt) -> Result<Option<String>, Failure> {
        match self.runner(attempt) {
            Some(runner) => runner.site(attempt).await,
            None => Ok(None),
        }
    }

    /// The item is another agent's. What of it was begun here is ended when the item has its end.
    fn lose(&self, key: &str) {
        self.table.remove(key);
        self.process.let_go(key);
    }

    /// The item's present attempt, made ready once.
    async fn attempt(&self, key: &str, entry: &Entry) -> Result<Attempt, Failure> {
        let item = self.desk.fill(&entry.item).await?;
        if entry.item.spec.is_null() {
            let Item { spec, template, run, .. } = item.clone();
            self.table.change(key, |entry| {
                (entry.item.spec, entry.item.template, entry.item.run) = (spec, template, run);
            });
        }
        let prepared = match &entry.prepared {
            Some((attempt, prepared)) if *attempt == item.attempt => prepared.clone(),
            _ => {
                let prepared = Arc::new(self.bench.prepare(&item).await?);
                self.table.change(key, |entry| entry.prepared = Some((item.attempt, prepared.clone())));
                prepared
            }
        };
        Ok(Attempt { key: key.to_owned(), item, prepared, credential: None, stop: entry.stop.clone() })
    }

    /// Who runs it; nobody where it was refused before it began.
    fn runner(&self, attempt: &Attempt) -> Option<Arc<dyn Runner>> {
        let item = &attempt.item;
        let kind = match &attempt.prepared.submission {
            Ok(Submission::Kubernetes(_)) => Kind::Kubernetes,
            Ok(Submission::Process(_)) => Kind::Process,
            Ok(Submission::Container(_)) => Kind::Container,
            Err(_) if item.standing == Standing::Leased => return None,
            // What is refused today may have been begun before: its job is gone since, or the agent's policy another.
            Err(_) => Kind::of(item.spec["resource"].as_str().unwrap_or_default()).ok()?,
        };
        Some(match kind {
            Kind::Kubernetes => self.kube.clone(),
            Kind::Process => self.process.clone(),
            Kind::Container => self.container.clone(),
        })
    }

    async fn look(&self, attempt: &Attempt, entry: &Entry) -> Result<Step, Failure> {
        let runner = self.runner(attempt);
        let mut refusal =
            entry.refusal.as_ref().filter(|(number, _)| *number == attempt.item.attempt).map(|it| it.1.clone());
        refusal = refusal.or_else(|| attempt.prepared.submission.as_ref().err().cloned());
        let mut sight = Sight::default();
        match &runner {
            Some(runner) => match ready(runner, attempt).await {
                Ok(()) => sight = runner.observe(attempt, &|pod, name| self.consoles.tail(attempt, pod, name)),
                Err(Failure::Refused(reason)) => refusal = refusal.or(Some(reason)),
                Err(Failure::Busy(why)) => return self.wait(attempt, why).await,
                Err(error) => return Err(error),
            },
            None => {
                let reason = "this agent has no runner for the queue's resource".to_owned();
                refusal = refusal.or(Some(reason));
            }
        }
        if let (Some(runner), Some(workload)) = (&runner, &sight.workload) {
            if entry.begun < attempt.item.attempt && attempt.item.is_mine && attempt.item.is_open() {
                self.ensure_run(attempt).await?;
            }
            let is_running = workload.state == State::Running;
            self.consoles.follow(attempt, runner, is_running)?;
        }
        let recipe = attempt.prepared.recipe.as_ref();
        let seen = seen(&attempt.item, &sight, refusal, self.builds.image(recipe, &attempt.key));
        let mut plan = life::plan(&seen, &self.timers, Timestamp::now());
        // What the server refused to begin is ended with its words.
        if let (Some((_, reason)), Standing::Leased, false) =
            (&entry.refusal, seen.item.standing, seen.item.is_stop_asked)
        {
            plan.deeds = vec![Deed::Fail { stage: Stage::Agent, reason: reason.clone() }];
        }
        let is_settled = seen.item.standing == Standing::Ended && plan.deeds.is_empty();
        if plan.deeds.is_empty() {
            if is_settled {
                self.settle(attempt);
                return Ok(Step::Rest(None));
            }
            if seen.item.standing == Standing::Pending {
                // Whoever takes it next looks after it.
                self.table.remove(&attempt.key);
                return Ok(Step::Rest(None));
            }
            self.report(attempt, entry, &sight, plan.waits_for).await?;
            return Ok(Step::Rest(clock(&sight)));
        }
        self.carry_out(attempt, &sight, runner.as_ref(), &plan.deeds).await
    }

    /// What cannot be done yet is tried again, and people are told why.
    async fn wait(&self, attempt: &Attempt, why: String) -> Result<Step, Failure> {
        if let Some(entry) = self.table.get(&attempt.key) {
            self.report(attempt, &entry, &Sight::default(), Some(why)).await?;
        }
        Ok(Step::Rest(Some(BUSY)))
    }

    async fn carry_out(
        &self,
        attempt: &Attempt,
        sight: &Sight,
        runner: Option<&Arc<dyn Runner>>,
        deeds: &[Deed],
    ) -> Result<Step, Failure> {
        let mut attempt = attempt.clone();
        for deed in deeds {
            tracing::debug!(item = attempt.item.id, ?deed);
            let done = self.apply(&attempt, sight, runner, deed).await;
            if let Err(Failure::Refused(reason)) = done {
                let number = attempt.item.attempt;
                self.table.change(&attempt.key, |entry| entry.refusal = Some((number, reason)));
                return Ok(Step::Again);
            }
            if let Err(Failure::Busy(why)) = done {
                return match attempt.stop.is_cancelled() {
                    true => Ok(Step::Again),
                    false => self.wait(&attempt, why).await,
                };
            }
            done?;
            // A deed may have changed the item: its attempt, or how it stands.
            match self.table.get(&attempt.key) {
                Some(entry) => attempt.item = entry.item,
                None => return Ok(Step::Rest(None)),
            }
        }
        Ok(Step::Again)
    }

    async fn apply(
        &self,
        attempt: &Attempt,
        sight: &Sight,
        runner: Option<&Arc<dyn Runner>>,
        deed: &Deed,
    ) -> Result<(), Failure> {
        let item = &attempt.item;
        match deed {
            // Done before the look: what is another's is not looked at.
            Deed::Adopt => Ok(()),
            Deed::Acknowledge => {
                if let Some(runner) = runner {
                    runner.act(attempt, deed).await?;
                }
                self.acknowledge(attempt).await
            }
            Deed::Submit => {
                let Some(runner) = runner else { return Ok(()) };
                // Whoever has lost the item is told so here, before its run is set back to its beginning.
                let credential = Some(self.credential(attempt).await?);
                let armed = Attempt { credential, ..attempt.clone() };
                let (begun, submitted) = tokio::join!(self.begin_run(attempt), runner.act(&armed, deed));
                begun?;
                submitted
            }
            Deed::Finish => self.end(attempt, sight, runner, End::Finished).await,
            Deed::Stopped => self.end(attempt, sight, runner, End::Stopped).await,
            Deed::Fail { stage, reason } => {
                let end = End::Failed { stage: *stage, reason: reason.clone() };
                self.end(attempt, sight, runner, end).await
            }
            Deed::Requeue => {
                if let Some(runner) = runner {
                    self.consoles.drain(attempt, runner).await?;
                }
                self.desk.requeue(item, &attempt.prepared.run, "preempted by the cluster").await?;
                self.table.change(&attempt.key, |entry| {
                    entry.item.attempt += 1;
                    entry.item.standing = Standing::Pending;
                    entry.item.is_mine = false;
                });
                self.make_room();
                Ok(())
            }
            Deed::Build | Deed::CancelBuild => {
                match (&attempt.prepared.recipe, *deed == Deed::Build) {
                    (Some(recipe), true) => self.builds.begin(recipe, &attempt.key),
                    (Some(recipe), false) => self.builds.cancel(recipe, &attempt.key),
                    (None, _) => (),
                }
                Ok(())
            }
            Deed::Own
            | Deed::Mark(_)
            | Deed::Delete
            | Deed::DeleteOlder
            | Deed::Release
            | Deed::ReleaseOlder
            | Deed::Sweep => match runner {
                Some(runner) => runner.act(attempt, deed).await,
                None => Ok(()),
            },
        }
    }

    /// What the workload is known by; asked for once, however often it is tried to submit it.
    async fn credential(&self, attempt: &Attempt) -> Result<String, Failure> {
        let number = attempt.item.attempt;
        let known = self.table.get(&attempt.key).and_then(|entry| entry.credential);
        if let Some((_, known)) = known.filter(|(of, _)| *of == number) {
            return Ok(known);
        }
        let made = self.desk.credential(&attempt.item, &self.bench.key).await?;
        self.table.change(&attempt.key, |entry| entry.credential = Some((number, made.clone())));
        Ok(made)
    }

    async fn acknowledge(&self, attempt: &Attempt) -> Result<(), Failure> {
        let run = attempt.prepared.run.clone();
        let site = self.site(attempt).await?;
        self.desk.acknowledge(&attempt.item, &run, site.as_deref()).await?;
        self.table.change(&attempt.key, |entry| {
            entry.item.standing = Standing::Claimed;
            entry.item.run = Some(run);
        });
        Ok(())
    }

    /// Makes the run, so that launches which do not track themselves have one (once for each attempt).
    async fn begin_run(&self, attempt: &Attempt) -> Result<(), Failure> {
        let run = &attempt.prepared.run;
        let order = attempt.prepared.order.as_ref();
        let spec = order.map(|order| &order.spec);
        let config: Map<String, Value> = spec.map(|spec| spec.overrides.run_config.clone()).unwrap_or_default();
        let mut config: Map<String, Value> =
            config.into_iter().map(|(name, value)| (name, json!({ "value": value }))).collect();
        if matches!(self.desk, Desk::Theirs(_)) {
            // By this W&B's server knows which item the run is of, as its own client tells it.
            config.insert("_wandb".to_owned(), json!({ "value": { "launch_trace_id": attempt.item.id } }));
        }
        let mut fields = json!({ "state": "pending", "config": Value::Object(config).to_string() });
        if let Some(name) = spec.and_then(|spec| spec.name.clone()) {
            fields["displayName"] = json!(name);
        }
        if let Some(job) = order.and_then(|order| order.job.as_ref()) {
            fields["jobType"] = json!(job.name);
        }
        match self.bench.client.begin_run(run.path(), &fields).await {
            Err(error) if error.is_passing() => return Err(error.into()),
            Err(error) => tracing::warn!(item = attempt.item.id, %error, "its run could not be made"),
            Ok(_) => (),
        }
        self.table.change(&attempt.key, |entry| entry.begun = attempt.item.attempt);
        Ok(())
    }

    /// After a restart, or a cut at the wrong moment: the run may be there already, and be further than its beginning.
    async fn ensure_run(&self, attempt: &Attempt) -> Result<(), Failure> {
        let run = &attempt.prepared.run;
        if self.bench.client.run(&run.entity, &run.project, &run.name).await?.is_none() {
            return self.begin_run(attempt).await;
        }
        self.table.change(&attempt.key, |entry| entry.begun = attempt.item.attempt);
        Ok(())
    }

    /// The last lines first, then the end.
    async fn end(
        &self,
        attempt: &Attempt,
        sight: &Sight,
        runner: Option<&Arc<dyn Runner>>,
        end: End,
    ) -> Result<(), Failure> {
        if let (Some(runner), true) = (runner, sight.workload.is_some()) {
            self.consoles.drain(attempt, runner).await?;
        }
        let is_of_workload =
            |reason: &String| sight.workload.as_ref().is_some_and(|it| it.failure.as_ref() == Some(reason));
        let end = match (end, runner) {
            (End::Failed { stage: Stage::Run, reason }, Some(runner)) if is_of_workload(&reason) => {
                // With the last lines, which have come since.
                let seen = runner.observe(attempt, &|pod, name| self.consoles.tail(attempt, pod, name));
                let reason = seen.workload.and_then(|workload| workload.failure).unwrap_or(reason);
                End::Failed { stage: Stage::Run, reason }
            }
            (end, _) => end,
        };
        self.desk.end(&attempt.item, &attempt.prepared.run, &end, sight.exit_code).await?;
        tracing::info!(item = attempt.item.id, run = attempt.prepared.run.name, ?end, "ended");
        self.table.change(&attempt.key, |entry| entry.item.be_over());
        self.make_room();
        Ok(())
    }

    fn settle(&self, attempt: &Attempt) {
        attempt.prepared.recipe.iter().for_each(|recipe| self.builds.forget_failure(recipe));
        self.table.remove(&attempt.key);
        self.consoles.settle(attempt);
    }

    /// Tells people what it waits for and where it runs, when that has changed.
    async fn report(
        &self,
        attempt: &Attempt,
        entry: &Entry,
        sight: &Sight,
        waits_for: Option<String>,
    ) -> Result<(), Failure> {
        if !attempt.item.is_mine {
            return Ok(());
        }
        let is_running = sight.workload.as_ref().is_some_and(|workload| workload.state == State::Running);
        // Some kinds are called running while their pods crash.
        let is_crashing = sight.trouble.as_ref().is_some_and(|trouble| trouble.cause == Cause::CrashLoop);
        let waiting = waits_for.filter(|_| !is_running || is_crashing);
        let told = Told { waiting, is_running: is_running || entry.told.is_running, place: sight.place.clone() };
        if told != entry.told {
            let is_first = entry.told == Told::default();
            let manifest = attempt.manifests().ok().map(|manifests| &manifests.workload).filter(|_| is_first);
            self.desk.note(&attempt.item, &told, manifest).await?;
            self.table.change(&attempt.key, |entry| entry.told = told);
        }
        Ok(())
    }
}

/// A cluster or an engine that does not answer keeps no visit from others.
async fn ready(runner: &Arc<dyn Runner>, attempt: &Attempt) -> Done {
    let late = |_| Failure::Busy("what it is to run on does not answer yet".to_owned());
    tokio::time::timeout(READY_MAX, runner.ready(attempt)).await.map_err(late)?
}

enum Step {
    Again,
    Rest(Option<Duration>),
}

/// What runs is looked at when it changes; all else may end by the clock, or by what nobody tells of.
fn clock(sight: &Sight) -> Option<Duration> {
    let goes_on = sight.workload.as_ref().is_some_and(|it| it.state == State::Running && !it.is_being_deleted);
    (!goes_on || sight.trouble.is_some()).then_some(CLOCK)
}

/// What the plan is asked about.
fn seen(item: &Item, sight: &Sight, refusal: Option<String>, image: Image) -> Seen {
    let is_over = item.is_over;
    let mut item = item.seen();
    // A run that ended itself ends its item on the server, while the workload still has things to do: it is the
    // workload's end that counts.
    let goes_on = sight.workload.as_ref().is_some_and(|it| !it.state.is_final() && !it.is_being_deleted && it.is_held);
    if item.standing == Standing::Ended && item.is_mine && goes_on && !is_over {
        item.standing = Standing::Claimed;
    }
    Seen {
        item,
        image,
        refusal,
        workload: sight.workload.clone(),
        has_older: sight.has_older,
        pods: sight.pods,
        strays: sight.strays,
        has_helpers: sight.has_helpers,
        trouble: sight.trouble.clone(),
        lacks_run: false,
    }
}
