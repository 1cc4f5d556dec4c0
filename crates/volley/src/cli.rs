//! The command line as a whole: the options that every verb has, and the list of verbs.
//!
//! A verb is a struct of arguments with `run`; adding one means a file, a line in `Verb` and a line in `Cli::run`.

use crate::agent::AgentVerb;
use crate::check::Check;
use crate::cluster::ClusterVerb;
use crate::completions::Completions;
use crate::down::Down;
use crate::gpus::Gpus;
use crate::home::Home;
use crate::image::ImageVerb;
use crate::item::Stop;
use crate::job::JobVerb;
use crate::kubeconfig::Kubeconfig;
use crate::launch::Launch;
use crate::logging::LogFormat;
use crate::login::LoginVerb;
use crate::logs::Logs;
use crate::operator::OperatorVerb;
use crate::people::{AuditVerb, KeyVerb, TeamVerb, UserVerb};
use crate::ps::Ps;
use crate::queue::QueueVerb;
use crate::run::RunVerb;
use crate::server::ServerVerb;
use crate::simulate::Simulate;
use crate::status::StatusVerb;
use crate::up::Up;
use crate::vcjob::VcjobVerb;
use crate::vcqueue::VcqueueVerb;
use crate::version::Version;
use crate::why::Why;
use anyhow::Result;
use clap::{ArgAction, Args, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  volley up                                   start everything, and return when it is ready
  volley launch -q default -d IMAGE -E CMD    queue a job and follow all of its ranks
  volley ps                                   what runs, what waits and why
  export KUBECONFIG=$(volley kubeconfig --path)
  kubectl apply -f job.yaml                   Volcano's Jobs, PyTorchJobs, pods: it is a Kubernetes
  volley why JOB
  volley down";

/// Takes training jobs from a queue to all of their processes running together.
#[derive(Parser)]
#[command(name = "volley", version, after_help = EXAMPLES, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    verb: Verb,
}

/// Options of every verb.
#[derive(Args, Clone)]
pub struct Global {
    /// Where everything is kept [default: ~/.volley]
    #[arg(long, env = "VOLLEY_HOME", hide_env_values = true, value_name = "DIR", global = true)]
    pub home: Option<PathBuf>,
    /// Say more in the log; twice for everything (RUST_LOG is finer and goes first)
    #[arg(short, long, action = ArgAction::Count, global = true)]
    pub verbose: u8,
    /// How the log is written
    #[arg(long, value_name = "FORMAT", default_value = "text", global = true)]
    pub log_format: LogFormat,
}

#[derive(Subcommand)]
enum Verb {
    Up(Up),
    Down(Down),
    Status(StatusVerb),
    Cluster(ClusterVerb),
    Operator(Box<OperatorVerb>),
    Server(ServerVerb),
    Agent(AgentVerb),
    Login(LoginVerb),
    Launch(Box<Launch>),
    Ps(Ps),
    Stop(Stop),
    Queue(QueueVerb),
    Job(JobVerb),
    Run(RunVerb),
    User(UserVerb),
    Team(TeamVerb),
    Key(KeyVerb),
    Audit(AuditVerb),
    Image(ImageVerb),
    Gpus(Gpus),
    Vcjob(VcjobVerb),
    Vcqueue(VcqueueVerb),
    Logs(Logs),
    Why(Why),
    Simulate(Simulate),
    Check(Check),
    Kubeconfig(Kubeconfig),
    Completions(Completions),
    Version(Version),
}

/// `-v` is `--set-var` behind `launch`, as it is for W&B; before it, and everywhere else, it is `--verbose`.
///
/// The parser has one meaning for a letter that every verb knows, so the word is replaced before it reads it.
pub fn words(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let (mut is_launch, mut is_over) = (false, false);
    let replaced = |word: OsString| {
        is_over |= word == "--";
        let behind = word.to_str().and_then(|word| word.strip_prefix("-v")).filter(|_| is_launch && !is_over);
        let replaced = match behind {
            Some("") => Some("--set-var".into()),
            Some(value) if value.contains('=') => Some(format!("--set-var={value}").into()),
            _ => None,
        };
        is_launch |= word == "launch";
        replaced.unwrap_or(word)
    };
    arguments.map(replaced).collect()
}

impl Cli {
    pub fn run(self) -> Result<ExitCode> {
        let global = self.global;
        let home = || Home::find(global.home.as_deref());
        match self.verb {
            Verb::Up(verb) => verb.run(&global, &home()?),
            Verb::Down(verb) => verb.run(&home()?),
            Verb::Status(verb) => verb.run(&home()?),
            Verb::Cluster(verb) => verb.run(&global, &home()?),
            Verb::Operator(verb) => verb.run(&global),
            Verb::Server(verb) => verb.run(&global, &home()?),
            Verb::Agent(verb) => verb.run(&global, &home()?),
            Verb::Login(verb) => verb.run(&home()?),
            Verb::Launch(verb) => verb.run(&home()?),
            Verb::Ps(verb) => verb.run(&home()?),
            Verb::Stop(verb) => verb.run(&home()?),
            Verb::Queue(verb) => verb.run(&home()?),
            Verb::Job(verb) => verb.run(&home()?),
            Verb::Run(verb) => verb.run(&home()?),
            Verb::User(verb) => verb.run(&home()?),
            Verb::Team(verb) => verb.run(&home()?),
            Verb::Key(verb) => verb.run(&home()?),
            Verb::Audit(verb) => verb.run(&home()?),
            Verb::Image(verb) => verb.run(&home()?),
            Verb::Gpus(verb) => verb.run(&home()?),
            Verb::Vcjob(verb) => verb.run(&home()?),
            Verb::Vcqueue(verb) => verb.run(&home()?),
            Verb::Logs(verb) => verb.run(&home()?),
            Verb::Why(verb) => verb.run(&home()?),
            Verb::Simulate(verb) => verb.run(&home()?),
            Verb::Check(verb) => verb.run(),
            Verb::Kubeconfig(verb) => verb.run(&home()?),
            Verb::Completions(verb) => verb.run(),
            Verb::Version(verb) => verb.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_v_behind_launch_sets_a_variable_as_for_wandb() {
        let read =
            |line: &str| words(line.split(' ').map(OsString::from)).join(&OsString::from(" ")).into_string().unwrap();
        assert_eq!(read("volley -v launch -v a=1 -vb=2"), "volley -v launch --set-var a=1 --set-var=b=2");
        assert_eq!(read("volley launch -vv -- -v"), "volley launch -vv -- -v");
        assert_eq!(read("volley ps -v"), "volley ps -v");
    }

    #[test]
    fn the_flags_of_launch_are_those_of_wandb() {
        let parse = |line: &str| Cli::try_parse_from(words(line.split(' ').map(OsString::from)));
        for line in [
            "volley launch -d img:1 -q gpu -e team -p proj --set-var gpus=2 --priority high -c spec.json",
            "volley launch -j train:latest -q -v gpus=2 -v x=y",
            "volley launch -j train -d",
            "volley launch -d -j train --dry-run",
            "volley launch -u https://h/r.git -E main.py -g main -J name -B img -p p",
            "volley launch -d img -r kubernetes -R args.json -D Dockerfile -n name --async -- --lr 0.1 -v",
        ] {
            assert!(parse(line).is_ok(), "{line}: {:?}", parse(line).err().map(|error| error.to_string()));
        }
    }

    #[test]
    fn every_verb_has_examples() {
        fn check(command: &clap::Command) {
            let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(examples.starts_with("Examples:\n"), "`{}` has no examples", command.get_name());
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }
}
