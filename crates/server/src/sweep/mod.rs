//! Sweeps: what is searched, by whom, and what to try next.

pub mod agents;
pub mod early;
pub mod graphql;
pub mod store;
pub mod upsert;

use crate::fault::{Fault, Result};

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

/// A sweep's config as a value; it is submitted as YAML, of which JSON is a part.
pub fn yaml(text: &str) -> Result<serde_json::Value> {
    serde_saphyr::from_str(text).map_err(|error| Fault::bad(format!("the sweep's config is not YAML: {error}")))
}
