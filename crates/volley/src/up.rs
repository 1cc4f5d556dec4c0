//! `volley up`: starts the parts in one background process and returns when they are ready.
//!
//! The background process is this program again, with `--handoff`. It writes one line to its stdout, a pipe: that it is
//! ready, or why it is not. A pipe that closes without a line means that it died, and then its log says why.

use crate::cli::Global;
use crate::failure::Report;
use crate::home::Home;
use crate::host::{self, Hangup, Ready, Start};
use crate::output::{self, Output};
use crate::settings::Settings;
use crate::status::{self, Status};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Instant;

/// Lines of the log shown for a process that died without a word: a panic and some lines before it.
const LOG_TAIL_LINES: usize = 10;

const EXAMPLES: &str = "\
Examples:
  volley up                                start everything, return when it is ready
  volley up --only cluster                 only the embedded cluster, without training jobs
  volley up --server-listen 127.0.0.1:9000 W&B's clients are answered there
  volley up --listen 127.0.0.1:0           on a free port
  volley up --listen 0.0.0.0:6443 --name gpu-box.lan
                                           for other machines too
  volley up --gpus 0,2                     let pods have these two GPUs
  volley up --fake-gpus 4 --image-map 'pytorch/*=host'
                                           pretend, and run those images on this machine's own environment
  volley up --foreground -v                stay, and log to the terminal
  VOLLEY_HOME=/tmp/try volley up -o json   a second one beside the first

Options that are not given are looked up in config.yaml in the home, where they are keys: `fake-gpus: 4`.
Ctrl-C ends the pods of a --foreground start, as `volley down` does; SIGTERM leaves them running, for the next start.";

/// Start volley in the background
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Up {
    /// Start only these parts
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    only: Vec<Part>,
    /// Stay in the foreground until interrupted
    #[arg(long)]
    foreground: bool,
    /// Be the background process: report on stdout once, then serve
    #[arg(long, hide = true, conflicts_with = "foreground")]
    handoff: bool,
    #[command(flatten)]
    output: Output,
    // Last: its heading in the help would take in what follows.
    #[command(flatten)]
    settings: Settings,
}

/// What can be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The embedded Kubernetes cluster
    Cluster,
    /// What runs training jobs: PyTorchJobs and their kin, Volcano's Jobs
    Operator,
    /// The control plane: queues, runs and people, for W&B's clients
    Server,
    /// What takes launches from its owner's queues of that server and runs them here
    Agent,
}

impl Part {
    /// The word on the command line.
    fn word(self) -> &'static str {
        match self {
            Part::Cluster => "cluster",
            Part::Operator => "operator",
            Part::Server => "server",
            Part::Agent => "agent",
        }
    }
}

/// The line that the background process writes.
#[derive(Debug, Serialize, Deserialize)]
enum Handoff {
    Ready(Box<Ready>),
    Failed(Report),
}

impl Up {
    pub fn run(self, global: &Global, home: &Home) -> Result<ExitCode> {
        if !self.only.is_empty() && !self.only.contains(&Part::Cluster) {
            bail!(
                "the other parts run beside the cluster\nhint: --only cluster,operator; `volley server` runs it alone"
            );
        }
        if self.only.contains(&Part::Agent) && !self.only.contains(&Part::Server) {
            bail!(
                "the agent serves a queue of the server beside it\nhint: add `server` to --only; `volley agent` serves another's"
            );
        }
        if self.handoff {
            return self.serve_in_background(global, home);
        }
        if self.foreground {
            host::run(global, home, self.how(Hangup::Stops), |ready| announce(ready, self.output))?;
            return Ok(ExitCode::SUCCESS);
        }
        let began = Instant::now();
        let _turn = home.turn()?;
        if let Some(status) = status::of(home)? {
            eprintln!("volley is already running in `{}`", home.folder().display());
            show(&status, self.output)?;
            return Ok(ExitCode::SUCCESS);
        }
        let ready = self.start(global, home)?;
        announce(&ready, self.output)?;
        eprintln!("ready after {:.2} s", began.elapsed().as_secs_f64());
        Ok(ExitCode::SUCCESS)
    }

    fn how(&self, hangup: Hangup) -> Start<'_> {
        let has = |part| self.only.is_empty() || self.only.contains(&part);
        let (has_operator, has_server, has_agent) = (has(Part::Operator), has(Part::Server), has(Part::Agent));
        Start { settings: &self.settings, has_operator, has_server, has_agent, hangup }
    }

    fn serve_in_background(&self, global: &Global, home: &Home) -> Result<ExitCode> {
        let hand_over = |handoff: &Handoff| output::print(&(serde_json::to_string(handoff)? + "\n"));
        let mut is_ready = false;
        let result = host::run(global, home, self.how(Hangup::IsIgnored), |ready| {
            is_ready = true;
            hand_over(&Handoff::Ready(Box::new(ready.clone())))
        });
        match result {
            Ok(()) => Ok(ExitCode::SUCCESS),
            // The log has the error too; nobody reads the pipe after the first line.
            Err(_) if is_ready => Ok(ExitCode::FAILURE),
            Err(error) => {
                hand_over(&Handoff::Failed(Report::from(&error)))?;
                Ok(ExitCode::FAILURE)
            }
        }
    }

    fn start(&self, global: &Global, home: &Home) -> Result<Ready> {
        let mut child = self.spawn(global, home)?;
        let stdout = child.stdout.take().context("the pipe to the background process was not made")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).context("failed to read from the background process")?;
        if line.is_empty() {
            return Err(died(child, home));
        }
        match serde_json::from_str(&line).context("the background process reported something unknown")? {
            Handoff::Ready(ready) => Ok(*ready),
            Handoff::Failed(report) => Err(report.into()),
        }
    }

    fn spawn(&self, global: &Global, home: &Home) -> Result<Child> {
        let program = std::env::current_exe().context("failed to find this program")?;
        let mut command = Command::new(program);
        command.arg("--home").arg(home.folder()).args(["--log-format", global.log_format.word()]);
        command.args(std::iter::repeat_n("-v", global.verbose.into()));
        command.args(["up", "--handoff"]);
        for part in &self.only {
            command.args(["--only", part.word()]);
        }
        command.args(self.settings.words());
        // A group of its own keeps it from the terminal's Ctrl-C, and its own folder from pinning the user's.
        command.process_group(0).current_dir(home.folder());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(home.open_log()?);
        command.spawn().context("failed to start the background process")
    }
}

fn died(mut child: Child, home: &Home) -> anyhow::Error {
    let ending = match child.wait() {
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    };
    let tail = home.log_tail(LOG_TAIL_LINES);
    anyhow::anyhow!("{tail}").context(format!(
        "the background process ended before it was ready ({ending})\nhint: its log is `{}`",
        home.log().display()
    ))
}

fn announce(ready: &Ready, output: Output) -> Result<()> {
    ready.notes.iter().for_each(|note| eprintln!("note: {note}"));
    // What pods cannot have here must not be found out by losing it.
    for lack in ready.status.node.iter().flat_map(|node| &node.lacks) {
        eprintln!("note: {lack}");
    }
    show(&ready.status, output)?;
    if let Some(link) = &ready.link {
        eprintln!("sign in:    {link}\n            (works once; `volley user link` makes another)");
    }
    Ok(())
}

/// Without `-o`, the things that a person needs next.
fn show(status: &Status, output: Output) -> Result<()> {
    if output.format.is_some() {
        return output.print(status);
    }
    let Some(process) = &status.process else { bail!("a running process did not say where its files are") };
    let kubeconfig = process.kubeconfig.display().to_string();
    let mut rows: Vec<Vec<String>> =
        status.parts.iter().map(|part| vec![part.name.clone(), part.address.clone()]).collect();
    rows.push(vec!["kubeconfig".to_owned(), kubeconfig.clone()]);
    output::print(&output::aligned(&rows))?;
    eprintln!("\nto use it:  export KUBECONFIG={kubeconfig}");
    if status.parts.iter().any(|part| part.name == "server") {
        eprintln!("for wandb:  eval \"$(volley login --env)\"");
    }
    Ok(())
}
