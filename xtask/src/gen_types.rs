//! Writes the table of built-in types, `crates/api/src/kube/schema/builtin.txt`: facts only, one line per field.
//!
//! JSON names and types come from the sources of `k8s-openapi`, field numbers and list markers from those of `k8s-pb`,
//! and what neither tells (Go pointers, inlined messages) from the small tables here. The table is checked in;
//! `--check` fails when it is not what the sources give.

mod openapi;
mod protobuf;

use crate::workspace_root;
use anyhow::{Context, Result, bail, ensure};
use openapi::{JsonType, Openapi};
use protobuf::{Message, Protobuf};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const TABLE: &str = "crates/api/src/kube/schema/builtin.txt";

/// The kinds we serve, by package; whatever they reach joins the table.
const ROOTS: &[(&str, &str)] = &[
    (
        "core.v1",
        "Pod Service ConfigMap Secret Namespace Node Event ServiceAccount PersistentVolumeClaim PersistentVolume Endpoints \
         ResourceQuota LimitRange Binding PodTemplate ReplicationController ComponentStatus",
    ),
    ("batch.v1", "Job CronJob"),
    ("apps.v1", "Deployment ReplicaSet StatefulSet DaemonSet ControllerRevision"),
    ("apiextensions.v1", "CustomResourceDefinition"),
    ("coordination.v1", "Lease"),
    ("events.v1", "Event"),
    ("discovery.v1", "EndpointSlice"),
    ("rbac.v1", "Role RoleBinding ClusterRole ClusterRoleBinding"),
    ("authorization.v1", "SelfSubjectAccessReview SubjectAccessReview SelfSubjectRulesReview LocalSubjectAccessReview"),
    ("authentication.v1", "SelfSubjectReview TokenReview TokenRequest"),
    ("scheduling.v1", "PriorityClass"),
    ("scheduling.v1alpha1", "Workload"),
    ("storage.v1", "StorageClass CSINode CSIDriver CSIStorageCapacity VolumeAttachment"),
    ("policy.v1", "PodDisruptionBudget Eviction"),
    ("autoscaling.v1", "HorizontalPodAutoscaler Scale"),
    ("autoscaling.v2", "HorizontalPodAutoscaler"),
    ("networking.v1", "Ingress NetworkPolicy IngressClass"),
    ("admissionregistration.v1", "ValidatingWebhookConfiguration MutatingWebhookConfiguration"),
    ("node.v1", "RuntimeClass"),
    ("resource.v1", "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice"),
    ("meta.v1", "DeleteOptions Status"),
];

/// Fields of the version of Kubernetes that we say we are, which the newer one has no more.
const EARLIER_FIELDS: &[(&str, &str)] = &[("core.v1.PodSpec", "workloadRef")];

/// Kinds of every group that the sources do not mark as resources.
const KINDS: &[(&str, &str)] = &[("meta.v1.DeleteOptions", "/v1/DeleteOptions"), ("meta.v1.Status", "/v1/Status")];

/// Message fields whose own fields join the parent's in JSON.
const INLINE: &[&str] = &[
    "volumesource", "persistentvolumesource", "handler", "ephemeralcontainercommon", "localobjectreference",
    "ingressrulevalue", "rulewithoperations", "rule", "deviceconfiguration",
];

/// Structs that strategic merge treats with `$retainKeys` wherever they stand.
const RETAIN_KEYS: &[&str] = &["apps.v1.DeploymentStrategy"];

pub fn write() -> Result<()> {
    let root = workspace_root();
    std::fs::write(root.join(TABLE), table()?).with_context(|| format!("failed to write {TABLE}"))
}

pub fn check() -> Result<()> {
    let current = std::fs::read_to_string(workspace_root().join(TABLE)).unwrap_or_default();
    ensure!(current == table()?, "{TABLE} is not current: run `cargo run -p xtask -- gen types`");
    Ok(())
}

fn table() -> Result<String> {
    let openapi = source_of("k8s-openapi")?;
    let sources = Sources {
        openapi: joined(openapi::read(&openapi.join("v1_36"))?, openapi::read(&openapi.join("v1_35"))?),
        protobuf: protobuf::read(&source_of("k8s-pb")?)?,
        go: Go::read(include_str!("gen_types/go.txt")),
    };
    let names = reachable(&sources.openapi)?;
    let defaults = key_defaults(&sources, &names)?;
    let mut table = String::from("# Written by `cargo run -p xtask -- gen types`; the reader explains the format.\n");
    for name in &names {
        write_struct(&mut table, name, &sources, &defaults)?;
    }
    Ok(table)
}

/// The newer types, with those and the fields that only the earlier ones have.
fn joined(mut openapi: Openapi, earlier: Openapi) -> Openapi {
    for (name, schema) in earlier {
        match openapi.get_mut(&name) {
            None => drop(openapi.insert(name, schema)),
            Some(known) => {
                let is_kept = |field: &str| EARLIER_FIELDS.contains(&(name.as_str(), field));
                known.fields.extend(schema.fields.into_iter().filter(|(field, _)| is_kept(field)));
            }
        }
    }
    openapi
}

/// The `src` folder of a locked package, found through cargo.
fn source_of(package: &str) -> Result<PathBuf> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked"])
        .current_dir(workspace_root())
        .output()
        .context("failed to run cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    let found = packages.iter().find(|p| p["name"] == package).with_context(|| format!("{package} is not locked"))?;
    let manifest = Path::new(found["manifest_path"].as_str().context("a package without manifest_path")?);
    Ok(manifest.with_file_name("src"))
}

struct Sources {
    openapi: Openapi,
    protobuf: Protobuf,
    go: Go,
}

/// Every struct that the roots reach, sorted.
fn reachable(openapi: &Openapi) -> Result<BTreeSet<String>> {
    let mut todo: Vec<String> =
        ROOTS.iter().flat_map(|(package, names)| names.split(' ').map(move |n| format!("{package}.{n}"))).collect();
    let mut seen = BTreeSet::new();
    while let Some(name) = todo.pop() {
        if seen.contains(&name) {
            continue;
        }
        let schema = openapi.get(&name).with_context(|| format!("no schema for {name}"))?;
        todo.extend(schema.fields.values().filter_map(|field| field.kind.struct_name()).map(str::to_owned));
        seen.insert(name);
    }
    Ok(seen)
}

/// Defaults of list keys, by struct and field: the only defaults that server-side apply needs.
fn key_defaults(sources: &Sources, names: &BTreeSet<String>) -> Result<BTreeMap<(String, String), String>> {
    let mut defaults = BTreeMap::new();
    for name in names {
        let Some(fields) = sources.wire_fields(name) else { continue };
        for (json, field) in &sources.openapi[name].fields {
            let (Some(item), Some(wire)) = (field.kind.struct_name(), fields.get(&plain(json))) else { continue };
            for key in &wire.markers.list_keys {
                let key_default = sources.wire_fields(item).and_then(|f| f.get(&plain(key))?.markers.default.clone());
                if let Some(default) = key_default {
                    defaults.insert((item.to_owned(), key.clone()), default);
                }
            }
        }
    }
    Ok(defaults)
}

/// What the wire knows of one JSON field.
#[derive(Clone)]
struct WireField {
    number: u32,
    via: Vec<u32>,
    is_pointer: bool,
    markers: protobuf::Markers,
}

impl Sources {
    /// The fields of a message by plain name, inlined messages flattened.
    fn wire_fields(&self, name: &str) -> Option<BTreeMap<String, WireField>> {
        let mut fields = BTreeMap::new();
        self.flatten(name, self.protobuf.get(&name.to_lowercase())?, &[], &mut fields);
        Some(fields)
    }

    fn flatten(&self, name: &str, message: &Message, via: &[u32], into: &mut BTreeMap<String, WireField>) {
        let package = name.rsplit_once('.').map_or("", |(package, _)| package);
        for field in &message.fields {
            let inlined = field.message.as_ref().filter(|_| INLINE.contains(&field.name.as_str()));
            if let Some(child) =
                inlined.and_then(|child| self.protobuf.get(&format!("{package}.{child}").to_lowercase()))
            {
                let deeper = [via, &[field.number]].concat();
                self.flatten(&format!("{package}.{}", child.name), child, &deeper, into);
                continue;
            }
            let is_pointer = self.go.is_pointer(name, &field.name, field.message.is_some());
            let wire =
                WireField { number: field.number, via: via.to_vec(), is_pointer, markers: field.markers.clone() };
            into.insert(field.name.clone(), wire);
        }
    }
}

/// The facts of `go.txt`, keyed by lower-case struct and plain field name.
struct Go {
    pointer_scalars: BTreeSet<(String, String)>,
    embedded_messages: BTreeSet<(String, String)>,
}

impl Go {
    fn read(text: &str) -> Go {
        let mut go = Go { pointer_scalars: BTreeSet::new(), embedded_messages: BTreeSet::new() };
        let mut is_embedded = false;
        for line in text.lines() {
            if line.starts_with('#') {
                is_embedded = line == "# embedded messages";
                continue;
            }
            let mut words = line.split(' ');
            let name = words.next().unwrap_or_default().to_lowercase();
            let set = if is_embedded { &mut go.embedded_messages } else { &mut go.pointer_scalars };
            set.extend(words.map(|field| (name.clone(), plain(field))));
        }
        go
    }

    fn is_pointer(&self, name: &str, field: &str, is_message: bool) -> bool {
        let key = (name.to_lowercase(), field.to_owned());
        if !is_message {
            return self.pointer_scalars.contains(&key);
        }
        let always_embedded =
            matches!(field, "spec" | "status" | "metadata") && !key.0.ends_with(".customresourcesubresources");
        !always_embedded && !self.embedded_messages.contains(&key)
    }
}

/// A field name reduced to what all spellings share: lower-case letters and digits.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

fn write_struct(
    table: &mut String,
    name: &str,
    sources: &Sources,
    defaults: &BTreeMap<(String, String), String>,
) -> Result<()> {
    let schema = &sources.openapi[name];
    let message = sources.protobuf.get(&name.to_lowercase());
    let wire = sources.wire_fields(name).unwrap_or_default();
    write!(table, "{name}")?;
    let kind =
        KINDS.iter().find(|(n, _)| *n == name).map(|(_, kind)| (*kind).to_owned()).or_else(|| schema.kind.clone());
    if let Some(kind) = kind {
        write!(table, " kind={kind}")?;
    }
    if message.is_some_and(|m| m.is_atomic) {
        table.push_str(" atomic");
    }
    if RETAIN_KEYS.contains(&name) {
        table.push_str(" retain");
    }
    table.push('\n');
    let package = name.rsplit_once('.').map_or("", |(package, _)| package);
    for (json, field) in &schema.fields {
        write!(table, " {json} {}", field.kind.spelling(package))?;
        let wire = wire.get(&plain(json));
        if let Some(wire) = wire {
            write_wire(table, wire, &field.kind)?;
        }
        // The JSON source also calls required what it always wants to write.
        let is_optional = json == "metadata" || wire.is_some_and(|wire| wire.markers.is_optional);
        if field.is_required && !is_optional {
            table.push_str(" required");
        }
        if let Some(default) = defaults.get(&(name.to_owned(), json.clone())) {
            write!(table, " default={default}")?;
        }
        table.push('\n');
    }
    Ok(())
}

fn write_wire(table: &mut String, wire: &WireField, kind: &JsonType) -> Result<()> {
    write!(table, " {}", wire.number)?;
    if !wire.via.is_empty() {
        let via: Vec<String> = wire.via.iter().map(u32::to_string).collect();
        write!(table, " via={}", via.join("/"))?;
    }
    let markers = &wire.markers;
    match kind {
        JsonType::List(_) => {
            match markers.list_type.as_deref() {
                Some("map") => write!(table, " map={}", markers.list_keys.join(","))?,
                Some("set") => table.push_str(" set"),
                Some("atomic") | None => {}
                Some(other) => bail!("unknown list type {other}"),
            }
            let strategies: Vec<&str> = markers.patch_strategy.as_deref().unwrap_or("").split(',').collect();
            match (strategies.contains(&"merge"), &markers.patch_key) {
                (true, Some(key)) => write!(table, " merge={key}")?,
                (true, None) => table.push_str(" merge"),
                (false, _) => {}
            }
            if strategies.contains(&"retainKeys") {
                table.push_str(" retain");
            }
        }
        JsonType::Map(_) => {
            if markers.is_atomic {
                table.push_str(" atomic");
            }
        }
        JsonType::Scalar(_) | JsonType::Struct(_) => {
            if wire.is_pointer {
                table.push_str(" pointer");
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_checked_in_table_is_what_the_sources_give() -> anyhow::Result<()> {
        super::check()
    }
}
