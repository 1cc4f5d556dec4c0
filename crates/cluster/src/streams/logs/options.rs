//! The query of a log request, checked (spec K-LOG-1, K-LOG-2).

use super::Output;
use super::reader::ReadOptions;
use crate::apiserver::request::Query;
use jiff::{SignedDuration, Timestamp};
use volley_api::kube::field::FieldError;
use volley_api::kube::status::ApiError;

const STREAMS: &[&str] = &["All", "Stderr", "Stdout"];

/// From when on lines are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    Seconds(i64),
    Time(Timestamp),
}

/// `PodLogOptions`, valid.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Empty when the client leaves the choice to us.
    pub container: String,
    pub follow: bool,
    /// The container before its last restart.
    pub previous: bool,
    pub since: Option<Since>,
    pub tail_lines: Option<u64>,
    pub limit_bytes: Option<u64>,
    pub timestamps: bool,
    /// `None` is both.
    pub output: Option<Output>,
}

impl LogOptions {
    /// Reads the query of a log request for a pod; the errors are 400 for what is unreadable, else one 422 for all problems.
    pub fn parse(query: &Query, pod: &str) -> Result<LogOptions, ApiError> {
        let raw = Raw::read(query)?;
        let errors = raw.problems();
        if !errors.is_empty() {
            return Err(ApiError::invalid("", "PodLogOptions", pod, errors));
        }
        Ok(LogOptions {
            container: query.text("container").to_owned(),
            follow: query.flag("follow"),
            previous: query.flag("previous"),
            since: raw.since_seconds.map(Since::Seconds).or(raw.since_time.map(Since::Time)),
            tail_lines: raw.tail_lines.map(i64::unsigned_abs),
            limit_bytes: raw.limit_bytes.map(i64::unsigned_abs),
            timestamps: query.flag("timestamps"),
            output: match raw.stream {
                Some("Stdout") => Some(Output::Stdout),
                Some("Stderr") => Some(Output::Stderr),
                _ => None,
            },
        })
    }

    /// What is to be read of the chosen container's log.
    pub fn read(&self, now: Timestamp) -> ReadOptions {
        ReadOptions {
            since: self.since(now),
            tail_lines: self.tail_lines,
            limit_bytes: self.limit_bytes,
            timestamps: self.timestamps,
            output: self.output,
        }
    }

    fn since(&self, now: Timestamp) -> Option<Timestamp> {
        match self.since? {
            Since::Time(time) => Some(time),
            // Before the first possible time there is nothing to leave out.
            Since::Seconds(seconds) => now.checked_sub(SignedDuration::from_secs(seconds)).ok(),
        }
    }
}

/// The values as they were sent, readable but not yet checked.
struct Raw<'a> {
    tail_lines: Option<i64>,
    limit_bytes: Option<i64>,
    since_seconds: Option<i64>,
    since_time: Option<Timestamp>,
    stream: Option<&'a str>,
}

impl Raw<'_> {
    fn read(query: &Query) -> Result<Raw<'_>, ApiError> {
        let since_time = query.get("sinceTime").filter(|text| !text.is_empty());
        let since_time = since_time.map(|text| {
            text.parse::<Timestamp>().map_err(|_| {
                ApiError::bad_request(format!(
                    "parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?} as \"2006\""
                ))
            })
        });
        Ok(Raw {
            tail_lines: query.number("tailLines")?,
            limit_bytes: query.number("limitBytes")?,
            since_seconds: query.number("sinceSeconds")?,
            since_time: since_time.transpose()?,
            stream: query.get("stream").filter(|text| !text.is_empty()),
        })
    }

    fn problems(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let Some(lines) = self.tail_lines.filter(|lines| *lines < 0) {
            errors.push(FieldError::invalid("tailLines", lines, "must be greater than or equal to 0"));
        }
        if let Some(bytes) = self.limit_bytes.filter(|bytes| *bytes < 1) {
            errors.push(FieldError::invalid("limitBytes", bytes, "must be greater than 0"));
        }
        match (self.since_seconds, self.since_time) {
            (Some(_), Some(_)) => {
                errors.push(FieldError::forbidden("", "at most one of `sinceTime` or `sinceSeconds` may be specified"));
            }
            (Some(seconds), None) if seconds < 1 => {
                errors.push(FieldError::invalid("sinceSeconds", seconds, "must be greater than 0"));
            }
            _ => {}
        }
        let Some(stream) = self.stream else { return errors };
        if !STREAMS.contains(&stream) {
            errors.push(FieldError::not_supported("stream", stream, STREAMS));
        }
        if stream != "All" && self.tail_lines.is_some() {
            errors.push(FieldError::forbidden("", "`tailLines` and specific `stream` are mutually exclusive for now"));
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(query: &str) -> (u16, String) {
        let error = LogOptions::parse(&Query::parse(query), "p").unwrap_err();
        (error.code, error.message)
    }

    // K-LOG-1
    #[test]
    fn options_of_kubectl_are_read() {
        assert_eq!(LogOptions::parse(&Query::parse(""), "p"), Ok(LogOptions::default()));
        let query = "container=c&follow=true&previous=true&sinceSeconds=60&tailLines=0&limitBytes=5&timestamps=true";
        let expected = LogOptions {
            container: "c".into(),
            follow: true,
            previous: true,
            since: Some(Since::Seconds(60)),
            tail_lines: Some(0),
            limit_bytes: Some(5),
            timestamps: true,
            output: None,
        };
        let options = LogOptions::parse(&Query::parse(query), "p").unwrap();
        assert_eq!(options, expected);
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        assert_eq!(options.since(now), Some("2026-01-01T00:00:00Z".parse().unwrap()));
        let stdout =
            LogOptions::parse(&Query::parse("stream=Stdout&sinceTime=2026-01-01T00:00:00%2B01:00"), "p").unwrap();
        assert_eq!(stdout.output, Some(Output::Stdout));
        assert_eq!(stdout.since(now), Some("2025-12-31T23:00:00Z".parse().unwrap()));
    }

    // K-LOG-2
    #[test]
    fn bad_values_are_refused_with_the_known_texts() {
        let invalid = |text: &str| (422, format!("PodLogOptions \"p\" is invalid: {text}"));
        assert_eq!(
            refused("tailLines=-1"),
            invalid("tailLines: Invalid value: -1: must be greater than or equal to 0")
        );
        assert_eq!(refused("sinceSeconds=0"), invalid("sinceSeconds: Invalid value: 0: must be greater than 0"));
        assert_eq!(refused("limitBytes=0"), invalid("limitBytes: Invalid value: 0: must be greater than 0"));
        let both = ": Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified";
        assert_eq!(refused("sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z"), invalid(both));
        let stream = "stream: Unsupported value: \"x\": supported values: \"All\", \"Stderr\", \"Stdout\"";
        assert_eq!(refused("stream=x"), invalid(stream));
        let tail = ": Forbidden: `tailLines` and specific `stream` are mutually exclusive for now";
        assert_eq!(refused("stream=Stderr&tailLines=3"), invalid(tail));
        assert_eq!(refused("tailLines=x").0, 400);
        assert_eq!(refused("sinceTime=x").0, 400);
    }
}
