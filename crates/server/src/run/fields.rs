//! A run as filters, orders and columns see it: values by the names that clients give them.

use super::Run;
use crate::graphql::scalars::date_text;
use serde_json::{Map, Value};
use std::cell::OnceCell;
use volley_plan::run::columns::config_value;
use volley_plan::run::history::lookup;
use volley_plan::run::lenient;

/// Config and summary are parsed when somebody asks for them.
pub struct Fields<'a> {
    pub run: &'a Run,
    config: OnceCell<Map<String, Value>>,
    summary: OnceCell<Map<String, Value>>,
}

impl<'a> Fields<'a> {
    pub fn of(run: &'a Run) -> Fields<'a> {
        Fields { run, config: OnceCell::new(), summary: OnceCell::new() }
    }

    pub fn reader(&self) -> impl Fn(&str) -> Option<Value> + '_ {
        |field| self.get(field)
    }

    pub fn config(&self) -> &Map<String, Value> {
        self.config.get_or_init(|| object(&self.run.config))
    }

    pub fn summary(&self) -> &Map<String, Value> {
        self.summary.get_or_init(|| object(&self.run.summary))
    }

    pub fn get(&self, field: &str) -> Option<Value> {
        let text = |text: &str| Some(Value::from(text));
        let maybe = |text: &Option<String>| text.as_deref().map(Value::from);
        let run = self.run;
        if let Some(key) = field.strip_prefix("config.") {
            return config_value(self.config(), key).cloned();
        }
        if let Some(key) = field.strip_prefix("summary_metrics.").or_else(|| field.strip_prefix("summary.")) {
            return lookup(self.summary(), key).cloned();
        }
        match field {
            "state" => text(&run.state),
            "name" => text(&run.name),
            "displayName" | "display_name" => text(&run.display_name),
            "tags" => Some(Value::from(run.tag_list())),
            "jobType" | "job_type" => maybe(&run.job_type),
            "group" | "groupName" => maybe(&run.group_name),
            "sweep" | "sweepName" => maybe(&run.sweep_name),
            "username" | "user" => text(&run.username),
            "host" => maybe(&run.host),
            "commit" => maybe(&run.commit_hash),
            "notes" => maybe(&run.notes),
            "description" => maybe(&run.description),
            "createdAt" | "created_at" => text(&date_text(run.created_at)),
            "updatedAt" | "updated_at" => text(&date_text(run.updated_at)),
            "heartbeatAt" | "heartbeat_at" => text(&date_text(run.heartbeat_at)),
            "historyLineCount" => Some(Value::from(run.history_lines)),
            _ => None,
        }
    }
}

fn object(text: &str) -> Map<String, Value> {
    match lenient::parse(text) {
        Some(Value::Object(object)) => object,
        _ => Map::new(),
    }
}
