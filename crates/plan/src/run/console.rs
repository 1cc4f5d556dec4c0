//! Lines of a run's console, which clients write in two forms.

use serde::Deserialize;

/// How long a time is, as in `2026-01-31T12:00:00.123456`; shorter ones have fewer digits behind the point.
const TIME_LEAST: usize = "2026-01-31T12:00:00".len();

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ConsoleLine {
    pub level: Option<String>,
    #[serde(rename = "ts")]
    pub time: Option<String>,
    pub label: Option<String>,
    #[serde(rename = "content")]
    pub text: String,
}

/// Reads `{"ts": …, "content": …}`, or `ERROR 2026-01-31T12:00:00.123456 [label] text`, or just text.
pub fn parse(line: &str) -> ConsoleLine {
    let line = line.strip_suffix('\n').unwrap_or(line);
    if line.starts_with('{')
        && let Ok(read) = serde_json::from_str(line)
    {
        return read;
    }
    let (level, rest) = match line.strip_prefix("ERROR ") {
        Some(rest) => (Some("error".to_owned()), rest),
        None => (None, line),
    };
    let Some((time, rest)) = rest.split_once(' ').filter(|(time, _)| is_time(time)) else {
        return ConsoleLine { text: line.to_owned(), ..ConsoleLine::default() };
    };
    let labelled = rest.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    let (label, text) = match labelled {
        Some((label, text)) => (Some(label.to_owned()), text),
        None => (None, rest),
    };
    ConsoleLine { level, time: Some(time.to_owned()), label, text: text.to_owned() }
}

fn is_time(text: &str) -> bool {
    let is_dated = text.as_bytes().get(4) == Some(&b'-') && text.as_bytes().get(10) == Some(&b'T');
    text.len() >= TIME_LEAST && is_dated
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(line: &str) -> (Option<String>, Option<String>, Option<String>, String) {
        let read = parse(line);
        (read.level, read.time, read.label, read.text)
    }

    // FS-6
    #[test]
    fn both_forms_are_read_and_anything_else_is_text() {
        let time = Some("2026-01-31T12:00:00.123456".to_owned());
        let structured = r#"{"level":"error","ts":"2026-01-31T12:00:00.123456","label":"rank0","content":"hello"}"#;
        let expected = (Some("error".into()), time.clone(), Some("rank0".into()), "hello".into());
        assert_eq!(told(structured), expected);
        assert_eq!(told("ERROR 2026-01-31T12:00:00.123456 [rank0] hello\n"), expected);
        assert_eq!(told("2026-01-31T12:00:00.123456 hello"), (None, time, None, "hello".into()));
        assert_eq!(told("{\"loss\": 1}"), (None, None, None, "{\"loss\": 1}".into()));
        assert_eq!(told("just text"), (None, None, None, "just text".into()));
        assert_eq!(told(""), (None, None, None, String::new()));
    }
}
