//! Sweeps: what is searched, by whom, and what to try next.

pub mod graphql;
pub mod store;

#[derive(Clone, Debug)]
pub struct Sweep {
    pub id: i64,
    pub project_id: i64,
    pub entity_id: i64,
    pub name: String,
    pub display_name: Option<String>,
    pub state: String,
    pub description: Option<String>,
    /// YAML text, as it was submitted.
    pub config: String,
    pub controller: Option<String>,
    pub scheduler: Option<String>,
    pub created_at: i64,
    pub updated_at: i64,
    pub heartbeat_at: Option<i64>,
}
