//! Watches: one JSON object per line, from any revision that is still remembered (spec K 9).
//!
//! A watch pulls from the store's ring; nothing is queued per watcher. A plain event is encoded once and shared.

use super::ApiServer;
use super::answer::{self, Answer};
use super::call::Call;
use super::list::{Selection, list_options, revision};
use super::object::{Meta, Spelling, Stored, partial};
use super::request::{Form, View};
use crate::store::{Event, EventKind, Listing, Revision, Watch};
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use volley_api::kube::field::FieldError;
use volley_api::kube::status::ApiError;

/// How often a quiet watch that wants bookmarks gets one (spec K-WATCH-5).
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// The end of a watch without `timeoutSeconds` (spec K-HTTP-4).
const LIFE_MIN_SECONDS: u64 = 1800;
/// Events that are sent as one piece, so that a burst costs few writes.
const BATCH_BYTES: usize = 64 * 1024;

/// One open watch.
struct Session {
    server: Arc<ApiServer>,
    call: Call,
    selection: Selection,
    form: Form,
    watch: Watch<Meta>,
    bookmarks: bool,
    /// The column definitions go out with the first event only (spec K-WATCH-8).
    columns_sent: bool,
    ends: Instant,
    state: State,
}

enum State {
    /// What is sent before anything new: the current objects and the mark of their end.
    Initial {
        listing: Listing<Meta>,
        mark: bool,
    },
    Live,
    Ended,
}

impl ApiServer {
    pub fn watch(self: &Arc<Self>, call: Call, form: Form) -> Result<Answer, ApiError> {
        let selection = self.selection(&call)?;
        let query = &call.query;
        let initial = query.get("sendInitialEvents").map(|_| query.flag("sendInitialEvents"));
        check_initial(query.text("resourceVersionMatch"), initial)?;
        let bookmarks = query.flag("allowWatchBookmarks");
        let from = match query.text("resourceVersion") {
            "" => 0,
            text => revision(text)?,
        };
        let bucket = call.resource.bucket.clone();
        let everything = initial == Some(true) || (from == 0 && initial != Some(false));
        let (watch, state) = if everything {
            let (listing, watch) = self.store.list_and_watch(&bucket, &selection.prefix);
            (watch, State::Initial { listing, mark: initial == Some(true) && bookmarks })
        } else {
            let from = if from == 0 { self.store.revision() } else { from };
            match self.store.watch(&bucket, from) {
                Ok(watch) => (watch, State::Live),
                Err(expired) => return Ok(too_old(from, expired.oldest)),
            }
        };
        let seconds = query.number("timeoutSeconds")?.and_then(|s| u64::try_from(s).ok()).filter(|s| *s > 0);
        let life = seconds.unwrap_or_else(|| rand::random_range(LIFE_MIN_SECONDS..LIFE_MIN_SECONDS * 2));
        let ends = Instant::now() + Duration::from_secs(life);
        let session =
            Session { server: self.clone(), call, selection, form, watch, bookmarks, columns_sent: false, ends, state };
        self.metrics.watch_opened();
        Ok(answer::stream(futures::stream::unfold(session, |mut session| async move {
            let piece = session.next().await;
            piece.map(|piece| (piece, session))
        })))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.server.metrics.watch_closed();
    }
}

impl Session {
    /// The next piece of the stream; `None` ends it.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            match std::mem::replace(&mut self.state, State::Live) {
                State::Ended => return None,
                State::Initial { listing, mark } => {
                    if let Some(piece) = self.initial(listing, mark) {
                        return Some(piece);
                    }
                }
                State::Live => {}
            }
            let bookmark_due = Instant::now() + BOOKMARK_EVERY;
            let until = if self.bookmarks { bookmark_due.min(self.ends) } else { self.ends };
            match tokio::time::timeout_at(until, self.watch.next()).await {
                Ok(Ok(events)) => {
                    if let Some(piece) = self.events(&events) {
                        return Some(piece);
                    }
                }
                Ok(Err(_lagged)) => {
                    self.state = State::Ended;
                    return Some(line("ERROR", &expired_status(self.watch.position(), self.server.store.revision())));
                }
                Err(_elapsed) if Instant::now() >= self.ends => {
                    self.state = State::Ended;
                    // The last bookmark lets a quiet client resume at a recent revision.
                    return self.bookmarks.then(|| self.bookmark(self.watch.position(), false));
                }
                Err(_elapsed) => return Some(self.bookmark(self.watch.position(), false)),
            }
        }
    }

    fn initial(&mut self, listing: Listing<Meta>, mark: bool) -> Option<Bytes> {
        let mut out = Vec::new();
        for stored in &listing.entries {
            if self.selection.matches(&self.call.resource, stored) {
                self.write("ADDED", stored, &mut out);
            }
        }
        if mark {
            out.extend_from_slice(&self.bookmark(listing.revision, true));
        }
        (!out.is_empty()).then(|| out.into())
    }

    fn events(&mut self, events: &[Arc<Event<Meta>>]) -> Option<Bytes> {
        let plain = self.form == Form::JSON && self.selection.is_everything() && self.call.resource.custom.is_none();
        if let ([event], true) = (events, plain && !self.is_converted()) {
            return self.in_scope(&event.entry).then(|| shared_line(event));
        }
        let mut out = Vec::with_capacity(BATCH_BYTES.min(events.len() * 1024));
        for event in events {
            if !self.in_scope(&event.entry) {
                continue;
            }
            if plain && !self.is_converted() {
                out.extend_from_slice(&shared_line(event));
            } else {
                self.select(event, &mut out);
            }
        }
        (!out.is_empty()).then(|| out.into())
    }

    fn is_converted(&self) -> bool {
        &*self.call.resource.group == "events.k8s.io"
    }

    fn in_scope(&self, stored: &Stored) -> bool {
        stored.key.starts_with(&*self.selection.prefix)
    }

    /// Selectors act on transitions: entering is ADDED, leaving is DELETED with the old state (spec K-WATCH-3).
    fn select(&mut self, event: &Event<Meta>, out: &mut Vec<u8>) {
        let resource = self.call.resource.clone();
        let matches = |stored: &Stored| self.selection.matches(&resource, stored);
        let was = event.previous.as_deref().is_some_and(matches);
        let is = event.kind != EventKind::Deleted && matches(&event.entry);
        match (was, is) {
            (false, true) => self.write("ADDED", &event.entry, out),
            (true, true) => self.write("MODIFIED", &event.entry, out),
            (true, false) if event.kind == EventKind::Deleted => self.write("DELETED", &event.entry, out),
            (true, false) => {
                if let Some(previous) = &event.previous {
                    let mut object = self.server.read(&resource, previous);
                    object["metadata"]["resourceVersion"] = event.revision.to_string().into();
                    self.write_object("DELETED", &object, out);
                }
            }
            (false, false) => {}
        }
    }

    fn write(&mut self, kind: &str, stored: &Stored, out: &mut Vec<u8>) {
        if self.form == Form::JSON && self.call.resource.custom.as_ref().is_none_or(|custom| custom.is_complete(stored))
        {
            out.extend_from_slice(format!("{{\"type\":\"{kind}\",\"object\":").as_bytes());
            Spelling::new(&self.call.resource).write(stored, out);
            out.extend_from_slice(b"}\n");
            return;
        }
        let object = self.server.read(&self.call.resource, stored);
        self.write_object(kind, &object, out);
    }

    fn write_object(&mut self, kind: &str, object: &Value, out: &mut Vec<u8>) {
        let resource = self.call.resource.clone();
        let view = match self.form.view {
            View::Object => object.clone(),
            View::Partial | View::PartialList => partial(object),
            View::Table => {
                self.call.now = Timestamp::now();
                let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
                let mut table = self.server.table(&resource, metadata);
                if std::mem::replace(&mut self.columns_sent, true) {
                    table["columnDefinitions"] = Value::Null;
                }
                table["rows"] = json!([self.server.row(&resource, object, &self.call)]);
                table
            }
        };
        out.extend_from_slice(&line(kind, &view));
    }

    fn bookmark(&self, revision: Revision, initial_end: bool) -> Bytes {
        let resource = &self.call.resource;
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self.form.view {
            View::Object => {
                json!({"kind": *resource.kind, "apiVersion": resource.api_version(), "metadata": metadata})
            }
            View::Partial | View::PartialList => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
            }
            View::Table => {
                json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": null, "rows": [
                    {"cells": [], "object": {"kind": *resource.kind, "apiVersion": resource.api_version(), "metadata": metadata}}]})
            }
        };
        line("BOOKMARK", &object)
    }
}

/// An event of an unselected watch, encoded once for all watchers.
fn shared_line(event: &Event<Meta>) -> Bytes {
    let line = event.line.get_or_init(|| {
        let kind = match event.kind {
            EventKind::Created => "ADDED",
            EventKind::Updated => "MODIFIED",
            EventKind::Deleted => "DELETED",
        };
        let mut out = Vec::with_capacity(event.entry.value.len() + 40);
        out.extend_from_slice(format!("{{\"type\":\"{kind}\",\"object\":").as_bytes());
        out.extend_from_slice(&event.entry.value);
        out.extend_from_slice(b"}\n");
        out.into()
    });
    line.clone()
}

fn line(kind: &str, object: &Value) -> Bytes {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n").into()
}

/// The rules of K-WATCH-4 for `sendInitialEvents`.
fn check_initial(version_match: &str, initial: Option<bool>) -> Result<(), ApiError> {
    match (initial, version_match) {
        (None, "") | (Some(_), "NotOlderThan") => Ok(()),
        (Some(_), _) => Err(list_options(
            "resourceVersionMatch",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        )),
        (None, _) => {
            let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            let error = FieldError::forbidden("resourceVersionMatch", detail);
            Err(ApiError::invalid("meta.k8s.io", "ListOptions", "", vec![error]))
        }
    }
}

fn expired_status(wanted: Revision, oldest: Revision) -> Value {
    ApiError::gone(format!("too old resource version: {wanted} ({oldest})")).to_status()
}

/// A watch from before what is remembered: one ERROR event, then the end (spec K-WATCH-6).
fn too_old(wanted: Revision, oldest: Revision) -> Answer {
    let piece = line("ERROR", &expired_status(wanted, oldest));
    answer::stream(futures::stream::iter([piece]))
}

#[cfg(test)]
mod tests {
    use super::*;

    // K-WATCH-4
    #[test]
    fn initial_events_need_a_version_match() {
        assert!(check_initial("", None).is_ok());
        assert!(check_initial("NotOlderThan", Some(true)).is_ok());
        assert_eq!(check_initial("", Some(true)).unwrap_err().code, 422);
        assert_eq!(check_initial("Exact", Some(true)).unwrap_err().code, 422);
    }

    // K-WATCH-6
    #[test]
    fn an_expired_watch_says_so_in_one_event() {
        assert_eq!(
            expired_status(1, 2717),
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "too old resource version: 1 (2717)", "reason": "Expired", "code": 410})
        );
    }
}
