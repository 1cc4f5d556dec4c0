//! The PodGroup of a Job (spec/volcano.md 3.3): how many pods must start together, and what they need for it.

use super::resources::VERSION;
use super::round::Round;
use super::sync::is_startable;
use crate::control::quota::{Usage, usage};
use crate::control::{Action, Plan, difference};
use crate::job::head::target_of;
use crate::job::template::set_mark;
use serde_json::{Map, Value, json};
use volley_api::kube::defaults::fill;
use volley_api::kube::quantity::Quantity;
use volley_api::kube::{at, text};
use volley_api::volcano::types::Task;
use volley_api::volcano::{SCHEDULING, keys};

/// What is kept in step with the Job (PG-6).
const KEPT: [&str; 5] = ["priorityClassName", "minMember", "minResources", "minTaskMember", "subGroupPolicy"];

fn named<'a>(round: &Round<'a>, name: &str) -> Option<&'a Value> {
    let is_it = |object: &&Value| text(object, "kind") == "PodGroup" && text(object, "metadata.name") == name;
    round.seen.objects.iter().find(|object| is_it(object) && round.head.controls_object(object))
}

/// The Job's group; old releases named it after the Job alone.
pub fn find<'a>(round: &Round<'a>) -> Option<&'a Value> {
    let name = format!("{}-{}", round.head.name(), round.head.uid());
    named(round, &name).or_else(|| named(round, round.head.name()))
}

pub fn name(round: &Round) -> String {
    let made = || format!("{}-{}", round.head.name(), round.head.uid());
    find(round).map_or_else(made, |group| text(group, "metadata.name").to_owned())
}

/// Makes the group or keeps it in step; false while an old one is on its way out.
pub fn ensure(round: &mut Round, plan: &mut Plan) -> bool {
    let wanted = spec(round);
    let Some(group) = find(round) else {
        plan.actions.push(Action::Create { object: build(round, wanted), event: None });
        return true;
    };
    if super::resources::is_stale(round, group) || !text(group, "metadata.deletionTimestamp").is_empty() {
        return false;
    }
    let part = |spec: &Value| -> Value {
        let kept =
            KEPT.iter().filter_map(|key| Some(((*key).to_owned(), spec.get(*key).filter(|v| !v.is_null())?.clone())));
        Value::Object(kept.collect::<Map<_, _>>())
    };
    if let Some(patch) = difference(&part(&group["spec"]), &part(&wanted)) {
        plan.actions.push(Action::Patch { target: target_of(group), patch: json!({ "spec": patch }) });
    }
    warn_of_waiting(round, group, plan);
    true
}

/// Says why the gang does not start (CTL-16), once for each reason.
fn warn_of_waiting(round: &mut Round, group: &Value, plan: &mut Plan) {
    let conditions = at(group, "status.conditions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let truths = conditions.iter().filter(|condition| text(condition, "status") == "True");
    let Some(newest) = truths.max_by_key(|condition| text(condition, "lastTransitionTime")) else { return };
    if text(newest, "type") != "Scheduled" {
        let (kind, message) = (text(newest, "type").to_lowercase(), text(newest, "message"));
        let name = text(group, "metadata.name");
        let said = format!("PodGroup {}:{name} {kind}, reason: {message}", round.head.namespace());
        round.wait(plan, "PodGroupPending", said);
    }
}

fn build(round: &Round, spec: Value) -> Value {
    let mut group = json!({ "apiVersion": SCHEDULING, "kind": "PodGroup", "metadata": round.head.owned(&name(round)), "spec": spec });
    for (map, marks) in [("labels", &round.head.labels), ("annotations", &round.head.annotations)] {
        for (key, value) in marks {
            set_mark(&mut group, map, key, value);
        }
    }
    set_mark(&mut group, "annotations", VERSION, round.status.version.to_string());
    group
}

fn spec(round: &Round) -> Value {
    // DEP-5: a task that may not start yet is not asked of the gang, or the gang could never start.
    let startable = |task: &&Task| round.settings.is_strict || is_startable(round, task);
    let tasks: Vec<&Task> = round.spec.tasks.iter().filter(startable).collect();
    let all: i32 = round.spec.tasks.iter().map(|task| task.required()).sum();
    let wants_all = round.spec.min_available >= all;
    let at_most: i32 = tasks.iter().map(|task| if wants_all { task.required() } else { task.replicas }).sum();
    let is_whole = tasks.len() == round.spec.tasks.len();
    let members = if is_whole { round.spec.min_available } else { round.spec.min_available.min(at_most) };
    let per_task: Map<String, Value> = tasks.iter().map(|task| (task.name.clone(), json!(task.required()))).collect();
    let mut spec = json!({
        "minMember": members, "queue": round.spec.queue, "minTaskMember": per_task,
        "minResources": texts(&resources(round, &tasks, members)),
    });
    if !round.spec.priority_class_name.is_empty() {
        spec["priorityClassName"] = json!(round.spec.priority_class_name);
    }
    if let Some(topology) = &round.spec.network_topology {
        spec["networkTopology"] = topology.clone();
    }
    let policies: Vec<Value> = tasks.iter().filter_map(|task| sub_group(task)).collect();
    if !policies.is_empty() {
        spec["subGroupPolicy"] = json!(policies);
    }
    spec
}

fn sub_group(task: &Task) -> Option<Value> {
    let partitions = task.partition_policy.as_ref()?;
    let mut policy = json!({
        "name": task.name, "subGroupSize": partitions.partition_size, "minSubGroups": partitions.min_partitions,
        "labelSelector": { "matchLabels": { keys::TASK: task.name } }, "matchLabelKeys": [keys::PARTITION],
    });
    if let Some(topology) = &partitions.network_topology {
        policy["networkTopology"] = topology.clone();
    }
    Some(policy)
}

/// What the first `members` pods need, the most important tasks first (PG-4).
fn resources(round: &Round, tasks: &[&Task], members: i32) -> Usage {
    // The class of the template alone: the Job's, which pods without one get, ranks no task before another.
    let priority = |task: &Task| {
        let class = text(&task.template, "spec.priorityClassName");
        round.seen.priorities.get(class).copied().unwrap_or(0)
    };
    let mut order = tasks.to_vec();
    order.sort_by_key(|task| std::cmp::Reverse(priority(task)));
    let required: i32 = order.iter().map(|task| task.required()).sum();
    let is_loose = members < required;
    let mut left = members;
    let mut take = |most: i32| {
        let taken = most.min(left).max(0);
        left -= taken;
        taken
    };
    let mut counts: Vec<i32> =
        order.iter().map(|task| take(if is_loose { task.replicas } else { task.required() })).collect();
    if !is_loose {
        for (count, task) in counts.iter_mut().zip(&order) {
            *count += take(task.replicas - task.required());
        }
    }
    let mut total = Usage::new();
    for (count, task) in counts.into_iter().zip(order) {
        add_pods(&mut total, &task.template, count);
    }
    total
}

/// What a quota would charge for pods of the template; devices are listed by their plain name too.
pub fn add_pods(total: &mut Usage, template: &Value, count: i32) {
    if count < 1 {
        return;
    }
    let mut pod = json!({ "spec": template["spec"] });
    fill("", "Pod", &mut pod);
    let mut one = usage("", "pods", &pod);
    let devices = one.iter().filter_map(|(name, amount)| Some((name.strip_prefix("requests.")?.to_owned(), *amount)));
    for (name, amount) in devices.collect::<Vec<_>>() {
        one.entry(name).or_insert(amount);
    }
    for (name, amount) in one {
        let sum = total.entry(name).or_insert(Quantity::ZERO);
        for _ in 0..count {
            *sum += amount;
        }
    }
}

pub fn texts(amounts: &Usage) -> Value {
    amounts.iter().map(|(name, amount)| (name.clone(), json!(amount.to_string()))).collect::<Map<_, _>>().into()
}
