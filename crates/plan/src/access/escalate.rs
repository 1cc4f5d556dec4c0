//! Nobody may grant more than they hold: the check on writes of roles and bindings.

use super::rule::quoted;
use super::{Request, Rule, Rules, User, rules_of};
use serde_json::Value;
use volley_api::kube::text;

const GROUP: &str = "rbac.authorization.k8s.io";

impl Rules {
    /// Why `user` may not write this role or binding, or `None` when they may.
    ///
    /// Holding everything that is granted suffices; so does the verb `escalate` on the role or `bind` on the role that a
    /// binding refers to.
    pub fn escalates(&self, user: &User, object: &Value) -> Option<String> {
        if user.is_master() {
            return None;
        }
        let (namespace, name) = (text(object, "metadata.namespace"), text(object, "metadata.name"));
        let may = |verb: &str, resource: &str, name: &str| {
            let request = Request::Resource { verb, group: GROUP, resource, subresource: "", namespace, name };
            self.allowed(user, &request).is_some()
        };
        match text(object, "kind") {
            "Role" if !may("escalate", "roles", name) => self.missing(user, namespace, &read(rules_of(object))),
            "ClusterRole" if !may("escalate", "clusterroles", name) => {
                let is_aggregated = object.get("aggregationRule").is_some_and(|rule| !rule.is_null());
                if is_aggregated && self.missing(user, "", &Rule::everything()).is_some() {
                    return Some("must have cluster-admin privileges to use aggregationRule".to_owned());
                }
                self.missing(user, "", &read(rules_of(object)))
            }
            "RoleBinding" | "ClusterRoleBinding" => {
                let role_ref = object.get("roleRef")?;
                let resource = if text(role_ref, "kind") == "Role" { "roles" } else { "clusterroles" };
                if may("bind", resource, text(role_ref, "name")) {
                    return None;
                }
                match self.role_rules(namespace, role_ref) {
                    Some(rules) => self.missing(user, namespace, rules),
                    None => Some(format!("{resource}.{GROUP} \"{}\" not found", text(role_ref, "name"))),
                }
            }
            _ => None,
        }
    }

    /// The refusal that lists what `user` lacks of `wanted` in `namespace`.
    fn missing(&self, user: &User, namespace: &str, wanted: &[Rule]) -> Option<String> {
        let held: Vec<&Rule> = self.grants_of(user, namespace).flat_map(|grant| grant.rules.iter()).collect();
        let pieces = wanted.iter().flat_map(Rule::pieces);
        let lacking: Vec<Rule> = pieces.filter(|piece| !held.iter().any(|rule| rule.covers(piece))).collect();
        if lacking.is_empty() {
            return None;
        }
        let mut lines: Vec<String> = join_verbs(lacking).iter().map(Rule::compact).collect();
        lines.sort();
        Some(format!(
            "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            user.name,
            quoted(&user.groups),
            lines.join("\n")
        ))
    }
}

fn read(rules: &[Value]) -> Vec<Rule> {
    rules.iter().map(Rule::read).collect()
}

/// Pieces about the same thing become one rule, which keeps the refusal short.
fn join_verbs(pieces: Vec<Rule>) -> Vec<Rule> {
    let mut joined: Vec<Rule> = Vec::new();
    for piece in pieces {
        let same = |rule: &&mut Rule| {
            (&rule.groups, &rule.resources, &rule.paths, &rule.names)
                == (&piece.groups, &piece.resources, &piece.paths, &piece.names)
        };
        match joined.iter_mut().find(same) {
            Some(rule) => {
                rule.verbs.extend(piece.verbs.into_iter().filter(|verb| !rule.verbs.contains(verb)).collect::<Vec<_>>())
            }
            None => joined.push(piece),
        }
    }
    joined
}
