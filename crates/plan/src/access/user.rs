//! Who asks: a name with its groups, the groups that everyone gets, and acting as somebody else.

use super::{MASTERS, Request, Rules, forbidden};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use volley_api::kube::status::ApiError;

const ANONYMOUS: &str = "system:anonymous";
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

/// A user as authentication leaves it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub groups: Vec<String>,
    pub uid: String,
    pub extra: BTreeMap<String, Vec<String>>,
}

/// `system:serviceaccount:<namespace>:<name>`.
pub fn service_account_name(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}")
}

impl User {
    /// Somebody who proved who they are: adds the group of all such users.
    pub fn authenticated(name: impl Into<String>, groups: impl IntoIterator<Item = String>) -> User {
        let mut user = User { name: name.into(), groups: groups.into_iter().collect(), ..User::default() };
        user.join(AUTHENTICATED);
        user
    }

    /// Somebody without credentials.
    pub fn anonymous() -> User {
        User { name: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..User::default() }
    }

    pub fn service_account(namespace: &str, name: &str, uid: &str) -> User {
        let groups = [SERVICE_ACCOUNTS.to_owned(), format!("{SERVICE_ACCOUNTS}:{namespace}")];
        User { uid: uid.to_owned(), ..User::authenticated(service_account_name(namespace, name), groups) }
    }

    pub fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }

    fn join(&mut self, group: &str) {
        if !self.groups.iter().any(|have| have == group) {
            self.groups.push(group.to_owned());
        }
    }

    /// Namespace and name, if the user is a service account.
    pub fn as_service_account(&self) -> Option<(&str, &str)> {
        self.name.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':').filter(|(_, name)| !name.contains(':'))
    }

    /// The `userInfo` of reviews.
    pub fn to_json(&self) -> Value {
        let mut info = Map::from_iter([("username".to_owned(), json!(self.name))]);
        if !self.uid.is_empty() {
            info.insert("uid".to_owned(), json!(self.uid));
        }
        if !self.groups.is_empty() {
            info.insert("groups".to_owned(), json!(self.groups));
        }
        if !self.extra.is_empty() {
            info.insert("extra".to_owned(), json!(self.extra));
        }
        Value::Object(info)
    }
}

impl Rules {
    /// The user that `actor` becomes with the `Impersonate-*` headers given as `wanted`, if they may.
    ///
    /// Each name, group, uid and extra value needs the verb `impersonate` on it; the first that is missing is the answer.
    pub fn impersonate(&self, actor: &User, wanted: User) -> Result<User, ApiError> {
        let check = |group: &str, resource: &str, subresource: &str, namespace: &str, name: &str| {
            let request = Request::Resource { verb: "impersonate", group, resource, subresource, namespace, name };
            self.allowed(actor, &request).map(|_| ()).ok_or_else(|| forbidden(actor, &request))
        };
        match wanted.as_service_account() {
            Some((namespace, name)) => check("", "serviceaccounts", "", namespace, name)?,
            None => check("", "users", "", "", &wanted.name)?,
        }
        for group in &wanted.groups {
            check("", "groups", "", "", group)?;
        }
        for (key, value) in wanted.extra.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value))) {
            check("authentication.k8s.io", "userextras", key, "", value)?;
        }
        if !wanted.uid.is_empty() {
            check("authentication.k8s.io", "uids", "", "", &wanted.uid)?;
        }
        Ok(with_usual_groups(wanted))
    }
}

/// Groups that come with the name: those of a service account only if no groups were asked for.
fn with_usual_groups(mut user: User) -> User {
    if user.groups.is_empty()
        && let Some((namespace, _)) = user.as_service_account()
    {
        user.groups = vec![SERVICE_ACCOUNTS.to_owned(), format!("{SERVICE_ACCOUNTS}:{namespace}")];
    }
    let has_standing = user.groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED);
    if !has_standing {
        user.join(if user.name == ANONYMOUS { UNAUTHENTICATED } else { AUTHENTICATED });
    }
    user
}
