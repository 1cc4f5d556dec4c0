//! Rows of role bindings. Roles themselves show only their name and creation time.

use super::Cell::Made;
use super::cell::list;
use super::{Column, Printer};
use crate::kube::text;
use serde_json::Value;

const GROUP: &str = "rbac.authorization.k8s.io";

const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::text("Role", "Role that is granted.", Made(role)),
    Column::AGE,
    Column::text("Users", "Users who get the role.", Made(|binding| subjects(binding, "User"))).wide(),
    Column::text("Groups", "Groups whose members get the role.", Made(|binding| subjects(binding, "Group"))).wide(),
    Column::text(
        "ServiceAccounts",
        "Service accounts that get the role.",
        Made(|binding| subjects(binding, "ServiceAccount")),
    )
    .wide(),
];

pub(super) const PRINTERS: &[Printer] =
    &[Printer::of(GROUP, "RoleBinding").columns(COLUMNS), Printer::of(GROUP, "ClusterRoleBinding").columns(COLUMNS)];

fn role(binding: &Value) -> Value {
    format!("{}/{}", text(binding, "roleRef.kind"), text(binding, "roleRef.name")).into()
}

fn subjects(binding: &Value, kind: &str) -> Value {
    let of_kind = list(binding, "subjects").iter().filter(|subject| text(subject, "kind") == kind);
    let names = of_kind.map(|subject| match kind {
        "ServiceAccount" => format!("{}/{}", text(subject, "namespace"), text(subject, "name")),
        _ => text(subject, "name").to_owned(),
    });
    names.collect::<Vec<_>>().join(", ").into()
}
