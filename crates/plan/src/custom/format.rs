//! The `format` keyword: which formats are known, and what they accept. Unknown formats are ignored.

use super::pattern;
use jiff::civil::Date;
use regex::Regex;
use std::net::Ipv6Addr;
use std::sync::LazyLock;
use volley_api::kube::names;
use volley_api::kube::time::parse_duration;

/// One known format. Formats of numbers are not among them: the reference ignores those.
#[derive(Debug)]
pub(super) struct Format {
    pub(super) name: &'static str,
    pub(super) accepts: fn(&str) -> bool,
}

const fn row(name: &'static str, accepts: fn(&str) -> bool) -> Format {
    Format { name, accepts }
}

/// Names are compared without dashes, so `date-time` and `datetime` are one; texts use the name of the schema's row.
static FORMATS: [Format; 18] = [
    row("byte", is_base64),
    row("cidr", |text| names::parse_network(text).is_some()),
    row("date", is_date),
    row("date-time", is_date_time),
    row("duration", is_duration),
    row("email", is_email),
    row("hostname", is_hostname),
    row("ipv4", |text| text.contains('.') && names::parse_ip(text).is_some()),
    row("ipv6", |text| text.parse::<Ipv6Addr>().is_ok()),
    row("k8s-long-name", |text| names::dns_subdomain(text).is_empty()),
    row("k8s-short-name", |text| !text.contains('.') && text.len() <= 63 && names::dns_subdomain(text).is_empty()),
    row("mac", |text| MAC.is_match(text)),
    row("password", |_| true),
    row("uri", is_uri),
    row("uuid", |text| UUID.is_match(text)),
    row("uuid3", |text| UUID3.is_match(text)),
    row("uuid4", |text| UUID4.is_match(text)),
    row("uuid5", |text| UUID5.is_match(text)),
];

/// The format of this name, if it is one that is checked.
pub(super) fn find(name: &str) -> Option<&'static Format> {
    if name.is_empty() {
        return None;
    }
    let wanted = name.replace('-', "");
    FORMATS.iter().find(|row| row.name.replace('-', "") == wanted)
}

fn fixed(source: &str) -> Regex {
    pattern::compile(source).expect("a pattern of this file is valid")
}

static UUID: LazyLock<Regex> = LazyLock::new(|| uuid("[0-9a-f]{4}", "[0-9a-f]{4}"));
static UUID3: LazyLock<Regex> = LazyLock::new(|| uuid("3[0-9a-f]{3}", "[0-9a-f]{4}"));
static UUID4: LazyLock<Regex> = LazyLock::new(|| uuid("4[0-9a-f]{3}", "[89ab][0-9a-f]{3}"));
static UUID5: LazyLock<Regex> = LazyLock::new(|| uuid("5[0-9a-f]{3}", "[89ab][0-9a-f]{3}"));
static MAC: LazyLock<Regex> = LazyLock::new(|| {
    fixed("(?i)^([0-9a-f]{2}([:-][0-9a-f]{2}){5}([:-][0-9a-f]{2}){0,2}|[0-9a-f]{4}(\\.[0-9a-f]{4}){2,3})$")
});
static HOST_LABEL: LazyLock<Regex> = LazyLock::new(|| fixed("^[a-zA-Z0-9\\p{S}\\p{L}-]+$"));
static TIME: LazyLock<Regex> =
    LazyLock::new(|| fixed("^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$"));
static SPOKEN_DURATION: LazyLock<Regex> = LazyLock::new(|| fixed("(\\d+)\\s*([A-Za-zµ]+)"));

fn uuid(third: &str, fourth: &str) -> Regex {
    fixed(&format!("(?i)^[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{third}-?{fourth}-?[0-9a-f]{{12}}$"))
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let padding = text.len() - body.len();
    let is_symbol = |b: u8| b.is_ascii_alphanumeric() || b == b'+' || b == b'/';
    !text.is_empty() && text.len().is_multiple_of(4) && padding <= 2 && body.bytes().all(is_symbol)
}

fn is_date(text: &str) -> bool {
    let has_shape = text.len() == 10 && text.bytes().enumerate().all(|(at, b)| (b == b'-') == (at == 4 || at == 7));
    has_shape && text.parse::<Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let Some((date, time)) = lower.split_once('t') else { return false };
    let Some(parts) = TIME.captures(time) else { return false };
    is_date(date) && &parts[1] <= "23" && &parts[2] <= "59" && &parts[3] <= "59"
}

/// Go durations (`1h30m`), or spoken ones (`2 days`).
fn is_duration(text: &str) -> bool {
    parse_duration(text).is_some() || SPOKEN_DURATION.captures_iter(text).any(|found| is_spoken_unit(&found[2]))
}

fn is_spoken_unit(unit: &str) -> bool {
    let unit = unit.to_lowercase();
    let exact = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"];
    let prefixes = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    exact.contains(&unit.as_str()) || prefixes.iter().any(|prefix| unit.starts_with(prefix))
}

fn is_email(text: &str) -> bool {
    // The reference also takes `Name <address>`.
    let address = text.strip_suffix('>').and_then(|rest| rest.rsplit_once('<')).map_or(text, |(_, address)| address);
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let is_atom = |part: &str| {
        !part.is_empty()
            && part.split('.').all(|word| {
                !word.is_empty()
                    && word.chars().all(|c| !c.is_whitespace() && !c.is_control() && !"()<>[]:;@\\,\"".contains(c))
            })
    };
    is_atom(local) && is_atom(domain)
}

/// A lone label takes a dash only as its second character; that is how the reference reads RFC 1034.
fn is_hostname(text: &str) -> bool {
    let labels: Vec<&str> = text.split('.').collect();
    let is_label = |label: &str| label.len() <= 63 && HOST_LABEL.is_match(label) && !label.starts_with('-');
    if text.len() > 255 || !labels.iter().all(|label| is_label(label)) {
        return false;
    }
    match labels.as_slice() {
        [lone] => !lone.chars().enumerate().any(|(at, character)| character == '-' && at != 1),
        [inner @ .., last] => {
            let is_top = last.chars().count() >= 2 && last.chars().all(char::is_alphabetic);
            is_top && inner.iter().all(|label| !label.ends_with('-'))
        }
        [] => false,
    }
}

/// An absolute URI or an absolute path.
fn is_uri(text: &str) -> bool {
    let has_bad_character = text.chars().any(|c| c.is_control() || c == ' ' || c == '\u{7f}');
    let is_absolute = text.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    });
    !has_bad_character && (text.starts_with('/') || is_absolute)
}

#[cfg(test)]
mod tests {
    use super::*;

    // K-CRD-6
    #[test]
    fn each_format_takes_good_texts_and_refuses_bad_ones() {
        let cases: [(&str, &[&str], &[&str]); 15] = [
            (
                "date-time",
                &["2026-01-02T03:04:05Z", "2026-01-02t03:04:05.5+01:00"],
                &["2026-01-02", "now", "2026-13-01T00:00:00Z", "2026-01-01T24:00:00Z"],
            ),
            ("date", &["2026-02-28"], &["2026-02-30", "20260228", "26-1-1"]),
            ("duration", &["1h30m", "1.5s", "2 days", "-3ms", "0"], &["", "abc", "5"]),
            ("byte", &["aGk=", "aGVs"], &["a", "", "aGk-"]),
            ("ipv4", &["10.0.0.1", "010.0.0.1"], &["10.0.0", "::1", "300.1.1.1"]),
            ("ipv6", &["::1"], &["10.0.0.1", "g::"]),
            ("cidr", &["10.0.0.0/8", "fd00::/64"], &["10.0.0.0", "10.0.0.0/33"]),
            ("uri", &["https://a/b", "/a/b", "urn:x"], &["a b", "relative"]),
            ("email", &["a.b@example.com", "A B <a@b.c>"], &["a", "a@", "a b@c"]),
            ("hostname", &["a.example.com", "host1"], &["-a", "a_b", ""]),
            ("uuid", &["123e4567-e89b-12d3-a456-426614174000"], &["123e4567"]),
            ("uuid4", &["123e4567-e89b-42d3-a456-426614174000"], &["123e4567-e89b-12d3-a456-426614174000"]),
            ("mac", &["01:23:45:67:89:ab", "0123.4567.89ab"], &["01:23"]),
            ("k8s-short-name", &["a-b"], &["a.b", "A"]),
            ("k8s-long-name", &["a-b.c"], &["A", "a..b"]),
        ];
        for (name, good, bad) in cases {
            let format = find(name).unwrap();
            for text in good {
                assert!((format.accepts)(text), "{name} takes {text}");
            }
            for text in bad {
                assert!(!(format.accepts)(text), "{name} refuses {text}");
            }
        }
    }

    // K-CRD-6
    #[test]
    fn formats_of_numbers_and_unknown_formats_are_ignored() {
        for name in ["", "int32", "int64", "double", "quantity"] {
            assert!(find(name).is_none(), "{name}");
        }
        assert_eq!(find("datetime").unwrap().name, "date-time");
    }
}
