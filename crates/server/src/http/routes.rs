//! Every route of the server, in one table: the router and the OpenAPI document are both made of it.
//!
//! A hand-written table instead of a crate that derives the document: there are few routes, GraphQL is described by its own
//! schema, and what is not in the table does not exist, so the two cannot disagree.

use super::{blob, fallback, graphql, health, not_found, openapi, page};
use crate::{Shared, agent, events, people, queue, run};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, on};

/// `wandb verify` sends ten megabytes in one variable; one history line may have as many.
pub const BODY_MAX: usize = 64 << 20;
/// What people send to `/api/v1`: a few words.
const WORDS_MAX: usize = 1 << 20;

/// Who may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// Anybody.
    Open,
    /// Whoever has a key or a session; what they find is decided further in.
    Known,
    /// Whoever has a URL with a signature.
    Signed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Get,
    Post,
    Put,
    Patch,
    Delete,
    Options,
}

impl Verb {
    pub fn word(self) -> &'static str {
        match self {
            Verb::Get => "get",
            Verb::Post => "post",
            Verb::Put => "put",
            Verb::Patch => "patch",
            Verb::Delete => "delete",
            Verb::Options => "options",
        }
    }

    fn filter(self) -> MethodFilter {
        match self {
            Verb::Get => MethodFilter::GET,
            Verb::Post => MethodFilter::POST,
            Verb::Put => MethodFilter::PUT,
            Verb::Patch => MethodFilter::PATCH,
            Verb::Delete => MethodFilter::DELETE,
            Verb::Options => MethodFilter::OPTIONS,
        }
    }
}

/// One thing that can be asked for.
pub struct Route {
    pub verb: Verb,
    pub path: &'static str,
    pub door: Door,
    pub summary: &'static str,
    /// What the body has: `name: type`, with a `?` for what may be left out. Empty for no body, or for bytes.
    pub body: &'static str,
    /// The same for the query.
    pub query: &'static str,
    answer: MethodRouter<Shared>,
}

fn route<H, T>(verb: Verb, path: &'static str, door: Door, summary: &'static str, answer: H) -> Route
where
    H: Handler<T, Shared>,
    T: 'static,
{
    Route { verb, path, door, summary, body: "", query: "", answer: on(verb.filter(), answer) }
}

impl Route {
    fn body(self, body: &'static str) -> Route {
        Route { body, ..self }
    }

    fn query(self, query: &'static str) -> Route {
        Route { query, ..self }
    }

    fn most(&self) -> DefaultBodyLimit {
        match (self.door, self.path.starts_with("/api/v1/")) {
            (Door::Signed, _) => DefaultBodyLimit::disable(),
            (_, true) => DefaultBodyLimit::max(WORDS_MAX),
            (_, false) => DefaultBodyLimit::max(BODY_MAX),
        }
    }
}

pub fn router(shared: Shared) -> Router {
    let mut router = Router::new();
    for one in all() {
        let most = one.most();
        router = router.route(one.path, one.answer.layer(most));
    }
    router.fallback(page::serve).method_not_allowed_fallback(super::not_allowed).with_state(shared)
}

pub fn all() -> Vec<Route> {
    [wandb(), about(), people(), teams(), work(), agents()].into_iter().flatten().collect()
}

/// What W&B's clients ask for.
fn wandb() -> Vec<Route> {
    use Door::{Known, Open, Signed};
    use Verb::{Get, Options, Post, Put};
    let artifact = "/artifactsV2/{region}/{entity}/{project}/{collection}/{birth}/{digest}/{*name}";
    vec![
        route(Post, "/graphql", Known, "W&B's schema; see schema.graphql", graphql)
            .body("query: string, variables: object?, operationName: string?"),
        route(
            Post,
            "/files/{entity}/{project}/{run}/file_stream",
            Known,
            "What a run logs, and that it lives",
            run::stream::receive,
        ),
        route(Get, artifact, Known, "A file of an artifact, by digest", fallback::second),
        route(Get, "/artifacts/{entity}/{digest}", Known, "A file of an artifact, by digest", fallback::first),
        route(Put, "/blobs/{*key}", Signed, "Upload to a signed URL", blob::receive),
        route(Get, "/blobs/{*key}", Signed, "Download from a signed URL", blob::send),
        route(Options, "/blobs/{*key}", Open, "Whether pages of others may use it", blob::options),
        route(Get, "/ready", Open, "Whether requests can be answered", health::ready),
        // Without this answer clients export their telemetry here.
        route(Post, "/sdk/otel/v1/{*kind}", Open, "There is no telemetry: always 404", not_found),
    ]
}

/// What operators and programs ask for.
fn about() -> Vec<Route> {
    use {Door::Open, Verb::Get};
    vec![
        route(Get, "/healthz", Open, "Whether the process lives", health::alive),
        route(Get, "/readyz", Open, "Whether requests can be answered", health::ready),
        route(Get, "/metrics", Open, "Counts for Prometheus, without names", health::metrics),
        route(Get, "/api/v1/openapi.json", Open, "This document", openapi::document),
    ]
}

fn people() -> Vec<Route> {
    use Door::{Known, Open};
    use Verb::{Delete, Get, Patch, Post, Put};
    let user = "/api/v1/users/{user}";
    vec![
        route(Get, "/signin", Open, "A one-time link: signs a browser in", people::sessions::follow_link)
            .query("token: string"),
        route(Post, "/api/v1/session", Open, "Sign in by password, key or link", people::sessions::sign_in)
            .body("username: string?, password: string?, key: string?, token: string?"),
        route(Get, "/api/v1/session", Known, "Who one is, and one's roles", people::sessions::show),
        route(Delete, "/api/v1/session", Known, "Sign out", people::sessions::sign_out),
        route(Get, "/api/v1/users", Known, "The users; oneself, unless one administers", people::rest::list),
        route(Post, "/api/v1/users", Known, "Make a user or a service account", people::rest::create)
            .body("username: string, email: string?, admin: boolean?, service: boolean?"),
        route(Get, user, Known, "A user, its teams and its quota", people::rest::show),
        route(Patch, user, Known, "Change a user", people::rest::edit).body("email: string?, admin: boolean?"),
        route(Delete, user, Known, "Delete a user; what it made stays", people::rest::delete),
        route(Put, "/api/v1/users/{user}/quota", Known, "Replace a user's quota", people::rest::set_quota)
            .body("jobs: integer?, gpus: integer?"),
        route(Put, "/api/v1/users/{user}/password", Known, "Set a password", people::sessions::set_password)
            .body("password: string, current: string?"),
        route(Post, "/api/v1/users/{user}/link", Known, "Make a one-time link", people::sessions::create_link),
        route(Get, "/api/v1/keys", Known, "API keys, without the keys", people::keyring::list).query("user: string?"),
        route(Post, "/api/v1/keys", Known, "Make a key; it is shown once", people::keyring::create)
            .body("name: string, expires_days: integer?, user: string?"),
        route(Delete, "/api/v1/keys/{id}", Known, "Revoke a key", people::keyring::revoke).query("user: string?"),
        route(Get, "/api/v1/audit", Known, "Who did what, when, from where", people::audit::list)
            .query("entity: string?, user: string?, deed: string?, before: integer?, limit: integer?"),
    ]
}

fn teams() -> Vec<Route> {
    use Door::Known;
    use Verb::{Delete, Get, Post, Put};
    let member = "/api/v1/teams/{team}/members/{user}";
    vec![
        route(Get, "/api/v1/teams", Known, "The teams that one may see", people::teams::list),
        route(Post, "/api/v1/teams", Known, "Make a team", people::teams::create).body("name: string"),
        route(Get, "/api/v1/teams/{team}", Known, "A team, its members and its quota", people::teams::show),
        route(Delete, "/api/v1/teams/{team}", Known, "Delete a team that has nothing in it", people::teams::delete),
        route(Put, "/api/v1/teams/{team}/quota", Known, "Replace a team's quota", people::teams::set_quota)
            .body("jobs: integer?, gpus: integer?"),
        route(Put, member, Known, "Give somebody a role: viewer, member, admin", people::teams::set_member)
            .body("role: string"),
        route(Delete, member, Known, "Take somebody out of a team", people::teams::remove_member),
    ]
}

fn work() -> Vec<Route> {
    use Door::Known;
    use Verb::{Get, Post, Put};
    let access = "/api/v1/queues/{entity}/{queue}/access";
    let logs = "/api/v1/runs/{entity}/{project}/{run}/logs";
    let lines = "/api/v1/runs/{entity}/{project}/{run}/lines";
    let search = "/api/v1/runs/{entity}/{project}/{run}/lines/search";
    let story = "/api/v1/runs/{entity}/{project}/{run}/story";
    let files = "/api/v1/runs/{entity}/{project}/{run}/files/{*name}";
    vec![
        route(Get, "/api/v1/events", Known, "What happens, as server-sent events", events::stream::follow)
            .query("after: integer?"),
        route(Get, "/api/v1/items", Known, "What waits and runs, over all queues", queue::rest::items)
            .query("entity: string?, queue: string?, all: boolean?, limit: integer?, run: string?"),
        route(Post, "/api/v1/check", Known, "What is wrong with a document, and where", queue::preview::check)
            .body("text: string, variables: object?"),
        route(Post, "/api/v1/preview", Known, "What would be submitted for a launch", queue::preview::preview).body(
            "entity: string?, queue: string?, config: object?, spec: object?, values: object?, priority: integer?",
        ),
        route(Get, access, Known, "Who may use a queue", queue::rest::access),
        route(Put, access, Known, "Replace who may use a queue", queue::rest::set_access)
            .body("private: boolean?, people: object?"),
        route(Get, "/api/v1/queues/{entity}/{queue}/history", Known, "What a queue was before", queue::rest::history)
            .query("limit: integer?"),
        route(Get, logs, Known, "The console of a run, as text", run::rest::logs)
            .query("tail: integer?, from: integer?, follow: boolean?"),
        route(Get, lines, Known, "Lines of a run's console, from one on", run::find::range)
            .query("from: integer?, count: integer?"),
        route(Get, search, Known, "Which lines of a run's console fit", run::find::search)
            .query("from: integer?, text: string?, label: string?, failure: boolean?, limit: integer?"),
        route(Get, story, Known, "What a run was launched from, and its timeline", queue::story::of_run),
        route(Get, files, Known, "A file of a run", run::rest::file),
        route(Get, "/api/v1/clusters", Known, "Clusters as their agents see them", agent::cluster::list)
            .query("entity: string?"),
    ]
}

/// What our own agent asks for beside W&B's operations, and what people ask of one item.
fn agents() -> Vec<Route> {
    use Door::Known;
    use Verb::{Get, Post, Put};
    use queue::serve;
    let item = "/api/v1/items/{item}";
    vec![
        route(Get, "/api/v1/agents/{agent}/items", Known, "What an agent has to know of its queues", serve::list)
            .query("specs: boolean?"),
        route(Put, "/api/v1/agents/{agent}/queues", Known, "Say which queues an agent serves", serve::serve)
            .body("queues: array"),
        route(Post, "/api/v1/agents/{agent}/take", Known, "Take what waits, for a minute", serve::take)
            .body("queue: string, limit: integer?, without: array?"),
        route(Put, "/api/v1/agents/{agent}/cluster", Known, "How an agent sees its cluster", agent::cluster::tell)
            .body("cluster: string, picture: object"),
        route(Get, item, Known, "An item: where it is, and why it waits", serve::show),
        route(Post, "/api/v1/items/{item}/stop", Known, "Ask for an item's end", serve::stop),
        route(
            Post,
            "/api/v1/items/{item}/acknowledge",
            Known,
            "Start on an item, under a run's name",
            serve::acknowledge,
        )
        .body("run: object, agent: string?, site: string?"),
        route(Post, "/api/v1/items/{item}/token", Known, "Make a credential for an item's run", serve::token),
        route(Post, "/api/v1/items/{item}/release", Known, "Give back what did not fit", serve::release),
        route(Post, "/api/v1/items/{item}/adopt", Known, "Take over from an agent that is gone", serve::adopt)
            .body("agent: string, site: string?"),
        route(Post, "/api/v1/items/{item}/requeue", Known, "Put back what was preempted", serve::requeue)
            .body("attempt: integer, reason: string?"),
        route(Post, "/api/v1/items/{item}/end", Known, "End an item and its run", serve::end)
            .body("state: string, stage: string?, message: string?, exit_code: integer?, file_paths: array?"),
        route(Post, "/api/v1/items/{item}/note", Known, "Say what is going on with an item", serve::note)
            .body("waiting: string?, state: string?, place: object?, manifest: object?"),
    ]
}
