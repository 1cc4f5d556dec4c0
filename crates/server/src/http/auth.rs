//! Who knocks: an API key as the password of basic authentication, whatever the user name, or as a bearer token; or the
//! cookie of a session.

use crate::Shared;
use crate::fault::{Fault, Result};
use crate::people::{Caller, store, tokens};
use axum::extract::{ConnectInfo, FromRequestParts};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::request::Parts;
use http::{HeaderMap, StatusCode, header};
use jiff::Timestamp;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};

pub const COOKIE: &str = "volley_session";
/// What a page sends with whatever changes something. A page of another origin cannot set it without asking first, which
/// is never granted.
pub const PAGE_HEADER: &str = "x-volley-page";

/// Somebody who was recognised; a request of anybody else ends with 401. The credential of a launch does not do.
pub struct Known(pub Caller);

impl FromRequestParts<Shared> for Known {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Known> {
        let Recognised(caller) = Recognised::from_request_parts(parts, shared).await?;
        caller.must_be_whole()?;
        Ok(Known(caller))
    }
}

/// The same for what W&B's client in a launch asks for, so that the launch's own credential does.
pub struct Recognised(pub Caller);

impl FromRequestParts<Shared> for Recognised {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Recognised> {
        let address = address(parts);
        let refuse = |message: &str| match shared.limits.attempt(address) {
            Ok(()) => Fault::new(StatusCode::UNAUTHORIZED, message),
            Err(too_often) => too_often,
        };
        let now = Timestamp::now();
        let caller = match (key(&parts.headers), cookie(&parts.headers)) {
            (Some(key), _) => {
                let caller = match tokens::is_token(&key) {
                    true => tokens::caller(&shared.database, &key).await?,
                    false => store::caller_by_key(&shared.database, &key, now).await?,
                };
                caller.ok_or_else(|| refuse("the API key is not known to this server, was revoked, or has run out"))?
            }
            (None, Some(token)) => {
                check_origin(parts, &shared.public_url)?;
                let caller = store::caller_by_session(&shared.database, token, now).await?;
                caller.ok_or_else(|| refuse("the session has ended; hint: sign in again"))?
            }
            (None, None) => {
                let hint = "no API key was sent; hint: run `wandb login`, or set WANDB_API_KEY";
                return Err(Fault::new(StatusCode::UNAUTHORIZED, hint));
            }
        };
        shared.limits.request(caller.way)?;
        Ok(Recognised(Caller { address, ..caller }))
    }
}

/// From where a request came.
#[derive(Clone, Copy)]
pub struct Address(pub Option<IpAddr>);

impl<S: Sync> FromRequestParts<S> for Address {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> std::result::Result<Address, Infallible> {
        Ok(Address(address(parts)))
    }
}

fn address(parts: &Parts) -> Option<IpAddr> {
    parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(address)| address.ip())
}

/// A browser sends the cookie whoever made it send the request; only our own page adds the header.
fn check_origin(parts: &Parts, public_url: &str) -> Result<()> {
    let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let own = |origin: &str| {
        let host = origin.split_once("://").map(|(_, host)| host);
        origin == public_url || (host.is_some() && host == text("host"))
    };
    let is_ours = text(PAGE_HEADER).is_some() && text("origin").is_none_or(own);
    match parts.method.is_safe() || is_ours {
        true => Ok(()),
        false => Err(Fault::new(StatusCode::FORBIDDEN, "this request did not come from the server's own page")),
    }
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE).map(|(_, value)| value)
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

    fn request(method: &str, fields: &[(&'static str, &str)]) -> Parts {
        let mut request = http::Request::builder().method(method).uri("/graphql");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_cookie_changes_nothing_unless_our_own_page_says_so() {
        let url = "https://volley.example";
        let is_taken = |method: &str, fields: &[_]| check_origin(&request(method, fields), url).is_ok();
        assert!(is_taken("GET", &[]));
        assert!(!is_taken("POST", &[]), "a form of another page");
        assert!(is_taken("POST", &[(PAGE_HEADER, "1"), ("origin", url)]));
        assert!(is_taken("POST", &[(PAGE_HEADER, "1"), ("origin", "http://10.0.0.1:8080"), ("host", "10.0.0.1:8080")]));
        assert!(!is_taken(
            "POST",
            &[(PAGE_HEADER, "1"), ("origin", "https://evil.example"), ("host", "volley.example")]
        ));
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        let parts = request("GET", &[("cookie", "a=b; volley_session=abc; c=d")]);
        assert_eq!(cookie(&parts.headers), Some("abc"));
        assert_eq!(cookie(&request("GET", &[("cookie", "xvolley_session=abc")]).headers), None);
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
