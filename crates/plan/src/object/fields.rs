//! Field sets: which fields of an object somebody owns, as `managedFields` writes them (K-SSA-3).
//!
//! A set *is* its `fieldsV1` tree. Keys are path elements (`f:name`, `k:{…}`, `v:…`); a node without children, or with a
//! `.` beside them, is itself in the set. Nothing is converted on the way in or out, sets are changed in place, and
//! a leaf costs one key: an empty JSON map allocates nothing. Sets are always in canonical form, so equality is `==`.

use serde_json::{Map, Value};

/// A node of a set; an empty one is a member without children.
pub(super) type Node = Map<String, Value>;

/// The mark of a member that has children.
pub(super) const SELF: &str = ".";

/// A set of field paths. The root itself is never a member.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fields(Node);

impl Fields {
    /// Reads a `fieldsV1` that a client sent; None when it is not one.
    pub fn parse(value: &Value) -> Option<Fields> {
        let mut root = canonical(value.as_object()?)?;
        root.remove(SELF);
        Some(Fields(root))
    }

    /// Takes a tree that is canonical already, such as one that this module wrote.
    pub(super) fn trusted(root: Node) -> Fields {
        Fields(root)
    }

    /// The tree as it stands in `fieldsV1`.
    pub fn into_value(self) -> Value {
        Value::Object(self.0)
    }

    pub(super) fn root(&self) -> &Node {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds every path of the other set.
    pub fn unite(&mut self, other: &Fields) {
        unite_children(&mut self.0, &other.0);
    }

    /// Takes away every path of the other set. Paths are exact: taking a parent leaves its children.
    pub fn subtract(&mut self, other: &Fields) {
        subtract_children(&mut self.0, &other.0);
    }

    /// The paths that are in both sets.
    pub fn intersection(&self, other: &Fields) -> Fields {
        Fields(common_children(&self.0, &other.0))
    }

    /// Whether every path of the other set is in this one.
    pub fn contains(&self, other: &Fields) -> bool {
        contains_children(&self.0, &other.0)
    }

    /// Every path as people read it, `.spec.containers[name="c"].image`: at each level members first, then what is below.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        list_paths(&self.0, &mut String::new(), &mut paths);
        paths
    }
}

/// Whether the node's own path is in the set.
pub(super) fn is_member(node: &Node) -> bool {
    node.is_empty() || node.contains_key(SELF)
}

/// A node from its two parts; None when neither it nor anything below is in the set.
pub(super) fn node(is_member: bool, mut children: Node) -> Option<Node> {
    match (is_member, children.is_empty()) {
        (false, true) => None,
        (true, false) => {
            children.insert(SELF.to_owned(), Value::Object(Node::new()));
            Some(children)
        }
        (true, true) | (false, false) => Some(children),
    }
}

/// The node below a path element, if there is one.
pub(super) fn child<'a>(node: &'a Node, element: &str) -> Option<&'a Node> {
    node.get(element).and_then(Value::as_object)
}

/// Path elements and nodes below a node, without the mark of the node itself.
pub(super) fn children(node: &Node) -> impl Iterator<Item = (&String, &Node)> {
    node.iter().filter(|(key, _)| *key != SELF).filter_map(|(key, value)| Some((key, value.as_object()?)))
}

fn unite_children(target: &mut Node, other: &Node) {
    for (key, theirs) in children(other) {
        match target.get_mut(key) {
            Some(Value::Object(ours)) => {
                let member = is_member(ours) || is_member(theirs);
                unite_children(ours, theirs);
                if member && ours.keys().any(|key| key != SELF) {
                    ours.insert(SELF.to_owned(), Value::Object(Node::new()));
                }
            }
            _ => {
                target.insert(key.clone(), Value::Object(theirs.clone()));
            }
        }
    }
}

fn subtract_children(target: &mut Node, other: &Node) {
    for (key, theirs) in children(other) {
        let Some(Value::Object(ours)) = target.get_mut(key) else { continue };
        let member = is_member(ours) && !is_member(theirs);
        subtract_children(ours, theirs);
        ours.remove(SELF);
        match node(member, std::mem::take(ours)) {
            Some(rest) => *ours = rest,
            None => {
                target.remove(key);
            }
        }
    }
}

fn common_children(a: &Node, b: &Node) -> Node {
    let mut common = Node::new();
    for (key, ours) in children(a) {
        let Some(theirs) = child(b, key) else { continue };
        if let Some(shared) = node(is_member(ours) && is_member(theirs), common_children(ours, theirs)) {
            common.insert(key.clone(), Value::Object(shared));
        }
    }
    common
}

fn contains_children(a: &Node, b: &Node) -> bool {
    children(b).all(|(key, theirs)| {
        child(a, key).is_some_and(|ours| (is_member(ours) || !is_member(theirs)) && contains_children(ours, theirs))
    })
}

fn canonical(raw: &Node) -> Option<Node> {
    let mut result = Node::new();
    for (key, value) in raw {
        let below = value.as_object()?;
        if key != SELF {
            let member = is_member(below);
            let mut below = canonical(below)?;
            below.remove(SELF);
            result.insert(canonical_element(key)?, Value::Object(node(member, below)?));
        } else {
            result.insert(SELF.to_owned(), Value::Object(Node::new()));
        }
    }
    Some(result)
}

fn canonical_element(key: &str) -> Option<String> {
    let (kind, text) = key.split_at_checked(2)?;
    match kind {
        "f:" => Some(key.to_owned()),
        "k:" => serde_json::from_str::<Node>(text).ok().map(|keys| format!("k:{}", Value::Object(keys))),
        "v:" => serde_json::from_str::<Value>(text).ok().map(|value| format!("v:{value}")),
        "i:" => text.parse::<usize>().ok().map(|index| format!("i:{index}")),
        _ => None,
    }
}

fn list_paths(node: &Node, prefix: &mut String, paths: &mut Vec<String>) {
    for members in [true, false] {
        for (key, below) in children(node) {
            let length = prefix.len();
            prefix.push_str(&element_text(key));
            if members && is_member(below) {
                paths.push(prefix.clone());
            } else if !members {
                list_paths(below, prefix, paths);
            }
            prefix.truncate(length);
        }
    }
}

/// One path element as people read it: `.name`, `[name="c"]`, `[="value"]`.
pub(super) fn element_text(element: &str) -> String {
    let (kind, text) = element.split_at_checked(2).unwrap_or(("", element));
    match kind {
        "f:" => format!(".{text}"),
        "v:" => format!("[={text}]"),
        "k:" => {
            let keys: Node = serde_json::from_str(text).unwrap_or_default();
            let pairs = keys.iter().map(|(key, value)| format!("{key}={value}"));
            format!("[{}]", pairs.collect::<Vec<_>>().join(","))
        }
        _ => format!("[{text}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(value: Value) -> Fields {
        Fields::parse(&value).expect("a field set")
    }

    // K-SSA-3
    #[test]
    fn parsing_puts_sets_into_one_form_and_refuses_others() {
        let odd = json!({".": {}, "f:a": {".": {}}, "f:l": {"k:{ \"b\":2, \"a\":\"x\" }": {".": {}, "f:c": {}}}});
        let expected = json!({"f:a": {}, "f:l": {"k:{\"a\":\"x\",\"b\":2}": {".": {}, "f:c": {}}}});
        assert_eq!(set(odd).into_value(), expected);
        for bad in [json!([]), json!({"x:a": {}}), json!({"f:a": 1}), json!({"k:{": {}}), json!({"v:": {}})] {
            assert!(Fields::parse(&bad).is_none(), "{bad}");
        }
    }

    // K-SSA-3 K-SSA-8
    #[test]
    fn paths_read_as_conflicts_print_them() {
        let fields = set(json!({
            "f:data": {"f:a": {}, "f:b": {}},
            "f:metadata": {"f:labels": {"f:x": {}}, "f:finalizers": {"v:\"keep\"": {}}},
            "f:spec": {"f:template": {"f:spec": {"f:containers": {
                "k:{\"name\":\"c\"}": {"f:image": {}, "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {}}}}}}},
        }));
        let expected = [
            ".data.a",
            ".data.b",
            ".metadata.finalizers[=\"keep\"]",
            ".metadata.labels.x",
            ".spec.template.spec.containers[name=\"c\"].image",
            ".spec.template.spec.containers[name=\"c\"].ports[containerPort=80,protocol=\"TCP\"]",
        ];
        assert_eq!(fields.paths(), expected);
    }

    // K-SSA-3
    #[test]
    fn sets_add_and_subtract_exact_paths() {
        let both = json!({"f:m": {".": {}, "f:a": {}, "f:b": {}}});
        let mut union = set(json!({"f:m": {}}));
        union.unite(&set(json!({"f:m": {"f:a": {}, "f:b": {}}})));
        assert_eq!(union, set(both.clone()));
        let mut rest = set(both.clone());
        rest.subtract(&set(json!({"f:m": {}})));
        assert_eq!(rest, set(json!({"f:m": {"f:a": {}, "f:b": {}}})), "taking the parent leaves the children");
        rest.subtract(&set(json!({"f:m": {"f:a": {}}})));
        assert_eq!(rest, set(json!({"f:m": {"f:b": {}}})));
        rest.subtract(&set(json!({"f:m": {"f:b": {}}})));
        assert!(rest.is_empty());
        let mut parent = set(both.clone());
        parent.subtract(&set(json!({"f:m": {"f:a": {}, "f:b": {}}})));
        assert_eq!(parent, set(json!({"f:m": {}})), "taking the children leaves the parent");
        assert!(set(both.clone()).contains(&parent) && !parent.contains(&set(both.clone())));
        assert_eq!(
            set(both).intersection(&set(json!({"f:m": {".": {}, "f:b": {}, "f:z": {}}}))),
            set(json!({"f:m": {".": {}, "f:b": {}}}))
        );
    }
}
