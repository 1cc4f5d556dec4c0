//! One request on a resource, as the verbs see it: who asks for what, with which options and body.

use super::addresses::Reservation;
use super::catalogue::Resource;
use super::request::{Query, ResourcePath};
use bytes::Bytes;
use http::HeaderMap;
use hyper::upgrade::OnUpgrade;
use jiff::Timestamp;
use serde_json::Value;
use std::sync::Arc;
use volley_api::kube::field::FieldError;
use volley_api::kube::schema::builtin;
use volley_api::kube::status::ApiError;
use volley_api::kube::{decode, protobuf};
use volley_plan::access::User;
use volley_plan::custom::instance::{self, Expected};

/// The longest field manager name (spec K-WR-7).
const MANAGER_LEN_MAX: usize = 128;
/// What is left of a `generateName` prefix, so that the whole name is a DNS label (spec K-OBJ-2).
const GENERATED_PREFIX_MAX: usize = 58;

/// A connection whose client wants to go on with another protocol, and the words in which it asks.
pub struct Upgrade {
    pub headers: HeaderMap,
    pub connection: OnUpgrade,
}

/// A request on one resource.
pub struct Call {
    pub resource: Arc<Resource>,
    pub path: ResourcePath,
    pub query: Query,
    pub user: Arc<User>,
    pub now: Timestamp,
    pub accept: String,
    pub content_type: String,
    pub user_agent: String,
    pub body: Bytes,
    /// The subresource that a write of the main resource came through, such as `scale`.
    pub via: &'static str,
    /// Addresses taken for a service, until the write is done.
    pub reserved: Option<Reservation>,
    /// Texts for `Warning` headers, gathered on the way.
    pub warnings: Vec<String>,
    /// Taken by exec, attach and port-forward.
    pub upgrade: Option<Upgrade>,
}

/// What to do about unknown and duplicate fields (spec K-WR-8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// The options that every write has.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    pub dry_run: bool,
    pub validation: FieldValidation,
    pub manager: String,
}

impl Call {
    pub fn not_found(&self) -> ApiError {
        ApiError::not_found(&self.resource.group, &self.resource.plural, &self.path.name)
    }

    pub fn stale(&self) -> ApiError {
        ApiError::stale(&self.resource.group, &self.resource.plural, &self.path.name)
    }

    pub fn forbidden(&self, name: &str, why: &str) -> ApiError {
        ApiError::forbidden(&self.resource.group, &self.resource.plural, name, why)
    }

    pub fn invalid(&self, name: &str, errors: Vec<FieldError>) -> ApiError {
        // Events of both groups are checked as core ones.
        let group = if &*self.resource.kind == "Event" { "" } else { &*self.resource.group };
        ApiError::invalid(group, &self.resource.kind, name, errors)
    }

    /// Checks the options of a create, update or patch; `options` names them as in `CreateOptions`.
    pub fn write_options(&self, options: &str) -> Result<WriteOptions, ApiError> {
        let mut errors = Vec::new();
        let dry_run: Vec<&str> = self.query.all("dryRun").filter(|value| !value.is_empty()).collect();
        if dry_run.iter().any(|value| *value != "All") {
            errors.push(FieldError::not_supported("dryRun", serde_json::json!(dry_run), &["All"]));
        }
        let validation = match self.query.text("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                errors.push(FieldError::not_supported("fieldValidation", other, &["", "Ignore", "Strict", "Warn"]));
                FieldValidation::Warn
            }
        };
        let manager = self.query.text("fieldManager");
        if manager.len() > MANAGER_LEN_MAX {
            errors.push(FieldError::too_long("fieldManager", MANAGER_LEN_MAX));
        }
        if let Some((at, character)) = manager.chars().enumerate().find(|(_, c)| c.is_control()) {
            let detail = format!("invalid character U+{:04X} (at position {at})", u32::from(character));
            errors.push(FieldError::invalid("fieldManager", manager, &detail));
        }
        if !errors.is_empty() {
            return Err(ApiError::invalid("meta.k8s.io", options, "", errors));
        }
        Ok(WriteOptions { dry_run: !dry_run.is_empty(), validation, manager: self.manager(manager) })
    }

    /// The named manager, else the first part of the user agent.
    fn manager(&self, named: &str) -> String {
        if !named.is_empty() {
            return named.to_owned();
        }
        let agent = self.user_agent.split('/').next().unwrap_or_default();
        let agent: String = agent.chars().filter(|c| !c.is_control()).take(MANAGER_LEN_MAX).collect();
        if agent.is_empty() { "unknown".to_owned() } else { agent }
    }

    /// Records unknown and duplicate fields as the caller wishes.
    pub fn strictly(
        &mut self,
        found: Vec<String>,
        validation: FieldValidation,
        refuse: impl FnOnce(String) -> ApiError,
    ) -> Result<(), ApiError> {
        if found.is_empty() {
            return Ok(());
        }
        match validation {
            FieldValidation::Ignore => Ok(()),
            FieldValidation::Warn => {
                self.warnings.extend(found);
                Ok(())
            }
            FieldValidation::Strict => Err(refuse(format!("strict decoding error: {}", found.join(", ")))),
        }
    }

    /// The body of a create or update as an object of the resource's kind, unknown fields dealt with.
    pub fn object(&mut self, options: &WriteOptions) -> Result<Value, ApiError> {
        let body = self.body.clone();
        let (mut value, mut found) = self.decode_as(&body, &self.resource.clone())?;
        self.check_type(&mut value, &body)?;
        found.extend(self.conform(&mut value)?);
        let (kind, version) = (self.resource.kind.clone(), self.resource.version.clone());
        self.strictly(found, options.validation, |text| {
            ApiError::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {text}"))
        })?;
        Ok(value)
    }

    /// Bytes in any of the content types that a write may have.
    fn decode_as(&self, body: &[u8], resource: &Resource) -> Result<(Value, Vec<String>), ApiError> {
        let media = self.content_type.split(';').next().unwrap_or_default().trim();
        match media {
            "" | "application/json" | "*/*" => decode_json(body, &resource.kind),
            "application/yaml" => Ok((decode_yaml(body)?, Vec::new())),
            "application/vnd.kubernetes.protobuf" => Ok((decode_protobuf(body)?, Vec::new())),
            _ => Err(unsupported_media()),
        }
    }

    /// `apiVersion` and `kind` against the URL: built-in kinds may leave them out (spec K-CT-6, K-CR-1).
    fn check_type(&self, value: &mut Value, body: &[u8]) -> Result<(), ApiError> {
        let resource = &self.resource;
        let Some(map) = value.as_object_mut() else {
            let got = String::from_utf8_lossy(&body[..body.len().min(64)]).into_owned();
            return Err(ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error: \
                 json: cannot unmarshal {got} into Go value of type struct {{ APIVersion string; Kind string }}",
                resource.kind
            )));
        };
        let text = |key: &str| map.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (kind, version) = (text("kind"), text("apiVersion"));
        if resource.custom.is_some() {
            let expected = Expected { group: &resource.group, version: &resource.version, kind: &resource.kind };
            return instance::check_type(value, expected, &String::from_utf8_lossy(body));
        }
        let expected = resource.api_version();
        let sent_kind = if kind.is_empty() { &*resource.kind } else { &*kind };
        let sent_version = if version.is_empty() { &*expected } else { &*version };
        let (group, short) = sent_version.split_once('/').unwrap_or(("", sent_version));
        if !is_registered(group, short, sent_kind) {
            return Err(ApiError::bad_request(format!(
                "{sent_kind} in version \"{short}\" cannot be handled as a {}: no kind \"{sent_kind}\" is registered for \
                 version \"{sent_version}\" in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
                resource.kind
            )));
        }
        if !version.is_empty() && version != expected {
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({version}) does not match the expected API version ({expected})"
            )));
        }
        if !kind.is_empty() && kind != *resource.kind {
            let short = &resource.version;
            return Err(ApiError::bad_request(format!(
                "{kind} in version \"{short}\" cannot be handled as a {}: converting ({short}.{kind}) to ({}.{}): unknown conversion",
                resource.kind,
                if resource.group.is_empty() { "core" } else { resource.group.split('.').next().unwrap_or_default() },
                resource.kind,
            )));
        }
        map.insert("kind".into(), (*resource.kind).into());
        map.insert("apiVersion".into(), expected.into());
        Ok(())
    }

    /// Drops unknown fields (returned), refuses wrong types, and brings scalars into their canonical spelling.
    pub fn conform(&self, value: &mut Value) -> Result<Vec<String>, ApiError> {
        let resource = &self.resource;
        if let Some(custom) = &resource.custom {
            return custom.conform(value);
        }
        decode::conform(&resource.shape, &resource.kind, &resource.version, value).map_err(|text| {
            ApiError::bad_request(format!(
                "{kind} in version \"{version}\" cannot be handled as a {kind}: {text}",
                kind = resource.kind,
                version = resource.version
            ))
        })
    }

    /// A name that is free with high probability (spec K-OBJ-2).
    pub fn generated_name(&self, prefix: &str) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut name: String = prefix.chars().take(GENERATED_PREFIX_MAX).collect();
        for _ in 0..5 {
            name.push(ALPHABET[rand::random_range(0..ALPHABET.len())] as char);
        }
        name
    }
}

/// Any object that a body may hold besides the resource's own kind: options, reviews, scales, bindings.
pub fn loose(content_type: &str, body: &[u8], kind: &str) -> Result<Value, ApiError> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Value::Null);
    }
    let value = match content_type.split(';').next().unwrap_or_default().trim() {
        "application/vnd.kubernetes.protobuf" => decode_protobuf(body)?,
        "application/yaml" => decode_yaml(body)?,
        // A list of steps; what it says is checked where it is applied.
        "application/json-patch+json" => return decode_json(body, kind).map(|(value, _)| value),
        _ => decode_json(body, kind)?.0,
    };
    if value.is_object() || value.is_null() {
        return Ok(value);
    }
    Err(ApiError::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): it is not a JSON object"
    )))
}

/// Whether the reference knows a kind in this version, as one of its own, as a list, or as one that all versions have.
fn is_registered(group: &str, version: &str, kind: &str) -> bool {
    const EVERYWHERE: &[&str] = &["CreateOptions", "DeleteOptions", "List", "Status", "UpdateOptions", "WatchEvent"];
    let item = kind.strip_suffix("List").unwrap_or(kind);
    EVERYWHERE.contains(&kind) || builtin::of(group, version, item).is_some()
}

fn decode_json(body: &[u8], kind: &str) -> Result<(Value, Vec<String>), ApiError> {
    decode::json(body).map(|decoded| (decoded.value, decoded.strict)).map_err(|text| {
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: {text}"
        ))
    })
}

/// YAML as kubectl reads it: `0644` is octal.
pub fn decode_yaml(body: &[u8]) -> Result<Value, ApiError> {
    let text = std::str::from_utf8(body).map_err(|e| ApiError::bad_request(format!("yaml: {e}")))?;
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    serde_saphyr::from_str_with_options(text, options)
        .map_err(|e| ApiError::bad_request(format!("error decoding the body as YAML: {e}")))
}

/// The protobuf envelope and the object in it, by the kind that the envelope names.
fn decode_protobuf(body: &[u8]) -> Result<Value, ApiError> {
    let refuse = |text: String| ApiError::bad_request(format!("error decoding the body as protobuf: {text}"));
    let envelope = protobuf::envelope(body).map_err(refuse)?;
    let (group, version) = envelope.api_version.split_once('/').unwrap_or(("", envelope.api_version));
    let shape = builtin::of(group, version, envelope.kind).ok_or_else(|| {
        ApiError::bad_request(format!(
            "no kind \"{}\" is registered for version \"{}\" in protobuf; send application/json instead",
            envelope.kind, envelope.api_version
        ))
    })?;
    let mut value = protobuf::to_json(&shape, envelope.raw).map_err(refuse)?;
    value["kind"] = envelope.kind.into();
    value["apiVersion"] = envelope.api_version.into();
    Ok(value)
}

pub fn unsupported_media() -> ApiError {
    ApiError::new(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_known_by_version_as_lists_and_everywhere() {
        assert!(is_registered("", "v1", "Pod") && is_registered("apps", "v1", "DeploymentList"));
        assert!(is_registered("", "v1", "Status"));
        assert!(
            !is_registered("", "v2", "Pod") && !is_registered("apps", "v1", "Pod") && !is_registered("", "v1", "pod")
        );
    }
}
