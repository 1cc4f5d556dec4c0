//! What clients do to queues and items.

use super::graphql::{RunQueueAccessType, RunQueuePrioritizationMode};
use super::input::*;
use super::items::{self, Item, Report};
use super::push::{Asked as Pushed, push};
use super::{Config, limits, quota, store};
use crate::Shared;
use crate::args;
use crate::database::Dialect;
use crate::events;
use crate::fault::{Fault, Result};
use crate::graphql::Asked as _;
use crate::graphql::scalars::{Json, JsonText};
use crate::people::Caller;
use crate::project::{self, Path, Project};
use crate::run::graphql::mutation::SuccessPayload;
use crate::{agent, ids, queue};
use async_graphql::{Context, ID, Object};
use jiff::Timestamp;
use serde_json::{Map, Value};
use volley_plan::people::Deed;
use volley_plan::queue::item::{self, State};
use volley_plan::queue::{spec, template};

/// Queue names have 1 to 64 characters.
const NAME_MAX: usize = 64;
/// Warnings beyond this replace the oldest: an agent reports every ten seconds that a pod does not fit.
const WARNINGS_MAX: usize = 100;

#[derive(Default)]
pub struct QueueMutation;

#[Object]
impl QueueMutation {
    async fn create_default_resource_config(
        &self,
        ctx: &Context<'_>,
        input: CreateDefaultResourceConfigInput,
    ) -> Result<Option<CreateDefaultResourceConfigPayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        let project = project::ensure(shared, caller, Path::of(&input.entity_name, project::REGISTRY)).await?;
        caller.must(Deed::CreateQueue, project.entity_id, format!("entity `{}`", project.entity))?;
        let variables = input.template_variables.map(|text| text.0);
        let config = read_config(&project, &input.resource, &input.config.0, variables)?;
        let mut write = shared.database.write().await?;
        let id = store::add_config(&mut write, &config, caller.user.id, Timestamp::now()).await?;
        write.commit().await?;
        let config_id = ids::encode("DefaultResourceConfig", id);
        Ok(Some(CreateDefaultResourceConfigPayload { config_id, success: true }))
    }

    async fn create_run_queue(
        &self,
        ctx: &Context<'_>,
        input: CreateRunQueueInput,
    ) -> Result<Option<CreateRunQueuePayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        let project = project::ensure(shared, caller, Path::of(&input.entity_name, &input.project_name)).await?;
        caller.must(Deed::CreateQueue, project.entity_id, format!("entity `{}`", project.entity))?;
        check_name(&input.queue_name)?;
        let config = match &input.config_id {
            Some(id) => Some(config_of(shared, &project, id).await?),
            None => None,
        };
        let mode = input.prioritization_mode.unwrap_or(RunQueuePrioritizationMode::Disabled);
        let new = store::NewQueue {
            project: project.id,
            name: &input.queue_name,
            access: input.access.name(),
            mode: mode.name(),
            config,
            links: "{}",
            user: caller.user.id,
        };
        let id = create(shared, caller, &project, &new).await?;
        let taken = || Fault::conflict(format!("queue `{}` exists already in `{}`", input.queue_name, project.entity));
        let id = id.ok_or_else(taken)?;
        Ok(Some(CreateRunQueuePayload { success: Some(true), queue_id: Some(ids::encode("RunQueue", id)) }))
    }

    async fn upsert_run_queue(
        &self,
        ctx: &Context<'_>,
        input: UpsertRunQueueInput,
    ) -> Result<Option<UpsertRunQueuePayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        let project = project::ensure(shared, caller, Path::of(&input.entity_name, &input.project_name)).await?;
        check_name(&input.queue_name)?;
        let existing = store::by_name(&shared.database, project.id, &input.queue_name).await?;
        match &existing {
            Some(queue) => queue.must(caller, Deed::ManageQueue)?,
            None => caller.must(Deed::CreateQueue, project.entity_id, format!("entity `{}`", project.entity))?,
        }
        let variables = input.template_variables.map(|text| text.0);
        let config = read_config(&project, &input.resource_type, &input.resource_config.0, variables)?;
        let links = input.external_links.map_or_else(|| "{}".to_owned(), |links| links.0);
        let now = Timestamp::now();
        let mut write = shared.database.write().await?;
        let config = store::add_config(&mut write, &config, caller.user.id, now).await?;
        write.commit().await?;
        let mode = input.prioritization_mode.unwrap_or(RunQueuePrioritizationMode::Disabled).name();
        let access = RunQueueAccessType::Project.name();
        let new = store::NewQueue {
            project: project.id,
            name: &input.queue_name,
            access,
            mode,
            config: Some(config),
            links: &links,
            user: caller.user.id,
        };
        if create(shared, caller, &project, &new).await?.is_none() {
            // It was there, or somebody made it meanwhile, who then must be its maker for this to be permitted.
            let queue = store::by_name(&shared.database, project.id, &input.queue_name).await?;
            let queue = queue.ok_or_else(|| Fault::missing("the queue"))?;
            queue.must(caller, Deed::ManageQueue)?;
            let mut write = shared.database.write().await?;
            store::replace(&mut write, queue.id, config, mode, &links, now).await?;
            store::remember(&mut write, queue.id, &new, now).await?;
            tell(&mut write, caller, &project, ("queue.changed", &queue.name, queue.audience()), now).await?;
            write.commit().await?;
            shared.news.announce();
        }
        Ok(Some(UpsertRunQueuePayload { success: Some(true), config_schema_validation_errors: Some(Vec::new()) }))
    }

    async fn delete_run_queues(
        &self,
        ctx: &Context<'_>,
        input: DeleteRunQueuesInput,
    ) -> Result<Option<SuccessPayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        for id in &input.queue_ids {
            let queue = queue::expect_id(shared, caller, Deed::ManageQueue, id).await?;
            let project = project::store::by_id(&shared.database, queue.project_id).await?;
            let project = project.ok_or_else(|| Fault::missing("the project"))?;
            let (mut write, now) = (shared.database.write().await?, Timestamp::now());
            store::delete(&mut write, queue.id, now).await?;
            let deleted = ("queue.deleted", queue.name.as_str(), queue.mourners());
            tell(&mut write, caller, &project, deleted, now).await?;
            write.commit().await?;
            shared.news.announce();
        }
        Ok(SuccessPayload::yes(input.client_mutation_id))
    }

    async fn push_to_run_queue(
        &self,
        ctx: &Context<'_>,
        input: PushToRunQueueInput,
    ) -> Result<Option<PushToRunQueuePayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        let queue = queue::expect_id(shared, caller, Deed::Submit, &input.queue_id).await?;
        let values = input.template_variable_values.as_ref().map(|values| values.0.as_str());
        let key = ctx.sender().idempotency_key.as_deref();
        let asked = Pushed { spec: &input.run_spec.0, values, priority: input.priority.map(i64::from), key };
        let (id, _) = push(shared, caller, &queue, &asked).await?;
        Ok(Some(PushToRunQueuePayload { run_queue_item_id: ids::encode("RunQueueItem", id) }))
    }

    async fn push_to_run_queue_by_name(
        &self,
        ctx: &Context<'_>,
        input: PushToRunQueueByNameInput,
    ) -> Result<Option<PushToRunQueueByNamePayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        let path = Path::of(&input.entity_name, &input.project_name);
        let queue = queue::expect(shared, caller, Deed::Submit, path, &input.queue_name).await?;
        let values = input.template_variable_values.as_ref().map(|values| values.0.as_str());
        let key = ctx.sender().idempotency_key.as_deref();
        let asked = Pushed { spec: &input.run_spec.0, values, priority: input.priority.map(i64::from), key };
        let (id, resolved) = push(shared, caller, &queue, &asked).await?;
        let run_spec = Some(JsonText(spec::shown(resolved.spec).to_string()));
        Ok(Some(PushToRunQueueByNamePayload { run_queue_item_id: ids::encode("RunQueueItem", id), run_spec }))
    }

    async fn pop_from_run_queue(
        &self,
        ctx: &Context<'_>,
        input: PopFromRunQueueInput,
    ) -> Result<Option<PopFromRunQueuePayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        let path = Path::of(&input.entity_name, &input.project_name);
        let queue = queue::expect(shared, caller, Deed::Serve, path, &input.queue_name).await?;
        let agent = match &input.launch_agent_id {
            Some(id) => Some(agent::expect(shared, caller, Deed::Serve, id).await?.id),
            None => None,
        };
        let now = Timestamp::now();
        if !items::is_anything_waiting(&shared.database, queue.id, now).await? {
            return Ok(None);
        }
        let mut write = shared.database.write().await?;
        let popped = pop(&mut write, &queue, agent, &[], now).await?;
        write.commit().await?;
        let Some(popped) = popped else {
            return Ok(None);
        };
        shared.news.announce();
        Ok(Some(PopFromRunQueuePayload {
            run_queue_item_id: ids::encode_lease(popped.id, popped.lease),
            run_spec: Json(serde_json::from_str(&popped.spec).unwrap_or_default()),
        }))
    }

    async fn ack_run_queue_item(
        &self,
        ctx: &Context<'_>,
        input: AckRunQueueItemInput,
    ) -> Result<Option<SuccessPayload>> {
        let shared = ctx.shared();
        let lease = expect_item(shared, ctx.caller(), &input.run_queue_item_id).await?.1;
        let (mut write, item) = lock(shared, &input.run_queue_item_id).await?;
        let answer = item::acknowledge(&item.life, lease, &input.run_name);
        let success = items::settle(&mut write, &item, answer, Timestamp::now()).await?;
        write.commit().await?;
        shared.news.announce();
        Ok(SuccessPayload::of(success))
    }

    async fn fail_run_queue_item(
        &self,
        ctx: &Context<'_>,
        input: FailRunQueueItemInput,
    ) -> Result<Option<SuccessPayload>> {
        let shared = ctx.shared();
        let lease = expect_item(shared, ctx.caller(), &input.run_queue_item_id).await?.1;
        let (mut write, item) = lock(shared, &input.run_queue_item_id).await?;
        let answer = item::fail(&item.life, lease, &input.message);
        if matches!(answer, item::Answer::Done(_)) {
            let file_paths = input.file_paths.unwrap_or_default();
            let report = Report { message: input.message, stage: input.stage, file_paths };
            items::set_error(&mut write, item.id, &report).await?;
        }
        items::settle(&mut write, &item, answer, Timestamp::now()).await?;
        write.commit().await?;
        shared.news.announce();
        Ok(SuccessPayload::of(true))
    }

    async fn update_run_queue_item_warning(
        &self,
        ctx: &Context<'_>,
        input: UpdateRunQueueItemWarningInput,
    ) -> Result<Option<SuccessPayload>> {
        let shared = ctx.shared();
        expect_item(shared, ctx.caller(), &input.run_queue_item_id).await?;
        let (mut write, item) = lock(shared, &input.run_queue_item_id).await?;
        let mut warnings = item.warnings();
        // The same warning again, ten seconds later, is not news.
        warnings.retain(|known| known.message != input.message || known.stage != input.stage);
        let file_paths = input.file_paths.unwrap_or_default();
        let is_news = warnings.len() == item.warnings().len();
        warnings.push(Report { message: input.message.clone(), stage: input.stage, file_paths });
        let first = warnings.len().saturating_sub(WARNINGS_MAX);
        items::set_warnings(&mut write, item.id, &warnings[first..]).await?;
        if is_news {
            let (subject, body) =
                (ids::encode("RunQueueItem", item.id), serde_json::json!({ "warning": input.message }));
            let event = events::Event { entity: item.audience, kind: "item.warning", subject: &subject, body };
            events::record(&mut write, event, Timestamp::now()).await?;
        }
        write.commit().await?;
        shared.news.announce();
        Ok(SuccessPayload::of(true))
    }

    async fn delete_from_run_queue(
        &self,
        ctx: &Context<'_>,
        input: DeleteFromRunQueueInput,
    ) -> Result<Option<SuccessPayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        let queue = queue::expect_id(shared, caller, Deed::See, &input.queue_id).await?;
        let (mut write, item) = lock(shared, &input.run_queue_item_id).await?;
        if item.queue_id != queue.id {
            return Err(Fault::missing("the item"));
        }
        queue.must_command(caller, item.user_id)?;
        if matches!(item.life.state, State::Claimed | State::Running) {
            return Err(Fault::conflict("the item has been started; hint: stop its run"));
        }
        items::delete(&mut write, item.id).await?;
        let id = ids::encode("RunQueueItem", item.id);
        let body = serde_json::json!({ "queue": ids::encode("RunQueue", queue.id).as_str() });
        let event = events::Event { entity: item.audience, kind: "item.deleted", subject: &id, body };
        let entity = project::store::by_id(&shared.database, queue.project_id).await?.map(|project| project.entity);
        let subject = format!("{}/{}/{}", entity.unwrap_or_default(), queue.name, input.run_queue_item_id.as_str());
        events::audit(&mut write, caller, "item.delete", &subject, Timestamp::now()).await?;
        events::record(&mut write, event, Timestamp::now()).await?;
        write.commit().await?;
        shared.news.announce();
        Ok(SuccessPayload::yes(input.client_mutation_id))
    }
}

/// Hands out the next item that may start.
pub async fn pop(
    write: &mut crate::database::Write,
    queue: &super::Queue,
    agent: Option<i64>,
    without: &[i64],
    now: Timestamp,
) -> crate::database::Result<Option<items::Popped>> {
    if !limits::is_room_to_run(write, queue, now).await? {
        return Ok(None);
    }
    match quota::exist(write).await? {
        true => quota::pop(write, queue, agent, without, now).await,
        false => items::pop(write, queue, agent, without, now).await,
    }
}

async fn create(shared: &Shared, caller: &Caller, project: &Project, new: &store::NewQueue<'_>) -> Result<Option<i64>> {
    let now = Timestamp::now();
    let mut write = shared.database.write().await?;
    let id = store::insert(&mut write, new, now).await?;
    if id.is_some() {
        let is_private = new.access == RunQueueAccessType::User.name();
        let audience = if is_private { caller.user.entity_id } else { project.entity_id };
        tell(&mut write, caller, project, ("queue.created", new.name, audience), now).await?;
        write.commit().await?;
        shared.news.announce();
    }
    Ok(id)
}

async fn tell(
    write: &mut crate::database::Write,
    caller: &Caller,
    project: &Project,
    (kind, queue, audience): (&str, &str, i64),
    now: Timestamp,
) -> Result<()> {
    events::audit(write, caller, kind, &format!("{}/{queue}", project.entity), now).await?;
    let body = serde_json::json!({ "queue": queue, "entity": project.entity });
    let event = events::Event { entity: audience, kind, subject: queue, body };
    Ok(events::record(write, event, now).await?)
}

fn check_name(name: &str) -> Result<()> {
    let is_name = (1..=NAME_MAX).contains(&name.chars().count()) && !name.chars().any(char::is_control);
    is_name.then_some(()).ok_or_else(|| Fault::bad(format!("a queue's name has 1 to {NAME_MAX} characters")))
}

async fn config_of(shared: &Shared, project: &Project, id: &ID) -> Result<i64> {
    let missing = || Fault::missing("the resource config");
    let number = ids::decode("DefaultResourceConfig", id).ok_or_else(missing)?;
    let config = store::config_by_id(&shared.database, number).await?;
    config.filter(|config| config.entity_id == project.entity_id).map(|config| config.id).ok_or_else(missing)
}

/// A config that was checked: an object, wrapped as clients expect it, whose tokens are all declared.
fn read_config(project: &Project, resource: &str, config: &str, variables: Option<String>) -> Result<Config> {
    let mut value: Map<String, Value> = serde_json::from_str(config)
        .map_err(|error| Fault::bad(format!("the queue's config is not a JSON object: {error}")))?;
    if !value.contains_key("resource_args") {
        let inner = Value::Object(std::mem::take(&mut value));
        value.insert("resource_args".to_owned(), serde_json::json!({ resource: inner }));
    }
    let variables = variables.filter(|text| !text.is_empty()).unwrap_or_else(|| "{}".to_owned());
    let told = |problems: Vec<template::Problem>| {
        Fault::bad(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    };
    let declared = template::declare(&variables).map_err(told)?;
    let value = Value::Object(value);
    let problems = template::check(&value, &declared);
    if !problems.is_empty() {
        return Err(told(problems));
    }
    Ok(Config {
        id: 0,
        entity_id: project.entity_id,
        resource: resource.to_owned(),
        config: value.to_string(),
        variables,
    })
}

/// The item of an id and the lease that the id names, for an agent.
async fn expect_item(shared: &Shared, caller: &Caller, id: &str) -> Result<(Item, i64)> {
    let (item, lease, _) = queue::expect_item(shared, caller, Deed::Serve, id).await?;
    Ok((item, lease))
}

pub async fn lock(shared: &Shared, id: &str) -> Result<(crate::database::Write, Item)> {
    let missing = || Fault::missing("the item");
    let (number, _) = ids::decode_item(id).ok_or_else(missing)?;
    let mut write = shared.database.write().await?;
    if write.dialect() == Dialect::Postgres {
        // The run first, then its item: in the order of those who write a run, so that nobody waits in a circle.
        let sql = "UPDATE runs SET updated_at = updated_at WHERE id = (SELECT run_id FROM items WHERE id = $1)";
        write.run(sql, args![number]).await?;
    }
    let item = items::lock(&mut write, number).await?.ok_or_else(missing)?;
    Ok((write, item))
}
