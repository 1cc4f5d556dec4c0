//! `volley server`: the control plane in the foreground, for service managers and containers.

use crate::agent::leave_no_core;
use crate::cli::Global;
use crate::home::Home;
use crate::logging;
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use jiff::SignedDuration;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};
use volley_plan::news::Window;
use volley_plan::people::rate::Rate;
use volley_server::backup::{self, Part};
use volley_server::blobs::Aws;
use volley_server::http::limits::Rates;
use volley_server::{Server, Settings};

const EXAMPLES: &str = "\
Examples:
  volley server                                    serve until interrupted
  volley server --database postgres://volley@db/volley --blobs s3://volley
  export WANDB_BASE_URL=http://127.0.0.1:8080 WANDB_API_KEY=$(cat ~/.volley/server/api-key)
  wandb login --verify
  volley server backup /backups/monday             copy everything while it runs
  volley --home /srv/volley server restore /backups/monday

A new server has one user, an administrator, whose key is left in server/api-key in the home.";

/// Run the control plane that W&B's clients talk to
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct ServerVerb {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Listen beyond this machine although keys then travel unencrypted; put something that speaks TLS before it
    #[arg(long)]
    plain_http: bool,
    /// postgres://…, or the path of an SQLite file [default: server/volley.db in the home]
    #[arg(long, env = "VOLLEY_DATABASE", hide_env_values = true, value_name = "URL")]
    database: Option<String>,
    /// s3://bucket/prefix, or a folder [default: server/blobs in the home]; AWS_… variables say where and with which keys
    #[arg(long, value_name = "PLACE")]
    blobs: Option<String>,
    /// What clients call this server in the links that it hands out [default: http://ADDRESS]
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// How many requests a second one API key may send; each of several replicas counts for itself
    #[arg(long, value_name = "N", default_value = "10000", value_parser = clap::value_parser!(u32).range(1..))]
    requests_per_second: u32,
    /// For how many days events are kept, so that who comes back can go on where it was
    #[arg(long, value_name = "N", default_value = "7", value_parser = clap::value_parser!(u32).range(1..))]
    events_days: u32,
    /// How many events are kept at most
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = clap::value_parser!(u32).range(1000..))]
    events_max: u32,
    /// The name of the user that a new server has
    #[arg(long, value_name = "NAME", default_value = "volley")]
    user: String,
    #[command(subcommand)]
    deed: Option<Deed>,
}

#[derive(Subcommand)]
enum Deed {
    /// Copy the database and all files into a new folder, while the server runs
    #[command(after_help = "Examples:\n  volley server backup /mnt/backups/monday")]
    Backup(Folder),
    /// Make a server from such a folder; nothing that exists is touched
    #[command(after_help = "Examples:\n  volley --home new-home server restore /mnt/backups/monday")]
    Restore(Folder),
}

#[derive(Args)]
struct Folder {
    /// The folder of the backup
    folder: PathBuf,
    /// Only the files that users stored: a PostgreSQL database has its own backups (pg_dump)
    #[arg(long)]
    only_files: bool,
}

impl Deed {
    async fn run(&self, settings: &Settings) -> Result<()> {
        let part = |copy: &Folder| if copy.only_files { Part::Files } else { Part::All };
        let (files, place) = match self {
            Deed::Backup(copy) => (backup::backup(settings, part(copy), &copy.folder).await?, copy.folder.display()),
            Deed::Restore(copy) => {
                (backup::restore(settings, part(copy), &copy.folder).await?, settings.folder.display())
            }
        };
        eprintln!("{files} files copied to {place}");
        Ok(())
    }
}

impl ServerVerb {
    pub fn run(self, global: &Global, home: &Home) -> Result<ExitCode> {
        if !self.listen.ip().is_loopback() && !self.plain_http {
            bail!(
                "{} is not of this machine alone, and keys would travel unencrypted\nhint: --plain-http, behind something that speaks TLS",
                self.listen
            );
        }
        home.create()?;
        logging::start(global)?;
        leave_no_core();
        let runtime = tokio::runtime::Runtime::new().context("failed to start the runtime")?;
        runtime.block_on(self.serve(home))?;
        Ok(ExitCode::SUCCESS)
    }

    async fn serve(self, home: &Home) -> Result<()> {
        let per_second = f64::from(self.requests_per_second);
        let settings = Settings {
            folder: home.server(),
            listen: self.listen,
            database: self.database,
            blobs: self.blobs,
            aws: Aws::from_environment(),
            public_url: self.public_url,
            first_user: self.user,
            first_key: None,
            rates: Rates { key: Rate { per_second, burst: 2.0 * per_second }, ..Rates::default() },
            events: Window {
                age_max: SignedDuration::from_hours(24 * i64::from(self.events_days)),
                count_max: i64::from(self.events_max),
            },
        };
        if let Some(deed) = self.deed {
            return deed.run(&settings).await;
        }
        let server = Server::start(settings).await?;
        eprintln!("listening on {}", server.url());
        if let Some(link) = server.first_link() {
            eprintln!("sign in: {link} (works once)");
        }
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => interrupted?,
            _ = terminate.recv() => (),
        }
        server.stop().await;
        Ok(())
    }
}
