//! Who asks, and whether they may: certificates, bearer tokens, impersonation and RBAC (spec K 20).

use super::ApiServer;
use super::neighbour;
use super::request::{Query, ResourcePath};
use super::serve::Proof;
use http::HeaderMap;
use std::sync::Arc;
use volley_api::kube::selector::FieldSelector;
use volley_api::kube::status::ApiError;
use volley_plan::access::{self, Request, User};

impl ApiServer {
    /// The user that a connection's certificate or a request's token proves, else the anonymous one.
    pub fn authenticate(&self, headers: &HeaderMap, proof: &Proof) -> Result<Arc<User>, ApiError> {
        let bearer = headers
            .get("authorization")
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim());
        match (bearer, proof) {
            // A certificate that is good settles it, as in the reference; the token is not looked at.
            (_, Proof::Certificate(user)) => Ok(user.clone()),
            (Some(token), _) => self.token_user(token).ok_or_else(ApiError::unauthorized),
            (None, Proof::OwnUser) if !neighbour::is_from_a_page(headers) => Ok(admin()),
            (None, Proof::OwnUser | Proof::Neighbour(_) | Proof::None) => Ok(Arc::new(User::anonymous())),
        }
    }

    /// The user of a token: the admin's own, or a service account that still exists.
    pub fn token_user(&self, token: &str) -> Option<Arc<User>> {
        if is_same(token.as_bytes(), self.admin_token.as_bytes()) {
            return Some(admin());
        }
        let account = self.tokens.verify(token)?;
        let bucket = self.store.bucket("serviceaccounts");
        let stored = self.store.get(&bucket, &format!("{}/{}", account.namespace, account.name))?;
        let uid = super::object::parsed(&stored)["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        (uid == account.uid).then(|| Arc::new(User::service_account(&account.namespace, &account.name, &uid)))
    }

    /// `Impersonate-*` headers act as another user when the caller may (spec K-HTTP-12).
    pub fn impersonated(&self, headers: &HeaderMap, user: Arc<User>) -> Result<Arc<User>, ApiError> {
        let values = |name: &str| -> Vec<String> {
            headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
        };
        let Some(name) = values("impersonate-user").into_iter().next() else {
            let groups: Vec<String> =
                values("impersonate-group").iter().map(|g| format!("{{Group  {g}    }}")).collect();
            if groups.is_empty() {
                return Ok(user);
            }
            let groups = groups.join(" ");
            return Err(ApiError::bad_request(format!("requested [{groups}] without impersonating a user")));
        };
        let mut extra = std::collections::BTreeMap::new();
        for key in headers.keys().filter_map(|key| key.as_str().strip_prefix("impersonate-extra-")) {
            extra.insert(key.to_owned(), values(&format!("impersonate-extra-{key}")));
        }
        let uid = values("impersonate-uid").into_iter().next().unwrap_or_default();
        let wanted = User { name, groups: values("impersonate-group"), uid, extra };
        Ok(Arc::new(self.rules().impersonate(&user, wanted)?))
    }

    /// Refuses what the rules do not allow, in the reference's words (spec K 14.2).
    pub fn authorize(&self, user: &User, verb: &str, path: &ResourcePath, query: &Query) -> Result<(), ApiError> {
        // Rules may name objects, and a list of one object by its name is a request for that object.
        let fields = FieldSelector::parse(query.text("fieldSelector")).ok().filter(|_| path.name.is_empty());
        let named = fields.as_ref().and_then(|fields| fields.requires("metadata.name")).unwrap_or(&path.name);
        // A namespace is in itself: rules of the namespace decide who may read it.
        let is_namespace = path.group.is_empty() && path.plural == "namespaces";
        let request = Request::Resource {
            verb,
            group: &path.group,
            resource: &path.plural,
            subresource: &path.subresource,
            namespace: if is_namespace { &path.name } else { &path.namespace },
            name: named,
        };
        if self.rules().allowed(user, &request).is_some() {
            return Ok(());
        }
        Err(access::forbidden(user, &request))
    }
}

fn admin() -> Arc<User> {
    Arc::new(User::authenticated("kubernetes-admin", ["system:masters".to_owned()]))
}

/// Equality in time that does not depend on where two secrets differ.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differs, (x, y)| differs | (x ^ y)) == 0
}
