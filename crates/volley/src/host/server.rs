//! The control plane as a part of this process, in the folder `server` of the home.

use crate::home::Home;
use anyhow::{Context, Result, bail};
use clap::Args;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use volley_server::{Server, Settings, StartError};

/// Where W&B's own server listens when it is run at home.
const LISTEN_DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);

/// How the control plane is started beside the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Server")]
pub struct ServerArgs {
    /// Where W&B's clients and the page are answered [default: 127.0.0.1:8080, or a free port if that is taken]
    #[arg(long, value_name = "ADDR")]
    pub server_listen: Option<SocketAddr>,
}

/// Starts it; the note is what went otherwise than by default.
pub async fn start(home: &Home, args: &ServerArgs) -> Result<(Server, Option<String>)> {
    let address = args.server_listen.unwrap_or(LISTEN_DEFAULT);
    if !address.ip().is_loopback() {
        bail!(
            "{address} is not of this machine alone, and keys would travel unencrypted\nhint: let something that speaks TLS \
               listen there and pass on to a loopback address; or run `volley server --plain-http`"
        );
    }
    match Server::start(settings(home, address)).await {
        // Only a default may give way: a user who names a port wants that one or an error.
        Err(StartError::Listen { .. }) if args.server_listen.is_none() => {
            let free = SocketAddr::new(address.ip(), 0);
            let server = Server::start(settings(home, free)).await.context("failed to start the server")?;
            Ok((server, Some(format!("port {} is taken, so the server has a free one", address.port()))))
        }
        started => Ok((started.context("failed to start the server")?, None)),
    }
}

fn settings(home: &Home, listen: SocketAddr) -> Settings {
    Settings {
        folder: home.server(),
        listen,
        database: None,
        blobs: None,
        aws: Default::default(),
        public_url: None,
        first_user: user_name(),
        first_key: None,
        rates: Default::default(),
        events: Default::default(),
    }
}

/// The first user is called as the person is on this machine, if that can be a name.
fn user_name() -> String {
    let is_name =
        |name: &String| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    std::env::var("USER").ok().filter(is_name).unwrap_or_else(|| "volley".to_owned())
}
