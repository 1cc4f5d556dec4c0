//! Webhook configurations: they are stored, so they are checked, even while nobody calls them.

use super::Rule;
use super::metadata::label_selector;
use super::place::Place;
use crate::kube::names;

const ADMISSION: &str = "admissionregistration.k8s.io";

pub(super) const RULES: &[Rule] = &[
    Rule::of(ADMISSION, "ValidatingWebhookConfiguration", webhooks).cluster_wide(),
    Rule::of(ADMISSION, "MutatingWebhookConfiguration", webhooks).cluster_wide(),
];

fn webhooks(configuration: &Place) {
    for hook in configuration.items("webhooks") {
        hook_name(&hook);
        hook.one_of_if_given("failurePolicy", &["Fail", "Ignore"]);
        hook.one_of_if_given("matchPolicy", &["Equivalent", "Exact"]);
        hook.one_of_if_given("reinvocationPolicy", &["IfNeeded", "Never"]);
        hook.needs_because("sideEffects", "must specify one of None, NoneOnDryRun");
        hook.one_of_if_given("sideEffects", &["None", "NoneOnDryRun"]);
        hook.needs_because("admissionReviewVersions", "must specify one of v1, v1beta1");
        let is_beyond = hook.integer("timeoutSeconds").is_some_and(|seconds| !(1..=30).contains(&seconds));
        hook.wrong_if(is_beyond, "timeoutSeconds", "the timeout value must be between 1 and 30 seconds");
        label_selector(&hook.field("namespaceSelector"));
        label_selector(&hook.field("objectSelector"));
        if hook.has("clientConfig.url") == hook.has("clientConfig.service") {
            hook.required("clientConfig", "exactly one of url or service is required");
        }
        hook.items("rules").for_each(|rule| hook_rule(&rule));
    }
}

fn hook_name(hook: &Place) {
    let name = hook.text("name");
    let complaints = names::dns_subdomain(name);
    if name.is_empty() {
        hook.required("name", "");
    } else if !complaints.is_empty() {
        hook.wrong("name", &complaints.join(","));
    } else {
        let detail = "should be a domain with at least three segments separated by dots";
        hook.wrong_if(name.split('.').count() < 3, "name", detail);
    }
}

fn hook_rule(rule: &Place) {
    rule.needs(&["operations", "apiGroups", "apiVersions", "resources"]);
    rule.one_of_if_given("scope", &["*", "Cluster", "Namespaced"]);
    for operation in rule.items("operations") {
        operation.one_of("", &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"]);
    }
    for (key, what) in [("operations", "operations"), ("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        let is_torn = rule.list(key).len() > 1 && rule.texts(key).any(|item| item == "*");
        rule.wrong_if(is_torn, key, &format!("if '*' is present, must not specify other {what}"));
    }
}
