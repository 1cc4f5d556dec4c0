//! Who knocks: an API key as the password of basic authentication, whatever the user name, or as a bearer token.

use crate::Shared;
use crate::fault::Fault;
use crate::people::{Caller, store};
use axum::extract::FromRequestParts;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::request::Parts;
use http::{HeaderMap, StatusCode, header};
use jiff::Timestamp;

/// A caller whose key was recognised; a request without one ends with 401.
pub struct Known(pub Caller);

impl FromRequestParts<Shared> for Known {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Known, Fault> {
        let refuse = |message: &str| Fault::new(StatusCode::UNAUTHORIZED, message);
        let key = key(&parts.headers)
            .ok_or_else(|| refuse("no API key was sent; hint: run `wandb login`, or set WANDB_API_KEY"))?;
        let caller = store::caller_by_key(&shared.database, &key, Timestamp::now()).await?;
        caller.map(Known).ok_or_else(|| refuse("the API key is not known to this server, or was revoked"))
    }
}

fn key(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, rest) = value.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(rest.trim().to_owned());
    }
    let is_basic = scheme.eq_ignore_ascii_case("basic");
    let text = is_basic.then(|| STANDARD.decode(rest.trim()).ok())??;
    let text = String::from_utf8(text).ok()?;
    text.split_once(':').map(|(_, key)| key.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_of(value: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, value.parse().unwrap());
        key(&headers)
    }

    // AUTH-1
    #[test]
    fn the_key_is_the_password_of_basic_authentication() {
        assert_eq!(key_of("Basic YXBpOmFiYw==").as_deref(), Some("abc"));
        assert_eq!(key_of("bearer abc").as_deref(), Some("abc"));
        assert_eq!(key_of("Basic !!!"), None);
        assert_eq!(key_of("Digest abc"), None);
    }
}
