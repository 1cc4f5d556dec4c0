//! Get and list: selectors, resourceVersion rules, pages that are one snapshot, and the three views (spec K 8, 15).

use super::ApiServer;
use super::answer::{self, Answer};
use super::call::Call;
use super::catalogue::Resource;
use super::object::{self, Spelling, Stored, partial, selectable};
use super::request::{Form, View};
use crate::store::{Listing, Revision};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use volley_api::kube::field::FieldError;
use volley_api::kube::selector::{self, FieldSelector, LabelSelector};
use volley_api::kube::status::ApiError;

/// How long a list waits for a revision that this server has not reached (spec K-LIST-5).
const BEHIND_WAIT: Duration = Duration::from_secs(3);
/// How often a waiting list looks again; one machine is never behind, so this is for clients of another server.
const BEHIND_POLL: Duration = Duration::from_millis(20);
/// Lists go out in pieces of about this size, so that a large one never stands in memory twice.
const PIECE_BYTES: usize = 256 * 1024;

/// Which objects of a bucket are asked for.
pub struct Selection {
    /// `namespace/`, or empty for all.
    pub prefix: String,
    labels: Option<LabelSelector>,
    fields: Option<FieldSelector>,
    /// Positions of the fields in the kind's table.
    names: Vec<String>,
    /// The one key of an old-style watch on a single object (spec K-WATCH-10).
    only: Option<String>,
}

impl Selection {
    pub fn matches(&self, resource: &Resource, stored: &Stored) -> bool {
        if self.only.as_ref().is_some_and(|key| **key != *stored.key) {
            return false;
        }
        if self.labels.is_none() && self.fields.is_none() {
            return true;
        }
        let selectable = selectable(resource, stored);
        let labels = self.labels.as_ref().is_none_or(|s| s.matches_with(|key| selectable.label(key)));
        labels && self.fields.as_ref().is_none_or(|s| s.matches(|field| self.field(stored, selectable, field)))
    }

    fn field<'a>(&self, stored: &'a Stored, selectable: &'a object::Selectable, field: &str) -> &'a str {
        let (namespace, name) = stored.key.split_once('/').unwrap_or(("", &stored.key));
        match field {
            "metadata.name" => name,
            "metadata.namespace" => namespace,
            _ => self.names.iter().position(|n| n == field).map_or("", |position| selectable.field(position)),
        }
    }

    pub fn is_everything(&self) -> bool {
        self.labels.is_none() && self.fields.is_none() && self.only.is_none()
    }
}

/// Where a paged list goes on: the revision of its first page and the last key that was sent.
struct Continue {
    revision: Revision,
    after: String,
}

impl Continue {
    fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(json!({"v": "volley/v1", "rv": self.revision, "start": self.after}).to_string())
    }

    fn decode(token: &str) -> Result<Continue, ApiError> {
        let bad = || ApiError::bad_request("continue key is not valid");
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| bad())?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|_| bad())?;
        let revision = value["rv"].as_u64().ok_or_else(bad)?;
        let after = value["start"].as_str().ok_or_else(bad)?.to_owned();
        Ok(Continue { revision, after })
    }
}

/// One page of a list.
struct Page {
    revision: Revision,
    items: Vec<Arc<Stored>>,
    continue_token: Option<String>,
    remaining: Option<usize>,
}

impl ApiServer {
    pub fn get(&self, call: &Call, form: Form) -> Result<Answer, ApiError> {
        let stored = self.store.get(&call.resource.bucket, &self.key(call)).ok_or_else(|| call.not_found())?;
        let spelling = Spelling::new(&call.resource);
        let plain = form == Form::JSON && call.resource.custom.is_none();
        if plain && spelling.is_stored_form(&stored.value) {
            return Ok(answer::bytes(200, stored.value.clone()));
        }
        Ok(self.object_answer(200, &call.resource, &self.read(&call.resource, &stored), form, call))
    }

    /// A stored object in the version asked for; custom ones with their defaults (spec K-CRD-7).
    pub fn read(&self, resource: &Resource, stored: &Stored) -> Value {
        let mut object = Spelling::new(resource).parse(stored);
        if let Some(custom) = &resource.custom {
            custom.schema.default(&mut object);
        }
        object
    }

    /// One object in the view that was asked for.
    pub fn object_answer(&self, code: u16, resource: &Resource, object: &Value, form: Form, call: &Call) -> Answer {
        match form.view {
            View::Object => answer::value(code, object, form),
            View::Partial | View::PartialList => answer::value(code, &partial(object), form),
            View::Table => {
                let revision = object["metadata"]["resourceVersion"].clone();
                let mut table = self.table(resource, json!({"resourceVersion": revision}));
                table["rows"] = json!([self.row(resource, object, call)]);
                answer::value(code, &table, form)
            }
        }
    }

    /// The selectors and scope of a list, watch or delete-collection.
    pub fn selection(&self, call: &Call) -> Result<Selection, ApiError> {
        let resource = &call.resource;
        let labels = call.query.text("labelSelector");
        let labels = LabelSelector::parse(labels).map_err(|error| ApiError::bad_request(error.0))?;
        let labels = Some(labels).filter(|selector| !selector.is_everything());
        let fields = call.query.text("fieldSelector");
        let fields = FieldSelector::parse(fields).map_err(|error| ApiError::bad_request(error.0))?;
        let fields = Some(fields).filter(|selector| !selector.is_everything());
        let names: Vec<String> = match &resource.custom {
            Some(custom) => custom.selectable_fields.iter().map(|field| field.name.clone()).collect(),
            None => {
                selector::fields(&resource.group, &resource.kind).iter().map(|field| (*field).to_owned()).collect()
            }
        };
        for field in fields.iter().flat_map(|selector| selector.names()) {
            let known = field == "metadata.name"
                || (field == "metadata.namespace" && resource.namespaced)
                || names.iter().any(|name| name == field);
            if !known {
                let group = if resource.custom.is_some() { "custom" } else { &*resource.group };
                let message = if resource.custom.is_some() {
                    format!("field label not supported: {field}")
                } else {
                    selector::unknown_field_message(group, &resource.kind, field)
                };
                return Err(ApiError::bad_request(message));
            }
        }
        let prefix = match call.path.namespace.as_str() {
            "" => String::new(),
            namespace => format!("{namespace}/"),
        };
        let only = Some(self.key(call)).filter(|_| call.path.watch && !call.path.name.is_empty());
        Ok(Selection { prefix, labels, fields, names, only })
    }

    pub async fn list(&self, call: &mut Call, form: Form) -> Result<Answer, ApiError> {
        if call.query.flag("sendInitialEvents") {
            return Err(list_options("sendInitialEvents", "sendInitialEvents is forbidden for list"));
        }
        let selection = self.selection(call)?;
        let page = self.page(call, &selection).await?;
        let mut metadata = json!({"resourceVersion": page.revision.to_string()});
        if let Some(token) = &page.continue_token {
            metadata["continue"] = token.as_str().into();
        }
        if let Some(remaining) = page.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
        Ok(match form.view {
            View::Object if !form.yaml => self.object_list(call, metadata, page.items),
            View::Object => {
                let items: Vec<Value> = page.items.iter().map(|stored| self.read(&call.resource, stored)).collect();
                let resource = &call.resource;
                let list = json!({"kind": *resource.list_kind, "apiVersion": resource.api_version(), "metadata": metadata, "items": items});
                answer::value(200, &list, form)
            }
            View::Partial | View::PartialList => {
                let items: Vec<Value> = page.items.iter().map(|stored| partial(&object::parse(stored))).collect();
                let list = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items});
                answer::value(200, &list, form)
            }
            View::Table => {
                let mut table = self.table(&call.resource, metadata);
                let rows = page.items.iter().map(|stored| self.row(&call.resource, &self.read(&call.resource, stored), call));
                table["rows"] = rows.collect();
                answer::value(200, &table, form)
            }
        })
    }

    /// A list as stored bytes joined by commas, sent in pieces.
    fn object_list(&self, call: &Call, metadata: Value, items: Vec<Arc<Stored>>) -> Answer {
        let resource = call.resource.clone();
        let mut head = format!(
            "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[",
            resource.list_kind,
            resource.api_version()
        )
        .into_bytes();
        let custom = resource.custom.clone();
        let write = move |stored: &Stored, out: &mut Vec<u8>| match &custom {
            Some(custom) if custom.has_defaults => {
                let mut object = Spelling::new(&resource).parse(stored);
                custom.schema.default(&mut object);
                // Writing JSON into memory cannot fail.
                let _ = serde_json::to_writer(out, &object);
            }
            _ => Spelling::new(&resource).write_item(stored, out),
        };
        let small = items.iter().map(|stored| stored.value.len()).sum::<usize>() < PIECE_BYTES;
        if small {
            for (i, stored) in items.iter().enumerate() {
                if i > 0 {
                    head.push(b',');
                }
                write(stored, &mut head);
            }
            head.extend_from_slice(b"]}\n");
            return answer::bytes(200, head.into());
        }
        let mut next = 0;
        let pieces = std::iter::from_fn(move || {
            if next > items.len() {
                return None;
            }
            let mut out = std::mem::take(&mut head);
            while next < items.len() && out.len() < PIECE_BYTES {
                if next > 0 {
                    out.push(b',');
                }
                write(&items[next], &mut out);
                next += 1;
            }
            if next == items.len() {
                out.extend_from_slice(b"]}\n");
                next += 1;
            }
            Some(Bytes::from(out))
        });
        answer::pieces(futures::stream::iter(pieces))
    }

    /// The items of one page, by the rules for resourceVersion, limit and continue.
    async fn page(&self, call: &Call, selection: &Selection) -> Result<Page, ApiError> {
        let query = &call.query;
        let limit = query.number("limit")?.filter(|limit| *limit > 0).map(|limit| limit as usize);
        let (listing, after) = match query.text("continue") {
            "" => (self.snapshot(call, selection).await?, String::new()),
            token => {
                if !matches!(query.text("resourceVersion"), "" | "0") || !query.text("resourceVersionMatch").is_empty() {
                    return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
                }
                let at = Continue::decode(token)?;
                let listing = self.store.list_at(&call.resource.bucket, &selection.prefix, at.revision);
                (listing.map_err(|_| expired())?, at.after)
            }
        };
        let any = query.text("resourceVersion") == "0";
        let start = listing.entries.partition_point(|stored| *stored.key <= *after.as_str() && !after.is_empty());
        let mut items = Vec::new();
        let mut rest = listing.entries[start..].iter();
        for stored in rest.by_ref() {
            if selection.matches(&call.resource, stored) {
                items.push(stored.clone());
            }
            if !any && limit == Some(items.len()) {
                break;
            }
        }
        let more = if selection.is_everything() { rest.len() > 0 } else { rest.clone().any(|s| selection.matches(&call.resource, s)) };
        let token = items.last().filter(|_| more).map(|last| {
            Continue { revision: listing.revision, after: last.key.to_string() }.encode()
        });
        let remaining = Some(rest.len()).filter(|left| selection.is_everything() && *left > 0);
        Ok(Page { revision: listing.revision, items, continue_token: token, remaining })
    }

    /// The state that `resourceVersion` and `resourceVersionMatch` ask for (spec K-LIST-5).
    async fn snapshot(&self, call: &Call, selection: &Selection) -> Result<Listing<object::Meta>, ApiError> {
        let query = &call.query;
        let bucket = &call.resource.bucket;
        let (wanted, how) = (query.text("resourceVersion"), query.text("resourceVersionMatch"));
        if !matches!(how, "" | "Exact" | "NotOlderThan") {
            let error = FieldError::not_supported("resourceVersionMatch", how, &["Exact", "NotOlderThan", ""]);
            return Err(ApiError::invalid("meta.k8s.io", "ListOptions", "", vec![error]));
        }
        if wanted.is_empty() {
            if !how.is_empty() {
                return Err(list_options(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                ));
            }
            return Ok(self.store.list(bucket, &selection.prefix));
        }
        let revision = revision(wanted)?;
        if how == "Exact" {
            if revision == 0 {
                return Err(list_options(
                    "resourceVersionMatch",
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                ));
            }
            return self.store.list_at(bucket, &selection.prefix, revision).map_err(|_| {
                ApiError::gone(format!("The provided resource version is too old: {revision}, list again without one"))
            });
        }
        if revision > self.store.revision() && !self.reached(revision).await {
            return Err(too_large(revision, self.store.revision()));
        }
        Ok(self.store.list(bucket, &selection.prefix))
    }
}

impl ApiServer {
    /// Waits a little for a revision that a client saw elsewhere.
    async fn reached(&self, revision: Revision) -> bool {
        let deadline = tokio::time::Instant::now() + BEHIND_WAIT;
        while self.store.revision() < revision {
            if tokio::time::Instant::now() >= deadline {
                return false;
            }
            tokio::time::sleep(BEHIND_POLL).await;
        }
        true
    }
}

/// A revision given by a client.
pub fn revision(text: &str) -> Result<Revision, ApiError> {
    text.parse().map_err(|_| {
        ApiError::bad_request(format!(
            "invalid resource version: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
        ))
    })
}

pub fn list_options(field: &str, detail: &str) -> ApiError {
    ApiError::invalid("meta.k8s.io", "ListOptions", "", vec![FieldError::forbidden(field, detail)])
}

fn too_large(wanted: Revision, current: Revision) -> ApiError {
    let message = format!("Too large resource version: {wanted}, current: {current}");
    let mut error = ApiError::new(504, "Timeout", format!("Timeout: {message}"));
    error.details =
        json!({"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}], "retryAfterSeconds": 1});
    error
}

fn expired() -> ApiError {
    ApiError::gone(
        "The provided continue parameter is too old to display a consistent list result. You must start a new list without the continue parameter.",
    )
}
