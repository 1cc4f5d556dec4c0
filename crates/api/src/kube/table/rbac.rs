//! Rows of role bindings. Roles themselves show only their name and creation time.

use super::cell::{self, list};
use super::{Column, Printer};
use crate::kube::text;
use jiff::Timestamp;
use serde_json::Value;

const GROUP: &str = "rbac.authorization.k8s.io";

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Role", "Role that is granted."),
    Column::AGE,
    Column::text("Users", "Users who get the role.").wide(),
    Column::text("Groups", "Groups whose members get the role.").wide(),
    Column::text("ServiceAccounts", "Service accounts that get the role.").wide(),
];

pub const PRINTERS: &[Printer] = &[
    Printer { group: GROUP, kind: "RoleBinding", columns: COLUMNS, cells: binding_cells },
    Printer { group: GROUP, kind: "ClusterRoleBinding", columns: COLUMNS, cells: binding_cells },
];

fn binding_cells(binding: &Value, now: Timestamp) -> Vec<Value> {
    let subjects = |kind: &str| {
        let of_kind = list(binding, "subjects").iter().filter(|subject| text(subject, "kind") == kind);
        let names = of_kind.map(|subject| match kind {
            "ServiceAccount" => format!("{}/{}", text(subject, "namespace"), text(subject, "name")),
            _ => text(subject, "name").to_owned(),
        });
        Value::from(names.collect::<Vec<_>>().join(", "))
    };
    vec![
        cell::name(binding),
        format!("{}/{}", text(binding, "roleRef.kind"), text(binding, "roleRef.name")).into(),
        cell::age(binding, now),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}
