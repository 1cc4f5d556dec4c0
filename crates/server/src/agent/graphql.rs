//! Agents in the schema. Asking for one counts as its heartbeat: an agent asks for itself in every round.

use super::{Agent, expect, hear, store};
use crate::events;
use crate::fault::{Fault, Result};
use crate::graphql::Asked as _;
use crate::graphql::scalars::{DateTime, JsonText};
use crate::project::{self, Path};
use crate::run::graphql::mutation::SuccessPayload;
use crate::run::names;
use crate::{ids, queue};
use async_graphql::{Context, ID, InputObject, Object, SimpleObject};
use jiff::Timestamp;
use volley_plan::people::Deed;

#[derive(Default)]
pub struct AgentQuery;

#[Object]
impl AgentQuery {
    async fn launch_agent(&self, ctx: &Context<'_>, id: ID) -> Result<Option<LaunchAgent>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        let agent = match expect(shared, caller, Deed::See, &id).await {
            Ok(agent) => agent,
            Err(fault) if fault.status == http::StatusCode::NOT_FOUND => return Ok(None),
            Err(fault) => return Err(fault),
        };
        if caller.must(Deed::Serve, agent.entity_id, "").is_ok() {
            hear(shared, &agent, Timestamp::now()).await?;
        }
        Ok(Some(LaunchAgent::new(agent)))
    }
}

#[derive(SimpleObject)]
pub struct LaunchAgent {
    id: ID,
    name: String,
    run_queues: Vec<ID>,
    hostname: String,
    agent_status: String,
    stop_polling: bool,
    heartbeat_at: Option<DateTime>,
    agent_config: Option<JsonText>,
    version: Option<String>,
}

impl LaunchAgent {
    pub fn new(agent: Agent) -> LaunchAgent {
        let queues: Vec<String> = serde_json::from_str(&agent.queues).unwrap_or_default();
        LaunchAgent {
            id: ids::encode("LaunchAgent", agent.id),
            name: agent.name,
            run_queues: queues.into_iter().map(ID).collect(),
            hostname: agent.hostname,
            agent_status: agent.status,
            stop_polling: agent.is_told_to_stop,
            heartbeat_at: Some(DateTime(agent.heartbeat_at)),
            agent_config: agent.config.map(JsonText),
            version: agent.version,
        }
    }
}

#[derive(InputObject)]
pub struct CreateLaunchAgentInput {
    entity_name: String,
    project_name: String,
    run_queues: Vec<ID>,
    hostname: String,
    agent_config: Option<JsonText>,
    version: Option<String>,
}

#[derive(SimpleObject)]
pub struct CreateLaunchAgentPayload {
    launch_agent_id: ID,
}

#[derive(InputObject)]
pub struct UpdateLaunchAgentInput {
    launch_agent_id: ID,
    agent_status: Option<String>,
}

#[derive(InputObject)]
pub struct StopLaunchAgentInput {
    launch_agent_id: ID,
}

#[derive(Default)]
pub struct AgentMutation;

#[Object]
impl AgentMutation {
    /// Every start is a new agent. Its name is that of its hidden run, and a label in Kubernetes.
    async fn create_launch_agent(
        &self,
        ctx: &Context<'_>,
        input: CreateLaunchAgentInput,
    ) -> Result<Option<CreateLaunchAgentPayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        let path = Path::of(&input.entity_name, &input.project_name);
        let project = project::expect(shared, caller, Deed::Serve, path).await?;
        for id in &input.run_queues {
            queue::expect_id(shared, caller, Deed::Serve, id).await?;
        }
        let queues: Vec<&str> = input.run_queues.iter().map(|id| id.as_str()).collect();
        let new = store::NewAgent {
            project: project.id,
            name: &format!("launch-agent-{}", names::new_id()),
            hostname: &input.hostname,
            queues: &serde_json::to_string(&queues).map_err(Fault::internal)?,
            config: input.agent_config.as_ref().map(|config| config.0.as_str()),
            version: input.version.as_deref(),
            user: caller.user.id,
        };
        let now = Timestamp::now();
        let mut write = shared.database.write().await?;
        let id = store::insert(&mut write, &new, now).await?;
        let launch_agent_id = ids::encode("LaunchAgent", id);
        let body = serde_json::json!({ "agent": new.name, "status": "POLLING" });
        let event = events::Event { entity: project.entity_id, kind: "agent.created", subject: &launch_agent_id, body };
        events::record(&mut write, event, now).await?;
        write.commit().await?;
        shared.news.announce();
        Ok(Some(CreateLaunchAgentPayload { launch_agent_id }))
    }

    async fn update_launch_agent(
        &self,
        ctx: &Context<'_>,
        input: UpdateLaunchAgentInput,
    ) -> Result<Option<SuccessPayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        let agent = expect(shared, caller, Deed::Serve, &input.launch_agent_id).await?;
        let now = Timestamp::now();
        let mut write = shared.database.write().await?;
        store::hear(&mut write, agent.id, input.agent_status.as_deref(), now).await?;
        if input.agent_status.as_ref().is_some_and(|status| *status != agent.status) {
            let body = serde_json::json!({ "agent": agent.name, "status": input.agent_status });
            let subject = &input.launch_agent_id;
            events::record(
                &mut write,
                events::Event { entity: agent.entity_id, kind: "agent.status", subject, body },
                now,
            )
            .await?;
        }
        write.commit().await?;
        shared.news.announce();
        Ok(SuccessPayload::yes(None))
    }
    /// Tells an agent to end, as people do on its page. Not in W&B's public clients.
    async fn stop_launch_agent(
        &self,
        ctx: &Context<'_>,
        input: StopLaunchAgentInput,
    ) -> Result<Option<SuccessPayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        let agent = expect(shared, caller, Deed::Serve, &input.launch_agent_id).await?;
        let now = Timestamp::now();
        let mut write = shared.database.write().await?;
        store::tell_to_stop(&mut write, agent.id).await?;
        events::audit(&mut write, caller, "agent.stop", &agent.name, now).await?;
        let body = serde_json::json!({ "agent": agent.name });
        let subject = &input.launch_agent_id;
        let event = events::Event { entity: agent.entity_id, kind: "agent.stop", subject, body };
        events::record(&mut write, event, now).await?;
        write.commit().await?;
        shared.news.announce();
        Ok(SuccessPayload::yes(None))
    }
}
