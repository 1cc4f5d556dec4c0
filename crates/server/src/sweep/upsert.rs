//! `upsertSweep`: a sweep is made, edited, or handed to a scheduler that runs as a queue item.

use super::graphql::Sweep;
use super::{Sweep as Record, store, yaml};
use crate::Shared;
use crate::fault::{Fault, Result};
use crate::graphql::Asked as _;
use crate::graphql::scalars::JsonText;
use crate::people::Caller;
use crate::project::{self, Path};
use crate::queue::push::{Asked as Pushed, push};
use crate::run::graphql::project::{each_passing, read_filter};
use crate::run::names;
use crate::{ids, queue};
use async_graphql::{Context, ID, InputObject, Object, SimpleObject};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use volley_plan::people::Deed;
use volley_plan::queue::spec::PRIORITY_DEFAULT;
use volley_plan::run::filter::Filter;
use volley_plan::run::lenient;
use volley_plan::sweep::config;

/// What a scheduler's spec says where the sweep's name belongs, which is not known before the sweep is made.
const PLACE_OF_NAME: &str = "WANDB_SWEEP_ID";
/// Others wait while they are written.
const PRIOR_MAX: usize = 1000;

#[derive(InputObject)]
pub struct UpsertSweepInput {
    id: Option<ID>,
    name: Option<String>,
    config: Option<String>,
    description: Option<String>,
    display_name: Option<String>,
    entity_name: Option<String>,
    project_name: Option<String>,
    controller: Option<JsonText>,
    scheduler: Option<JsonText>,
    state: Option<String>,
    prior_runs_filters: Option<JsonText>,
    launch_scheduler: Option<JsonText>,
    template_variable_values: Option<JsonText>,
    client_mutation_id: Option<String>,
}

#[derive(SimpleObject)]
pub struct UpsertSweepPayload {
    sweep: Option<Sweep>,
    config_validation_warnings: Option<Vec<String>>,
}

/// Where a sweep's scheduler is to run.
#[derive(Deserialize)]
struct Scheduler {
    queue: String,
    run_queue_project: Option<String>,
    /// JSON text.
    run_spec: String,
}

#[derive(Default)]
pub struct SweepMutation;

#[Object]
impl SweepMutation {
    async fn upsert_sweep(&self, ctx: &Context<'_>, input: UpsertSweepInput) -> Result<Option<UpsertSweepPayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        if let Some(text) = &input.config {
            config::read(&yaml(text)?).map_err(|error| Fault::bad(error.to_string()))?;
        }
        let is_asked = |filters: &JsonText| !matches!(filters.0.as_str(), "" | "{}" | "null");
        let prior = input.prior_runs_filters.clone().filter(is_asked);
        let prior = prior.map(|filters| read_filter(Some(filters))).transpose()?;
        let sweep = match &input.id {
            Some(id) => expect(shared, caller, id).await?,
            None => make(shared, caller, &input).await?,
        };
        let edit = store::Edit {
            config: input.config.as_deref(),
            display_name: input.display_name.as_deref(),
            description: input.description.as_deref(),
            controller: input.controller.as_ref().map(|text| text.0.as_str()),
            scheduler: input.scheduler.as_ref().map(|text| text.0.as_str()),
            state: input.state.as_deref(),
        };
        let prior = match &prior {
            Some(filter) => prior_runs(shared, &sweep, &input, filter).await?,
            None => Vec::new(),
        };
        let mut write = shared.database.write().await?;
        store::edit(&mut write, sweep.id, &edit, Timestamp::now()).await?;
        for prior in &prior {
            store::add_prior_run(&mut write, &sweep, prior, Timestamp::now()).await?;
        }
        write.commit().await?;
        if let Some(text) = &input.launch_scheduler {
            let values = input.template_variable_values.as_ref().map(|values| values.0.as_str());
            schedule(shared, caller, &sweep, &text.0, values).await?;
        }
        let sweep = store::by_id(&shared.database, sweep.id).await?.map(Sweep);
        Ok(Some(UpsertSweepPayload { sweep, config_validation_warnings: Some(Vec::new()) }))
    }
}

async fn expect(shared: &Shared, caller: &Caller, id: &str) -> Result<Record> {
    let missing = || Fault::missing("the sweep");
    let number = ids::decode("Sweep", id).ok_or_else(missing)?;
    let sweep = store::by_id(&shared.database, number).await?.ok_or_else(missing)?;
    caller.must(Deed::Curate, sweep.entity_id, "the sweep")?;
    Ok(sweep)
}

async fn make(shared: &Shared, caller: &Caller, input: &UpsertSweepInput) -> Result<Record> {
    let path = Path { entity: input.entity_name.as_deref(), project: input.project_name.as_deref() };
    let project = project::ensure(shared, caller, path).await?;
    caller.must(Deed::Curate, project.entity_id, "sweeps")?;
    let name = input.name.clone().unwrap_or_else(names::new_id);
    let mut write = shared.database.write().await?;
    let id = store::insert(&mut write, project.id, &name, caller.user.id, Timestamp::now()).await?;
    write.commit().await?;
    store::by_id(&shared.database, id).await?.ok_or_else(|| Fault::missing("the sweep"))
}

/// Runs from before the sweep that it is to learn from, and what they were run with of what it searches.
async fn prior_runs(
    shared: &Shared,
    sweep: &Record,
    input: &UpsertSweepInput,
    filter: &Filter,
) -> Result<Vec<store::Prior>> {
    let text = input.config.as_deref().unwrap_or(&sweep.config);
    let config = config::read(&yaml(text)?).map_err(|error| Fault::bad(error.to_string()))?;
    let mut found = Vec::new();
    each_passing(&shared.database, sweep.project_id, filter, |run| {
        if found.len() <= PRIOR_MAX {
            let own = lenient::parse(&run.config).unwrap_or_default();
            let value = |name: &String| Some((name.clone(), json!({ "value": own.get(name)?.get("value")? })));
            let params: Map<String, Value> = config.parameters.keys().filter_map(value).collect();
            let params = Value::Object(params).to_string();
            found.push(store::Prior { run_id: run.id, run_name: run.name.clone(), params });
        }
    })
    .await?;
    match found.len() > PRIOR_MAX {
        true => Err(Fault::bad(format!("`priorRunsFilters` names more than {PRIOR_MAX} runs; name fewer"))),
        false => Ok(found),
    }
}

/// Pushes the scheduler, whose spec was written before the sweep had a name.
async fn schedule(shared: &Shared, caller: &Caller, sweep: &Record, text: &str, values: Option<&str>) -> Result<()> {
    let scheduler: Scheduler = serde_json::from_str(text)
        .map_err(|error| Fault::bad(format!("`launchScheduler` has no queue and run spec: {error}")))?;
    let project = project::store::by_id(&shared.database, sweep.project_id).await?;
    let project = project.ok_or_else(|| Fault::missing("the project"))?;
    let place = scheduler.run_queue_project.as_deref().unwrap_or(&project.name);
    let path = Path::of(&project.entity, place);
    let queue = queue::expect(shared, caller, Deed::Submit, path, &scheduler.queue).await?;
    let spec = scheduler.run_spec.replace(PLACE_OF_NAME, &sweep.name);
    let asked = Pushed { spec: &spec, values, priority: Some(PRIORITY_DEFAULT), key: None };
    push(shared, caller, &queue, &asked).await.map(drop)
}
