//! What GraphQL does badly: the console of a run as it grows, and its files as bytes.

use super::lines::{self, Stream};
use super::{Run, store};
use crate::fault::{Fault, Result};
use crate::http::auth::Known;
use crate::people::Lasting;
use crate::project::Path as ProjectPath;
use crate::{Shared, file};
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use http::{HeaderMap, HeaderValue, header};
use serde::Deserialize;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::watch;
use volley_plan::people::Deed;
use volley_plan::run::state::State as RunState;

/// Lines that are read at once.
const BATCH: i64 = 1000;
/// How often the table is looked at without being woken, for what other replicas wrote.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Deserialize)]
pub struct Tail {
    /// So many lines from the end; without it, all.
    tail: Option<i64>,
    /// From this line on, counted from 0.
    from: Option<i64>,
    #[serde(default)]
    follow: bool,
}

pub async fn logs(
    State(shared): State<Shared>,
    Known(caller): Known,
    Path((entity, project, run)): Path<(String, String, String)>,
    Query(wanted): Query<Tail>,
) -> Result<Response> {
    let run = super::expect(&shared, &caller, Deed::See, ProjectPath::of(&entity, &project), &run).await?;
    let next = wanted.tail.map_or(0, |tail| (run.log_lines - tail.max(0)).max(0)).max(wanted.from.unwrap_or(0));
    let news = shared.news.follow();
    let reader = Reader { shared, caller: Lasting::new(caller), run, next, follows: wanted.follow, news };
    let mut response = Response::new(Body::from_stream(stream::unfold(reader, Reader::read)));
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    fields.insert("x-volley-line", next.into());
    fields.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(response)
}

struct Reader {
    shared: Shared,
    caller: Lasting,
    run: Run,
    next: i64,
    follows: bool,
    news: watch::Receiver<u64>,
}

impl Reader {
    /// The next lines; nothing more when the run has ended, or was deleted.
    async fn read(mut self) -> Option<(std::result::Result<Bytes, Infallible>, Reader)> {
        loop {
            self.news.mark_unchanged();
            // Before the lines: what a run wrote before it ended is then read after it was seen to have ended.
            let seen = store::by_id(&self.shared.database, self.run.id).await.ok().flatten()?;
            let wanted = self.next..self.next.saturating_add(BATCH);
            let lines = lines::read(&self.shared.database, self.run.id, Stream::Log, wanted).await.ok()?;
            if let Some((last, _)) = lines.last() {
                self.next = last + 1;
                let text: String = lines.iter().map(|(_, line)| format!("{}\n", line.trim_end_matches('\n'))).collect();
                return Some((Ok(text.into()), self));
            }
            let has_ended = RunState::named(&seen.state).is_none_or(|state| state.has_ended());
            if !self.follows || has_ended {
                return None;
            }
            let caller = self.caller.now(&self.shared.database).await.ok()??;
            if !caller.may_see(self.run.entity_id) {
                return None;
            }
            tokio::select! {
                () = self.shared.stop.cancelled() => return None,
                _ = tokio::time::timeout(LOOK, self.news.changed()) => (),
            }
        }
    }
}

pub async fn file(
    State(shared): State<Shared>,
    Known(caller): Known,
    Path((entity, project, run, name)): Path<(String, String, String, String)>,
    headers: HeaderMap,
) -> Result<Response> {
    let run = super::expect(&shared, &caller, Deed::See, ProjectPath::of(&entity, &project), &run).await?;
    let names = [file::clean(&name)?.to_owned()];
    let wanted = file::store::Wanted { names: &names, pattern: None, after: 0, limit: 1 };
    let found = file::store::list(&shared.database, run.id, &wanted).await?;
    let found = found.first().ok_or_else(|| Fault::missing(format!("file `{name}`")))?;
    crate::http::blob::respond(&shared, &file::store::key(run.id, found.id), &headers).await
}
