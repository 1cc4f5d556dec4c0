//! The job that a spec names: that it exists, and that its inputs fit the schema that it brings.

use crate::Shared;
use crate::artifact::manifest::hex_of;
use crate::artifact::{Artifact, members, split_name, store, version_of};
use crate::fault::{Fault, Result};
use crate::people::Caller;
use crate::project::{self, Path};
use serde_json::{Map, Value};
use volley_plan::queue::inputs;

/// Where a job's metadata has the schema of its run's config.
const SCHEMA: &str = "/input_schemas/@wandb.config";

/// Where a job says what it runs.
const FILE: &str = "wandb-job.json";

/// Fails before anything is queued that no agent could run.
pub async fn check(shared: &Shared, caller: &Caller, spec: &Value) -> Result<()> {
    let Some(name) = spec.get("job").and_then(Value::as_str).filter(|name| !name.is_empty()) else {
        return Ok(());
    };
    let metadata = artifact(shared, caller, spec, name).await?.metadata;
    let metadata: Value = metadata.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let Some(schema) = metadata.pointer(SCHEMA) else {
        return Ok(());
    };
    let empty = Map::new();
    let given = spec.pointer("/overrides/run_config").and_then(Value::as_object).unwrap_or(&empty);
    let problems: Vec<String> = inputs::check(schema, given).iter().map(ToString::to_string).collect();
    match problems.is_empty() {
        true => Ok(()),
        false => Err(Fault::bad(format!("job `{name}`: {}", problems.join("; ")))),
    }
}

/// `entity/project/name:alias`, or less of it: then the rest is where the run goes.
async fn artifact(shared: &Shared, caller: &Caller, spec: &Value, job: &str) -> Result<Artifact> {
    let missing = || Fault::missing(format!("job `{job}`"));
    let text = |key: &str| spec.get(key).and_then(Value::as_str);
    let parts: Vec<&str> = job.split('/').collect();
    let (entity, project, name) = match parts[..] {
        [name] => (text("entity"), text("project"), name),
        [project, name] => (text("entity"), Some(project), name),
        [entity, project, name] => (Some(entity), Some(project), name),
        _ => return Err(missing()),
    };
    let project = project::find(shared, caller, Path { entity, project }).await?.ok_or_else(missing)?;
    let (collection, alias) = split_name(name);
    let found = store::collection_by_name(&shared.database, project.id, collection).await?.ok_or_else(missing)?;
    let member = match version_of(alias) {
        Some(version) => members::by_version(&shared.database, &found, version).await?,
        None => members::by_alias(&shared.database, &found, alias).await?,
    };
    Ok(member.ok_or_else(missing)?.artifact)
}

/// The file of the job that a spec names, if it names one.
pub async fn document(shared: &Shared, caller: &Caller, spec: &Value) -> Result<Option<Value>> {
    let Some(name) = spec.get("job").and_then(Value::as_str).filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    let artifact = artifact(shared, caller, spec, name).await?;
    let missing = || Fault::missing(format!("the file of job `{name}`"));
    let entry = store::entry_by_name(&shared.database, artifact.id, FILE).await?.ok_or_else(missing)?;
    // Manifests have digests in base64, keys have them in hex.
    let md5 = hex_of(&entry.digest).ok_or_else(missing)?;
    let key = store::blob_key(entry.birth_id.unwrap_or(artifact.id), &md5);
    let bytes = shared.blobs.read(&key).await.map_err(|_| missing())?;
    serde_json::from_slice(&bytes).map(Some).map_err(|_| missing())
}
