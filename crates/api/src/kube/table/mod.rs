//! Server-side printing: the columns and cells that `kubectl get` shows for each kind (spec K 15).
//!
//! A kind is one row in the table of its family; a kind without a row shows its name and creation time.
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

use cell::{count, flag, list, or};
use jiff::Timestamp;
use serde_json::{Value, json};

/// One column definition, as `columnDefinitions` carries it, and where its cells come from.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    pub name: &'static str,
    /// `string`, `integer`, `boolean` or `date`.
    pub kind: &'static str,
    /// `name` for the column that names the object, else empty.
    pub format: &'static str,
    pub description: &'static str,
    /// 1 for columns that clients show only when asked for wide output.
    pub priority: u8,
    cell: Cell,
}

/// Where a cell comes from; paths are dotted.
#[derive(Debug, Clone, Copy)]
enum Cell {
    Text(&'static str),
    /// The text, or the second word where it is empty.
    TextOr(&'static str, &'static str),
    Count(&'static str),
    Flag(&'static str),
    /// How many items a list has.
    Length(&'static str),
    /// A plain map of labels, or a label selector, as text.
    Labels(&'static str),
    Selector(&'static str),
    Made(fn(&Value) -> Value),
    Timed(fn(&Value, Timestamp) -> Value),
}

impl Column {
    const fn new(name: &'static str, kind: &'static str, description: &'static str, cell: Cell) -> Self {
        Column { name, kind, format: "", description, priority: 0, cell }
    }

    const fn text(name: &'static str, description: &'static str, cell: Cell) -> Self {
        Self::new(name, "string", description, cell)
    }

    const fn integer(name: &'static str, description: &'static str, cell: Cell) -> Self {
        Self::new(name, "integer", description, cell)
    }

    const fn boolean(name: &'static str, description: &'static str, cell: Cell) -> Self {
        Self::new(name, "boolean", description, cell)
    }

    const fn wide(self) -> Self {
        Column { priority: 1, ..self }
    }

    /// The column that names the object.
    const fn naming(self) -> Self {
        Column { format: "name", ..self }
    }

    const NAME: Column = Column::text("Name", "Name of the object.", Cell::Text("metadata.name")).naming();
    const AGE: Column = Column::text("Age", "Time since the object was created.", Cell::Timed(cell::age));
    const CREATED_AT: Column =
        Column::new("Created At", "date", "When the object was created.", Cell::Text("metadata.creationTimestamp"));

    fn cell(&self, object: &Value, now: Timestamp) -> Value {
        match self.cell {
            Cell::Text(path) => super::text(object, path).into(),
            Cell::TextOr(path, other) => or(super::text(object, path), other).into(),
            Cell::Count(path) => count(object, path).into(),
            Cell::Flag(path) => flag(object, path).into(),
            Cell::Length(path) => list(object, path).len().into(),
            Cell::Labels(path) => cell::labels(object, path),
            Cell::Selector(path) => cell::selector(object, path),
            Cell::Made(make) => make(object),
            Cell::Timed(make) => make(object, now),
        }
    }
}

/// A kind and its columns.
struct Printer {
    group: &'static str,
    kind: &'static str,
    columns: &'static [Column],
}

impl Printer {
    const fn of(group: &'static str, kind: &'static str) -> Printer {
        Printer { group, kind, columns: &[] }
    }

    const fn columns(self, columns: &'static [Column]) -> Printer {
        Printer { columns, ..self }
    }
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
const DEFAULT: &[Column] = &[Column::NAME, Column::CREATED_AT];

pub fn columns(group: &str, kind: &str) -> &'static [Column] {
    let printer = FAMILIES.iter().copied().flatten().find(|printer| printer.kind == kind && printer.group == group);
    printer.map_or(DEFAULT, |printer| printer.columns)
}

/// One cell per column.
pub fn cells(group: &str, kind: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    columns(group, kind).iter().map(|column| column.cell(object, now)).collect()
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
