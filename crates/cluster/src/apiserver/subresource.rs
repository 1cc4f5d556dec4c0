//! Subresources that are not part of the object: scale, binding, eviction, token; and kinds that are only answered.

use super::ApiServer;
use super::answer::{self, Answer};
use super::call::{Call, loose};
use super::catalogue::Resource;
use super::delete::DeleteOptions;
use super::object;
use super::request::Form;
use super::tokens::{AUDIENCE, Account, Claims};
use super::usage;
use super::write::Change;
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::sync::Arc;
use volley_api::kube::field::FieldError;
use volley_api::kube::selector::LabelSelector;
use volley_api::kube::status::ApiError;
use volley_api::kube::validate::reviews::check_review;
use volley_api::kube::{text, time};
use volley_plan::custom::scale;
use volley_plan::object::{merge, strategic};

impl ApiServer {
    pub async fn other_subresource(&self, verb: &str, call: &mut Call, form: Form) -> Result<Answer, ApiError> {
        if &*call.resource.group == usage::GROUP {
            return self.resource_usage(verb, call, form);
        }
        let subresource = call.path.subresource.clone();
        match (&*call.resource.plural, subresource.as_str(), verb) {
            (_, "scale", "get") => Ok(answer::value(200, &self.scale(call)?, form)),
            (_, "scale", "update" | "patch") => self.set_scale(call, verb, form).await,
            ("pods", "binding", "create") => self.bind(call).await,
            ("bindings", "", "create") => {
                let body = loose(&call.content_type, &call.body, "Binding")?;
                call.path.name = text(&body, "metadata.name").to_owned();
                let pods = self.catalogue().get("", "v1", "pods").cloned();
                call.resource = pods.ok_or_else(ApiError::unknown_resource)?;
                self.bind(call).await
            }
            ("pods", "eviction", "create") => self.evict(call).await,
            ("pods", "log", "get") => self.log(call).await,
            ("pods", "exec" | "attach", "get" | "create") => self.command(call),
            ("pods", "portforward", "get" | "create") => self.port_forward(call),
            ("serviceaccounts", "token", "create") => self.token(call, form),
            ("componentstatuses", "", "list") => {
                let list = json!({"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": []});
                Ok(answer::value(200, &list, form))
            }
            ("componentstatuses", "", "get") => Err(call.not_found()),
            (_, "", "create") => self.review(call, form),
            _ => Err(ApiError::method_not_allowed()),
        }
    }

    pub(super) fn stored(&self, call: &Call) -> Result<Value, ApiError> {
        let stored = self.store.get(&call.resource.bucket, &self.key(call)).ok_or_else(|| call.not_found())?;
        Ok(self.read(&call.resource, &stored))
    }

    /// The object as an `autoscaling/v1 Scale` (spec K-SUB-1, K-CR-4).
    fn scale(&self, call: &Call) -> Result<Value, ApiError> {
        let object = self.stored(call)?;
        scale_of(call, &object)
    }

    async fn set_scale(&self, call: &mut Call, verb: &str, form: Form) -> Result<Answer, ApiError> {
        let options = call.write_options("UpdateOptions")?;
        let body = loose(&call.content_type.replace("apply-patch+yaml", "yaml"), &call.body, "Scale")?;
        let media = call.content_type.split(';').next().unwrap_or_default().trim().to_owned();
        let current = self.scale(call)?;
        let wanted = match (verb, media.as_str()) {
            ("patch", "application/json-patch+json") => merge::json_patch(&current, &body)?,
            ("patch", "application/strategic-merge-patch+json") => {
                let shape = volley_api::kube::schema::builtin::of("autoscaling", "v1", "Scale");
                strategic::strategic(&shape.ok_or_else(ApiError::unknown_resource)?, &current, &body)?
            }
            ("patch", "application/merge-patch+json" | "application/apply-patch+yaml") => {
                merge::merge(&current, &body)?
            }
            ("patch", _) => return Err(ApiError::new(415, "UnsupportedMediaType", "415: Unsupported Media Type")),
            _ => body,
        };
        check_scale(call, &wanted)?;
        let version = text(&wanted, "metadata.resourceVersion");
        if !version.is_empty() && version != text(&current, "metadata.resourceVersion") {
            return Err(call.stale());
        }
        let replicas = wanted["spec"]["replicas"].as_i64().unwrap_or(0);
        let errors = check_review("Scale", &wanted);
        if !errors.is_empty() {
            return Err(ApiError::invalid("autoscaling", "Scale", &call.path.name, errors));
        }
        let paths = call.resource.custom.as_ref().and_then(|custom| custom.scale.clone());
        let edit = move |object: &mut Value| {
            match &paths {
                Some(paths) => scale::set(object, paths, replicas)?,
                None => object["spec"]["replicas"] = replicas.into(),
            }
            Ok(())
        };
        // The scale is one way to write the main resource: status and metadata stay as they are.
        call.path.subresource = String::new();
        call.via = "scale";
        let written = self.modify(call, Change::Edit(Arc::new(edit)), &options).await?;
        Ok(answer::value(200, &scale_of(call, &written.into_object(&call.resource))?, form))
    }

    /// Binds a pod to a node, once (spec K-SUB-2).
    async fn bind(&self, call: &mut Call) -> Result<Answer, ApiError> {
        let binding = loose(&call.content_type, &call.body, "Binding")?;
        check_name(call, &binding, "Binding")?;
        let node = text(&binding, "target.name").to_owned();
        if node.is_empty() {
            let error = FieldError::required("target.name", "");
            return Err(ApiError::invalid("", "Binding", &call.path.name, vec![error]));
        }
        let options = call.write_options("CreateOptions")?;
        let (pod, now) = (call.path.name.clone(), time::seconds(call.now));
        let annotations = binding["metadata"]["annotations"].clone();
        let wanted_uid = text(&binding, "metadata.uid").to_owned();
        let edit = move |object: &mut Value| {
            let current = text(object, "spec.nodeName");
            let refuse = |why: String| Err(ApiError::conflict("", "pods/binding", &pod, &why));
            let uid = text(object, "metadata.uid");
            if !wanted_uid.is_empty() && wanted_uid != uid {
                return refuse(format!(
                    "Precondition failed: UID in precondition: {wanted_uid}, UID in object meta: {uid}"
                ));
            }
            if !current.is_empty() {
                return refuse(format!("pod {pod} is already assigned to node \"{current}\""));
            }
            if object["metadata"].get("deletionTimestamp").is_some() {
                return refuse(format!("pod {pod} is being deleted, cannot be assigned to a host"));
            }
            object["spec"]["nodeName"] = node.as_str().into();
            for (key, value) in annotations.as_object().into_iter().flatten() {
                object["metadata"]["annotations"][key] = value.clone();
            }
            set_condition(
                object,
                json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now}),
            );
            Ok(())
        };
        // Both spec and status change in one step, so neither subresource's rules apply.
        call.path.subresource = "binding".to_owned();
        self.modify(call, Change::Edit(Arc::new(edit)), &options).await?;
        Ok(answer::success(201, Value::Null))
    }

    /// Deletes a pod gracefully unless a disruption budget forbids it (spec K-SUB-3).
    async fn evict(&self, call: &mut Call) -> Result<Answer, ApiError> {
        let eviction = loose(&call.content_type, &call.body, "Eviction")?;
        check_name(call, &eviction, "Eviction")?;
        let pod = self.stored(call)?;
        let asked = &eviction["deleteOptions"];
        let options = DeleteOptions {
            grace_seconds: asked["gracePeriodSeconds"].as_i64(),
            policy: text(asked, "propagationPolicy").to_owned(),
            uid: text(asked, "preconditions.uid").to_owned(),
            revision: text(asked, "preconditions.resourceVersion").to_owned(),
            dry_run: call.query.get("dryRun").is_some(),
        };
        call.path.subresource = String::new();
        let is_over = matches!(text(&pod, "status.phase"), "Succeeded" | "Failed" | "Pending")
            || pod["metadata"].get("deletionTimestamp").is_some();
        if !is_over {
            self.spend_budgets(call, &pod).await?;
            if !options.dry_run {
                self.mark_evicted(call).await?;
            }
        }
        self.delete_one(call, &options).await?;
        Ok(answer::success(201, Value::Null))
    }

    /// Takes one allowed disruption from the budget that covers the pod.
    async fn spend_budgets(&self, call: &Call, pod: &Value) -> Result<(), ApiError> {
        let labels = pod["metadata"]["labels"].as_object();
        let budgets = self.facts("policy/poddisruptionbudgets", &format!("{}/", call.path.namespace));
        let covers = |budget: &&Value| {
            LabelSelector::from_object(budget["spec"].get("selector")).is_ok_and(|selector| selector.matches(labels))
        };
        let covering: Vec<&Value> = budgets.iter().filter(covers).collect();
        let budget = match covering.as_slice() {
            [] => return Ok(()),
            [one] => *one,
            _ => {
                return Err(ApiError::bare(
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                ));
            }
        };
        let allowed = budget["status"]["disruptionsAllowed"].as_i64().unwrap_or(0);
        if allowed > 0 {
            let name = text(budget, "metadata.name");
            let left = json!({"status": {"disruptionsAllowed": allowed - 1}});
            return self
                .local("disruption")
                .patch_status("policy", "poddisruptionbudgets", &call.path.namespace, name, left)
                .await
                .map(|_| ());
        }
        let mut error =
            ApiError::new(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.");
        let message = format!(
            "The disruption budget {} needs {} healthy pods and has {} currently",
            text(budget, "metadata.name"),
            budget["status"]["desiredHealthy"].as_i64().unwrap_or(0),
            budget["status"]["currentHealthy"].as_i64().unwrap_or(0)
        );
        error.details = json!({"causes": [{"reason": "DisruptionBudget", "message": message}]});
        Err(error)
    }

    async fn mark_evicted(&self, call: &Call) -> Result<(), ApiError> {
        let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": time::seconds(call.now)});
        let mut pod = self.stored(call)?;
        set_condition(&mut pod, condition);
        let conditions = json!({"status": {"conditions": pod["status"]["conditions"]}});
        let local = self.local("eviction");
        local.patch_status("", "pods", &call.path.namespace, &call.path.name, conditions).await.map(|_| ())
    }

    /// A token is bound to an object that exists.
    fn check_bound(&self, call: &Call, bound: &Value) -> Result<(), ApiError> {
        if bound.is_null() {
            return Ok(());
        }
        let (kind, api_version, name) = (text(bound, "kind"), text(bound, "apiVersion"), text(bound, "name"));
        let (plural, key) = match (api_version, kind) {
            ("v1", "Pod") => ("pods", object::key(&call.path.namespace, name)),
            ("v1", "Secret") => ("secrets", object::key(&call.path.namespace, name)),
            ("v1", "Node") => ("nodes", object::key("", name)),
            _ => {
                let version =
                    if api_version.contains('/') { api_version.to_owned() } else { format!("/{api_version}") };
                return Err(ApiError::bad_request(format!(
                    "cannot bind token to object of type {version}, Kind={kind}"
                )));
            }
        };
        let missing = || ApiError::not_found("", plural, name);
        let stored = self.store.get(&self.store.bucket(plural), &key).ok_or_else(missing)?;
        let (uid, wanted) = (object::parse(&stored)["metadata"]["uid"].clone(), text(bound, "uid"));
        if !wanted.is_empty() && uid != wanted {
            let why = format!(
                "the UID in the bound object reference ({wanted}) does not match the UID in record. The object might have been deleted and then recreated"
            );
            return Err(ApiError::conflict("", plural, name, &why));
        }
        Ok(())
    }

    /// A token for a service account (spec K-AUTH-5).
    fn token(&self, call: &Call, form: Form) -> Result<Answer, ApiError> {
        let request = loose(&call.content_type, &call.body, "TokenRequest")?;
        Ok(answer::value(201, &self.issue_token(call, request)?, form))
    }

    /// The request with its answer filled in.
    pub(super) fn issue_token(&self, call: &Call, mut request: Value) -> Result<Value, ApiError> {
        let account = self.stored(call)?;
        let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or(3600);
        request["spec"]["expirationSeconds"] = seconds.into();
        let errors = check_review("TokenRequest", &request);
        if !errors.is_empty() {
            return Err(ApiError::invalid("authentication.k8s.io", "TokenRequest", "", errors));
        }
        let mut audiences: Vec<String> = request["spec"]["audiences"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        if audiences.is_empty() {
            audiences.push(AUDIENCE.to_owned());
        }
        let named = text(&request, "metadata.name");
        if !named.is_empty() && named != call.path.name {
            let error = FieldError::invalid("metadata.name", named, "must match the service account name if specified");
            return Err(ApiError::invalid("authentication.k8s.io", "TokenRequest", &call.path.name, vec![error]));
        }
        let bound = &request["spec"]["boundObjectRef"];
        self.check_bound(call, bound)?;
        let pod =
            (text(bound, "kind") == "Pod").then(|| (text(bound, "name").to_owned(), text(bound, "uid").to_owned()));
        let account = Account {
            namespace: call.path.namespace.clone(),
            name: call.path.name.clone(),
            uid: text(&account, "metadata.uid").to_owned(),
        };
        let token = self.tokens.sign(&Claims { account: &account, audiences: &audiences, now: call.now, seconds, pod });
        let ends = call.now.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(call.now);
        request["kind"] = "TokenRequest".into();
        request["apiVersion"] = "authentication.k8s.io/v1".into();
        request["metadata"] =
            json!({"name": account.name, "namespace": account.namespace, "creationTimestamp": time::seconds(call.now)});
        request["spec"]["audiences"] = json!(audiences);
        request["status"] = json!({"token": token, "expirationTimestamp": time::seconds(ends)});
        Ok(request)
    }
}

/// Subresources of the reference that are not served, and what to do instead.
const NOT_SERVED: &[(&str, &str, &str)] = &[
    (
        "pods",
        "resize",
        "resources of a running pod stay as they are: delete the pod and create it with the wanted ones",
    ),
    ("pods", "proxy", "use kubectl port-forward to reach a pod"),
    ("services", "proxy", "use kubectl port-forward to reach a service"),
    ("nodes", "proxy", "the node has no API of its own"),
];

/// Why there is no such subresource.
pub fn absent(resource: &Resource, subresource: &str) -> ApiError {
    let first = subresource.split('/').next().unwrap_or_default();
    let known = NOT_SERVED.iter().find(|(plural, name, _)| resource.is("", plural) && *name == first);
    let Some((plural, name, instead)) = known else { return ApiError::unknown_resource() };
    ApiError::new(501, "NotImplemented", format!("{plural}/{name} is not served here: {instead}"))
}

/// A scale of another kind, of another object or without a number is refused.
fn check_scale(call: &Call, scale: &Value) -> Result<(), ApiError> {
    let (kind, version) = (text(scale, "kind"), text(scale, "apiVersion").rsplit('/').next().unwrap_or_default());
    if !matches!(kind, "" | "Scale") {
        return Err(ApiError::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a Scale: converting ({version}.{kind}) to (autoscaling.Scale): unknown conversion"
        )));
    }
    let (name, wanted) = (text(scale, "metadata.name"), &call.path.name);
    if name != wanted {
        let why = format!("the name of the object ({name}) does not match the name on the URL ({wanted})");
        return Err(ApiError::bad_request(why));
    }
    let replicas = &scale["spec"]["replicas"];
    if replicas.is_null() || replicas.is_i64() {
        return Ok(());
    }
    let found = if replicas.is_string() { "string" } else { "value" };
    let text = format!("json: cannot unmarshal {found} into Go struct field ScaleSpec.spec.replicas of type int32");
    Err(ApiError::invalid("", "", "", vec![FieldError::invalid("patch", scale.to_string(), &text)]))
}

/// What acts on a pod must name it, as the URL does.
fn check_name(call: &Call, body: &Value, kind: &str) -> Result<(), ApiError> {
    if text(body, "metadata.name") == call.path.name {
        return Ok(());
    }
    Err(ApiError::bad_request(format!("name in URL does not match name in {kind} object")))
}

/// Puts a condition in the place of the one of its type.
pub fn set_condition(object: &mut Value, condition: Value) {
    let mut conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    match conditions.iter_mut().find(|known| known["type"] == condition["type"]) {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
    object["status"]["conditions"] = conditions.into();
}

fn scale_of(call: &Call, object: &Value) -> Result<Value, ApiError> {
    if let Some(paths) = call.resource.custom.as_ref().and_then(|custom| custom.scale.as_ref()) {
        return scale::get(object, paths);
    }
    let meta = &object["metadata"];
    let mut metadata = json!({});
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        metadata[key] = meta[key].clone();
    }
    let selector = match object["spec"].get("selector") {
        // A ReplicationController's selector is a plain map of labels.
        Some(selector) if &*call.resource.kind == "ReplicationController" => {
            LabelSelector::from_labels(selector.as_object())
        }
        selector => LabelSelector::from_object(selector).unwrap_or_else(|_| LabelSelector::nothing()),
    };
    let mut scale = json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": {},
        "status": {"replicas": object["status"]["replicas"].as_i64().unwrap_or(0), "selector": selector.to_string()}});
    if let Some(replicas) = object["spec"]["replicas"].as_i64().filter(|replicas| *replicas != 0) {
        scale["spec"]["replicas"] = replicas.into();
    }
    Ok(scale)
}
