//! `volley login`: which server the other verbs speak to, and as whom; and the same for W&B's own clients.

use crate::home::Home;
use crate::output;
use crate::remote::{self, Login, Remote};
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use std::fs;
use std::io::{IsTerminal, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use volley_client::Client;

const EXAMPLES: &str = "\
Examples:
  volley login                             the server of `volley up` in this home
  volley login https://volley.example      asks for the key
  volley login https://volley.example <key.txt
  eval \"$(volley login --env)\"             for wandb in this shell
  volley login --netrc                     for wandb everywhere: into ~/.netrc

A key is read from VOLLEY_API_KEY or WANDB_API_KEY, else from stdin. It is kept in login.json in the home, which only you
can read. `volley key new` makes one.";

/// Choose the server that the other verbs speak to
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct LoginVerb {
    /// The server [default: the one that `volley up` runs]
    #[arg(value_name = "URL")]
    url: Option<String>,
    /// Print what W&B's clients need, for eval, and keep nothing
    #[arg(long, conflicts_with = "url")]
    env: bool,
    /// Also write the key to ~/.netrc, where W&B's clients look
    #[arg(long)]
    netrc: bool,
}

impl LoginVerb {
    pub fn run(self, home: &Home) -> Result<ExitCode> {
        if self.env {
            let login = Remote::default().login(home)?;
            output::print(&format!(
                "export WANDB_BASE_URL={} WANDB_API_KEY={}\n",
                quoted(&login.url),
                quoted(&login.key)
            ))?;
            return Ok(ExitCode::SUCCESS);
        }
        let login = match self.url {
            Some(url) => Login { key: key(&url)?, url: url.trim_end_matches('/').to_owned() },
            None => remote::own(home)?.ok_or_else(|| {
                anyhow!(
                    "no server runs in `{}`\nhint: `volley up` starts one; or `volley login URL`",
                    home.folder().display()
                )
            })?,
        };
        let client = Client::new(&login.url, &login.key)?;
        let (username, _) =
            remote::run(async { client.viewer().await.map_err(|error| remote::told(error, &login.url)) })?;
        remote::keep(home, &login)?;
        eprintln!("signed in to {} as {username}", login.url);
        if self.netrc {
            let path = netrc_path()?;
            write_netrc(&path, &login)?;
            eprintln!("wrote the key to `{}`", path.display());
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// From the environment, a pipe, or the keyboard without showing it.
fn key(url: &str) -> Result<String> {
    for name in ["VOLLEY_API_KEY", "WANDB_API_KEY"] {
        if let Ok(key) = std::env::var(name) {
            return Ok(key.trim().to_owned());
        }
    }
    let key = secret(&format!("key for {url}: "))?;
    if key.is_empty() {
        bail!("no key was given\nhint: pipe it in, or set VOLLEY_API_KEY");
    }
    Ok(key)
}

/// A line of stdin; what is typed is not shown.
pub fn secret(prompt: &str) -> Result<String> {
    let stdin = std::io::stdin();
    let mut line = String::new();
    if !stdin.is_terminal() {
        stdin.read_line(&mut line).context("failed to read stdin")?;
        return Ok(line.trim().to_owned());
    }
    eprint!("{prompt}");
    std::io::stderr().flush()?;
    let usual = rustix::termios::tcgetattr(&stdin)?;
    let mut hidden = usual.clone();
    hidden.local_modes.remove(rustix::termios::LocalModes::ECHO);
    rustix::termios::tcsetattr(&stdin, rustix::termios::OptionalActions::Now, &hidden)?;
    let read = stdin.read_line(&mut line);
    rustix::termios::tcsetattr(&stdin, rustix::termios::OptionalActions::Now, &usual)?;
    eprintln!();
    read.context("failed to read the terminal")?;
    Ok(line.trim().to_owned())
}

fn quoted(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./:".contains(&byte));
    if is_plain { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

fn netrc_path() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("NETRC") {
        return Ok(path.into());
    }
    let home = std::env::home_dir().ok_or_else(|| anyhow!("this user has no home folder\nhint: set NETRC"))?;
    Ok(home.join(".netrc"))
}

/// Replaces the host's entry, or adds one; other entries stay as they are.
fn write_netrc(path: &Path, login: &Login) -> Result<()> {
    let host = login.url.split_once("://").map_or(login.url.as_str(), |(_, host)| host);
    let host = host.split('/').next().unwrap_or(host);
    // W&B's clients look for the host without its port.
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
    let old = fs::read_to_string(path).unwrap_or_default();
    let text = format!("{}machine {host}\n  login user\n  password {}\n", without(&old, host), login.key);
    let failed = || format!("failed to write `{}`", path.display());
    let new = path.with_extension("volley-new");
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new).with_context(failed)?;
    file.write_all(text.as_bytes()).with_context(failed)?;
    file.set_permissions(fs::Permissions::from_mode(0o600)).with_context(failed)?;
    fs::rename(&new, path).with_context(failed)
}

/// The file without a host's entry, which ends where the next one begins.
fn without(text: &str, host: &str) -> String {
    let mut kept = String::new();
    let mut is_kept = true;
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("machine") => is_kept = words.next() != Some(host),
            Some("default" | "macdef") => is_kept = true,
            _ => (),
        }
        if is_kept {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_of_netrc_is_replaced_and_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".netrc");
        fs::write(&path, "machine a\n  login x\n  password y\nmachine 127.0.0.1\n  login user\n  password old\nmachine b login q password r\n").unwrap();
        write_netrc(&path, &Login { url: "http://127.0.0.1:8080".to_owned(), key: "new".to_owned() }).unwrap();
        let expected = "machine a\n  login x\n  password y\nmachine b login q password r\nmachine 127.0.0.1\n  login user\n  password new\n";
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn what_a_shell_would_read_otherwise_is_quoted() {
        assert_eq!(quoted("http://127.0.0.1:8080"), "http://127.0.0.1:8080");
        assert_eq!(quoted("a b'c"), r"'a b'\''c'");
    }
}
