//! Who asks, and whether they may: certificates, bearer tokens, impersonation and RBAC (spec K 20).

use super::ApiServer;
use super::request::ResourcePath;
use http::HeaderMap;
use std::sync::Arc;
use volley_api::kube::status::ApiError;
use volley_plan::access::{self, Request, User};

impl ApiServer {
    /// The user that a connection's certificate or a request's token proves, else the anonymous one.
    pub fn authenticate(&self, headers: &HeaderMap, certificate: Option<&Arc<User>>) -> Result<Arc<User>, ApiError> {
        let bearer = headers
            .get("authorization")
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim());
        match (bearer, certificate) {
            (Some(token), _) => self.token_user(token).ok_or_else(ApiError::unauthorized),
            (None, Some(user)) => Ok(user.clone()),
            (None, None) => Ok(Arc::new(User::anonymous())),
        }
    }

    /// The user of a token: the admin's own, or a service account that still exists.
    pub fn token_user(&self, token: &str) -> Option<Arc<User>> {
        let same = ring_equal(token.as_bytes(), self.admin_token.as_bytes());
        if same {
            return Some(Arc::new(User::authenticated("kubernetes-admin", &["system:masters"])));
        }
        let account = self.tokens.verify(token)?;
        let bucket = self.store.bucket("serviceaccounts");
        let stored = self.store.get(&bucket, &format!("{}/{}", account.namespace, account.name))?;
        let uid = super::object::parse(&stored)["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        (uid == account.uid).then(|| Arc::new(User::service_account(&account.namespace, &account.name, &uid)))
    }

    /// `Impersonate-*` headers act as another user when the caller may (spec K-HTTP-12).
    pub fn impersonated(&self, headers: &HeaderMap, user: Arc<User>) -> Result<Arc<User>, ApiError> {
        let values = |name: &str| -> Vec<String> {
            headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
        };
        let Some(name) = values("impersonate-user").into_iter().next() else { return Ok(user) };
        let groups = values("impersonate-group");
        let asks = std::iter::once(("users", name.clone())).chain(groups.iter().map(|group| ("groups", group.clone())));
        for (resource, subject) in asks {
            let request = Request::Resource {
                verb: "impersonate",
                group: "",
                resource,
                subresource: "",
                namespace: "",
                name: &subject,
            };
            if self.rules().allowed(&user, &request).is_none() {
                return Err(ApiError::new(403, "Forbidden", access::denial(&user, &request)));
            }
        }
        let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
        Ok(Arc::new(User::impersonated(&name, &groups)))
    }

    /// Refuses what the rules do not allow, in the reference's words (spec K 14.2).
    pub fn authorize(&self, user: &User, verb: &str, path: &ResourcePath) -> Result<(), ApiError> {
        let request = Request::Resource {
            verb,
            group: &path.group,
            resource: &path.plural,
            subresource: &path.subresource,
            namespace: &path.namespace,
            name: &path.name,
        };
        if self.rules().allowed(user, &request).is_some() {
            return Ok(());
        }
        // A namespace is its own scope: rules in it may allow reading it by name.
        let mut error = ApiError::new(403, "Forbidden", access::denial(user, &request));
        error.details = serde_json::json!({"kind": path.plural});
        for (key, value) in [("name", &path.name), ("group", &path.group)] {
            if !value.is_empty() {
                error.details[key] = value.as_str().into();
            }
        }
        Err(error)
    }
}

/// Equality in time that does not depend on where two secrets differ.
fn ring_equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differs, (x, y)| differs | (x ^ y)) == 0
}
