//! The event stream: what happens on the server, in order, from an event that was seen on.

use crate::{Client, Error, Result};
use bytes::BytesMut;
use reqwest::Response;
use serde::Deserialize;
use serde_json::Value;

/// A line of the stream; ours have a few hundred bytes.
const LINE_MAX: usize = 1 << 20;

#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Event {
    #[serde(skip)]
    pub id: i64,
    pub at: String,
    /// A noun and what became of it: `item.state`. `reset`, always the first of a stream, says that what followed the event
    /// that was seen last is no longer kept: whoever remembers anything asks for it again.
    pub kind: String,
    /// The global id of what it is about.
    pub subject: String,
    pub body: Value,
}

pub struct Events {
    answer: Response,
    url: String,
    unread: BytesMut,
}

impl Client {
    /// Follows what happens after event `after`, or from now on.
    ///
    /// A stream that ends, because the server did or the line broke, is opened again with the last id that was seen.
    pub async fn events(&self, after: Option<i64>) -> Result<Events> {
        let fields: Vec<_> = after.map(|id| ("last-event-id", id.to_string())).into_iter().collect();
        let answer = self.stream("/api/v1/events", &fields).await?;
        Ok(Events { answer, url: self.url.clone(), unread: BytesMut::new() })
    }
}

impl Events {
    /// The next event; nothing when the stream has ended.
    pub async fn next(&mut self) -> Result<Option<Event>> {
        let (mut id, mut data) = (0, String::new());
        while let Some(line) = self.line().await? {
            match line.split_once(':').map(|(field, value)| (field, value.strip_prefix(' ').unwrap_or(value))) {
                Some(("id", value)) => id = value.parse().unwrap_or(0),
                Some(("data", value)) => data.push_str(value),
                Some(_) => (),
                None if line.is_empty() && !data.is_empty() => {
                    let event: Event = serde_json::from_str(&data).map_err(|error| self.strange(error.to_string()))?;
                    return Ok(Some(Event { id, ..event }));
                }
                None => (),
            }
        }
        Ok(None)
    }

    async fn line(&mut self) -> Result<Option<String>> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line = self.unread.split_to(end + 1);
                return Ok(Some(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned()));
            }
            if self.unread.len() > LINE_MAX {
                return Err(self.strange("a line without end".to_owned()));
            }
            let lost = |source: reqwest::Error| Error::Connect { url: self.url.clone(), source: source.without_url() };
            match self.answer.chunk().await.map_err(lost)? {
                Some(bytes) => self.unread.extend_from_slice(&bytes),
                None => return Ok(None),
            }
        }
    }

    fn strange(&self, what: String) -> Error {
        Error::Strange { url: self.url.clone(), what }
    }
}
