//! The console of a run as the server has it: lines of all ranks, `TIME [RANK] text`, the rank only where there are several.

use serde_json::Value;

/// A line, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    pub time: Option<&'a str>,
    pub rank: Option<&'a str>,
    pub text: &'a str,
}

pub fn read(line: &str) -> Line<'_> {
    let (time, rest) = match line.split_once(' ') {
        Some((first, rest)) if is_time(first) => (Some(first), rest),
        _ if is_time(line) => (Some(line), ""),
        _ => (None, line),
    };
    let labelled = rest.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    match labelled.filter(|(label, _)| is_label(label)) {
        Some((rank, text)) => Line { time, rank: Some(rank), text },
        None => Line { time, rank: None, text: rest },
    }
}

/// `2026-01-31T12:00:00.123456`
fn is_time(word: &str) -> bool {
    let shape = |(at, byte): (usize, u8)| match at {
        4 | 7 => byte == b'-',
        10 => byte == b'T',
        13 | 16 => byte == b':',
        _ => byte.is_ascii_digit() || (at > 18 && matches!(byte, b'.' | b'Z')),
    };
    word.len() >= 19 && word.bytes().enumerate().all(shape)
}

/// The name of a rank, with a container behind a slash: no blanks, and not what a program's own brackets hold.
fn is_label(label: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "-._/".contains(c);
    label.contains('-') && label.chars().all(is_letter)
}

/// The names by which the wanted ranks' lines go: `place` says which number is where.
pub fn labels(words: &[String], place: &Value) -> Vec<String> {
    words.iter().flat_map(|word| labels_of(word, place)).collect()
}

fn labels_of(word: &str, place: &Value) -> Vec<String> {
    let Ok(number) = word.parse::<u64>() else {
        return vec![word.to_owned()];
    };
    let rows = || place.as_array().into_iter().flatten();
    let Some(row) = rows().find(|row| row["rank"] == number) else {
        return vec![format!("rank-{number}")];
    };
    let role = row["role"].as_str().unwrap_or_default();
    let before = rows().filter(|other| other["role"] == role && other["rank"].as_u64() < Some(number)).count();
    vec![format!("{role}-{before}"), row["pod"].as_str().unwrap_or_default().to_owned()]
}

/// Whether a line is of one of the ranks that are wanted: by name, by role, or with a container of theirs.
pub fn is_of(rank: Option<&str>, wanted: &[String]) -> bool {
    let Some(rank) = rank else {
        // A launch of a single process names no rank: it is rank 0.
        return wanted.is_empty() || wanted.iter().any(|word| word == "rank-0");
    };
    let pod = rank.split('/').next().unwrap_or(rank);
    let role = pod.rsplit_once('-').map_or(pod, |(role, _)| role);
    wanted.is_empty() || wanted.iter().any(|word| [rank, pod, role].iter().any(|name| name.eq_ignore_ascii_case(word)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_has_a_time_a_rank_and_a_text() {
        let line = read("2026-01-31T12:00:00.123456 [worker-1] loss [x] 3");
        assert_eq!(
            (line.time, line.rank, line.text),
            (Some("2026-01-31T12:00:00.123456"), Some("worker-1"), "loss [x] 3")
        );
        let plain = read("2026-01-31T12:00:00.123456 [epoch 3] done");
        assert_eq!((plain.rank, plain.text), (None, "[epoch 3] done"));
        assert_eq!(read("no time at all"), Line { time: None, rank: None, text: "no time at all" });
        assert_eq!(read("2026-01-31T12:00:00.5").text, "");
    }

    #[test]
    fn a_rank_is_meant_by_its_number_its_name_or_its_role() {
        let place = json!([{"rank": 0, "role": "master", "pod": "t-master-0"}, {"rank": 1, "role": "worker", "pod": "a"},
            {"rank": 2, "role": "worker", "pod": "b"}]);
        let wanted = |word: &str| labels(&[word.to_owned()], &place);
        assert!(is_of(Some("worker-1"), &wanted("2")) && !is_of(Some("worker-0"), &wanted("2")));
        assert!(is_of(Some("b"), &wanted("2")));
        assert!(is_of(Some("worker-1/main"), &wanted("worker-1")) && is_of(Some("worker-1"), &wanted("Worker")));
        assert!(!is_of(Some("master-0"), &wanted("worker")) && is_of(Some("master-0"), &[]));
        assert!(is_of(None, &labels(&["0".to_owned()], &json!(null))) && !is_of(None, &wanted("1")));
    }
}
