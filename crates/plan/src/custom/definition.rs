//! CustomResourceDefinitions themselves: what is filled in, what is refused, and which names are accepted (K-CRD-1,
//! K-CRD-4). The API server calls `fill`, then `check` or `check_update`, then `status`.

use super::rules;
use super::schema::Schema;
use super::{structural, version};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use volley_api::kube::field::FieldError;
use volley_api::kube::validate::place::{Place, problems};
use volley_api::kube::{at, names, text, time};

const APPROVAL: &str = "api-approved.kubernetes.io";

/// Fills in what a client may leave out: singular, list kind and conversion.
pub fn fill(crd: &mut Value) {
    let kind = text(crd, "spec.names.kind").to_owned();
    let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut)
        && !kind.is_empty()
    {
        let is_empty = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or("").is_empty();
        if is_empty(names.get("singular")) {
            names.insert("singular".to_owned(), kind.to_lowercase().into());
        }
        if is_empty(names.get("listKind")) {
            names.insert("listKind".to_owned(), format!("{kind}List").into());
        }
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
    }
}

fn versions(crd: &Value) -> &[Value] {
    list(at(crd, "spec.versions"))
}

/// The items of a list that may be absent.
fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Everything that is wrong with a new CRD.
pub fn check(crd: &Value) -> Vec<FieldError> {
    problems(crd, "", |crd| {
        let name = crd.text("metadata.name");
        if !name.is_empty() {
            crd.named("metadata.name", names::dns_subdomain);
            let wanted = format!("{}.{}", crd.text("spec.names.plural"), crd.text("spec.group"));
            crd.wrong_if(name != wanted, "metadata.name", "must be spec.names.plural+\".\"+spec.group");
        }
        check_spec(&crd.field("spec"));
        check_stored_versions(crd, None);
        check_approval(crd);
        check_preserve(crd);
    })
}

/// Everything that is wrong with a changed CRD.
pub fn check_update(new: &Value, old: &Value) -> Vec<FieldError> {
    problems(new, "", |new| {
        check_spec(&new.field("spec"));
        let is_established =
            condition(old.get("status"), "Established").is_some_and(|condition| text(condition, "status") == "True");
        let fixed = ["spec.group", "spec.names.plural", "spec.scope", "spec.names.kind"];
        for path in fixed.into_iter().take(if is_established { 4 } else { 2 }) {
            new.invalid_if(new.text(path) != text(old, path), path, new.text(path), "field is immutable");
        }
        check_stored_versions(new, old.get("status"));
        // An approval that was missing may stay so: a controller may own the spec but not the annotation.
        let problem = |crd: &Value| problems(crd, "", check_approval).first().map(|error| error.problem);
        if problem(new.value) != problem(old) {
            check_approval(new);
        }
        if at(old, "spec.preserveUnknownFields") != Some(&Value::Bool(true)) {
            check_preserve(new);
        }
    })
}

fn check_preserve(crd: &Place) {
    const KEY: &str = "spec.preserveUnknownFields";
    let detail =
        "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
    crd.wrong_if(crd.flag(KEY), KEY, detail);
}

/// The versions in which objects are stored, now that this CRD is written: the old ones and the first storage version.
fn stored_versions(crd: &Value, old: Option<&Value>) -> Vec<Value> {
    let mut stored = list(old.and_then(|status| status.get("storedVersions"))).to_vec();
    let storage = versions(crd).iter().find(|version| version["storage"] == true);
    let name = storage.and_then(|version| version.get("name"));
    stored.extend(name.filter(|name| !stored.contains(name)).cloned());
    stored
}

/// A version that was ever stored must stay, or objects stored in it could not be read.
fn check_stored_versions(crd: &Place, old: Option<&Value>) {
    let stored = Value::from(stored_versions(crd.value, old));
    let place = crd.stand_in("status.storedVersions", &stored);
    if place.list("").is_empty() {
        return place.invalid("", Value::Null, "must have at least one stored version");
    }
    for version in versions(crd.value).iter().filter(|version| version["storage"] == true) {
        let name = text(version, "name");
        let is_stored = place.texts("").any(|stored| stored == name);
        place.wrong_if(!is_stored, "", &format!("must have the storage version {name}"));
    }
    for name in place.items("") {
        if versions(crd.value).iter().any(|version| version["name"] == *name.value) {
            continue;
        }
        let detail = "missing from spec.versions; NAME was previously a storage version, and must remain in \
                      spec.versions until a storage migration ensures no data remains persisted in NAME and removes \
                      NAME from status.storedVersions";
        name.wrong("", &detail.replace("NAME", name.text("")));
    }
}

/// Groups of the community need an approval; own groups do not.
fn check_approval(crd: &Place) {
    let group = crd.text("spec.group");
    let is_protected =
        |suffix: &str| group == suffix || group.strip_suffix(suffix).is_some_and(|rest| rest.ends_with('.'));
    if !is_protected("k8s.io") && !is_protected("kubernetes.io") {
        return;
    }
    let key = format!("metadata.annotations[{APPROVAL}]");
    let approval = crd.get("metadata.annotations").get(APPROVAL).and_then(Value::as_str).unwrap_or("");
    let has_host = approval.split_once("://").is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty());
    let must = format!("protected groups must have approval annotation {APPROVAL:?}");
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    if approval.is_empty() {
        return crd.required(&key, &format!("{must}, {see}"));
    }
    let is_fine = approval.starts_with("unapproved") || has_host;
    let detail = format!("{must} with either a URL or a reason starting with \"unapproved\", {see}");
    crd.invalid_if(!is_fine, &key, approval, &detail);
}

fn check_spec(spec: &Place) {
    let group = spec.text("group");
    let complaints = names::dns_subdomain(group);
    if group.is_empty() {
        spec.required("group", "");
    } else if !complaints.is_empty() {
        spec.wrong("group", &complaints.join(","));
    } else {
        spec.wrong_if(!group.contains('.'), "group", "should be a domain with at least one dot");
    }
    spec.needs_one_of("scope", &["Cluster", "Namespaced"]);
    version::check(spec);
    check_names(&spec.field("names"));
    if let Some(conversion) = spec.given("conversion") {
        check_conversion(&conversion);
    }
}

fn check_names(names: &Place) {
    names.needs(&["plural", "singular", "kind", "listKind"]);
    let check = |name: &Place, is_kind: bool| {
        let value = name.text("");
        let complaints = names::dns1035_label(&if is_kind { value.to_lowercase() } else { value.to_owned() });
        let advice = if is_kind { "may have mixed case, but should otherwise match: " } else { "" };
        name.invalid_if(!complaints.is_empty(), "", value, &format!("{advice}{}", complaints.join(",")));
    };
    for (key, is_kind) in [("plural", false), ("singular", false), ("kind", true), ("listKind", true)] {
        if !names.text(key).is_empty() {
            check(&names.field(key), is_kind);
        }
    }
    for key in ["shortNames", "categories"] {
        names.items(key).for_each(|name| check(&name, false));
    }
    let list_kind = names.text("listKind");
    let is_same = !list_kind.is_empty() && list_kind == names.text("kind");
    names.wrong_if(is_same, "listKind", "kind and listKind may not be the same");
}

/// The reference reports the parts of the webhook one level further up.
fn check_conversion(conversion: &Place) {
    conversion.needs_one_of("strategy", &["None", "Webhook"]);
    let client = conversion.stand_in("webhookClientConfig", conversion.get("webhook.clientConfig"));
    let reviews = conversion.stand_in("conversionReviewVersions", conversion.get("webhook.conversionReviewVersions"));
    if conversion.text("strategy") == "Webhook" {
        if client.value.is_null() {
            client.required("", "required when strategy is set to Webhook");
        } else if client.has("url") == client.has("service") {
            client.required("", "exactly one of url or service is required");
        }
        reviews.needs(&[""]);
        let has_known = reviews.texts("").any(|version| matches!(version, "v1" | "v1beta1"));
        let is_strange = !has_known && !reviews.list("").is_empty();
        reviews.wrong_if(is_strange, "", "must include at least one of v1, v1beta1");
        return;
    }
    let detail = "should not be set when strategy is not set to Webhook";
    client.forbidden_if(!client.value.is_null(), "", detail);
    reviews.forbidden_if(!reviews.list("").is_empty(), "", detail);
}

/// What a client should know about a CRD that is accepted nevertheless; an update is warned about what is new in it.
pub fn warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let known: BTreeSet<String> = old.map(all_warnings).unwrap_or_default().into_iter().collect();
    let mut warnings = all_warnings(new);
    warnings.retain(|warning| !known.contains(warning));
    warnings
}

fn all_warnings(crd: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for schema in versions(crd).iter().filter_map(|version| at(version, "schema.openAPIV3Schema")) {
        structural::unknown_formats(schema, &mut warnings);
        if let Ok(compiled) = Schema::compile(schema) {
            rules::unsupported(&compiled.root, &mut warnings);
        }
    }
    let mut seen = BTreeSet::new();
    warnings.retain(|warning| seen.insert(warning.clone()));
    warnings
}

/// Names that resources already have. Each group has its own: two groups may use the same names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TakenNames {
    groups: BTreeMap<String, GroupNames>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct GroupNames {
    /// Plurals, singulars and short names.
    resources: BTreeSet<String>,
    /// Kinds and list kinds.
    kinds: BTreeSet<String>,
}

impl TakenNames {
    /// Adds what a CRD was given. A CRD may be asked about after it was added: its own names are no conflict.
    pub fn add(&mut self, crd: &Value) {
        let Some(names) = at(crd, "status.acceptedNames") else { return };
        let short = list(names.get("shortNames")).iter().filter_map(Value::as_str);
        let resources = ["plural", "singular"].map(|field| text(names, field)).into_iter().chain(short);
        let kinds = ["kind", "listKind"].map(|field| text(names, field));
        self.reserve(text(crd, "spec.group"), resources, kinds);
    }

    /// Adds names of a group that is not made of CRDs alone.
    pub fn reserve<'a>(
        &mut self,
        group: &str,
        resources: impl IntoIterator<Item = &'a str>,
        kinds: impl IntoIterator<Item = &'a str>,
    ) {
        let taken = self.groups.entry(group.to_owned()).or_default();
        taken.resources.extend(resources.into_iter().filter(|name| !name.is_empty()).map(str::to_owned));
        taken.kinds.extend(kinds.into_iter().filter(|kind| !kind.is_empty()).map(str::to_owned));
    }
}

/// The status of a CRD: which names it has, whether it is served, and in which versions it was stored.
pub fn status(crd: &Value, taken: &TakenNames, now: Timestamp) -> Value {
    let old = crd.get("status");
    let (names, conflict) = accepted_names(crd, taken);
    let mut conditions = list(old.and_then(|status| status.get("conditions"))).to_vec();
    match &conflict {
        None => put_condition(&mut conditions, ["NamesAccepted", "True", "NoConflicts", "no conflicts found"], now),
        Some((reason, message)) => put_condition(&mut conditions, ["NamesAccepted", "False", reason, message], now),
    }
    // Once established, a CRD stays so: a later conflict only keeps its old names.
    let is_established = condition(old, "Established").is_some_and(|condition| text(condition, "status") == "True");
    if conflict.is_none() && !is_established {
        let reason = "InitialNamesAccepted";
        put_condition(&mut conditions, ["Established", "True", reason, "the initial names have been accepted"], now);
    } else if !is_established {
        put_condition(&mut conditions, ["Established", "False", "NotAccepted", "not all names are accepted"], now);
    }
    json!({"acceptedNames": names, "conditions": conditions, "storedVersions": stored_versions(crd, old)})
}

/// The status of a CRD whose instances are being removed (K-CRD-3).
pub fn terminating_status(crd: &Value, now: Timestamp) -> Value {
    let mut status = crd.get("status").cloned().unwrap_or_else(|| json!({}));
    let mut conditions = list(status.get("conditions")).to_vec();
    let parts = ["Terminating", "True", "InstanceDeletionInProgress", "CustomResource deletion is in progress"];
    put_condition(&mut conditions, parts, now);
    status["conditions"] = conditions.into();
    status
}

fn condition<'a>(status: Option<&'a Value>, kind: &str) -> Option<&'a Value> {
    list(status?.get("conditions")).iter().find(|condition| text(condition, "type") == kind)
}

/// Sets a condition (type, status, reason, message); its time changes only with its status.
fn put_condition(conditions: &mut Vec<Value>, [kind, status, reason, message]: [&str; 4], now: Timestamp) {
    let now = time::seconds(now);
    let mut new =
        json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now});
    match conditions.iter_mut().find(|condition| text(condition, "type") == kind) {
        None => conditions.push(new),
        Some(old) => {
            if text(old, "status") == status
                && let Some(time) = old.get("lastTransitionTime")
            {
                new["lastTransitionTime"] = time.clone();
            }
            *old = new;
        }
    }
}

/// The names that the CRD gets, and the last conflict with their reason and text.
fn accepted_names(crd: &Value, taken: &TakenNames) -> (Value, Option<(&'static str, String)>) {
    let empty = Value::Null;
    let (wanted, had) = (at(crd, "spec.names").unwrap_or(&empty), at(crd, "status.acceptedNames").unwrap_or(&empty));
    let free = GroupNames::default();
    let taken = taken.groups.get(text(crd, "spec.group")).unwrap_or(&free);
    let mut names = had.as_object().cloned().unwrap_or_default();
    let mut conflict = None;
    let in_use = |name: &str| format!("{} is already in use", Value::from(name));
    let rows = [
        ("plural", "PluralConflict", &taken.resources),
        ("singular", "SingularConflict", &taken.resources),
        ("kind", "KindConflict", &taken.kinds),
        ("listKind", "ListKindConflict", &taken.kinds),
    ];
    for (index, (field, reason, used)) in rows.into_iter().enumerate() {
        // Short names come between singular and kind, and the last conflict is the one that is told.
        if index == 2 {
            accept_short_names(wanted, had, taken, &mut names, &mut conflict);
        }
        let name = text(wanted, field);
        if name != text(had, field) && used.contains(name) {
            conflict = Some((reason, in_use(name)));
            // Plural and kind are always present.
            if matches!(field, "plural" | "kind") {
                names.entry(field).or_insert_with(|| "".into());
            }
        } else if !name.is_empty() {
            names.insert(field.to_owned(), name.into());
        }
    }
    copy_list(&mut names, wanted, "categories");
    (Value::Object(names), conflict)
}

fn accept_short_names(
    wanted: &Value,
    had: &Value,
    taken: &GroupNames,
    names: &mut Map<String, Value>,
    conflict: &mut Option<(&'static str, String)>,
) {
    let own = list(had.get("shortNames"));
    let new = list(wanted.get("shortNames")).iter().filter(|name| !own.contains(name));
    let used: Vec<String> = new
        .filter_map(Value::as_str)
        .filter(|name| taken.resources.contains(*name))
        .map(|name| format!("{} is already in use", Value::from(name)))
        .collect();
    match used.as_slice() {
        [] => copy_list(names, wanted, "shortNames"),
        [one] => *conflict = Some(("ShortNamesConflict", one.clone())),
        many => *conflict = Some(("ShortNamesConflict", format!("[{}]", many.join(", ")))),
    }
}

fn copy_list(names: &mut Map<String, Value>, wanted: &Value, field: &str) {
    let list = list(wanted.get(field));
    if list.is_empty() {
        names.remove(field);
    } else {
        names.insert(field.to_owned(), list.to_vec().into());
    }
}
