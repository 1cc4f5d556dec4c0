//! Field selectors: the text form, and which fields of which kind can be asked for (spec K 8 and Appendix C).
//!
//! Events are stored once and read through two groups, so their fields are found under either spelling.

use super::SelectorError;
use crate::kube::{at, text};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    field: String,
    is_equal: bool,
    value: String,
}

/// Conditions on fields that must all hold; without any, every object matches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

impl FieldSelector {
    /// Reads `f=v,g!=w`; `\`, `,` and `=` in values are written with a backslash before them.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let (field, is_equal, value) = split_term(part)
                .ok_or_else(|| SelectorError(format!("invalid selector: '{text}'; can't understand '{part}'")))?;
            terms.push(Term { field: field.to_owned(), is_equal, value: unescape(value)? });
        }
        Ok(FieldSelector { terms })
    }

    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// The fields that are asked about, for the check against `fields`.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.terms.iter().map(|term| term.field.as_str())
    }

    /// Whether an object is selected whose fields are looked up by `value`; an absent field is `""`.
    pub fn matches<V: AsRef<str>>(&self, value: impl Fn(&str) -> V) -> bool {
        self.terms.iter().all(|term| (value(&term.field).as_ref() == term.value) == term.is_equal)
    }

    /// Whether `object` of a kind is selected.
    pub fn matches_object(&self, group: &str, kind: &str, object: &Value) -> bool {
        self.matches(|field| field_value(group, kind, field, object))
    }

    /// The one value that `field` must have, if the selector asks for one.
    pub fn requires(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|term| term.is_equal && term.field == field).map(|term| term.value.as_str())
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            let operator = if term.is_equal { "=" } else { "!=" };
            write!(f, "{comma}{}{operator}{}", term.field, escape(&term.value))?;
        }
        Ok(())
    }
}

/// Splits at commas that no backslash protects.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut is_escaped) = (0, false);
    for (index, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            ',' => {
                terms.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

/// Splits at the first operator: field, whether it is an equality, value.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    for index in term.char_indices().map(|(index, _)| index) {
        for (operator, is_equal) in [("!=", false), ("==", true), ("=", true)] {
            if let Some(value) = term[index..].strip_prefix(operator) {
                return Some((&term[..index], is_equal, value));
            }
        }
    }
    None
}

fn escape(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for c in value.chars() {
        if matches!(c, '\\' | ',' | '=') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

fn unescape(value: &str) -> Result<String, SelectorError> {
    let bad_escape =
        |sequence: String| Err(SelectorError(format!("invalid field selector: invalid escape sequence: {sequence}")));
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(next @ ('\\' | ',' | '=')) => plain.push(next),
                Some(other) => return bad_escape(format!("\\{other}")),
                None => return bad_escape("\\".to_owned()),
            },
            // Upstream prints the character's number here, not the character.
            ',' | '=' => {
                let number = u32::from(c);
                return Err(SelectorError(format!("invalid field selector: unescaped character in value: {number}")));
            }
            _ => plain.push(c),
        }
    }
    Ok(plain)
}

const METADATA: &[&str] = &["metadata.name", "metadata.namespace"];

/// Kinds with fields of their own: group, kind, all fields that may be asked for.
const FIELDS: &[(&str, &str, &[&str])] = &[
    (
        "",
        "Pod",
        &[
            "metadata.name", "metadata.namespace", "spec.host", "spec.hostNetwork", "spec.nodeName",
            "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.nominatedNodeName",
            "status.phase", "status.podIP", "status.podIPs",
        ],
    ),
    ("", "Node", &["metadata.name", "spec.unschedulable"]),
    ("", "Namespace", &["metadata.name", "status.phase"]),
    ("", "Secret", &["metadata.name", "metadata.namespace", "type"]),
    ("", "Service", &["metadata.name", "metadata.namespace", "spec.clusterIP", "spec.type"]),
    ("", "ReplicationController", &["metadata.name", "metadata.namespace", "status.replicas"]),
    ("batch", "Job", &["metadata.name", "metadata.namespace", "status.successful"]),
    // The two views of events hold their fields at the same places: what is kept of a stored event serves both.
    (
        "",
        "Event",
        &[
            "involvedObject.apiVersion", "involvedObject.fieldPath", "involvedObject.kind", "involvedObject.name",
            "involvedObject.namespace", "involvedObject.resourceVersion", "involvedObject.uid", "metadata.name",
            "metadata.namespace", "reason", "reportingComponent", "type", "source",
        ],
    ),
    (
        "events.k8s.io",
        "Event",
        &[
            "regarding.apiVersion", "regarding.fieldPath", "regarding.kind", "regarding.name", "regarding.namespace",
            "regarding.resourceVersion", "regarding.uid", "metadata.name", "metadata.namespace", "reason",
            "reportingController", "type",
        ],
    ),
];

/// The groups whose kinds are built in; all others hold custom resources.
const BUILTIN_GROUPS: &[&str] = &[
    "", "admissionregistration.k8s.io", "apiextensions.k8s.io", "apps", "authentication.k8s.io",
    "authorization.k8s.io", "autoscaling", "batch", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io",
    "networking.k8s.io", "node.k8s.io", "policy", "rbac.authorization.k8s.io", "resource.k8s.io", "scheduling.k8s.io",
    "storage.k8s.io",
];

/// The fields that may be asked for. Custom resources add their `selectableFields` to this.
pub fn fields(group: &str, kind: &str) -> &'static [&'static str] {
    FIELDS.iter().find(|(g, k, _)| *g == group && *k == kind).map_or(METADATA, |(_, _, fields)| *fields)
}

/// The value of a field as selectors see it; absent is `""`.
pub fn field_value<'a>(group: &str, kind: &str, field: &str, object: &'a Value) -> Cow<'a, str> {
    match (group, kind, field) {
        ("", "Pod", "spec.host") => text(object, "spec.nodeName").into(),
        ("", "Pod", "spec.hostNetwork") | ("", "Node", "spec.unschedulable") => match at(object, field) {
            Some(Value::Bool(true)) => "true".into(),
            _ => "false".into(),
        },
        ("", "Pod", "status.podIP") => pod_ips(object).next().unwrap_or_else(|| text(object, "status.podIP")).into(),
        ("", "Pod", "status.podIPs") => pod_ips(object).collect::<Vec<_>>().join(",").into(),
        ("batch", "Job", "status.successful") => number(object, "status.succeeded"),
        ("", "ReplicationController", "status.replicas") => number(object, field),
        ("" | "events.k8s.io", "Event", _) => event_field(field, object).into(),
        _ => plain(object, field),
    }
}

fn pod_ips(pod: &Value) -> impl Iterator<Item = &str> {
    at(pod, "status.podIPs").and_then(Value::as_array).into_iter().flatten().map(|ip| text(ip, "ip"))
}

fn number<'a>(object: &Value, path: &str) -> Cow<'a, str> {
    at(object, path).and_then(Value::as_i64).unwrap_or(0).to_string().into()
}

fn plain<'a>(object: &'a Value, path: &str) -> Cow<'a, str> {
    match at(object, path) {
        Some(Value::String(text)) => text.as_str().into(),
        Some(other @ (Value::Bool(_) | Value::Number(_))) => other.to_string().into(),
        Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => "".into(),
    }
}

fn event_field<'a>(field: &str, event: &'a Value) -> &'a str {
    let first = |paths: &[&str]| paths.iter().map(|path| text(event, path)).find(|text| !text.is_empty()).unwrap_or("");
    let object_field = field.strip_prefix("involvedObject.").or_else(|| field.strip_prefix("regarding."));
    match (object_field, field) {
        (Some(name), _) => first(&[&format!("involvedObject.{name}"), &format!("regarding.{name}")]),
        (None, "reportingComponent" | "reportingController") => first(&["reportingComponent", "reportingController"]),
        (None, "source") => {
            first(&["source.component", "deprecatedSource.component", "reportingComponent", "reportingController"])
        }
        (None, _) => text(event, field),
    }
}

/// The text of the 400 answer to a selector on a field that `fields` does not list.
pub fn unknown_field_message(group: &str, kind: &str, field: &str) -> String {
    let has_own_fields = FIELDS.iter().any(|(g, k, _)| *g == group && *k == kind);
    match (group, kind) {
        ("batch", "Job") => format!("field label \"{field}\" not supported for Job"),
        _ if has_own_fields || !BUILTIN_GROUPS.contains(&group) => format!("field label not supported: {field}"),
        _ => format!("\"{field}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""),
    }
}
