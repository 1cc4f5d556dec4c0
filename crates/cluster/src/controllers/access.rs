//! What access rests on, the shell: token secrets of service accounts, and cluster roles made of others.

use super::apply::{SyncError, Synced};
use super::{Shell, split};
use crate::apiserver::tokens::{AUDIENCE, Account, Claims};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use serde_json::{Value, json};
use volley_api::kube::text;
use volley_plan::access::aggregate;

/// Tokens in secrets do not expire; a token must name an end, so it is one that nobody will see.
const TOKEN_SECONDS: i64 = 100 * 365 * 24 * 3600;
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

impl Shell {
    /// Fills a secret of type `kubernetes.io/service-account-token`, or removes it with its account (K-AUTH-6).
    pub async fn sync_token_secret(&self, key: &str) -> Synced {
        let Some(secret) = self.get::<Value>("secrets", key) else { return Ok(None) };
        let (namespace, name) = split(key);
        let annotation = |name: &str| secret["metadata"]["annotations"][name].as_str().unwrap_or_default();
        if text(&secret, "type") != "kubernetes.io/service-account-token"
            || secret["metadata"].get("deletionTimestamp").is_some()
        {
            return Ok(None);
        }
        let account: Option<Value> = self.get("serviceaccounts", &format!("{namespace}/{}", annotation(ACCOUNT_NAME)));
        let uid = account.as_ref().map(|account| text(account, "metadata.uid").to_owned());
        let local = self.server.local("tokens-controller");
        let known = annotation(ACCOUNT_UID);
        let Some(uid) = uid.filter(|uid| known.is_empty() || known == uid) else {
            let secret_uid = text(&secret, "metadata.uid");
            let deleted = local.delete("", "secrets", (namespace, name), secret_uid, "Background").await;
            return deleted.map(|()| None).map_err(|error| SyncError::of(format!("delete secret `{key}`"), error));
        };
        let account = Account { namespace: namespace.to_owned(), name: annotation(ACCOUNT_NAME).to_owned(), uid };
        let patch = self.token_patch(&secret, &account);
        if patch["data"].as_object().is_some_and(serde_json::Map::is_empty) && known == account.uid {
            return Ok(None);
        }
        let patched = local.patch("", "secrets", namespace, name, patch).await;
        patched.map(|_| None).map_err(|error| SyncError::of(format!("fill secret `{key}`"), error))
    }

    /// What the secret still lacks.
    fn token_patch(&self, secret: &Value, account: &Account) -> Value {
        let mut data = json!({});
        let is_current = |key: &str, wanted: &str| secret["data"][key] == wanted;
        let authority = BASE64.encode(&self.server.ca_pem);
        let namespace = BASE64.encode(&account.namespace);
        for (key, wanted) in [("ca.crt", authority), ("namespace", namespace)] {
            if !is_current(key, &wanted) {
                data[key] = wanted.into();
            }
        }
        if secret["data"]["token"].as_str().is_none_or(str::is_empty) {
            let audiences = [AUDIENCE.to_owned()];
            let now = Timestamp::now();
            let claims = Claims { account, audiences: &audiences, now, seconds: TOKEN_SECONDS, pod: None };
            data["token"] = BASE64.encode(self.server.tokens.sign(&claims)).into();
        }
        json!({"metadata": {"annotations": {ACCOUNT_UID: account.uid}}, "data": data})
    }

    /// Writes the union of what their selectors pick into cluster roles that aggregate.
    pub async fn sync_cluster_roles(&self) -> Synced {
        let roles: Vec<Value> = self.list("rbac.authorization.k8s.io/clusterroles", "");
        for role in roles.iter().filter(|role| role.get("aggregationRule").is_some_and(Value::is_object)) {
            let rules = Value::from(aggregate(role, &roles));
            let current = role.get("rules").cloned().filter(|rules| !rules.is_null()).unwrap_or_else(|| json!([]));
            if current == rules {
                continue;
            }
            let name = text(role, "metadata.name");
            let local = self.server.local("clusterrole-aggregation-controller");
            let patched =
                local.patch("rbac.authorization.k8s.io", "clusterroles", "", name, json!({"rules": rules})).await;
            patched.map_err(|error| SyncError::of(format!("aggregate cluster role `{name}`"), error))?;
        }
        Ok(None)
    }
}
