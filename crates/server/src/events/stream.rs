//! `GET /api/v1/events`: server-sent events, resumable by the id of the last one seen.
//!
//! Who asks for events that are no longer kept is first told `reset`: what it knows may be out of date, so it asks for
//! everything again, and goes on from the id of that event.

use super::feed::{self, Batch};
use super::window;
use crate::database::{Database, Result};
use crate::fault::Fault;
use crate::http::auth::Known;
use crate::people::{Caller, Lasting};
use crate::{Shared, queue};
use axum::body::Body;
use axum::extract::{Query, State};
use axum::response::Response;
use bytes::{BufMut as _, Bytes, BytesMut};
use futures::{StreamExt as _, stream};
use http::{HeaderMap, HeaderValue, header};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use volley_plan::news::Window;
use volley_plan::people::Deed;

/// A line without meaning, as often as this, keeps proxies from closing a quiet connection. Whoever was shut out is then
/// noticed, too.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
pub struct From {
    /// Events after this one; without it, from now on.
    after: Option<i64>,
}

pub async fn follow(
    State(shared): State<Shared>,
    Known(caller): Known,
    Query(from): Query<From>,
    headers: HeaderMap,
) -> std::result::Result<Response, Fault> {
    let resumed = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    // Before the table is read, so that nothing falls between the two.
    let feed = shared.feed.follow();
    let newest = feed::latest(&shared.database).await?;
    let asked = resumed.or(from.after);
    let is_lost = match asked {
        Some(after) => Window::is_lost(after, window::pruned(&shared.database).await?, newest),
        None => false,
    };
    let after = asked.filter(|_| !is_lost).unwrap_or(newest);
    let first = is_lost.then(|| Ok(reset(newest)));
    let reader = Reader { shared, caller: Lasting::new(caller), feed, after, is_behind: true };
    let events = stream::iter(first).chain(stream::unfold(reader, Reader::next));
    let mut response = Response::new(Body::from_stream(events));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

/// Tells a client to start afresh, and from where on it will then miss nothing.
fn reset(newest: i64) -> Bytes {
    let at = crate::graphql::scalars::date_text(jiff::Timestamp::now().as_microsecond());
    let data = serde_json::json!({ "at": at, "kind": "reset", "subject": "", "body": {} });
    Bytes::from(format!("id: {newest}\nevent: reset\ndata: {data}\n\n"))
}

struct Reader {
    shared: Shared,
    caller: Lasting,
    feed: broadcast::Receiver<Arc<Batch>>,
    after: i64,
    /// Whether the table has more than was sent.
    is_behind: bool,
}

impl Reader {
    async fn next(mut self) -> Option<(std::result::Result<Bytes, Infallible>, Reader)> {
        loop {
            let bytes = match self.is_behind {
                true => self.catch_up().await,
                false => self.listen().await,
            };
            match bytes {
                Ok(None) => return None,
                Ok(Some(bytes)) if bytes.is_empty() => (),
                Ok(Some(bytes)) => return Some((Ok(bytes), self)),
                Err(error) => {
                    tracing::warn!(%error, "failed to read events; the client will come back");
                    return None;
                }
            }
        }
    }

    async fn catch_up(&mut self) -> Result<Option<Bytes>> {
        let batch = feed::read(&self.shared.database, self.after).await?;
        // Asked after the reading, so that nothing can go in between. It comes back, and is told to start afresh.
        if self.after < window::pruned(&self.shared.database).await? {
            return Ok(None);
        }
        self.is_behind = batch.upto > self.after;
        self.take(&batch).await
    }

    /// Nothing when the stream ends.
    async fn listen(&mut self) -> Result<Option<Bytes>> {
        let received = tokio::select! {
            () = self.shared.stop.cancelled() => return Ok(None),
            received = tokio::time::timeout(KEEP_ALIVE, self.feed.recv()) => received,
        };
        match received {
            Err(_) => {
                let is_known = self.caller.now(&self.shared.database).await?.is_some();
                Ok(is_known.then(|| Bytes::from_static(b":\n\n")))
            }
            Ok(Ok(batch)) if batch.after <= self.after => self.take(&batch).await,
            Ok(Ok(_) | Err(RecvError::Lagged(_))) => {
                self.is_behind = true;
                Ok(Some(Bytes::new()))
            }
            Ok(Err(RecvError::Closed)) => Ok(None),
        }
    }

    /// What of a batch is new to this client and may be seen by it; nothing for one who was shut out in the meantime.
    async fn take(&mut self, batch: &Batch) -> Result<Option<Bytes>> {
        let Some(caller) = self.caller.now(&self.shared.database).await? else {
            return Ok(None);
        };
        let seen = self.after;
        self.after = seen.max(batch.upto);
        let queues = open_queues(&self.shared.database, caller, batch, seen).await?;
        let is_open = |entity: i64| if entity < 0 { queues.contains(&-entity) } else { caller.may_see(entity) };
        let is_wanted = |event: &&feed::Told| event.id > seen && is_open(event.entity);
        if batch.events.iter().all(|event| is_wanted(&event)) {
            return Ok(Some(batch.whole.clone()));
        }
        let mut bytes = BytesMut::new();
        batch.events.iter().filter(is_wanted).for_each(|event| bytes.put_slice(&event.frame));
        Ok(Some(bytes.freeze()))
    }
}

/// The private queues of which a batch tells, as far as the caller may see them.
async fn open_queues(database: &Database, caller: &Caller, batch: &Batch, seen: i64) -> Result<BTreeSet<i64>> {
    let events = batch.events.iter().filter(|event| event.id > seen && event.entity < 0);
    let named: BTreeSet<i64> = events.map(|event| -event.entity).collect();
    let mut open = BTreeSet::new();
    for id in named {
        let queue = queue::store::by_id(database, id).await?;
        open.extend(queue.filter(|queue| queue.is_open_to(caller, Deed::See)).map(|queue| queue.id));
    }
    Ok(open)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::args;
    use crate::people::store::caller_by_key;
    use crate::{Server, Settings};
    use jiff::Timestamp;

    const KEY: &str = "0123456789abcdef0123456789abcdef01234567";

    pub async fn server() -> (tempfile::TempDir, Server, Caller) {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings {
            folder: folder.path().to_owned(),
            listen: ([127, 0, 0, 1], 0).into(),
            database: None,
            blobs: None,
            aws: Default::default(),
            public_url: None,
            first_user: "alice".to_owned(),
            first_key: Some(KEY.to_owned()),
            rates: crate::http::limits::Rates::default(),
            events: Window::default(),
        };
        let server = Server::start(settings).await.unwrap();
        // An administrator would see everybody's.
        let mut write = server.shared.database.write().await.unwrap();
        write.run("UPDATE users SET is_admin = 0", args![]).await.unwrap();
        write.commit().await.unwrap();
        let caller = caller_by_key(&server.shared.database, KEY, Timestamp::now()).await.unwrap().unwrap();
        (folder, server, caller)
    }

    /// Writes events of the caller's entity, and every third of another one.
    async fn write_events(shared: &Shared, caller: &Caller, count: usize) {
        let mut write = shared.database.write().await.unwrap();
        for number in 0..count {
            let entity = if number % 3 == 2 { 0 } else { caller.user.entity_id };
            let sql = "INSERT INTO events (at, entity_id, kind, subject, body) VALUES ($2, $1, 'test', 's', '{}')";
            write.run(sql, args![entity, Timestamp::now()]).await.unwrap();
        }
        write.commit().await.unwrap();
        shared.news.announce();
    }

    async fn followed(shared: &Shared, caller: &Caller, after: i64) -> axum::body::BodyDataStream {
        let answer =
            follow(State(shared.clone()), Known(caller.clone()), Query(From { after: Some(after) }), HeaderMap::new());
        answer.await.unwrap().into_body().into_data_stream()
    }

    /// The ids of the next events.
    async fn ids(stream: &mut axum::body::BodyDataStream, count: usize) -> Vec<i64> {
        let mut ids = Vec::new();
        while ids.len() < count {
            let bytes = stream.next().await.unwrap().unwrap();
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            ids.extend(text.lines().filter_map(|line| line.strip_prefix("id: ")?.parse::<i64>().ok()));
        }
        ids
    }

    fn visible(events: std::ops::RangeInclusive<i64>) -> Vec<i64> {
        events.filter(|id| id % 3 != 0).collect()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_thousand_subscribers_get_every_event_once_and_in_order() {
        let (_folder, server, caller) = server().await;
        let shared = server.shared.clone();
        let mut tasks = Vec::new();
        for _ in 0..1000 {
            let mut stream = followed(&shared, &caller, 0).await;
            tasks.push(tokio::spawn(async move { ids(&mut stream, 200).await }));
        }
        for _ in 0..10 {
            write_events(&shared, &caller, 30).await;
        }
        for task in tasks {
            assert_eq!(task.await.unwrap(), visible(1..=300));
        }
        server.stop().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_slow_reader_costs_nothing_and_misses_nothing() {
        let (_folder, server, caller) = server().await;
        let shared = server.shared.clone();
        let mut slow = followed(&shared, &caller, 0).await;
        write_events(&shared, &caller, 3).await;
        assert_eq!(ids(&mut slow, 2).await, [1, 2]);
        // More than the ring holds, while somebody quick follows.
        let mut quick = followed(&shared, &caller, 3).await;
        for _ in 0..60 {
            write_events(&shared, &caller, 300).await;
        }
        assert_eq!(ids(&mut quick, 12_000).await, visible(4..=18_003));
        assert_eq!(ids(&mut slow, 12_000).await, visible(4..=18_003));
        // Both hear what happens next.
        write_events(&shared, &caller, 3).await;
        assert_eq!(ids(&mut quick, 2).await, [18_004, 18_005]);
        assert_eq!(ids(&mut slow, 2).await, [18_004, 18_005]);
        // And whoever comes back goes on where it broke off.
        assert_eq!(ids(&mut followed(&shared, &caller, 18_000).await, 4).await, [18_001, 18_002, 18_004, 18_005]);
        server.stop().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn who_comes_back_too_late_is_told_to_start_afresh() {
        let (_folder, server, caller) = server().await;
        let shared = server.shared.clone();
        write_events(&shared, &caller, 30).await;
        let ten = Window { count_max: 10, ..Window::default() };
        window::prune(&shared.database, ten, Timestamp::now()).await.unwrap();
        assert_eq!(window::pruned(&shared.database).await.unwrap(), 20);
        assert_eq!(ids(&mut followed(&shared, &caller, 20).await, 6).await, [22, 23, 25, 26, 28, 29]);
        // One that slept too long, and one that knew a database from which this one was not restored.
        for after in [19, 31] {
            let mut stream = followed(&shared, &caller, after).await;
            let first = stream.next().await.unwrap().unwrap();
            assert!(first.starts_with(b"id: 30\nevent: reset\ndata: {"), "{first:?}");
        }
        let mut late = followed(&shared, &caller, 0).await;
        write_events(&shared, &caller, 3).await;
        assert_eq!(ids(&mut late, 3).await, [30, 31, 32], "it goes on behind the event that told it");
        // All but the newest are older than nothing; and whoever is too slow is cut off, and told when it comes back.
        let mut slow = followed(&shared, &caller, 30).await;
        let none = Window { age_max: jiff::SignedDuration::ZERO, ..ten };
        window::prune(&shared.database, none, Timestamp::now()).await.unwrap();
        assert!(slow.next().await.is_none());
        assert_eq!(feed::latest(&shared.database).await.unwrap(), 33);
        server.stop().await;
    }
}
