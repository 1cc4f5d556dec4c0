//! The flags of Volcano's scheduler, by their own names, for whoever has them in a Deployment already (CFG-5).

use clap::{ArgAction, Args};
use volley_scheduler::realm::Realm;

/// The addresses that Volcano's scheduler has if it is told no others.
const METRICS: &str = ":8080";
const HEALTHZ: &str = ":11251";

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Placing pods")]
pub struct PlacingArgs {
    /// Place pods that ask for this scheduler; may be repeated [default: volcano, volley]
    #[arg(long = "scheduler-name", value_name = "NAME")]
    names: Vec<String>,
    /// Place pods on nodes with this label only; may be repeated, and one is enough [default: on all nodes]
    #[arg(long = "node-selector", value_name = "KEY:VALUE", value_parser = label)]
    nodes: Vec<(String, String)>,
    /// The queue of groups that name none [default: default]
    #[arg(long, value_name = "NAME")]
    default_queue: Option<String>,
    /// Answer for metrics at --listen-address, too
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    enable_metrics: Option<bool>,
    /// Where metrics answer [default: :8080]
    #[arg(long, value_name = "ADDR")]
    listen_address: Option<String>,
    /// Answer for health at --healthz-address, too
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", action = ArgAction::Set)]
    enable_healthz: Option<bool>,
    /// Where health answers [default: :11251]
    #[arg(long, value_name = "ADDR")]
    healthz_address: Option<String>,
    #[command(flatten)]
    idle: IdleArgs,
}

/// What Volcano's scheduler is told about ways of working that are not ours.
#[derive(Debug, Clone, Default, Args)]
struct IdleArgs {
    #[arg(long, hide = true)]
    schedule_period: Option<String>,
    #[arg(long, hide = true)]
    minimum_feasible_nodes: Option<String>,
    #[arg(long, hide = true)]
    minimum_percentage_nodes_to_find: Option<String>,
    #[arg(long, hide = true)]
    percentage_nodes_to_find: Option<String>,
    #[arg(long, hide = true)]
    node_worker_threads: Option<String>,
    #[arg(long, hide = true)]
    plugins_dir: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    priority_class: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    logtostderr: Option<String>,
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("a label of nodes is written KEY:VALUE, such as pool:train".to_owned()),
    }
}

impl PlacingArgs {
    pub fn realm(&self) -> Realm {
        let usual = Realm::default();
        Realm {
            names: if self.names.is_empty() { usual.names } else { self.names.clone() },
            nodes: self.nodes.clone(),
            default_queue: self.default_queue.clone().unwrap_or(usual.default_queue),
        }
    }

    /// Where metrics and health are asked for beside our own address.
    pub fn addresses(&self) -> Vec<String> {
        let asked = [
            (self.enable_metrics, &self.listen_address, METRICS),
            (self.enable_healthz, &self.healthz_address, HEALTHZ),
        ];
        let wanted = asked.into_iter().filter(|(is_enabled, address, _)| is_enabled.unwrap_or(address.is_some()));
        let mut addresses: Vec<String> =
            wanted.map(|(_, address, usual)| address.clone().unwrap_or_else(|| usual.to_owned())).collect();
        addresses.dedup();
        addresses
    }

    /// What was told without having a meaning here, and why it has none.
    pub fn warnings(&self) -> Vec<String> {
        let idle = &self.idle;
        let every_node = "every node is looked at, and that costs no more";
        let told = [
            ("schedule-period", &idle.schedule_period, "pods are placed at each change"),
            ("minimum-feasible-nodes", &idle.minimum_feasible_nodes, every_node),
            ("minimum-percentage-nodes-to-find", &idle.minimum_percentage_nodes_to_find, every_node),
            ("percentage-nodes-to-find", &idle.percentage_nodes_to_find, every_node),
            ("node-worker-threads", &idle.node_worker_threads, "what is watched is taken in by one thread"),
            ("plugins-dir", &idle.plugins_dir, "plugins of Go cannot be loaded"),
            ("priority-class", &idle.priority_class, "priority classes always count"),
            ("logtostderr", &idle.logtostderr, "the log always goes there"),
        ];
        let given = told.into_iter().filter(|(_, value, _)| value.is_some());
        given.map(|(flag, _, why)| format!("--{flag} has no meaning here: {why}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        placing: PlacingArgs,
    }

    fn read(line: &str) -> Result<PlacingArgs, String> {
        let words = std::iter::once("volley").chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| line.placing).map_err(|error| error.to_string())
    }

    // CFG-5
    #[test]
    fn volcanos_flags_mean_what_they_mean_there_and_those_without_meaning_are_named() {
        let none = read("").unwrap();
        assert_eq!((none.realm(), none.addresses(), none.warnings()), (Realm::default(), vec![], vec![]));
        let told = read(
            "--scheduler-name=volcano --scheduler-name=mine --node-selector=pool:train --node-selector=pool:spare \
             --default-queue=research --enable-metrics=true --enable-healthz --healthz-address=:9 --schedule-period=1s \
             --percentage-nodes-to-find=5 --logtostderr",
        )
        .unwrap();
        let pool = |value: &str| ("pool".to_owned(), value.to_owned());
        let expected = Realm {
            names: vec!["volcano".to_owned(), "mine".to_owned()],
            nodes: vec![pool("train"), pool("spare")],
            default_queue: "research".to_owned(),
        };
        assert_eq!(told.realm(), expected);
        assert_eq!(told.addresses(), [":8080", ":9"]);
        let warnings = told.warnings().join("\n");
        for flag in ["--schedule-period", "--percentage-nodes-to-find", "--logtostderr"] {
            assert!(warnings.contains(flag), "{warnings}");
        }
        assert!(read("--enable-metrics=false --listen-address=:1").unwrap().addresses().is_empty());
        assert!(read("--node-selector=train").unwrap_err().contains("KEY:VALUE"));
    }
}
