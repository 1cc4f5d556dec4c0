//! A launch as a process of the agent's own machine. Off unless the agent's owner turns it on.

use super::Refusal;
use super::environment::{Variable, variables};
use super::order::{Order, Station};

#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The program and its arguments; no shell reads them.
    pub words: Vec<String>,
    pub variables: Vec<Variable>,
}

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
    if refusals.is_empty() { Ok(Request { words, variables: variables(order, station) }) } else { Err(refusals) }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{order, station};
    use super::*;
    use serde_json::json;

    // C-20, C-22, C-23
    #[test]
    fn a_process_needs_leave_and_a_command() {
        let rules = |result: Result<Request, Vec<Refusal>>| -> Vec<&str> {
            result.err().into_iter().flatten().map(|refusal| refusal.rule).collect()
        };
        let mut order = order(json!({}));
        let mut station = station();
        assert_eq!(rules(render(&order, &station)), ["C-23", "C-20", "C-20"]);
        station.allows_processes = true;
        order.is_image_job = false;
        order.spec.overrides.entry_point = vec!["python".into(), "a b.py".into()];
        order.spec.overrides.args = vec!["--x; rm".into()];
        assert_eq!(render(&order, &station).unwrap().words, ["python", "a b.py", "--x; rm"]);
    }
}
