//! Pods in a document: the same walk as over a manifest that is rendered, on a tree that knows places.

use super::tree::Node;
use crate::launch::layers::joined;

/// Every pod template (an object whose `spec` has containers) with its path.
pub fn templates(root: &Node) -> Vec<(String, &Node)> {
    let mut found = Vec::new();
    gather(root, String::new(), &mut found);
    found
}

fn gather<'a>(node: &'a Node, path: String, found: &mut Vec<(String, &'a Node)>) {
    if node.get("spec").and_then(|spec| spec.get("containers")).is_some_and(|list| !list.items().is_empty()) {
        found.push((path.clone(), node));
    }
    for entry in
        node.entries().iter().filter(|entry| !matches!(entry.key.as_str(), "containers" | "status" | "metadata"))
    {
        gather(&entry.value, joined(&path, &entry.key), found);
    }
    for (index, item) in node.items().iter().enumerate() {
        gather(item, format!("{path}[{index}]"), found);
    }
}

/// The containers of a pod template, with their paths.
pub fn containers<'a>(path: &str, template: &'a Node) -> Vec<(String, &'a Node)> {
    let path = joined(&joined(path, "spec"), "containers");
    let list = template.at("spec.containers").map_or(&[][..], Node::items);
    list.iter().enumerate().map(|(index, item)| (format!("{path}[{index}]"), item)).collect()
}
