//! The queue controller (spec/volcano.md 6.2): whether a queue is open, closing or closed, by command and by its parent.

use super::head::{Head, target_of};
use crate::control::{Action, Plan, Propagation};
use serde_json::{Value, json};
use volley_api::kube::text;
use volley_api::volcano::SCHEDULING;

const ROOT: &str = "root";
/// Closed because its parent was; such a queue opens again with its parent.
const CLOSED_BY_PARENT: &str = "volcano.sh/closed-by-parent";
const COMPONENT: &str = "vc-controller-manager";

/// A queue, all queues, the PodGroups in it, and the commands of its namespace-less kind.
#[derive(Debug)]
pub struct Observed<'a> {
    pub queue: &'a Value,
    pub queues: &'a [Value],
    /// Whether PodGroups name the queue.
    pub has_groups: bool,
    pub commands: &'a [Value],
}

/// The queues that every cluster has (QC-1); those that are missing are to be created.
pub fn first_queues() -> [Value; 2] {
    let queue = |name: &str, reclaimable: bool| {
        let spec = json!({ "weight": 1, "reclaimable": reclaimable });
        json!({ "apiVersion": SCHEDULING, "kind": "Queue", "metadata": { "name": name }, "spec": spec })
    };
    let mut default = queue("default", true);
    default["spec"]["parent"] = json!(ROOT);
    [queue(ROOT, false), default]
}

pub fn plan(seen: &Observed) -> Plan {
    let mut plan = Plan::default();
    let head = Head::of(seen.queue);
    if head.is_being_deleted {
        return plan;
    }
    if head.name() != ROOT && text(seen.queue, "spec.parent").is_empty() {
        plan.actions.push(Action::Patch { target: head.target.clone(), patch: json!({ "spec": { "parent": ROOT } }) });
    }
    let order = ordered(seen, &head, &mut plan);
    let old = text(seen.queue, "status.state");
    let is_marked = head.annotations.get(CLOSED_BY_PARENT).is_some_and(|mark| mark == "true");
    let parent_is_open =
        is_root_or_missing(seen) || text(parent(seen).unwrap_or(&Value::Null), "status.state") == "Open";
    let shut = if seen.has_groups { "Closing" } else { "Closed" };
    let (state, marked) = match (order, old) {
        (Some("CloseQueue"), _) if head.name() != ROOT => (shut, false),
        (Some("OpenQueue"), _) if parent_is_open => ("Open", false),
        (_, "" | "Open") if !parent_is_open => (shut, true),
        (_, "" | "Open") => ("Open", false),
        (_, "Closing" | "Closed") if is_marked && parent_is_open => ("Open", false),
        (_, "Closing" | "Closed") => (shut, is_marked),
        (_, other) => (other, is_marked),
    };
    let mark = || {
        let value = if marked { json!("true") } else { Value::Null };
        let patch = json!({ "metadata": { "annotations": { CLOSED_BY_PARENT: value } } });
        Action::Patch { target: head.target.clone(), patch }
    };
    // A mark is set before the state that it explains, and taken back after.
    if marked && !is_marked {
        plan.actions.push(mark());
    }
    if state != old {
        let patch = json!({ "status": { "state": state } });
        plan.actions.push(Action::PatchStatus { target: head.target.clone(), patch });
    }
    if !marked && is_marked {
        plan.actions.push(mark());
    }
    let served = commands(seen)
        .map(|command| Action::Delete { target: target_of(command), propagation: Propagation::Background });
    plan.actions.extend(served);
    plan
}

fn is_root_or_missing(seen: &Observed) -> bool {
    text(seen.queue, "metadata.name") == ROOT || parent(seen).is_none()
}

fn parent<'a>(seen: &Observed<'a>) -> Option<&'a Value> {
    let name = match text(seen.queue, "spec.parent") {
        "" => ROOT,
        name => name,
    };
    seen.queues.iter().find(|queue| text(queue, "metadata.name") == name)
}

fn commands<'a>(seen: &Observed<'a>) -> impl Iterator<Item = &'a Value> {
    let name = text(seen.queue, "metadata.name");
    let is_mine = move |command: &&Value| {
        let target = &command["target"];
        text(target, "apiVersion") == SCHEDULING && text(target, "kind") == "Queue" && text(target, "name") == name
    };
    seen.commands.iter().filter(is_mine).filter(|command| text(command, "metadata.deletionTimestamp").is_empty())
}

/// The last of the commands: each sets the state, so the earlier ones do not matter. Doing one twice does no harm.
fn ordered<'a>(seen: &Observed<'a>, head: &Head, plan: &mut Plan) -> Option<&'a str> {
    let mut mine: Vec<&Value> = commands(seen).collect();
    mine.sort_by_key(|command| (text(command, "metadata.creationTimestamp"), text(command, "metadata.name")));
    let voice = head.voice(COMPONENT);
    for command in &mine {
        plan.events.push(voice.normal(text(command, "action"), format!("{} by command", text(command, "action"))));
    }
    mine.last().map(|command| text(command, "action"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::world::World;
    use volley_api::volcano::BUS;

    struct Queues {
        world: World,
        has_groups: bool,
    }

    impl Queues {
        fn new(tree: &[(&str, &str)]) -> Queues {
            let mut queues = Queues { world: World::default(), has_groups: false };
            for (name, parent) in tree {
                let spec = if parent.is_empty() { json!({}) } else { json!({ "parent": parent }) };
                queues
                    .world
                    .add(json!({"apiVersion": SCHEDULING, "kind": "Queue", "metadata": {"name": name}, "spec": spec}));
            }
            queues.settle();
            queues
        }

        fn settle(&mut self) {
            for _ in 0..9 {
                let mut is_quiet = true;
                for name in self.world.names("Queue") {
                    let (all, commands) = (self.world.of_kind("Queue"), self.world.of_kind("Command"));
                    let queue = self.world.raw("Queue", &name).clone();
                    let plan = plan(&Observed {
                        queue: &queue,
                        queues: &all,
                        has_groups: self.has_groups,
                        commands: &commands,
                    });
                    is_quiet &= plan.is_empty();
                    self.world.apply(&plan);
                }
                if is_quiet {
                    return;
                }
            }
            panic!("queues do not settle");
        }

        fn order(&mut self, queue: &str, action: &str) {
            let target = json!({"apiVersion": SCHEDULING, "kind": "Queue", "name": queue});
            self.world.add(json!({"apiVersion": BUS, "kind": "Command", "metadata": {"generateName": "c-"}, "action": action, "target": target}));
            self.settle();
            assert_eq!(self.world.names("Command"), Vec::<String>::new());
        }

        fn states(&self, names: &[&str]) -> Vec<String> {
            let state = |name: &&str| text(self.world.raw("Queue", name), "status.state").to_owned();
            names.iter().map(state).collect()
        }
    }

    // QC-1, QC-2, CMD-2
    #[test]
    fn a_queue_opens_closes_and_opens() {
        let mut queues = Queues::new(&[("root", ""), ("q", "")]);
        assert_eq!(queues.states(&["root", "q"]), ["Open", "Open"]);
        assert_eq!(queues.world.raw("Queue", "q")["spec"]["parent"], "root");
        queues.has_groups = true;
        queues.order("q", "CloseQueue");
        assert_eq!(queues.states(&["q"]), ["Closing"]);
        queues.has_groups = false;
        queues.settle();
        assert_eq!(queues.states(&["q"]), ["Closed"]);
        queues.order("q", "OpenQueue");
        assert_eq!(queues.states(&["q"]), ["Open"]);
        assert_eq!(first_queues().map(|queue| queue["metadata"]["name"].clone()), ["root", "default"]);
        assert_eq!(first_queues()[0]["spec"]["reclaimable"], false);
    }

    // QC-3
    #[test]
    fn children_close_and_open_with_their_parent() {
        let mut queues = Queues::new(&[("root", ""), ("team", "root"), ("a", "team"), ("b", "team")]);
        queues.order("b", "CloseQueue");
        queues.order("team", "CloseQueue");
        assert_eq!(queues.states(&["team", "a", "b"]), ["Closed", "Closed", "Closed"]);
        assert_eq!(queues.world.raw("Queue", "a")["metadata"]["annotations"][CLOSED_BY_PARENT], "true");
        queues.order("a", "OpenQueue");
        assert_eq!(queues.states(&["a"]), ["Closed"], "a child is not opened under a closed parent");
        queues.order("team", "OpenQueue");
        assert_eq!(queues.states(&["team", "a", "b"]), ["Open", "Open", "Closed"], "b was closed on its own");
        assert_eq!(queues.world.raw("Queue", "a")["metadata"]["annotations"].get(CLOSED_BY_PARENT), None);
        queues.order("root", "CloseQueue");
        assert_eq!(queues.states(&["root"]), ["Open"]);
    }

    // QC-4
    #[test]
    fn orders_that_mean_nothing_are_taken_away() {
        let mut queues = Queues::new(&[("root", ""), ("q", "root")]);
        queues.order("q", "SyncQueue");
        queues.order("q", "OpenQueue");
        assert_eq!(queues.states(&["q"]), ["Open"]);
        assert_eq!(queues.world.events, ["SyncQueue SyncQueue by command", "OpenQueue OpenQueue by command"]);
    }
}
