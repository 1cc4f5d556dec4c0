//! Projects: what runs, artifacts, queues and sweeps are kept in.

pub mod graphql;
pub mod store;

use crate::Shared;
use crate::fault::{Fault, Result};
use crate::people::{self, Caller};
use jiff::Timestamp;
use volley_plan::people::Deed;

/// The project that holds an entity's queues; it exists in every entity.
pub const REGISTRY: &str = "model-registry";
/// Where runs go that name no project.
pub const DEFAULT: &str = volley_plan::launch::order::PROJECT_DEFAULT;

#[derive(Clone, Debug)]
pub struct Project {
    pub id: i64,
    pub entity_id: i64,
    pub entity: String,
    pub name: String,
    pub description: Option<String>,
    pub access: Option<String>,
    pub views: Option<String>,
    pub user_id: Option<i64>,
    pub created_at: i64,
}

impl Project {
    /// A project that holds what was linked from others, by the name that clients give it.
    pub fn is_registry(&self) -> bool {
        self.name.starts_with("wandb-registry-")
    }
}

/// An entity and a project as a request names them; both may be left out.
#[derive(Clone, Copy)]
pub struct Path<'a> {
    pub entity: Option<&'a str>,
    pub project: Option<&'a str>,
}

impl<'a> Path<'a> {
    pub fn of(entity: &'a str, project: &'a str) -> Path<'a> {
        Path { entity: Some(entity), project: Some(project) }
    }

    fn project(&self) -> &'a str {
        self.project.filter(|name| !name.is_empty()).unwrap_or(DEFAULT)
    }
}

/// The project, if it exists and the caller may see it.
pub async fn find(shared: &Shared, caller: &Caller, path: Path<'_>) -> Result<Option<Project>> {
    let Some(entity) = entity(shared, caller, path).await? else {
        return Ok(None);
    };
    if let Some(found) = store::by_name(&shared.database, entity.id, path.project()).await? {
        return Ok(Some(found));
    }
    // Looking at something makes nothing, unless the one who looks could have made it.
    if path.project() != REGISTRY || caller.must(Deed::Curate, entity.id, "").is_err() {
        return Ok(None);
    }
    // Agents refuse to start in an entity that has no registry.
    make(shared, caller, &entity, REGISTRY).await.map(Some)
}

/// The project for a deed that must have one; 404 if it is missing or hidden.
pub async fn expect(shared: &Shared, caller: &Caller, deed: Deed, path: Path<'_>) -> Result<Project> {
    let project = find(shared, caller, path).await?;
    let project = project.ok_or_else(|| Fault::missing(format!("project `{}`", path.project())))?;
    caller.must(deed, project.entity_id, format!("project `{}/{}`", project.entity, project.name))?;
    Ok(project)
}

/// The project, made if it is missing.
pub async fn ensure(shared: &Shared, caller: &Caller, path: Path<'_>) -> Result<Project> {
    let named = path.entity.unwrap_or(&caller.user.entity);
    let entity = entity(shared, caller, path).await?;
    let entity = entity.ok_or_else(|| Fault::missing(format!("entity `{named}`")))?;
    caller.must(Deed::Log, entity.id, format!("entity `{}`", entity.name))?;
    if let Some(found) = store::by_name(&shared.database, entity.id, path.project()).await? {
        return Ok(found);
    }
    let name = path.project();
    caller.must(Deed::Curate, entity.id, format!("entity `{}`", entity.name))?;
    check_name(name)?;
    make(shared, caller, &entity, name).await
}

async fn make(shared: &Shared, caller: &Caller, entity: &people::Entity, name: &str) -> Result<Project> {
    let mut write = shared.database.write().await?;
    let made = store::ensure(&mut write, entity.id, name, caller.user.id, Timestamp::now()).await?;
    write.commit().await?;
    Ok(made)
}

async fn entity(shared: &Shared, caller: &Caller, path: Path<'_>) -> Result<Option<people::Entity>> {
    let name = path.entity.filter(|name| !name.is_empty()).unwrap_or(&caller.user.entity);
    let entity = people::store::entity_by_name(&shared.database, name).await?;
    Ok(entity.filter(|entity| caller.may_see(entity.id)))
}

pub fn check_name(name: &str) -> Result<()> {
    let wrong = || Fault::bad(format!("`{name}` cannot name a project; hint: 1 to 128 characters without `/\\#?%:`"));
    is_name(name).then_some(()).ok_or_else(wrong)
}

/// Names are parts of URLs and of ids.
fn is_name(name: &str) -> bool {
    let length = name.chars().count();
    (1..=128).contains(&length) && !name.chars().any(|c| c.is_control() || "/\\#?%:".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_named_by_what_fits_in_a_url() {
        assert!(is_name("my project_1-é"));
        for wrong in ["", "a/b", "a:b", "a\nb", &"x".repeat(129)] {
            assert!(!is_name(wrong), "{wrong:?}");
        }
    }
}
