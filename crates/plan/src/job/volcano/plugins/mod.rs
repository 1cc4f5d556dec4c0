//! Job plugins (spec/volcano.md 5): objects that they want, and what they do to each pod, in a fixed order.

mod frameworks;
mod pytorch;
mod ray;
pub mod ssh;
mod svc;

use super::resources::Wanted;
use super::round::Round;
use crate::job::template::{each_container, set_variable};
use serde_json::Value;
use volley_api::kube::text;
use volley_api::volcano::PLUGINS;
use volley_api::volcano::arguments::{Arguments, Flag};
use volley_api::volcano::types::{JobSpec, Task};

/// Tells what was put into an object whose content cannot be compared.
pub const FINGERPRINT: &str = "volley.sh/fingerprint";

/// One plugin: its flags, and what it does to a pod.
struct Plugin {
    name: &'static str,
    flags: &'static [Flag],
    edit: fn(&Place, &mut Value) -> Result<(), String>,
}

/// In the order of `PLUGINS`.
const TABLE: [Plugin; 8] = [
    Plugin { name: "svc", flags: svc::FLAGS, edit: svc::edit },
    Plugin { name: "ssh", flags: ssh::FLAGS, edit: ssh::edit },
    Plugin { name: "env", flags: &[], edit: index_variables },
    Plugin { name: "pytorch", flags: pytorch::FLAGS, edit: pytorch::edit },
    Plugin { name: "tensorflow", flags: frameworks::TENSORFLOW, edit: frameworks::tensorflow },
    Plugin { name: "mpi", flags: volley_api::volcano::validate::MPI_FLAGS, edit: frameworks::mpi },
    Plugin { name: "ray", flags: ray::FLAGS, edit: ray::edit },
    Plugin { name: "hcclrank", flags: frameworks::HCCL, edit: frameworks::hccl_rank },
];

/// Which pod of which Job a plugin is working on, with its arguments.
pub struct Place<'r> {
    round: &'r Round<'r>,
    task: &'r Task,
    index: i32,
    arguments: Arguments,
}

/// The plugins that the Job has, in order.
pub fn active(spec: &JobSpec) -> impl Iterator<Item = &'static str> {
    PLUGINS.into_iter().filter(|name| spec.plugins.contains_key(*name))
}

fn arguments(spec: &JobSpec, plugin: &Plugin) -> Arguments {
    Arguments::read(plugin.flags, spec.plugins.get(plugin.name).map_or(&[], Vec::as_slice))
}

fn in_use(spec: &JobSpec) -> impl Iterator<Item = &'static Plugin> {
    TABLE.iter().filter(|plugin| spec.plugins.contains_key(plugin.name))
}

/// Objects that the plugins want beside the pods; the Service stands first, names must resolve early (SVC-9).
pub fn wanted(round: &Round) -> Result<Vec<Wanted>, String> {
    let mut wanted = Vec::new();
    for plugin in in_use(&round.spec) {
        let arguments = arguments(&round.spec, plugin);
        match plugin.name {
            "svc" => wanted.extend(svc::wanted(round, &arguments)),
            "ssh" => wanted.push(ssh::wanted(round, &arguments)?),
            "ray" => wanted.push(ray::wanted(round, &arguments)),
            _ => {}
        }
    }
    Ok(wanted)
}

/// What is odd about the plugins' arguments: told once, when the plugin is first used.
pub fn problems(round: &Round) -> Vec<(&'static str, String)> {
    let mut problems = Vec::new();
    for plugin in in_use(&round.spec) {
        let arguments = arguments(&round.spec, plugin);
        problems.extend(arguments.problem.clone().map(|problem| (plugin.name, problem)));
        if plugin.name == "pytorch" && round.spec.task(arguments.text("master")).is_none() {
            let text = format!("no task is named {}, so pods get no MASTER_ADDR", arguments.text("master"));
            problems.push((plugin.name, text));
        }
    }
    problems
}

/// Lets each plugin edit a new pod.
pub fn edit(round: &Round, task: &Task, index: i32, pod: &mut Value) -> Result<(), String> {
    for plugin in in_use(&round.spec) {
        let place = Place { round, task, index, arguments: arguments(&round.spec, plugin) };
        (plugin.edit)(&place, pod)?;
    }
    Ok(())
}

/// The names by which the replicas of a task are reached: a template with a host name of its own has but one.
fn hosts(round: &Round, task: &Task) -> Vec<String> {
    let (hostname, subdomain) = (text(&task.template, "spec.hostname"), subdomain(round, task));
    if !hostname.is_empty() {
        return vec![format!("{hostname}.{subdomain}")];
    }
    (0..task.replicas).map(|index| format!("{}-{}-{index}.{subdomain}", round.head.name(), task.name)).collect()
}

fn subdomain<'r>(round: &'r Round, task: &'r Task) -> &'r str {
    match text(&task.template, "spec.subdomain") {
        "" => round.head.name(),
        given => given,
    }
}

/// Where the first replica of a task is reached, even while there is none.
fn first_host(round: &Round, task: &Task) -> String {
    let hostname = match text(&task.template, "spec.hostname") {
        "" => format!("{}-{}-0", round.head.name(), task.name),
        given => given.to_owned(),
    };
    format!("{hostname}.{}", subdomain(round, task))
}

/// `env`: the replica's index (ENV-1).
fn index_variables(place: &Place, pod: &mut Value) -> Result<(), String> {
    each_container(pod, |container| {
        set_variable(container, "VK_TASK_INDEX", place.index.to_string());
        set_variable(container, "VC_TASK_INDEX", place.index.to_string());
    });
    Ok(())
}
