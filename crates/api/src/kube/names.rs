//! The shapes of names, keys and values, each with the texts that Kubernetes gives for a wrong one (spec K Appendix E).
//!
//! Every check returns the list of what is wrong, empty when nothing is; one list may hold two complaints (too long
//! and badly shaped). Lengths are in bytes. Label keys and values say `bytes`, all older checks say `characters`.

use std::net::{IpAddr, Ipv4Addr};

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const UNDERSCORE_SUBDOMAIN: &str = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
const KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// A check of this file: what is wrong with a text.
pub type Check = fn(&str) -> Vec<String>;

pub const LABEL_MAX: usize = 63;
pub const SUBDOMAIN_MAX: usize = 253;

fn too_long(value: &str, length_max: usize, unit: &str) -> Option<String> {
    (value.len() > length_max).then(|| format!("must be no more than {length_max} {unit}"))
}

/// The complaint about a value that does not match its regular expression.
fn mismatch(message: &str, expression: &str, examples: &[&str]) -> String {
    let quoted: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    let lead = if quoted.is_empty() { String::new() } else { format!("e.g. {}", quoted.join(" or ")) };
    format!("{message} ({lead}regex used for validation is '{expression}')")
}

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Non-empty, `edge` at both ends, `inner` between.
fn is_framed(value: &str, edge: fn(u8) -> bool, inner: fn(u8) -> bool) -> bool {
    match value.as_bytes() {
        [] => false,
        [one] => edge(*one),
        [first, middle @ .., last] => edge(*first) && edge(*last) && middle.iter().all(|b| inner(*b)),
    }
}

fn is_label(value: &str) -> bool {
    is_framed(value, is_lower, |b| is_lower(b) || b == b'-')
}

fn is_subdomain(value: &str) -> bool {
    value.split('.').all(is_label)
}

fn is_key(value: &str) -> bool {
    is_framed(value, |b| b.is_ascii_alphanumeric(), |b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}

fn collect(complaints: [Option<String>; 2]) -> Vec<String> {
    complaints.into_iter().flatten().collect()
}

/// RFC 1123 label: namespaces, containers, volumes.
pub fn dns_label(value: &str) -> Vec<String> {
    let shape = (!is_label(value)).then(|| {
        if is_subdomain(value) {
            return "must not contain dots".to_owned();
        }
        let message = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
        mismatch(message, LABEL, &["my-name", "123-abc"])
    });
    collect([too_long(value, LABEL_MAX, "characters"), shape])
}

fn subdomain_in(value: &str, unit: &str) -> Vec<String> {
    let shape = (!is_subdomain(value)).then(|| {
        let message = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
        mismatch(message, SUBDOMAIN, &["example.com"])
    });
    collect([too_long(value, SUBDOMAIN_MAX, unit), shape])
}

/// RFC 1123 subdomain: the names of most kinds.
pub fn dns_subdomain(value: &str) -> Vec<String> {
    subdomain_in(value, "characters")
}

/// Subdomain whose labels may start with and contain underscores: DNS search domains.
pub fn dns_subdomain_with_underscore(value: &str) -> Vec<String> {
    let is_part =
        |part: &str| is_framed(part.strip_prefix('_').unwrap_or(part), is_lower, |b| is_lower(b) || b"-_".contains(&b));
    let shape = (!value.split('.').all(is_part)).then(|| {
        let message = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character";
        mismatch(message, UNDERSCORE_SUBDOMAIN, &["example.com"])
    });
    collect([too_long(value, SUBDOMAIN_MAX, "characters"), shape])
}

/// `*.` and a subdomain: ingress hosts.
pub fn wildcard_dns_subdomain(value: &str) -> Vec<String> {
    let shape = (!value.strip_prefix("*.").is_some_and(is_subdomain)).then(|| {
        let message = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
        mismatch(message, &format!(r"\*\.{SUBDOMAIN}"), &["*.example.com"])
    });
    collect([too_long(value, SUBDOMAIN_MAX, "characters"), shape])
}

/// RFC 1035 label: services.
pub fn dns1035_label(value: &str) -> Vec<String> {
    let is_right = is_label(value) && value.starts_with(|c: char| c.is_ascii_lowercase());
    let shape = (!is_right).then(|| {
        let message = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";
        mismatch(message, "[a-z]([-a-z0-9]*[a-z0-9])?", &["my-name", "abc-123"])
    });
    collect([too_long(value, LABEL_MAX, "characters"), shape])
}

const KEY_MESSAGE: &str =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const KEY_EXAMPLES: &[&str] = &["MyName", "my.name", "123-abc"];

/// `[prefix/]name`: label keys, annotation keys, finalizers, taint keys, resource names.
pub fn qualified_name(value: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let name = match value.split_once('/') {
        None => value,
        Some((_, rest)) if rest.contains('/') => {
            let shape = mismatch(KEY_MESSAGE, KEY, KEY_EXAMPLES);
            return vec![format!(
                "a valid label key {shape} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some(("", name)) => {
            complaints.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            complaints.extend(subdomain_in(prefix, "bytes").into_iter().map(|text| format!("prefix part {text}")));
            name
        }
    };
    if name.is_empty() {
        complaints.push("name part must be non-empty".to_owned());
    }
    complaints.extend(too_long(name, LABEL_MAX, "bytes").map(|text| format!("name part {text}")));
    if !is_key(name) {
        complaints.push(format!("name part {}", mismatch(KEY_MESSAGE, KEY, KEY_EXAMPLES)));
    }
    complaints
}

pub fn label_value(value: &str) -> Vec<String> {
    let shape = (!value.is_empty() && !is_key(value)).then(|| {
        let message = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
        mismatch(message, &format!("({KEY})?"), &["MyValue", "my_value", "12345"])
    });
    collect([too_long(value, LABEL_MAX, "bytes"), shape])
}

/// What a name that becomes a file or directory must not be.
fn directory_step(value: &str) -> Option<String> {
    match value {
        "." | ".." => Some(format!("must not be '{value}'")),
        _ => value.starts_with("..").then(|| "must not start with '..'".to_owned()),
    }
}

/// Keys of config maps and secrets.
pub fn config_map_key(value: &str) -> Vec<String> {
    let is_right = !value.is_empty() && value.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
    let shape = (!is_right).then(|| {
        let message = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        mismatch(message, "[-._a-zA-Z0-9]+", &["key.name", "KEY_NAME", "key-name"])
    });
    let mut complaints = collect([too_long(value, SUBDOMAIN_MAX, "characters"), shape]);
    complaints.extend(directory_step(value));
    complaints
}

/// Names of environment variables, under the relaxed rule that is the only one since 1.34.
pub fn environment_name(value: &str) -> Vec<String> {
    if value.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    if value.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=') {
        return Vec::new();
    }
    vec!["a valid environment variable name must consist only of printable ASCII characters other than '='".to_owned()]
}

pub fn http_header_name(value: &str) -> Vec<String> {
    if !value.is_empty() && value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Vec::new();
    }
    let message = "a valid HTTP header must consist of alphanumeric characters or '-'";
    vec![mismatch(message, "[-A-Za-z0-9]+", &["X-Header-Name"])]
}

/// `25%`, as in rolling updates.
pub fn percent(value: &str) -> Vec<String> {
    let number = value.strip_suffix('%').unwrap_or("");
    if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) {
        return Vec::new();
    }
    let message = "a valid percent string must be a numeric string followed by an ending '%'";
    vec![mismatch(message, "[0-9]+%", &["1%", "93%"])]
}

/// IANA service name: container and service ports.
pub fn port_name(value: &str) -> Vec<String> {
    const LENGTH_MAX: usize = 15;
    let mut complaints: Vec<String> = too_long(value, LENGTH_MAX, "characters").into_iter().collect();
    let mut complain = |is_wrong: bool, text: &str| {
        if is_wrong {
            complaints.push(text.to_owned());
        }
    };
    let is_charset = !value.is_empty() && value.bytes().all(|b| is_lower(b) || b == b'-');
    complain(!is_charset, "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    complain(!value.bytes().any(|b| b.is_ascii_lowercase()), "must contain at least one letter (a-z)");
    complain(value.contains("--"), "must not contain consecutive hyphens");
    complain(value.starts_with('-') || value.ends_with('-'), "must not begin or end with a hyphen");
    complaints
}

/// A number within bounds, both included.
pub fn in_range(value: i64, low: i64, high: i64) -> Vec<String> {
    if (low..=high).contains(&value) {
        return Vec::new();
    }
    vec![format!("must be between {low} and {high}, inclusive")]
}

pub fn port_number(value: i64) -> Vec<String> {
    in_range(value, 1, 65535)
}

/// An IPv4 or IPv6 address; leading zeros are let through as they always were.
pub fn ip_address(value: &str) -> Vec<String> {
    if parse_ip(value).is_some() {
        return Vec::new();
    }
    vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()]
}

/// Reads an address; leading zeros in IPv4 are tolerated, as old objects have them.
pub fn parse_ip(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let octets: Vec<u8> = text.split('.').map(|octet| decimal(octet)?.try_into().ok()).collect::<Option<_>>()?;
    let octets: [u8; 4] = octets.try_into().ok()?;
    Some(Ipv4Addr::from(octets).into())
}

/// Digits only: no sign, no blank.
fn decimal(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.len() <= 9 && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// Reads `address/bits`.
pub fn parse_network(text: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) = text.split_once('/')?;
    let address = parse_ip(address)?;
    let bits_max = if address.is_ipv4() { 32 } else { 128 };
    decimal(bits).filter(|bits| *bits <= bits_max).map(|bits| (address, bits))
}

/// A name that can stand in a URL path: RBAC kinds.
pub fn path_segment(value: &str) -> Vec<String> {
    if matches!(value, "." | "..") {
        return vec![format!("may not be '{value}'")];
    }
    path_segment_prefix(value)
}

/// The start of a path segment; what follows may make `.` a good name.
pub fn path_segment_prefix(value: &str) -> Vec<String> {
    ["/", "%"].iter().filter(|part| value.contains(**part)).map(|part| format!("may not contain '{part}'")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LABEL_TEXT: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

    #[test]
    fn good_names_have_no_complaints() {
        let checks: [(Check, &[&str]); 11] = [
            (dns_label, &["a", "1", "a-b", "123-abc"]),
            (dns_subdomain, &["a", "a.b", "a-1.b-2.c"]),
            (dns_subdomain_with_underscore, &["_tcp.a", "a_b.c"]),
            (dns1035_label, &["a", "a1-b"]),
            (qualified_name, &["a", "A_b.c-d", "example.com/Name", "nvidia.com/gpu"]),
            (label_value, &["", "a", "A.b_c-1"]),
            (config_map_key, &["a", ".hidden", "A_b.c-d"]),
            (environment_name, &["A", "1", "a b", "my.env-name"]),
            (port_name, &["http", "a-1", "1a"]),
            (path_segment, &["system:node", "a b", "..."]),
            (wildcard_dns_subdomain, &["*.a", "*.a.b"]),
        ];
        for (check, names) in checks {
            for name in names {
                assert_eq!(check(name), Vec::<String>::new(), "{name}");
            }
        }
    }

    // K-OBJ-4
    #[test]
    fn a_bad_label_gets_the_texts_of_the_reference() {
        assert_eq!(dns_label("C_1"), [LABEL_TEXT]);
        assert_eq!(dns_label("a.b"), ["must not contain dots"]);
        assert_eq!(dns_label(""), [LABEL_TEXT]);
        let long = format!("{}-", "a".repeat(63));
        assert_eq!(dns_label(&long), ["must be no more than 63 characters", LABEL_TEXT]);
        assert_eq!(
            dns_subdomain("a..b"),
            [
                r"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            ]
        );
        assert_eq!(
            dns1035_label("1a"),
            [
                "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
            ]
        );
    }

    // K-OBJ-4
    #[test]
    fn a_bad_key_or_value_gets_the_texts_of_the_reference() {
        let name = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
        assert_eq!(qualified_name("a b"), [name]);
        assert_eq!(qualified_name(""), ["name part must be non-empty", name]);
        assert_eq!(qualified_name("/a"), ["prefix part must be non-empty"]);
        assert_eq!(qualified_name(&"a".repeat(64)), ["name part must be no more than 63 bytes"]);
        assert!(qualified_name("a/b/c")[0].starts_with("a valid label key must consist of"));
        assert!(qualified_name("A/b")[0].starts_with("prefix part a lowercase RFC 1123 subdomain"));
        assert_eq!(
            label_value("-"),
            [
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ]
        );
        assert_eq!(label_value(&"a".repeat(64)), ["must be no more than 63 bytes"]);
    }

    #[test]
    fn other_bad_names_get_the_texts_of_the_reference() {
        assert_eq!(
            config_map_key("a b"),
            [
                "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
            ]
        );
        assert_eq!(config_map_key(".."), ["must not be '..'"]);
        assert_eq!(config_map_key("..a"), ["must not start with '..'"]);
        assert_eq!(port_name("1"), ["must contain at least one letter (a-z)"]);
        assert_eq!(port_name("-a--b"), ["must not contain consecutive hyphens", "must not begin or end with a hyphen"]);
        assert_eq!(port_number(70000), ["must be between 1 and 65535, inclusive"]);
        assert_eq!(path_segment("a/b%"), ["may not contain '/'", "may not contain '%'"]);
        assert_eq!(path_segment(".."), ["may not be '..'"]);
        assert_eq!(environment_name("a=b").len(), 1);
        assert_eq!(ip_address("1.2.3"), ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]);
        assert!(
            ip_address("010.1.2.3").is_empty() && ip_address("::1").is_empty() && !ip_address("1.2.3.256").is_empty()
        );
    }
}
