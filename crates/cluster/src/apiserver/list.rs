//! Get and list: selectors, resourceVersion rules, pages that are one snapshot, and the three views (spec K 8, 15).

use super::ApiServer;
use super::answer::{self, Answer};
use super::call::Call;
use super::catalogue::Resource;
use super::object::{self, Spelling, Stored, partial, selectable};
use super::request::{Form, View};
use crate::store::{Expired, Revision, Stretch};
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
/// A selective page looks at this many objects at a time.
const STRETCH_MIN: usize = 1000;
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
    /// None before the first page of the newest state.
    revision: Option<Revision>,
    after: String,
    /// How many entries are behind, selected or not.
    rest: usize,
}

impl Continue {
    fn encode(&self) -> String {
        URL_SAFE_NO_PAD
            .encode(json!({"v": "volley/v1", "rv": self.revision, "start": self.after, "rest": self.rest}).to_string())
    }

    fn decode(token: &str) -> Result<Continue, ApiError> {
        let bad = || ApiError::bad_request("continue key is not valid");
        let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| bad())?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|_| bad())?;
        let revision = value["rv"].as_u64().ok_or_else(bad)?;
        let after = value["start"].as_str().ok_or_else(bad)?.to_owned();
        let rest = value["rest"].as_u64().ok_or_else(bad)? as usize;
        Ok(Continue { revision: Some(revision), after, rest })
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
            custom.schema().default(&mut object);
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
            None => selector::fields(&resource.group, &resource.kind).iter().map(|field| (*field).to_owned()).collect(),
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
                let rows =
                    page.items.iter().map(|stored| self.row(&call.resource, &self.read(&call.resource, stored), call));
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
            Some(custom) if !custom.is_complete(stored) => {
                let mut object = Spelling::new(&resource).parse(stored);
                custom.schema().default(&mut object);
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
        let token = query.text("continue");
        if !token.is_empty() {
            if !matches!(query.text("resourceVersion"), "" | "0") || !query.text("resourceVersionMatch").is_empty() {
                return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
            }
            let at = Continue::decode(token)?;
            return self.stretch(call, selection, limit.unwrap_or(usize::MAX), at).map_err(|_| expired());
        }
        let at = self.moment(call).await?;
        // The reference serves everything from its cache to those who take any version.
        let limit = limit.filter(|_| query.text("resourceVersion") != "0");
        let rest = limit.map_or(0, |_| self.store.count(&call.resource.bucket, &selection.prefix));
        let begin = Continue { revision: at, after: String::new(), rest };
        self.stretch(call, selection, limit.unwrap_or(usize::MAX), begin).map_err(|expired| {
            let revision = expired.requested;
            ApiError::gone(format!("The provided resource version is too old: {revision}, list again without one"))
        })
    }

    /// Up to `limit` matching items from a place on, and where the rest begins.
    fn stretch(&self, call: &Call, selection: &Selection, limit: usize, from: Continue) -> Result<Page, Expired> {
        let bucket = &call.resource.bucket;
        let (mut at, mut after) = (from.revision, from.after);
        let (mut items, mut passed) = (Vec::new(), 0);
        loop {
            let prefix = &*selection.prefix;
            // One more than is wanted shows whether there is a rest.
            let wanted = limit.saturating_sub(items.len()).saturating_add(1);
            let count = if selection.is_everything() { wanted } else { wanted.max(STRETCH_MIN) };
            let listing = self.store.stretch(bucket, &Stretch { prefix, after: &after, count, at })?;
            at = Some(listing.revision);
            let is_last = listing.entries.len() < count;
            if let Some(last) = listing.entries.last() {
                after = last.key.to_string();
            }
            for stored in listing.entries {
                if !selection.matches(&call.resource, &stored) {
                    passed += 1;
                } else if items.len() < limit {
                    items.push(stored);
                } else {
                    return Ok(Page::begun(items, listing.revision, from.rest, passed, selection));
                }
            }
            if is_last {
                return Ok(Page { revision: listing.revision, items, continue_token: None, remaining: None });
            }
        }
    }

    /// The state that `resourceVersion` and `resourceVersionMatch` ask for (spec K-LIST-5); none for the newest.
    async fn moment(&self, call: &Call) -> Result<Option<Revision>, ApiError> {
        let query = &call.query;
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
            return Ok(None);
        }
        let revision = revision(wanted)?;
        if how == "Exact" {
            if revision == 0 {
                return Err(list_options(
                    "resourceVersionMatch",
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                ));
            }
            return Ok(Some(revision));
        }
        if revision > self.store.revision() && !self.reached(revision).await {
            return Err(too_large(revision, self.store.revision()));
        }
        Ok(None)
    }
}

impl Page {
    /// A page with a rest. How much of it is left is told only when nothing was selected (spec K-LIST-3).
    fn begun(items: Vec<Arc<Stored>>, revision: Revision, rest: usize, passed: usize, selection: &Selection) -> Page {
        // The count was taken a moment before the page, so it may be off by the writes between them, but never none.
        let rest = rest.saturating_sub(items.len() + passed).max(1);
        let token =
            items.last().map(|last| Continue { revision: Some(revision), after: last.key.to_string(), rest }.encode());
        Page { revision, items, continue_token: token, remaining: selection.is_everything().then_some(rest) }
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
            "invalid resource version: resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
        ))
    })
}

pub fn list_options(field: &str, detail: &str) -> ApiError {
    ApiError::invalid("meta.k8s.io", "ListOptions", "", vec![FieldError::forbidden(field, detail)])
}

fn too_large(wanted: Revision, current: Revision) -> ApiError {
    let message = format!("Too large resource version: {wanted}, current: {current}");
    let mut error = ApiError::new(504, "Timeout", format!("Timeout: {message}"));
    error.details = json!({"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}], "retryAfterSeconds": 1});
    error
}

fn expired() -> ApiError {
    ApiError::gone(
        "The provided continue parameter is too old to display a consistent list result. You must start a new list without the continue parameter.",
    )
}
