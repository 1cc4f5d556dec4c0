//! Reviews: questions about access and identity that are answered and never stored (spec K-AUTH-6, K-AUTH-7).

use super::ApiServer;
use super::answer::{self, Answer};
use super::call::{Call, loose};
use super::request::Form;
use super::tokens::{self, AUDIENCE};
use serde_json::{Value, json};
use volley_api::kube::status::ApiError;
use volley_api::kube::text;
use volley_api::kube::validate::reviews::check_review;
use volley_plan::access::{Request, User};

impl ApiServer {
    pub fn review(&self, call: &mut Call, form: Form) -> Result<Answer, ApiError> {
        let kind = call.resource.kind.clone();
        let mut review = loose(&call.content_type, &call.body, &kind)?;
        if !review.is_object() {
            review = json!({});
        }
        review["kind"] = (*kind).into();
        review["apiVersion"] = call.resource.api_version().into();
        if review.get("metadata").is_none() {
            review["metadata"] = json!({});
        }
        if call.resource.namespaced && text(&review, "metadata.namespace").is_empty() {
            review["metadata"]["namespace"] = call.path.namespace.as_str().into();
        }
        let errors = check_review(&kind, &review);
        if !errors.is_empty() {
            return Err(call.invalid("", errors));
        }
        match &*kind {
            "SelfSubjectRulesReview" if text(&review, "spec.namespace").is_empty() => {
                return Err(ApiError::bad_request("no namespace on request"));
            }
            "SelfSubjectReview" => review["status"] = json!({"userInfo": call.user.to_json()}),
            "TokenReview" if text(&review, "spec.token").is_empty() => {
                return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
            }
            "TokenReview" => review["status"] = self.token_status(&review),
            "SelfSubjectRulesReview" => review["status"] = self.rules_status(call, &review),
            "SelfSubjectAccessReview" => review["status"] = self.access_status(&call.user, &review),
            "SubjectAccessReview" | "LocalSubjectAccessReview" => {
                let user = subject(&review);
                review["status"] = self.access_status(&user, &review);
            }
            _ => return Err(ApiError::method_not_allowed()),
        }
        Ok(answer::value(201, &review, form))
    }

    fn access_status(&self, user: &User, review: &Value) -> Value {
        let spec = &review["spec"];
        let resource = spec.get("resourceAttributes").filter(|value| value.is_object());
        let path = spec.get("nonResourceAttributes").filter(|value| value.is_object());
        let request = match (resource, path) {
            (Some(asked), None) => Request::Resource {
                verb: text(asked, "verb"),
                group: text(asked, "group"),
                resource: text(asked, "resource"),
                subresource: text(asked, "subresource"),
                namespace: text(asked, "namespace"),
                name: text(asked, "name"),
            },
            (None, Some(asked)) => Request::Path { verb: text(asked, "verb"), path: text(asked, "path") },
            // `check_review` lets exactly one of them pass.
            _ => return json!({"allowed": false}),
        };
        match self.rules().allowed(user, &request) {
            Some(reason) => {
                let reason = reason.to_string();
                let mut status = json!({"allowed": true});
                if !reason.is_empty() {
                    status["reason"] = reason.into();
                }
                status
            }
            None => json!({"allowed": false}),
        }
    }

    fn rules_status(&self, call: &Call, review: &Value) -> Value {
        let (resources, paths) = self.rules().rules_for(&call.user, text(review, "spec.namespace"));
        json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false})
    }

    fn token_status(&self, review: &Value) -> Value {
        let token = text(review, "spec.token");
        let asked: Vec<&str> =
            review["spec"]["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if let Some(claims) = self.tokens.claims(token) {
            let held: Vec<&str> = claims["aud"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let wanted = if asked.is_empty() { vec![AUDIENCE] } else { asked };
            let shared: Vec<&str> = wanted.iter().copied().filter(|audience| held.contains(audience)).collect();
            let account = tokens::account(&claims);
            if !shared.is_empty() {
                let user = User::service_account(&account.namespace, &account.name, &account.uid);
                return json!({"authenticated": true, "user": user.to_json(), "audiences": shared});
            }
            let error = format!(
                "[invalid bearer token, token audiences {} is invalid for the target audiences {}]",
                json!(held),
                json!(wanted)
            );
            return json!({"user": {}, "error": error});
        } else if let Some(user) = self.token_user(token) {
            return json!({"authenticated": true, "user": user.to_json(), "audiences": [AUDIENCE]});
        }
        json!({"user": {}, "error": "invalid bearer token"})
    }
}

/// The user that a review asks about.
fn subject(review: &Value) -> User {
    let spec = &review["spec"];
    let groups: Vec<&str> = spec["groups"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    User {
        name: text(spec, "user").to_owned(),
        groups: groups.into_iter().map(str::to_owned).collect(),
        uid: text(spec, "uid").to_owned(),
        ..User::default()
    }
}
