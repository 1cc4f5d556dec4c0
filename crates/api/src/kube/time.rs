//! Times and durations as Kubernetes spells them: RFC 3339 in whole seconds or microseconds, Go duration text, and the
//! short ages that tables show (spec K 15).
//!
//! Nothing here reads a clock: the caller brings `now`.

use jiff::{SignedDuration, Timestamp};

/// `2025-01-02T03:04:05Z`, the spelling of `metav1.Time`; fractions are cut off.
pub fn seconds(time: Timestamp) -> String {
    let whole = Timestamp::from_second(time.as_second()).unwrap_or(time);
    format!("{whole:.0}")
}

/// `2025-01-02T03:04:05.000006Z`, the spelling of `metav1.MicroTime`.
pub fn micros(time: Timestamp) -> String {
    let whole = Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time);
    format!("{whole:.6}")
}

/// Reads RFC 3339 and nothing looser: capital `T`, and `Z` or a numeric offset at the end.
pub fn parse(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let has_zone = bytes.last() == Some(&b'Z') || bytes.len() >= 25 && matches!(bytes[bytes.len() - 6], b'+' | b'-');
    if bytes.len() < 20 || bytes[10] != b'T' || bytes[16] != b':' || !bytes[18].is_ascii_digit() || !has_zone {
        return None;
    }
    text.parse().ok()
}

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// The age text of tables: coarser as it grows, at most two units.
pub fn human_duration(seconds: i64) -> String {
    let two = |unit: i64, name: char, rest_unit: i64, rest_name: char| {
        let (whole, rest) = (seconds / unit, seconds % unit / rest_unit);
        if rest == 0 { format!("{whole}{name}") } else { format!("{whole}{name}{rest}{rest_name}") }
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        _ if seconds < 2 * MINUTE => format!("{seconds}s"),
        _ if seconds < 10 * MINUTE => two(MINUTE, 'm', 1, 's'),
        _ if seconds < 3 * HOUR => format!("{}m", seconds / MINUTE),
        _ if seconds < 8 * HOUR => two(HOUR, 'h', MINUTE, 'm'),
        _ if seconds < 48 * HOUR => format!("{}h", seconds / HOUR),
        _ if seconds < 8 * DAY => two(DAY, 'd', HOUR, 'h'),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => two(YEAR, 'y', DAY, 'd'),
        _ => format!("{}y", seconds / YEAR),
    }
}

/// The age of `then` as tables show it; an absent or unreadable time is `<unknown>`.
pub fn age(then: Option<Timestamp>, now: Timestamp) -> String {
    match then {
        Some(then) => human_duration(now.duration_since(then).as_secs()),
        None => "<unknown>".to_owned(),
    }
}

/// Units of Go duration text with their nanoseconds; `ms` stands before `m` so that it is not read as minutes.
const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60 * 1_000_000_000),
    ("h", 3_600 * 1_000_000_000),
];

/// Reads Go duration text: `32s`, `5m7s`, `1.5h`, `-2ms`, `0`.
pub fn parse_duration(text: &str) -> Option<SignedDuration> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if unsigned == "0" {
        return Some(SignedDuration::ZERO);
    }
    let mut rest = unsigned;
    let mut nanos: i128 = 0;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit() && c != '.')?);
        let (name, unit) = UNITS.iter().find(|(name, _)| after.starts_with(name))?;
        nanos = nanos.checked_add(nanos_of(number, *unit)?)?;
        rest = &after[name.len()..];
    }
    // Go counts nanoseconds in 64 bits and refuses what does not fit.
    let is_empty = unsigned.is_empty();
    let signed = i64::try_from(if text.starts_with('-') { -nanos } else { nanos }).ok()?;
    (!is_empty).then(|| SignedDuration::from_nanos(signed))
}

/// `1.5` of a unit in nanoseconds; digits past the nanosecond are dropped.
fn nanos_of(number: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut nanos = whole.checked_mul(unit)?;
    let mut scale = 1;
    let mut part: i128 = 0;
    // Fifteen digits are finer than a nanosecond of an hour; more would only overflow.
    for digit in fraction.bytes().take(15) {
        part = part * 10 + i128::from(digit - b'0');
        scale *= 10;
    }
    nanos += part * unit / scale;
    Some(nanos)
}

/// Go's spelling: `1h0m0s`, `5m7s`, `1.5s`, `250ms`, `0s`.
pub fn duration_text(duration: SignedDuration) -> String {
    let nanos = duration.as_nanos();
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    let body = match nanos {
        0 => "0s".to_owned(),
        1..1_000 => format!("{nanos}ns"),
        1_000..1_000_000 => decimal(nanos, 1_000, "µs"),
        1_000_000..1_000_000_000 => decimal(nanos, 1_000_000, "ms"),
        _ => {
            let (hours, minutes) = (nanos / 3_600_000_000_000, nanos / 60_000_000_000 % 60);
            let seconds = decimal(nanos % 60_000_000_000, 1_000_000_000, "s");
            match (hours, minutes) {
                (0, 0) => seconds,
                (0, _) => format!("{minutes}m{seconds}"),
                _ => format!("{hours}h{minutes}m{seconds}"),
            }
        }
    };
    format!("{sign}{body}")
}

/// `nanos / unit` with as many decimals as it needs.
fn decimal(nanos: u128, unit: u128, name: &str) -> String {
    let (whole, rest) = (nanos / unit, nanos % unit);
    if rest == 0 {
        return format!("{whole}{name}");
    }
    let width = unit.ilog10() as usize;
    let digits = format!("{rest:0width$}");
    format!("{whole}.{}{name}", digits.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_spelt_in_whole_seconds_or_microseconds() {
        let time = parse("2025-01-02T03:04:05.9876543Z").unwrap();
        assert_eq!(seconds(time), "2025-01-02T03:04:05Z");
        assert_eq!(micros(time), "2025-01-02T03:04:05.987654Z");
        assert_eq!(micros(parse("2025-01-02T03:04:05Z").unwrap()), "2025-01-02T03:04:05.000000Z");
        assert_eq!(seconds(parse("2025-01-02T03:04:05+02:00").unwrap()), "2025-01-02T01:04:05Z");
    }

    #[test]
    fn only_rfc_3339_is_read() {
        for bad in ["", "2025-01-02", "2025-01-02 03:04:05Z", "2025-01-02T03:04:05", "20250102T030405Z", "now", "null"]
        {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    // K-TAB-4
    #[test]
    fn ages_get_coarser_as_they_grow() {
        let cases = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (121, "2m1s"),
            (599, "9m59s"),
            (600, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + 60, "3h1m"),
            (8 * HOUR - 1, "7h59m"),
            (8 * HOUR, "8h"),
            (48 * HOUR - 1, "47h"),
            (48 * HOUR, "2d"),
            (49 * HOUR, "2d1h"),
            (8 * DAY - 1, "7d23h"),
            (8 * DAY, "8d"),
            (2 * YEAR - 1, "729d"),
            (2 * YEAR, "2y"),
            (2 * YEAR + DAY, "2y1d"),
            (8 * YEAR - 1, "7y364d"),
            (8 * YEAR, "8y"),
        ];
        for (seconds, text) in cases {
            assert_eq!(human_duration(seconds), text, "{seconds}");
        }
    }

    // K-TAB-3
    #[test]
    fn an_age_without_a_time_is_unknown() {
        let now = parse("2025-01-02T03:04:05Z").unwrap();
        assert_eq!(age(None, now), "<unknown>");
        assert_eq!(age(parse("2025-01-02T03:04:00.5Z"), now), "4s");
        assert_eq!(age(parse("2025-01-02T03:04:05.5Z"), now), "0s");
    }

    #[test]
    fn go_durations_are_read_and_spelt_as_go_does() {
        let cases = [
            ("32s", "32s"),
            ("5m7s", "5m7s"),
            ("1h", "1h0m0s"),
            ("90m", "1h30m0s"),
            ("1.5s", "1.5s"),
            ("0", "0s"),
            ("-0.25s", "-250ms"),
            ("100us", "100µs"),
            ("1.5h", "1h30m0s"),
            (".5m", "30s"),
        ];
        for (text, spelt) in cases {
            assert_eq!(parse_duration(text).map(duration_text).as_deref(), Some(spelt), "{text}");
        }
        for bad in ["", "-", "5", "s", "1x", "1.2.3s", "3000000h", "5m 7s", "."] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_spelt_duration_reads_back_as_itself(nanos in any::<i64>()) {
            let duration = SignedDuration::from_nanos(nanos.max(-i64::MAX));
            prop_assert_eq!(parse_duration(&duration_text(duration)), Some(duration));
        }
    }
}
