//! The schema: the nouns joined, and how much one request may ask.

use crate::agent::graphql::{AgentMutation, AgentQuery};
use crate::artifact::graphql::ArtifactQuery;
use crate::artifact::graphql::mutation::ArtifactMutation;
use crate::artifact::graphql::portfolio::PortfolioMutation;
use crate::file::graphql::FileMutation;
use crate::people::graphql::PeopleQuery;
use crate::people::mutation::PeopleMutation;
use crate::project::graphql::{ProjectMutation, ProjectQuery};
use crate::queue::limits::QueueLimitMutation;
use crate::queue::mutation::QueueMutation;
use crate::run::graphql::mutation::RunMutation;
use crate::server_info::ServerQuery;
use crate::sweep::agents::SweepAgentMutation;
use crate::sweep::upsert::SweepMutation;
use async_graphql::{EmptySubscription, MergedObject};

/// W&B's deepest document, an artifact's aliases and their projects below a run, has twelve; introspection has about as many.
const DEPTH_MAX: usize = 24;
/// W&B's largest documents have some hundred fields.
const COMPLEXITY_MAX: usize = 2000;

#[derive(MergedObject, Default)]
pub struct Query(PeopleQuery, ServerQuery, ProjectQuery, AgentQuery, ArtifactQuery);

#[derive(MergedObject, Default)]
pub struct Mutation(
    PeopleMutation,
    ProjectMutation,
    RunMutation,
    FileMutation,
    QueueMutation,
    QueueLimitMutation,
    AgentMutation,
    ArtifactMutation,
    PortfolioMutation,
    SweepMutation,
    SweepAgentMutation,
);

pub type Schema = async_graphql::Schema<Query, Mutation, EmptySubscription>;

pub fn schema() -> Schema {
    Schema::build(Query::default(), Mutation::default(), EmptySubscription)
        .limit_depth(DEPTH_MAX)
        .limit_complexity(COMPLEXITY_MAX)
        .disable_suggestions()
        .finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regenerate with `UPDATE=1 cargo test -p volley-server the_schema_is_the_one_that_is_checked_in`.
    // GQL-3, GQL-4, FEAT-3
    #[test]
    fn the_schema_is_the_one_that_is_checked_in() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/schema.graphql");
        let now = schema().sdl();
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path, &now).unwrap();
        }
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert!(kept == now, "the schema changed; look at the difference after UPDATE=1");
    }
}
