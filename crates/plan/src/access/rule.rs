//! One policy rule: which requests it allows and which other rules it covers.

use super::Request;
use serde_json::{Value, json};

/// A rule of a role, for resources or for paths.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    pub(super) groups: Vec<String>,
    pub(super) resources: Vec<String>,
    pub(super) paths: Vec<String>,
    /// Empty allows any name.
    pub(super) names: Vec<String>,
    pub(super) verbs: Vec<String>,
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == "*" || item == wanted)
}

impl Rule {
    /// Reads a `PolicyRule`; what is not a list of strings counts as absent.
    pub fn read(rule: &Value) -> Rule {
        let list = |key: &str| {
            let items = rule.get(key).and_then(Value::as_array).into_iter().flatten();
            items.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Rule {
            groups: list("apiGroups"),
            resources: list("resources"),
            paths: list("nonResourceURLs"),
            names: list("resourceNames"),
            verbs: list("verbs"),
        }
    }

    /// The two rules that allow everything.
    pub(super) fn everything() -> [Rule; 2] {
        let all = || vec!["*".to_owned()];
        let none = Vec::new;
        [
            Rule { groups: all(), resources: all(), paths: none(), names: none(), verbs: all() },
            Rule { groups: none(), resources: none(), paths: all(), names: none(), verbs: all() },
        ]
    }

    pub(super) fn is_for_resources(&self) -> bool {
        !self.resources.is_empty()
    }

    pub(super) fn allows(&self, request: &Request<'_>) -> bool {
        match *request {
            Request::Path { verb, path } => {
                has(&self.verbs, verb) && self.paths.iter().any(|pattern| path_covers(pattern, path))
            }
            Request::Resource { verb, group, resource, subresource, name, .. } => {
                has(&self.verbs, verb)
                    && has(&self.groups, group)
                    && self.resources.iter().any(|pattern| resource_covers(pattern, resource, subresource))
                    && (self.names.is_empty() || self.names.iter().any(|allowed| allowed == name))
            }
        }
    }

    /// The rule in its smallest pieces: one verb on one thing each.
    pub(super) fn pieces(&self) -> Vec<Rule> {
        let empty = Rule { groups: vec![], resources: vec![], paths: vec![], names: vec![], verbs: vec![] };
        let names: Vec<Vec<String>> = match self.names.as_slice() {
            [] => vec![vec![]],
            names => names.iter().map(|name| vec![name.clone()]).collect(),
        };
        let mut pieces = Vec::new();
        for verb in &self.verbs {
            let verbs = vec![verb.clone()];
            for path in &self.paths {
                pieces.push(Rule { paths: vec![path.clone()], verbs: verbs.clone(), ..empty.clone() });
            }
            for (group, resource) in self.groups.iter().flat_map(|g| self.resources.iter().map(move |r| (g, r))) {
                for names in &names {
                    pieces.push(Rule {
                        groups: vec![group.clone()],
                        resources: vec![resource.clone()],
                        names: names.clone(),
                        verbs: verbs.clone(),
                        ..empty.clone()
                    });
                }
            }
        }
        pieces
    }

    /// Whether this rule allows all that a piece (see `pieces`) would allow.
    pub(super) fn covers(&self, piece: &Rule) -> bool {
        let covers_resource = |wanted: &String| {
            let (resource, subresource) = wanted.split_once('/').unwrap_or((wanted, ""));
            self.resources.iter().any(|pattern| resource_covers(pattern, resource, subresource))
        };
        let covers_names =
            self.names.is_empty() || !piece.names.is_empty() && piece.names.iter().all(|n| self.names.contains(n));
        piece.verbs.iter().all(|verb| has(&self.verbs, verb))
            && piece.groups.iter().all(|group| has(&self.groups, group))
            && piece.resources.iter().all(covers_resource)
            && covers_names
            && piece.paths.iter().all(|path| self.paths.iter().any(|pattern| path_covers(pattern, path)))
    }

    pub(super) fn to_resource_json(&self) -> Value {
        let mut json = json!({"verbs": self.verbs, "apiGroups": self.groups, "resources": self.resources});
        if !self.names.is_empty() {
            json["resourceNames"] = json!(self.names);
        }
        json
    }

    pub(super) fn to_path_json(&self) -> Value {
        json!({"verbs": self.verbs, "nonResourceURLs": self.paths})
    }

    /// `{APIGroups:["apps"], Resources:["deployments"], Verbs:["get" "list"]}`, as refusals list what is missing.
    pub(super) fn compact(&self) -> String {
        let parts = [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.paths),
            ("ResourceNames", &self.names),
            ("Verbs", &self.verbs),
        ];
        let shown =
            parts.iter().filter(|(_, list)| !list.is_empty()).map(|(key, list)| format!("{key}:{}", quoted(list)));
        format!("{{{}}}", shown.collect::<Vec<_>>().join(", "))
    }
}

/// `["a" "b"]`, Go's spelling of a list of quoted strings.
pub(super) fn quoted(list: &[String]) -> String {
    format!("[{}]", list.iter().map(|item| format!("{item:?}")).collect::<Vec<_>>().join(" "))
}

/// `*` covers all, `*/sub` the subresource of any resource, else the pattern must be `resource` or `resource/sub`.
fn resource_covers(pattern: &str, resource: &str, subresource: &str) -> bool {
    match pattern.split_once('/') {
        None => pattern == "*" || subresource.is_empty() && pattern == resource,
        Some((of, sub)) => !subresource.is_empty() && sub == subresource && (of == "*" || of == resource),
    }
}

/// A trailing `*` covers everything that begins with the rest.
fn path_covers(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => pattern == path,
    }
}
