//! The files of a volume that the node writes, with its service account tokens: kept while they are good, else asked for.

use super::writer::Written;
use crate::apiserver::ApiServer;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use volley_api::kube::text;
use volley_plan::node::mounts::is_file_path;
use volley_plan::node::payload::{Payload, TokenNeed};
use volley_plan::node::volumes::{Ownership, token_renewal};

/// How soon a renewal that failed is tried again.
const RETRY: SignedDuration = SignedDuration::from_secs(30);

/// Whose tokens a pod gets.
pub struct TokenSource {
    server: Arc<ApiServer>,
    namespace: String,
    account: String,
    pod: (String, String),
}

impl TokenSource {
    pub fn new(server: Arc<ApiServer>, pod: &Pod) -> TokenSource {
        let named = pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone());
        let word = |word: &Option<String>| word.clone().unwrap_or_default();
        TokenSource {
            server,
            namespace: pod.metadata.namespace.clone().unwrap_or_else(|| "default".to_owned()),
            account: named.filter(|name| !name.is_empty()).unwrap_or_else(|| "default".to_owned()),
            pod: (word(&pod.metadata.name), word(&pod.metadata.uid)),
        }
    }

    /// All files of a volume, and when the first of its tokens is due.
    pub fn fill(
        &self,
        payload: &Payload,
        place: &Path,
        ownership: &Ownership,
    ) -> Result<(BTreeMap<String, Written>, Option<Timestamp>), String> {
        let mut files = BTreeMap::new();
        for (path, file) in &payload.files {
            let written = Written { content: file.content.clone(), mode: file.mode.cast_unsigned(), user: None };
            files.insert(path.clone(), written);
        }
        let mut earliest = None;
        for need in &payload.tokens {
            let (token, renewal) = self.token(need, place)?;
            let mode = ownership.token_mode(need.mode.cast_unsigned());
            let written = Written { content: token.into_bytes(), mode, user: ownership.user };
            files.insert(need.path.clone(), written);
            earliest = earliest.into_iter().chain([renewal]).min();
        }
        match files.keys().find(|path| !is_file_path(path)) {
            Some(path) => Err(format!("invalid path: {path:?} must be relative and stay in the volume")),
            None => Ok((files, earliest)),
        }
    }

    fn token(&self, need: &TokenNeed, place: &Path) -> Result<(String, Timestamp), String> {
        let now = Timestamp::now();
        let known = fs::read_to_string(place.join("..data").join(&need.path)).ok();
        let known = known.and_then(|token| Some((self.renewal(&token)?, token)));
        if let Some((renewal, token)) = known.as_ref().filter(|(renewal, _)| *renewal > now) {
            return Ok((token.clone(), *renewal));
        }
        let audiences: Vec<&str> =
            Some(need.audience.as_str()).filter(|audience| !audience.is_empty()).into_iter().collect();
        let (name, uid) = &self.pod;
        let spec = json!({"audiences": audiences, "expirationSeconds": need.expiration_seconds,
            "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": uid}});
        match (self.server.local("node").token((&self.namespace, &self.account), spec), known) {
            (Ok(answer), _) => {
                let token = text(&answer, "status.token").to_owned();
                let expires = text(&answer, "status.expirationTimestamp").parse().unwrap_or(now);
                let renewal = token_renewal(now, expires);
                Ok((token, renewal))
            }
            // The old one is still good for a while.
            (Err(_), Some((_, token))) => Ok((token, now.saturating_add(RETRY).unwrap_or(now))),
            (Err(error), None) => Err(format!("failed to fetch token: {}", error.message)),
        }
    }

    /// When a token of this server, still in date, is due.
    fn renewal(&self, token: &str) -> Option<Timestamp> {
        let claims = self.server.tokens.claims(token)?;
        let time = |name: &str| claims.get(name).and_then(Value::as_i64).and_then(|at| Timestamp::from_second(at).ok());
        Some(token_renewal(time("iat")?, time("exp")?))
    }
}
