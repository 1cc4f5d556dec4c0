//! Tables: the server side of `kubectl get` (spec K 15). Columns and cells come from `api` or from the CRD.

use super::ApiServer;
use super::call::Call;
use super::catalogue::Resource;
use super::object::partial;
use serde_json::{Value, json};
use volley_api::kube::table;

impl ApiServer {
    /// A table without rows.
    pub fn table(&self, resource: &Resource, metadata: Value) -> Value {
        let columns: Vec<Value> = match &resource.custom {
            Some(custom) => {
                custom.columns.iter().map(|c| column(&c.name, &c.kind, &c.format, &c.description, c.priority)).collect()
            }
            None => table::columns(&resource.group, &resource.kind)
                .iter()
                .map(|c| column(c.name, c.kind, c.format, c.description, c.priority.into()))
                .collect(),
        };
        json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": columns, "rows": []})
    }

    /// One object as a row, with as much of it as `includeObject` asks for (spec K-TAB-2).
    pub fn row(&self, resource: &Resource, object: &Value, call: &Call) -> Value {
        let cells = match &resource.custom {
            Some(custom) => {
                custom.columns.iter().map(|c| volley_plan::custom::path::cell(object, c, call.now)).collect()
            }
            None => table::cells(&resource.group, &resource.kind, object, call.now),
        };
        let mut row = json!({"cells": cells});
        if resource.custom.is_none()
            && let Some(conditions) = table::row_conditions(&resource.group, &resource.kind, object)
        {
            row["conditions"] = conditions;
        }
        match call.query.text("includeObject") {
            "None" => {}
            "Object" => row["object"] = object.clone(),
            _ => row["object"] = partial(object),
        }
        row
    }
}

fn column(name: &str, kind: &str, format: &str, description: &str, priority: i64) -> Value {
    json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority})
}
