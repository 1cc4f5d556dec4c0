//! What clients do to runs.

use super::Run;
use crate::fault::{Fault, Result};
use crate::graphql::scalars::{Duration, JsonText};
use crate::graphql::{Asked as _, Sender};
use crate::project::Path;
use crate::run::store::{self, Edit};
use crate::run::upsert::{self, Begin};
use crate::run::{self, branch, stream};
use crate::server_info::ServerSettings;
use async_graphql::{Context, Enum, ID, InputObject, Object, SimpleObject};
use jiff::Timestamp;
use volley_plan::people::Deed;
use volley_plan::run::state::{self, State};

#[derive(InputObject)]
pub struct UpsertBucketInput {
    id: Option<String>,
    name: Option<String>,
    model_name: Option<String>,
    entity_name: Option<String>,
    group_name: Option<String>,
    description: Option<String>,
    display_name: Option<String>,
    notes: Option<String>,
    config: Option<JsonText>,
    commit: Option<String>,
    host: Option<String>,
    debug: Option<bool>,
    job_program: Option<String>,
    job_repo: Option<String>,
    job_type: Option<String>,
    state: Option<String>,
    sweep: Option<String>,
    tags: Option<Vec<String>>,
    summary_metrics: Option<JsonText>,
    client_mutation_id: Option<String>,
}

impl UpsertBucketInput {
    fn edit(&mut self) -> Result<Edit> {
        let tags = self.tags.take().map(|tags| serde_json::to_string(&tags)).transpose().map_err(Fault::internal)?;
        Ok(Edit {
            display_name: self.display_name.take(),
            description: self.description.take(),
            notes: self.notes.take(),
            tags,
            config: self.config.take().map(|text| text.0),
            summary: self.summary_metrics.take().map(|text| text.0),
            group_name: self.group_name.take(),
            job_type: self.job_type.take(),
            commit_hash: self.commit.take(),
            host: self.host.take(),
            program: self.job_program.take(),
            repo: self.job_repo.take(),
            sweep_name: self.sweep.take(),
        })
    }
}

#[derive(SimpleObject)]
pub struct UpsertBucketPayload {
    bucket: Option<Run>,
    inserted: Option<bool>,
    server_settings: Option<ServerSettings>,
}

#[derive(InputObject)]
pub struct DeleteRunInput {
    id: ID,
    delete_artifacts: Option<bool>,
    client_mutation_id: Option<String>,
}

#[derive(SimpleObject)]
pub struct DeleteRunPayload {
    client_mutation_id: Option<String>,
    success: Option<bool>,
}

#[derive(InputObject)]
pub struct StopRunInput {
    id: ID,
    client_mutation_id: Option<String>,
}

#[derive(InputObject)]
pub struct UpdateRunStateInput {
    id: ID,
    state: String,
    client_mutation_id: Option<String>,
}

#[derive(InputObject)]
pub struct NotifyScriptableRunAlertInput {
    entity_name: String,
    project_name: String,
    run_name: String,
    title: String,
    text: String,
    severity: Option<AlertSeverity>,
    wait_duration: Option<Duration>,
}

#[derive(Enum, Clone, Copy, PartialEq, Eq)]
pub enum AlertSeverity {
    Info,
    Warn,
    Error,
}

#[derive(InputObject)]
pub struct RewindRunInput {
    run_name: String,
    entity_name: Option<String>,
    project_name: Option<String>,
    metric_name: String,
    metric_value: f64,
}

#[derive(SimpleObject)]
pub struct RewindRunPayload {
    rewound_run: Option<Run>,
}

#[derive(SimpleObject, Default)]
pub struct SuccessPayload {
    pub success: Option<bool>,
    pub client_mutation_id: Option<String>,
}

impl SuccessPayload {
    pub fn yes(client_mutation_id: Option<String>) -> Option<SuccessPayload> {
        Some(SuccessPayload { success: Some(true), client_mutation_id })
    }

    pub fn of(success: bool) -> Option<SuccessPayload> {
        Some(SuccessPayload { success: Some(success), client_mutation_id: None })
    }
}

#[derive(Default)]
pub struct RunMutation;

#[Object]
impl RunMutation {
    async fn upsert_bucket(
        &self,
        ctx: &Context<'_>,
        mut input: UpsertBucketInput,
    ) -> Result<Option<UpsertBucketPayload>> {
        let edit = input.edit()?;
        let (shared, caller) = (ctx.shared(), ctx.caller());
        let (run, is_new) = match input.id.as_deref().filter(|id| !id.is_empty()) {
            Some(id) => (upsert::edit(shared, caller, id, edit).await?, false),
            None => {
                let path = Path { entity: input.entity_name.as_deref(), project: input.model_name.as_deref() };
                let Sender { is_shared, username, .. } = ctx.sender();
                let begin = Begin {
                    path,
                    name: input.name.as_deref(),
                    state: input.state.as_deref(),
                    edit,
                    is_shared: *is_shared,
                    on_behalf_of: username.as_deref(),
                };
                upsert::begin(shared, caller, begin).await?
            }
        };
        Ok(Some(UpsertBucketPayload {
            bucket: Some(Run::new(run)),
            inserted: Some(is_new),
            server_settings: Some(ServerSettings::default()),
        }))
    }

    /// Deleting what is gone is done already. Artifacts stay unless asked for: jobs are made by runs that are then deleted.
    async fn delete_run(&self, ctx: &Context<'_>, input: DeleteRunInput) -> Result<Option<DeleteRunPayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        let done = Ok(Some(DeleteRunPayload { client_mutation_id: input.client_mutation_id, success: Some(true) }));
        let run = match run::expect_id(shared, caller, Deed::Curate, &input.id).await {
            Ok(run) => run,
            Err(fault) if fault.status == http::StatusCode::NOT_FOUND => return done,
            Err(fault) => return Err(fault),
        };
        let mut write = shared.database.write().await?;
        if input.delete_artifacts.unwrap_or(false) {
            for artifact in crate::artifact::store::made_by_run(&shared.database, run.id).await? {
                crate::artifact::store::mark_deleted(&mut write, artifact.id, Timestamp::now()).await?;
            }
        }
        store::delete(&mut write, run.project_id, run.id).await?;
        crate::events::audit(&mut write, caller, "run.delete", &run.path(), Timestamp::now()).await?;
        write.commit().await?;
        shared.blobs.delete_all(&format!("files/{}", run.id)).await.map_err(Fault::internal)?;
        done
    }

    async fn stop_run(&self, ctx: &Context<'_>, input: StopRunInput) -> Result<Option<SuccessPayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        let run = run::expect_id(shared, caller, Deed::Log, &input.id).await?;
        let now = Timestamp::now();
        let mut write = shared.database.write().await?;
        store::stop(&mut write, run.id, now).await?;
        crate::events::audit(&mut write, caller, "run.stop", &run.path(), now).await?;
        let body = serde_json::json!({ "run": run.path() });
        let event = crate::events::Event { entity: run.entity_id, kind: "run.stop", subject: &input.id, body };
        for item in crate::queue::items::open_of_run(&mut write, run.id).await? {
            crate::queue::stop::ask(&mut write, &item, &caller.user.username, now).await?;
        }
        crate::events::record(&mut write, event, now).await?;
        write.commit().await?;
        shared.news.announce();
        Ok(SuccessPayload::yes(input.client_mutation_id))
    }

    async fn update_run_state(&self, ctx: &Context<'_>, input: UpdateRunStateInput) -> Result<Option<SuccessPayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        let run = run::expect_id(shared, caller, Deed::Log, &input.id).await?;
        let now = Timestamp::now();
        let mut write = shared.database.write().await?;
        let run = store::lock(&mut write, run.project_id, &run.name).await?.ok_or_else(|| Fault::missing("the run"))?;
        let before = State::named(&run.state).unwrap_or(State::Running);
        let wanted = State::named(&input.state).and_then(|wanted| state::on_request(before, wanted));
        let refuse = || Fault::bad(format!("a run that is `{}` cannot be made `{}`", run.state, input.state));
        let wanted = wanted.ok_or_else(refuse)?;
        store::set_state(&mut write, run.id, wanted, now).await?;
        stream::report(&mut write, &run, wanted, now).await?;
        write.commit().await?;
        shared.news.announce();
        Ok(SuccessPayload::yes(input.client_mutation_id))
    }

    /// An alert becomes an event, which whoever follows the run sees.
    async fn notify_scriptable_run_alert(
        &self,
        ctx: &Context<'_>,
        input: NotifyScriptableRunAlertInput,
    ) -> Result<Option<SuccessPayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        let path = Path::of(&input.entity_name, &input.project_name);
        let run = run::expect(shared, caller, Deed::Log, path, &input.run_name).await?;
        let body = serde_json::json!({ "run": run.path(), "title": input.title, "text": input.text });
        let mut write = shared.database.write().await?;
        let id = run.global_id();
        let event = crate::events::Event { entity: run.entity_id, kind: "run.alert", subject: &id, body };
        crate::events::record(&mut write, event, Timestamp::now()).await?;
        write.commit().await?;
        shared.news.announce();
        Ok(SuccessPayload::yes(None))
    }

    async fn rewind_run(&self, ctx: &Context<'_>, input: RewindRunInput) -> Result<Option<RewindRunPayload>> {
        if input.metric_name != "_step" {
            return Err(Fault::bad(format!("a run is rewound by `_step`, not by `{}`", input.metric_name)));
        }
        let path = Path { entity: input.entity_name.as_deref(), project: input.project_name.as_deref() };
        let step = input.metric_value as i64;
        let run = branch::rewind(ctx.shared(), ctx.caller(), path, &input.run_name, step).await?;
        Ok(Some(RewindRunPayload { rewound_run: Some(Run::new(run)) }))
    }
}
