//! Who may do what: RBAC roles and bindings evaluated purely (spec K 20).
//!
//! The API server builds `Rules` whenever a role or binding changes and asks it for every request and review.
//! `user` says who asks, `rule` what one rule covers, `escalate` what a user may grant to others.

mod escalate;
mod rule;
mod user;

pub use rule::Rule;
pub use user::User;

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use volley_api::kube::selector::LabelSelector;
use volley_api::kube::status::ApiError;
use volley_api::kube::text;

/// Members of this group may do everything, whatever roles there are.
pub const MASTERS: &str = "system:masters";

/// What a user wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// On objects. `namespace` is empty at the cluster scope; for `namespaces/<n>` it is `<n>`. `name` is empty for
    /// lists and creates.
    Resource {
        verb: &'a str,
        group: &'a str,
        resource: &'a str,
        subresource: &'a str,
        namespace: &'a str,
        name: &'a str,
    },
    /// On a path outside the resources; `verb` is the HTTP method in lower case.
    Path { verb: &'a str, path: &'a str },
}

/// One binding of one role to one subject.
#[derive(Debug, Clone, PartialEq)]
pub struct Grant {
    /// Empty for cluster role bindings, which hold everywhere.
    namespace: String,
    binding: String,
    role_kind: String,
    role: String,
    /// `Group "z"`, as reasons name it.
    subject: String,
    rules: Arc<[Rule]>,
}

/// Why a request is allowed. Its text goes into access reviews.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reason<'a> {
    /// The user is in `system:masters`; upstream gives no text for it.
    Masters,
    Grant(&'a Grant),
}

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reason::Grant(grant) = self else { return Ok(()) };
        let Grant { namespace, binding, role_kind, role, subject, .. } = grant;
        if namespace.is_empty() {
            write!(f, "RBAC: allowed by ClusterRoleBinding \"{binding}\" of {role_kind} \"{role}\" to {subject}")
        } else {
            write!(f, "RBAC: allowed by RoleBinding \"{binding}/{namespace}\" of {role_kind} \"{role}\" to {subject}")
        }
    }
}

/// All roles and bindings, indexed by who they are for.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Cluster roles under an empty namespace.
    roles: BTreeMap<(String, String), Arc<[Rule]>>,
    /// Cluster wide grants first, then by namespace and binding.
    grants: Vec<Grant>,
    /// Positions in `grants`.
    by_user: BTreeMap<String, Vec<usize>>,
    by_group: BTreeMap<String, Vec<usize>>,
}

impl Rules {
    /// Builds the index from `Role`, `ClusterRole`, `RoleBinding` and `ClusterRoleBinding` objects; others are skipped.
    ///
    /// A binding whose role is missing grants nothing. Aggregated cluster roles are united here, so that a rule added to
    /// a part counts at once.
    pub fn new<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Self {
        let objects: Vec<&Value> = objects.into_iter().collect();
        let of_kind =
            |kind: &str| objects.iter().copied().filter(|object| text(object, "kind") == kind).collect::<Vec<_>>();
        let cluster_roles = of_kind("ClusterRole");
        let mut rules = Rules::default();
        for role in &cluster_roles {
            let united = aggregate(role, cluster_roles.iter().copied());
            rules.roles.insert(role_key("", role), united.iter().map(Rule::read).collect());
        }
        for role in of_kind("Role") {
            let own = rules_of(role).iter().map(Rule::read).collect();
            rules.roles.insert(role_key(text(role, "metadata.namespace"), role), own);
        }
        for (kind, is_cluster) in [("ClusterRoleBinding", true), ("RoleBinding", false)] {
            let mut bindings = of_kind(kind);
            bindings.sort_by_key(|binding| (text(binding, "metadata.namespace"), text(binding, "metadata.name")));
            for binding in bindings {
                let namespace = if is_cluster { "" } else { text(binding, "metadata.namespace") };
                rules.add_binding(binding, namespace);
            }
        }
        rules
    }

    fn add_binding(&mut self, binding: &Value, namespace: &str) {
        let Some(role_rules) = self.role_rules(namespace, binding.get("roleRef").unwrap_or(&Value::Null)) else {
            return;
        };
        let role_rules = Arc::clone(role_rules);
        for subject in binding.get("subjects").and_then(Value::as_array).into_iter().flatten() {
            let (kind, name) = (text(subject, "kind"), text(subject, "name"));
            let (index, key, shown) = match kind {
                "User" => (&mut self.by_user, name.to_owned(), format!("User \"{name}\"")),
                "Group" => (&mut self.by_group, name.to_owned(), format!("Group \"{name}\"")),
                "ServiceAccount" => {
                    let home = match text(subject, "namespace") {
                        "" => namespace,
                        home => home,
                    };
                    let shown = format!("ServiceAccount \"{name}/{home}\"");
                    (&mut self.by_user, user::service_account_name(home, name), shown)
                }
                _ => continue,
            };
            index.entry(key).or_default().push(self.grants.len());
            self.grants.push(Grant {
                namespace: namespace.to_owned(),
                binding: text(binding, "metadata.name").to_owned(),
                role_kind: text(binding, "roleRef.kind").to_owned(),
                role: text(binding, "roleRef.name").to_owned(),
                subject: shown,
                rules: Arc::clone(&role_rules),
            });
        }
    }

    /// The rules of the role that a binding in `namespace` (empty: cluster wide) refers to.
    fn role_rules(&self, namespace: &str, role_ref: &Value) -> Option<&Arc<[Rule]>> {
        let home = if text(role_ref, "kind") == "Role" { namespace } else { "" };
        self.roles.get(&(home.to_owned(), text(role_ref, "name").to_owned()))
    }

    /// What is granted to a user at the cluster scope and in `namespace`, in a fixed order.
    fn grants_of<'a, 'n>(&'a self, user: &User, namespace: &'n str) -> impl Iterator<Item = &'a Grant> + use<'a, 'n> {
        let of_groups = user.groups.iter().filter_map(|group| self.by_group.get(group));
        let mut positions: Vec<usize> =
            self.by_user.get(&user.name).into_iter().chain(of_groups).flatten().copied().collect();
        positions.sort_unstable();
        let grants = positions.into_iter().map(|position| &self.grants[position]);
        grants.filter(move |grant| grant.namespace.is_empty() || grant.namespace == namespace)
    }

    /// Why the request is allowed, or `None` when nothing allows it.
    pub fn allowed(&self, user: &User, request: &Request<'_>) -> Option<Reason<'_>> {
        if user.is_master() {
            return Some(Reason::Masters);
        }
        let namespace = match request {
            Request::Resource { namespace, .. } => namespace,
            Request::Path { .. } => "",
        };
        let allows = |grant: &&Grant| grant.rules.iter().any(|rule| rule.allows(request));
        self.grants_of(user, namespace).find(allows).map(Reason::Grant)
    }

    /// What a user may do in a namespace, as a `SelfSubjectRulesReview` lists it: resource rules, non-resource rules.
    pub fn rules_for(&self, user: &User, namespace: &str) -> (Vec<Value>, Vec<Value>) {
        let mut resource_rules = Vec::new();
        let mut path_rules = Vec::new();
        let all = user.is_master().then(Rule::everything);
        let granted = self.grants_of(user, namespace).flat_map(|grant| grant.rules.iter());
        for rule in all.iter().flatten().chain(granted) {
            match rule.is_for_resources() {
                true => push_new(&mut resource_rules, rule.to_resource_json()),
                false => push_new(&mut path_rules, rule.to_path_json()),
            }
        }
        (resource_rules, path_rules)
    }
}

fn push_new(list: &mut Vec<Value>, value: Value) {
    if !list.contains(&value) {
        list.push(value);
    }
}

fn role_key(namespace: &str, role: &Value) -> (String, String) {
    (namespace.to_owned(), text(role, "metadata.name").to_owned())
}

fn rules_of(role: &Value) -> &[Value] {
    role.get("rules").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The rules a cluster role has: its own, or the union of the roles that its `aggregationRule` selects by label.
///
/// Selected roles that aggregate too are followed (`admin` selects `edit`, which selects `view`), each at most once.
pub fn aggregate<'a>(role: &'a Value, all: impl IntoIterator<Item = &'a Value>) -> Vec<Value> {
    let mut all: Vec<&Value> = all.into_iter().collect();
    all.sort_by_key(|role| text(role, "metadata.name"));
    let mut waiting = vec![role];
    let mut seen = vec![text(role, "metadata.name")];
    let mut united: Vec<Value> = Vec::new();
    while let Some(role) = waiting.pop() {
        let Some(selectors) = role.pointer("/aggregationRule/clusterRoleSelectors").and_then(Value::as_array) else {
            rules_of(role).iter().for_each(|rule| push_new(&mut united, rule.clone()));
            continue;
        };
        let selectors: Vec<LabelSelector> =
            selectors.iter().filter_map(|selector| LabelSelector::from_object(Some(selector)).ok()).collect();
        for part in all.iter().rev() {
            let labels = part.pointer("/metadata/labels").and_then(Value::as_object);
            let is_selected = selectors.iter().any(|selector| selector.matches(labels));
            if is_selected && !seen.contains(&text(part, "metadata.name")) {
                seen.push(text(part, "metadata.name"));
                waiting.push(part);
            }
        }
    }
    united
}

/// Why a request is refused, as the 403 answer words it after the object's name.
pub fn denial(user: &User, request: &Request<'_>) -> String {
    let name = &user.name;
    match *request {
        Request::Path { verb, path } => format!("User \"{name}\" cannot {verb} path \"{path}\""),
        Request::Resource { verb, group, resource, subresource, namespace, .. } => {
            let resource =
                if subresource.is_empty() { resource.to_owned() } else { format!("{resource}/{subresource}") };
            let place = if namespace.is_empty() {
                "at the cluster scope".to_owned()
            } else {
                format!("in the namespace \"{namespace}\"")
            };
            format!("User \"{name}\" cannot {verb} resource \"{resource}\" in API group \"{group}\" {place}")
        }
    }
}

/// The whole 403 answer to a request that nothing allows.
pub fn forbidden(user: &User, request: &Request<'_>) -> ApiError {
    let why = denial(user, request);
    match *request {
        Request::Path { .. } => {
            ApiError { details: json!({}), ..ApiError::new(403, "Forbidden", format!("forbidden: {why}")) }
        }
        Request::Resource { group, resource, name, .. } => ApiError::forbidden(group, resource, name, &why),
    }
}

#[cfg(test)]
mod tests;
