//! How registries ask who we are: the `WWW-Authenticate` header and the token server's answer. Pure.

use serde::Deserialize;
use std::time::Duration;

/// A token without a stated life lives this long, says the token specification.
const TOKEN_LIFE_DEFAULT: Duration = Duration::from_secs(60);
/// Asked for anew this long before its end, so that a token does not run out on its way.
const TOKEN_MARGIN: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Challenge {
    Basic,
    Bearer { realm: String, service: Option<String>, scope: Option<String> },
}

/// Reads one header; the first scheme that we speak wins, Bearer before Basic.
pub fn parse(headers: &[&str]) -> Option<Challenge> {
    let bearer = headers.iter().find_map(|header| scheme(header, "bearer")).and_then(|rest| {
        let parameters = parameters(rest);
        let value = |name: &str| parameters.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        Some(Challenge::Bearer { realm: value("realm")?, service: value("service"), scope: value("scope") })
    });
    bearer.or_else(|| headers.iter().find_map(|header| scheme(header, "basic")).map(|_| Challenge::Basic))
}

fn scheme<'a>(header: &'a str, name: &str) -> Option<&'a str> {
    let header = header.trim();
    let (first, rest) = header.split_once(' ').unwrap_or((header, ""));
    first.eq_ignore_ascii_case(name).then_some(rest)
}

/// `key="value"` or `key=value`, with commas between; a quoted value may hold commas.
fn parameters(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text.trim();
    while let Some((key, after)) = rest.split_once('=') {
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_once(',').unwrap_or((after, "")),
        };
        found.push((key.trim().to_ascii_lowercase(), value.trim().to_owned()));
        rest = next.trim_start_matches([',', ' ']);
    }
    found
}

/// The token server's answer; both spellings of the token are in use.
#[derive(Deserialize)]
pub struct TokenAnswer {
    #[serde(default)]
    token: String,
    #[serde(default)]
    access_token: String,
    #[serde(default)]
    expires_in: Option<u64>,
}

impl TokenAnswer {
    pub fn token(self) -> Option<(String, Duration)> {
        let life = self.expires_in.map_or(TOKEN_LIFE_DEFAULT, Duration::from_secs);
        let token = if self.token.is_empty() { self.access_token } else { self.token };
        (!token.is_empty()).then(|| (token, life.saturating_sub(TOKEN_MARGIN)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read_with_quotes_commas_and_any_case() {
        let bearer = Challenge::Bearer {
            realm: "https://auth.io/token".into(),
            service: Some("registry.io".into()),
            scope: Some("repository:a/b:pull,push".into()),
        };
        let text = r#"bearer realm="https://auth.io/token",service="registry.io", scope="repository:a/b:pull,push""#;
        assert_eq!(parse(&[text]), Some(bearer.clone()));
        assert_eq!(parse(&["Basic realm=\"x\"", text]), Some(bearer));
        assert_eq!(parse(&["BASIC"]), Some(Challenge::Basic));
        assert_eq!(parse(&["Negotiate", "Bearer service=x"]), None);
    }

    #[test]
    fn tokens_end_a_little_early() {
        let answer = |text: &str| serde_json::from_str::<TokenAnswer>(text).expect("answer").token();
        assert_eq!(answer(r#"{"token":"t","expires_in":300}"#), Some(("t".into(), Duration::from_secs(290))));
        assert_eq!(answer(r#"{"access_token":"a"}"#), Some(("a".into(), Duration::from_secs(50))));
        assert_eq!(answer("{}"), None);
    }
}
