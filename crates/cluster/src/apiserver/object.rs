//! Objects as bytes: how they are written into the store, and how stored bytes become answers without being parsed.

use super::catalogue::{Resource, prefix};
use crate::store::{Draft, Entry};
use serde_json::{Map, Value};
use std::sync::OnceLock;
use volley_api::kube::{selector, text};

/// What is kept parsed beside the bytes, each part from when it is first asked for.
#[derive(Debug, Default)]
pub struct Meta {
    /// Labels and selectable fields.
    selectable: OnceLock<Selectable>,
    /// The whole object; only of those that are looked at with every request, such as namespaces and accounts.
    whole: OnceLock<Box<Value>>,
}

#[derive(Debug, Default)]
pub struct Selectable {
    labels: Box<[(Box<str>, Box<str>)]>,
    /// In the order of `selector::fields` for the kind.
    fields: Box<[Box<str>]>,
}

impl Selectable {
    fn of(resource: &Resource, object: &Value) -> Selectable {
        let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
        let labels = labels.map(|(key, value)| (key.as_str().into(), value.as_str().unwrap_or_default().into()));
        let fields = match &resource.custom {
            Some(custom) => custom.selectable(object),
            None => {
                // The longer of the two views of events, whichever of them wrote the object.
                let group = if &*resource.kind == "Event" { "" } else { &*resource.group };
                let fields = selector::fields(group, &resource.kind).iter();
                fields.map(|field| selector::field_value(group, &resource.kind, field, object).into()).collect()
            }
        };
        Selectable { labels: labels.collect(), fields }
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.binary_search_by(|(k, _)| (**k).cmp(key)).ok().map(|i| &*self.labels[i].1)
    }

    pub fn field(&self, position: usize) -> &str {
        self.fields.get(position).map_or("", |field| field)
    }
}

pub type Stored = Entry<Meta>;

/// Labels and fields of a stored object.
pub fn selectable<'a>(resource: &Resource, stored: &'a Stored) -> &'a Selectable {
    stored.meta.selectable.get_or_init(|| Selectable::of(resource, &parse(stored)))
}

/// The key of an object in its bucket, as etcd orders it.
pub fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// The stored object as JSON. Stored bytes were written by `draft`, so they parse.
pub fn parse(stored: &Stored) -> Value {
    serde_json::from_slice(&stored.value).unwrap_or_default()
}

/// The metadata alone; the rest is passed over, which is much faster.
pub fn metadata(stored: &Stored) -> Value {
    #[derive(serde::Deserialize)]
    struct Head {
        metadata: Value,
    }
    serde_json::from_slice(&stored.value).map(|head: Head| head.metadata).unwrap_or_default()
}

/// The same, parsed once for all who ask. For objects that are few and asked for often: it stays in memory.
pub fn parsed(stored: &Stored) -> &Value {
    stored.meta.whole.get_or_init(|| Box::new(parse(stored)))
}

/// An object ready for the store: the revision comes first in `metadata`, so that its place is known.
pub fn draft(resource: &Resource, object: &Value) -> Draft<Meta> {
    let empty = Map::new();
    let map = object.as_object().unwrap_or(&empty);
    let metadata = map.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    // Another spelling is stored under the type of the stored form, which lists count on.
    let prefix = match Convert::of(resource) {
        Some(_) => &prefix(&resource.kind, text(object, "apiVersion")),
        None => &resource.prefix,
    };
    let head = format!("{prefix}\"metadata\":{{\"resourceVersion\":\"").into_bytes();
    let mut tail = Vec::with_capacity(1024);
    tail.push(b'"');
    for (key, value) in metadata.iter().filter(|(key, _)| *key != "resourceVersion") {
        tail.push(b',');
        member(&mut tail, key, value);
    }
    tail.push(b'}');
    for (key, value) in map.iter().filter(|(key, _)| !matches!(key.as_str(), "kind" | "apiVersion" | "metadata")) {
        tail.push(b',');
        member(&mut tail, key, value);
    }
    tail.push(b'}');
    let meta = Meta { selectable: OnceLock::from(Selectable::of(resource, object)), whole: OnceLock::new() };
    Draft { head, tail, meta }
}

fn member(out: &mut Vec<u8>, key: &str, value: &Value) {
    // Writing JSON into memory cannot fail.
    let _ = serde_json::to_writer(&mut *out, key);
    out.push(b':');
    let _ = serde_json::to_writer(&mut *out, value);
}

/// The prefix `{"kind":…,"apiVersion":…,` of stored bytes, whatever version they were stored under.
pub fn prefix_len(value: &[u8]) -> usize {
    const MARK: &[u8] = b"\"metadata\":{\"resourceVersion\":\"";
    value.windows(MARK.len()).position(|window| window == MARK).unwrap_or(1)
}

/// How an answer spells the objects of one resource.
pub struct Spelling<'a> {
    resource: &'a Resource,
    /// `{"kind":…,"apiVersion":…,` for single objects and watch events.
    full: &'a str,
    convert: Option<Convert>,
}

/// Between the stored form of a built-in kind and another spelling of it.
#[derive(Clone, Copy)]
pub struct Convert {
    pub to_stored: fn(&Value) -> Value,
    from_stored: fn(&Value) -> Value,
}

impl Convert {
    /// None for the form that is stored; everything else differs in apiVersion only.
    pub fn of(resource: &Resource) -> Option<Convert> {
        use volley_api::kube::{autoscalers, events};
        match (&*resource.group, &*resource.version, &*resource.kind) {
            ("events.k8s.io", _, "Event") => {
                Some(Convert { to_stored: events::events_to_core, from_stored: events::core_to_events })
            }
            ("autoscaling", "v1", "HorizontalPodAutoscaler") => {
                Some(Convert { to_stored: autoscalers::v1_to_v2, from_stored: autoscalers::v2_to_v1 })
            }
            _ => None,
        }
    }
}

impl<'a> Spelling<'a> {
    pub fn new(resource: &'a Resource) -> Self {
        Spelling { resource, full: &resource.prefix, convert: Convert::of(resource) }
    }

    /// Whether stored bytes of this resource may go out untouched.
    pub fn is_stored_form(&self, value: &[u8]) -> bool {
        self.convert.is_none() && value.starts_with(self.full.as_bytes())
    }

    /// The object alone, with kind and apiVersion.
    pub fn write(&self, stored: &Stored, out: &mut Vec<u8>) {
        if self.is_stored_form(&stored.value) {
            out.extend_from_slice(&stored.value);
        } else if self.convert.is_some() {
            let _ = serde_json::to_writer(out, &self.parse(stored));
        } else {
            out.extend_from_slice(self.full.as_bytes());
            out.extend_from_slice(&stored.value[prefix_len(&stored.value)..]);
        }
    }

    /// The object as an item of a list: built-in kinds carry no kind and apiVersion there (spec K-LIST-1).
    pub fn write_item(&self, stored: &Stored, out: &mut Vec<u8>) {
        if self.resource.custom.is_some() || self.convert.is_some() {
            return self.write(stored, out);
        }
        out.push(b'{');
        out.extend_from_slice(&stored.value[self.full.len()..]);
    }

    /// The object as JSON in this resource's version.
    pub fn parse(&self, stored: &Stored) -> Value {
        self.respell(parse(stored))
    }

    /// From the stored form to this resource's version.
    pub fn respell(&self, mut object: Value) -> Value {
        if let Some(convert) = self.convert {
            object = (convert.from_stored)(&object);
        }
        object["kind"] = (*self.resource.kind).into();
        object["apiVersion"] = self.resource.api_version().into();
        object
    }
}

/// `metadata` only, as `PartialObjectMetadata` (spec K 3.1).
pub fn partial(object: &Value) -> Value {
    serde_json::json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"],
    })
}
