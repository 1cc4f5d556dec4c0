//! A launch as a process of the agent's own machine. Off unless the agent's owner turns it on.

use super::environment::{Variable, variables};
use super::order::{CodeSource, Order, Station};
use super::{Refusal, code, container};
use serde_json::Value;

#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The program and its arguments; no shell reads them.
    pub words: Vec<String>,
    pub variables: Vec<Variable>,
    /// What is fetched into its folder before it starts.
    pub code: Option<CodeSource>,
    /// Where it starts, below its folder.
    pub working_dir: Option<String>,
    pub limits: Vec<Limit>,
}

/// A limit that the kernel holds each of its processes to: which, soft and hard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    pub name: &'static str,
    pub soft: u64,
    pub hard: u64,
}

/// Limits by the names that `ulimit` of a container has for them.
pub const LIMITS: &[&str] =
    &["as", "core", "cpu", "data", "fsize", "locks", "memlock", "nofile", "nproc", "rss", "stack"];

pub fn render(order: &Order, station: &Station) -> Result<Request, Vec<Refusal>> {
    let mut refusals = Vec::new();
    if !station.allows_processes {
        let hint = "set `runners.local-process: true` in the agent's config, or use a queue of another resource";
        refusals.push(Refusal::new("C-23", "resource", "this agent starts no processes of its own machine", hint));
    }
    if order.is_image_job {
        let hint = "use a `local-container` or `kubernetes` queue for images";
        refusals.push(Refusal::new("C-20", "docker", "an image cannot run as a process", hint));
    }
    let of_job = order.job.as_ref().map_or(&[][..], |job| &job.entry_point);
    let own = &order.spec.overrides.entry_point;
    let mut words = if own.is_empty() { of_job.to_vec() } else { own.clone() };
    if words.is_empty() {
        let hint = "give the job an entry point, or launch with `--entry-point`";
        refusals.push(Refusal::new("C-20", "overrides.entry_point", "there is no command to run", hint));
    }
    words.extend(order.spec.overrides.args.iter().cloned());
    let source = order.code.as_ref().map(|code| code.source.clone());
    refusals.extend(source.as_ref().and_then(|source| code::check(source).err()));
    let working_dir = order.spec.overrides.working_dir.clone();
    if working_dir.as_deref().is_some_and(|folder| folder.split('/').any(|part| part == "..")) {
        let hint = "name a folder of the source";
        refusals.push(Refusal::new("C-20", "overrides.working_dir", "leads out of the launch's folder", hint));
    }
    let limits = limits(&order.config, &mut refusals);
    let request = Request { words, variables: variables(order, station), code: source, working_dir, limits };
    if refusals.is_empty() { Ok(request) } else { Err(refusals) }
}

/// The config's limits (C-23). What else stands in it would have no effect, and is refused as a container's would be.
fn limits(config: &Value, refusals: &mut Vec<Refusal>) -> Vec<Limit> {
    // A core would hold the key; who wants one sets its limit.
    let mut limits = vec![Limit { name: "core", soft: 0, hard: 0 }];
    for (key, value) in config.as_object().into_iter().flatten() {
        match key.as_str() {
            "builder" => (),
            "ulimit" => {
                let all = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
                for text in all {
                    let Some(limit) = text.as_str().and_then(limit) else {
                        let hint = format!("such as `nofile=1024`; limits are {}", LIMITS.join(", "));
                        refusals.push(Refusal::new("C-23", "ulimit", format!("{text} is no limit"), hint));
                        continue;
                    };
                    limits.retain(|other| other.name != limit.name);
                    limits.push(limit);
                }
            }
            "env" => {
                let hint = "take it out, and write `env NAME=VALUE` before the command";
                refusals.push(Refusal::new("C-23", key, "a process is given no variables by its queue", hint));
            }
            _ => {
                let hint = "take it out; `ulimit` is the only setting";
                refusals.push(Refusal::new("C-23", key, "is no setting of a process", hint));
            }
        }
    }
    limits
}

fn limit(text: &str) -> Option<Limit> {
    let limit = container::ulimit(text)?;
    let name = LIMITS.iter().find(|name| limit["Name"] == **name)?;
    // Without a limit is -1, as for containers.
    let number = |key: &str| limit[key].as_i64().map(|number| u64::try_from(number).unwrap_or(u64::MAX));
    Some(Limit { name, soft: number("Soft")?, hard: number("Hard")? })
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{order, station};
    use super::super::order::{Code, Fetcher};
    use super::*;
    use serde_json::json;

    fn rules(result: Result<Request, Vec<Refusal>>) -> Vec<&'static str> {
        result.err().into_iter().flatten().map(|refusal| refusal.rule).collect()
    }

    // C-20, C-22, C-23
    #[test]
    fn a_process_needs_leave_and_a_command() {
        let mut order = order(json!({}));
        let mut station = station();
        assert_eq!(rules(render(&order, &station)), ["C-23", "C-20", "C-20"]);
        station.allows_processes = true;
        order.is_image_job = false;
        order.spec.overrides.entry_point = vec!["python".into(), "a b.py".into()];
        order.spec.overrides.args = vec!["--x; rm".into()];
        assert_eq!(render(&order, &station).unwrap().words, ["python", "a b.py", "--x; rm"]);
        let source = CodeSource::Repository { remote: "file:///etc".into(), commit: "c".into() };
        order.code = Some(Code { source, is_default_base: true, claim: None, fetcher: Fetcher::default() });
        order.spec.overrides.working_dir = Some("a/../../b".into());
        assert_eq!(rules(render(&order, &station)), ["J-7", "C-20"]);
    }

    // C-23
    #[test]
    fn a_process_is_held_to_the_queues_limits() {
        let station = Station { allows_processes: true, ..station() };
        let asked = |config: Value| {
            let mut order = order(config);
            order.is_image_job = false;
            order.spec.overrides.entry_point = vec!["true".into()];
            render(&order, &station)
        };
        let core = Limit { name: "core", soft: 0, hard: 0 };
        assert_eq!(asked(json!({})).unwrap().limits, std::slice::from_ref(&core));
        let config = json!({"ulimit": ["nofile=10:20", "cpu=-1"], "builder": {}});
        let limits = asked(config).unwrap().limits;
        let nofile = Limit { name: "nofile", soft: 10, hard: 20 };
        assert_eq!(limits, [core, nofile, Limit { name: "cpu", soft: u64::MAX, hard: u64::MAX }]);
        for wrong in [json!({"ulimit": "nofile"}), json!({"ulimit": ["wings=2"]}), json!({"ulimit": 3})] {
            assert_eq!(rules(asked(wrong)), ["C-23"]);
        }
        let wrong = json!({"foo": 1, "env": ["B=1"], "ulimit": ["wings=2", "nofile=1"], "image": "x"});
        let told: Vec<String> = asked(wrong).unwrap_err().iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "`env`: a process is given no variables by its queue; hint: take it out, and write `env NAME=VALUE` before the \
                 command",
                "`foo`: is no setting of a process; hint: take it out; `ulimit` is the only setting",
                "`image`: is no setting of a process; hint: take it out; `ulimit` is the only setting",
                "`ulimit`: \"wings=2\" is no limit; hint: such as `nofile=1024`; limits are as, core, cpu, data, fsize, locks, \
                 memlock, nofile, nproc, rss, stack",
            ]
        );
    }
}
