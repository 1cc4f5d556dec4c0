//! Server-side printing: the columns and cells that `kubectl get` shows for each kind (spec K 15).
//!
//! A kind is one `Printer` row in the table of its family; a kind without a row shows its name and creation time.
//! The API server wraps cells into `Table` objects; custom resources bring columns of their own.

mod cell;
mod cluster;
mod device;
mod event;
mod network;
mod pod;
mod policy;
mod rbac;
mod storage;
mod usage;
mod workload;

use jiff::Timestamp;
use serde_json::{Value, json};

/// One column definition, as `columnDefinitions` carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    /// `string`, `integer`, `boolean` or `date`.
    pub kind: &'static str,
    /// `name` for the column that names the object, else empty.
    pub format: &'static str,
    pub description: &'static str,
    /// 1 for columns that clients show only when asked for wide output.
    pub priority: u8,
}

impl Column {
    const fn new(name: &'static str, kind: &'static str, description: &'static str) -> Self {
        Column { name, kind, format: "", description, priority: 0 }
    }

    const fn text(name: &'static str, description: &'static str) -> Self {
        Self::new(name, "string", description)
    }

    const fn integer(name: &'static str, description: &'static str) -> Self {
        Self::new(name, "integer", description)
    }

    const fn boolean(name: &'static str, description: &'static str) -> Self {
        Self::new(name, "boolean", description)
    }

    const fn wide(self) -> Self {
        Column { priority: 1, ..self }
    }

    const NAME: Column = Column { format: "name", ..Column::text("Name", "Name of the object.") };
    const AGE: Column = Column::text("Age", "Time since the object was created.");
    const CREATED_AT: Column = Column::new("Created At", "date", "When the object was created.");

    /// The wire form.
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name, "type": self.kind, "format": self.format,
            "description": self.description, "priority": self.priority,
        })
    }
}

/// How one kind is printed. Resolve it once per list with `printer`, then print row after row.
#[derive(Debug, Clone, Copy)]
pub struct Printer {
    group: &'static str,
    kind: &'static str,
    pub columns: &'static [Column],
    /// One cell per column.
    pub cells: fn(&Value, Timestamp) -> Vec<Value>,
}

const FAMILIES: &[&[Printer]] = &[
    pod::PRINTERS,
    workload::PRINTERS,
    network::PRINTERS,
    cluster::PRINTERS,
    event::PRINTERS,
    storage::PRINTERS,
    device::PRINTERS,
    policy::PRINTERS,
    rbac::PRINTERS,
    usage::PRINTERS,
];

/// Kinds without a table of their own.
static DEFAULT: Printer =
    Printer { group: "", kind: "", columns: &[Column::NAME, Column::CREATED_AT], cells: default_cells };

fn default_cells(object: &Value, _now: Timestamp) -> Vec<Value> {
    vec![cell::name(object), super::text(object, "metadata.creationTimestamp").into()]
}

pub fn printer(group: &str, kind: &str) -> &'static Printer {
    FAMILIES.iter().copied().flatten().find(|p| p.kind == kind && p.group == group).unwrap_or(&DEFAULT)
}

pub fn columns(group: &str, kind: &str) -> &'static [Column] {
    printer(group, kind).columns
}

pub fn cells(group: &str, kind: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    (printer(group, kind).cells)(object, now)
}

/// The `conditions` of a row: set for finished pods, which clients may hide or grey out.
pub fn row_conditions(group: &str, kind: &str, object: &Value) -> Option<Value> {
    if !group.is_empty() || kind != "Pod" {
        return None;
    }
    let (reason, message) = match super::text(object, "status.phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]))
}

#[cfg(test)]
mod tests;
