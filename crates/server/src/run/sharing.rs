//! Several processes that write one run, as the ranks of a multi-node job do with W&B's shared mode.
//!
//! Each of them numbers its lines for itself, so theirs are put behind whatever the run has. A line that a process has
//! sent before is not taken again; that it may rewrite old lines of its console is the price.

use super::lines::Stream;
use super::store;
use crate::database::Write;
use crate::fault::Result;
use http::HeaderMap;
use serde_json::Value;
use volley_plan::run::lenient;

/// Who posts, if it is one of several.
pub struct Writer(String);

impl Writer {
    pub fn of(headers: &HeaderMap) -> Option<Writer> {
        is_shared(headers).then(|| {
            let id = headers.get("x-wandb-async-client-id").and_then(|value| value.to_str().ok());
            Writer(id.unwrap_or_default().to_owned())
        })
    }

    /// Where lines that this process put at `offset` go in a stream of `total` lines, and which of them are new.
    pub async fn place(
        &self,
        write: &mut Write,
        (run, stream): (i64, Stream),
        (total, offset): (i64, u64),
        lines: &[String],
    ) -> Result<(u64, Vec<String>)> {
        let offset = i64::try_from(offset).unwrap_or(i64::MAX);
        // The first post of a process begins where the server told it to.
        let sent = store::lines_sent(write, run, &self.0, stream.name()).await?.unwrap_or(offset);
        let end = offset.saturating_add(i64::try_from(lines.len()).unwrap_or(i64::MAX));
        let known = usize::try_from(sent.saturating_sub(offset)).unwrap_or(0).min(lines.len());
        store::note_lines_sent(write, run, (&self.0, stream.name()), sent.max(end)).await?;
        Ok((u64::try_from(total).unwrap_or(0), lines[known..].to_vec()))
    }
}

pub fn is_shared(headers: &HeaderMap) -> bool {
    headers.get("x-wandb-use-async-filestream").is_some_and(|value| value.as_bytes() == b"true")
}

/// What several processes say of one thing, key by key; the later word counts.
pub fn merged(before: &str, after: &str) -> String {
    let (Some(Value::Object(mut known)), Some(Value::Object(new))) = (lenient::parse(before), lenient::parse(after))
    else {
        return after.to_owned();
    };
    known.extend(new);
    Value::Object(known).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_process_says_does_not_take_away_what_another_said() {
        assert_eq!(merged(r#"{"a":1,"b":2}"#, r#"{"b":3}"#), r#"{"a":1,"b":3}"#);
        assert_eq!(merged("", r#"{"b":3}"#), r#"{"b":3}"#);
    }
}
