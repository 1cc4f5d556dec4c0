//! Registry credentials: from pull secrets and from the machine's Docker configuration. Pure but for one file read.
//!
//! `Keyring::lookup` gives the candidates for a reference in the kubelet's order: the longest key first, where a key's
//! host may hold `*` for one label and its path is a prefix. The puller tries them in turn.

use super::reference::{DEFAULT_REGISTRY, Reference};
use base64::Engine;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// One way to say who we are to a registry.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Credential {
    pub username: String,
    pub password: String,
    /// A refresh token that the token server exchanges for an access token.
    pub identity_token: Option<String>,
    /// A bearer token that the registry takes as it is.
    pub registry_token: Option<String>,
}

impl fmt::Debug for Credential {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Secrets stay out of logs.
        out.debug_struct("Credential").field("username", &self.username).finish_non_exhaustive()
    }
}

/// The registry hosts and what is known for them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keyring {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    key: Key,
    secret: Secret,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Secret {
    Known(Credential),
    /// The secret is in another program, which we do not run.
    Helper(String),
}

/// `host[:port][/path]`, with the scheme and the old `/v1/` endings cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    host: String,
    port: String,
    path: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    #[error("failed to parse the docker configuration of {origin}: {message}")]
    Parse { origin: String, message: String },
    #[error("the auth entry for {registry:?} in {origin} is not the base64 of user:password")]
    Entry { origin: String, registry: String },
    #[error("failed to read {path}: {message}")]
    Read { path: String, message: String },
    #[error(
        "the credentials for {registry} are kept by docker-credential-{helper}, and credential helpers are not run; \
         use an imagePullSecret, or `docker login` without a credential store"
    )]
    Helper { registry: String, helper: String },
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct DockerConfig {
    auths: BTreeMap<String, DockerAuth>,
    creds_store: Option<String>,
    cred_helpers: BTreeMap<String, String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct DockerAuth {
    username: Option<String>,
    password: Option<String>,
    auth: Option<String>,
    identitytoken: Option<String>,
    registrytoken: Option<String>,
}

impl Keyring {
    /// Reads `.dockerconfigjson` of a secret, or the machine's `config.json`.
    pub fn from_config_json(bytes: &[u8], origin: &str) -> Result<Keyring, AuthError> {
        let config: DockerConfig = parse(bytes, origin)?;
        let mut entries = Vec::new();
        for (registry, auth) in &config.auths {
            match (auth.credential(registry, origin)?, &config.creds_store) {
                (Some(credential), _) => {
                    entries.push(Entry { key: Key::parse(registry), secret: Secret::Known(credential) })
                }
                (None, Some(store)) => {
                    entries.push(Entry { key: Key::parse(registry), secret: Secret::Helper(store.clone()) })
                }
                (None, None) => {}
            }
        }
        for (registry, helper) in config.cred_helpers {
            entries.push(Entry { key: Key::parse(&registry), secret: Secret::Helper(helper) });
        }
        Ok(Keyring::sorted(entries))
    }

    /// Reads `.dockercfg` of a secret: the `auths` alone.
    pub fn from_dockercfg(bytes: &[u8], origin: &str) -> Result<Keyring, AuthError> {
        let auths: BTreeMap<String, DockerAuth> = parse(bytes, origin)?;
        let mut entries = Vec::new();
        for (registry, auth) in &auths {
            if let Some(credential) = auth.credential(registry, origin)? {
                entries.push(Entry { key: Key::parse(registry), secret: Secret::Known(credential) });
            }
        }
        Ok(Keyring::sorted(entries))
    }

    /// Reads a secret's data, decoded already; keys of other secret types are passed over.
    pub fn from_secret(data: &BTreeMap<String, Vec<u8>>, name: &str) -> Result<Keyring, AuthError> {
        match (data.get(".dockerconfigjson"), data.get(".dockercfg")) {
            (Some(bytes), _) => Keyring::from_config_json(bytes, &format!("secret {name:?}")),
            (None, Some(bytes)) => Keyring::from_dockercfg(bytes, &format!("secret {name:?}")),
            (None, None) => Ok(Keyring::default()),
        }
    }

    /// Reads the machine's Docker configuration; a missing file is an empty keyring.
    pub fn from_file(path: &Path) -> Result<Keyring, AuthError> {
        let origin = path.display().to_string();
        match std::fs::read(path) {
            Ok(bytes) => Keyring::from_config_json(&bytes, &origin),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Keyring::default()),
            Err(error) => Err(AuthError::Read { path: origin, message: error.to_string() }),
        }
    }

    /// Adds another keyring's entries behind our own of the same length.
    pub fn and(mut self, other: Keyring) -> Keyring {
        self.entries.extend(other.entries);
        Keyring::sorted(self.entries)
    }

    /// The credentials to try for this reference, best first; empty means anonymous.
    pub fn lookup(&self, reference: &Reference) -> Result<Vec<Credential>, AuthError> {
        let target = Key::of(reference);
        let mut found = Vec::new();
        let mut helper = None;
        for entry in self.entries.iter().filter(|entry| entry.key.covers(&target)) {
            match &entry.secret {
                Secret::Known(credential) if !found.contains(credential) => found.push(credential.clone()),
                Secret::Known(_) => {}
                Secret::Helper(name) => helper = helper.or(Some(name.clone())),
            }
        }
        match (found.is_empty(), helper) {
            (true, Some(helper)) => Err(AuthError::Helper { registry: reference.registry().to_owned(), helper }),
            (true, None) | (false, _) => Ok(found),
        }
    }

    fn sorted(mut entries: Vec<Entry>) -> Keyring {
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.key.text()));
        Keyring { entries }
    }
}

fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8], origin: &str) -> Result<T, AuthError> {
    // The parser's own text could quote a secret, so only the place is told.
    serde_json::from_slice(bytes).map_err(|error| AuthError::Parse {
        origin: origin.to_owned(),
        message: format!("not the expected JSON at line {} column {}", error.line(), error.column()),
    })
}

impl DockerAuth {
    /// The entry's credential; `auth` wins over the two plain fields, as in Docker.
    fn credential(&self, registry: &str, origin: &str) -> Result<Option<Credential>, AuthError> {
        let some = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let mut credential = Credential {
            username: self.username.clone().unwrap_or_default(),
            password: self.password.clone().unwrap_or_default(),
            identity_token: some(&self.identitytoken),
            registry_token: some(&self.registrytoken),
        };
        if let Some(auth) = some(&self.auth) {
            let (username, password) = decode(&auth)
                .ok_or_else(|| AuthError::Entry { origin: origin.to_owned(), registry: registry.to_owned() })?;
            (credential.username, credential.password) = (username, password);
        }
        Ok((credential != Credential::default()).then_some(credential))
    }
}

/// Docker pads or does not pad, and may end the password with NUL bytes.
fn decode(auth: &str) -> Option<(String, String)> {
    let bytes = base64::engine::general_purpose::STANDARD_NO_PAD.decode(auth.trim().trim_end_matches('=')).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let (username, password) = text.split_once(':')?;
    Some((username.to_owned(), password.trim_end_matches('\0').to_owned()))
}

impl Key {
    fn parse(text: &str) -> Key {
        let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).unwrap_or(text);
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let path = match path.trim_end_matches('/') {
            "v1" | "v2" => "",
            path => path.strip_prefix("v1/").or_else(|| path.strip_prefix("v2/")).unwrap_or(path),
        };
        let (host, port) = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (name, port),
            _ => (host, ""),
        };
        let host = match host {
            "index.docker.io" | "registry-1.docker.io" => DEFAULT_REGISTRY,
            host => host,
        };
        Key { host: host.to_owned(), port: port.to_owned(), path: path.to_owned() }
    }

    fn of(reference: &Reference) -> Key {
        Key { path: reference.repository().to_owned(), ..Key::parse(reference.registry()) }
    }

    fn text(&self) -> String {
        format!("{}:{}/{}", self.host, self.port, self.path)
    }

    fn covers(&self, target: &Key) -> bool {
        let labels: Vec<&str> = self.host.split('.').collect();
        let wanted: Vec<&str> = target.host.split('.').collect();
        let same_host = labels.len() == wanted.len()
            && labels.iter().zip(&wanted).all(|(label, wanted)| matches_label(label, wanted));
        same_host && self.port == target.port && target.path.starts_with(&self.path)
    }
}

/// `*` stands for any letters within one label.
fn matches_label(pattern: &str, label: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == label,
        Some((head, tail)) => label.strip_prefix(head).is_some_and(|rest| {
            (0..=rest.len()).any(|at| rest.is_char_boundary(at) && matches_label(tail, &rest[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(keyring: &Keyring, image: &str) -> Vec<String> {
        let found = keyring.lookup(&Reference::parse(image).expect("image")).expect("no helper");
        found.into_iter().map(|credential| credential.username).collect()
    }

    #[test]
    fn the_longest_key_comes_first_and_paths_are_prefixes() {
        let config = r#"{"auths": {
            "registry.io": {"username": "host", "password": "p"},
            "registry.io/team": {"username": "team", "password": "p"},
            "registry.io/team/a": {"username": "a", "password": "p"},
            "*.wild.io": {"username": "wild", "password": "p"},
            "https://index.docker.io/v1/": {"auth": "aHViOnNlY3JldA=="},
            "localhost:5000": {"auth": "bG9jYWw6YTpi"}
        }}"#;
        let keyring = Keyring::from_config_json(config.as_bytes(), "test").expect("config");
        assert_eq!(users(&keyring, "registry.io/team/a/x"), ["a", "team", "host"]);
        assert_eq!(users(&keyring, "registry.io/other"), ["host"]);
        assert_eq!(users(&keyring, "registry.io:443/other"), [""; 0]);
        assert_eq!(users(&keyring, "my.wild.io/x"), ["wild"]);
        assert_eq!(users(&keyring, "a.my.wild.io/x"), [""; 0]);
        assert_eq!(users(&keyring, "nginx"), ["hub"]);
        assert_eq!(users(&keyring, "localhost:5000/x"), ["local"]);
        let local = keyring.lookup(&Reference::parse("localhost:5000/x").expect("image")).expect("known");
        assert_eq!(local[0].password, "a:b");
        assert!(!format!("{keyring:?}").contains("a:b"));
    }

    #[test]
    fn both_kinds_of_pull_secret_are_read_and_come_before_the_machines_file() {
        let auths = r#"{"r.io": {"auth": "dTpw"}}"#;
        let new = BTreeMap::from([(".dockerconfigjson".to_owned(), format!(r#"{{"auths": {auths}}}"#).into_bytes())]);
        let old = BTreeMap::from([(".dockercfg".to_owned(), auths.as_bytes().to_vec())]);
        for data in [new, old] {
            assert_eq!(users(&Keyring::from_secret(&data, "s").expect("secret"), "r.io/x"), ["u"]);
        }
        assert_eq!(Keyring::from_secret(&BTreeMap::new(), "s").expect("other type"), Keyring::default());
        let file = Keyring::from_config_json(br#"{"auths": {"r.io": {"username": "m", "password": "p"}}}"#, "f")
            .expect("file");
        let secret = Keyring::from_dockercfg(auths.as_bytes(), "s").expect("secret");
        assert_eq!(users(&secret.and(file), "r.io/x"), ["u", "m"]);
    }

    #[test]
    fn credential_helpers_are_refused_only_for_their_registries() {
        let config = r#"{"auths": {"r.io": {}}, "credsStore": "desktop", "credHelpers": {"g.io": "gcloud"}}"#;
        let keyring = Keyring::from_config_json(config.as_bytes(), "test").expect("config");
        assert_eq!(users(&keyring, "other.io/x"), [""; 0]);
        for (image, helper) in [("r.io/x", "desktop"), ("g.io/x", "gcloud")] {
            let error = keyring.lookup(&Reference::parse(image).expect("image")).expect_err("helper").to_string();
            assert!(error.contains(&format!("docker-credential-{helper}")), "{error}");
        }
    }

    #[test]
    fn broken_configurations_do_not_print_their_secrets() {
        let error = Keyring::from_config_json(br#"{"auths": {"r.io": {"auth": 7, "password": "hunter2"}}}"#, "x")
            .expect_err("broken");
        assert!(!error.to_string().contains("hunter2"), "{error}");
        assert!(Keyring::from_config_json(br#"{"auths": {"r.io": {"auth": "!!"}}}"#, "x").is_err());
    }
}
