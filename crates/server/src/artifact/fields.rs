//! Artifacts, collections and their projects as filters and orders see them.

use super::members::Member;
use super::{Collection, Type};
use crate::graphql::scalars::date_text;
use crate::project::Project;
use serde_json::Value;
use volley_plan::run::history::lookup;
use volley_plan::run::lenient;

fn date(microseconds: i64) -> Option<Value> {
    Some(Value::from(date_text(microseconds)))
}

pub fn of_member(member: &Member, aliases: &[String], field: &str) -> Option<Value> {
    let artifact = &member.artifact;
    if let Some(key) = field.strip_prefix("metadata.") {
        let metadata = lenient::parse(artifact.metadata.as_deref()?)?;
        return lookup(metadata.as_object()?, key).cloned();
    }
    match field {
        "state" => Some(Value::from(artifact.state.as_str())),
        "alias" | "aliases" => Some(Value::from(aliases)),
        "tag" | "tags" => Some(Value::from(artifact.tag_list())),
        "version" | "versionIndex" | "version_index" => Some(Value::from(member.version)),
        "digest" => Some(Value::from(artifact.digest.as_str())),
        "size" => Some(Value::from(artifact.size)),
        "description" => artifact.description.as_deref().map(Value::from),
        "createdAt" | "created_at" => date(artifact.created_at),
        "updatedAt" | "updated_at" => date(artifact.updated_at),
        _ => None,
    }
}

pub fn of_collection(collection: &Collection, kind: Option<&Type>, field: &str) -> Option<Value> {
    match field {
        "name" => Some(Value::from(collection.name.as_str())),
        "description" => collection.description.as_deref().map(Value::from),
        "tag" | "tags" => Some(Value::from(collection.tag_list())),
        "type" | "artifactType" | "artifact_type" => kind.map(|kind| Value::from(kind.name.as_str())),
        "createdAt" | "created_at" => date(collection.created_at),
        "updatedAt" | "updated_at" => date(collection.updated_at),
        _ => None,
    }
}

pub fn of_project(project: &Project, field: &str) -> Option<Value> {
    match field {
        "name" => Some(Value::from(project.name.as_str())),
        "description" => project.description.as_deref().map(Value::from),
        "createdAt" | "created_at" | "updatedAt" | "updated_at" => date(project.created_at),
        _ => None,
    }
}
