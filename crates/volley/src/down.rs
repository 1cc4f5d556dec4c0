//! `volley down`: stops the process that runs in this home and its pods, and returns when all has ended.
//!
//! Pods outlive a process that was killed. They are ended too, so that after `down` the machine is as it was before `up`.

use crate::control::{self, Ask};
use crate::home::Home;
use crate::host;
use crate::purge;
use anyhow::{Context, Result};
use clap::Args;
use std::process::ExitCode;
use std::time::Duration;
use volley_agent::process;
use volley_cluster::node;

/// What most programs need to end by themselves.
pub const GRACE_DEFAULT_S: u64 = 3;
/// An hour; a pod that needs longer is to be deleted by itself.
const GRACE_MAX_S: u64 = 3600;

const EXAMPLES: &str = "\
Examples:
  volley down                        stop; everything kept is there again at the next `volley up`
  volley down --grace 30             give pods half a minute to end by themselves
  volley down --purge                and remove the home: images, volumes, keys, everything
  VOLLEY_HOME=/tmp/try volley down   stop the one that runs there

To stop volley but not its pods, send SIGTERM to the process; the next `volley up` adopts them.";

/// Stop volley and its pods
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Down {
    /// How long pods may take to end by themselves
    #[arg(long, value_name = "SECONDS", default_value_t = GRACE_DEFAULT_S,
          value_parser = clap::value_parser!(u64).range(0..=GRACE_MAX_S))]
    grace: u64,
    /// Remove the home and everything in it afterwards
    #[arg(long)]
    purge: bool,
    /// Remove it without a question
    #[arg(long, short = 'y', requires = "purge")]
    yes: bool,
}

impl Down {
    pub fn run(self, home: &Home) -> Result<ExitCode> {
        if self.purge && home.folder().symlink_metadata().is_ok() {
            purge::check(home)?;
            if !self.yes && !purge::is_wanted(home)? {
                eprintln!("nothing was done");
                return Ok(ExitCode::FAILURE);
            }
        }
        let folder = home.folder().display();
        match control::ask(home, &Ask::Down { grace_s: self.grace })? {
            Some(_) => eprintln!("volley has stopped in `{folder}`"),
            None => {
                eprintln!("volley does not run in `{folder}`");
                self.clear(home)?;
            }
        }
        self.end_processes(home)?;
        if self.purge {
            purge::remove(home)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Ends launches that run as processes of this machine.
    fn end_processes(&self, home: &Home) -> Result<()> {
        let runtime = tokio::runtime::Runtime::new().context("failed to start the runtime")?;
        let ended = runtime.block_on(process::end_all(&home.agent(), Duration::from_secs(self.grace)));
        ended.context("failed to end launches that run as processes")
    }

    /// Ends what a process that was killed has left.
    fn clear(&self, home: &Home) -> Result<()> {
        if !node::has_leavings(home.folder()) {
            return Ok(());
        }
        eprintln!("ending the pods that it left");
        let grace = Duration::from_secs(self.grace);
        host::alone(home, async {
            node::clear(home.folder(), grace).await.context("failed to end what an earlier process left")
        })
    }
}
