//! `volley user`, `team`, `key` and `audit`: who is known to the server, what they may do, and what they did.

use crate::home::Home;
use crate::listing::{Column, Listing, print_one};
use crate::login::secret;
use crate::output::{self, Format, Output};
use crate::remote::{Remote, Session};
use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use std::process::ExitCode;
use volley_client::part;

const USER_EXAMPLES: &str = "\
Examples:
  volley user create bob --email bob@example.org     prints bob's first key
  volley user create ci --service
  volley user ls
  volley user link bob                               a link by which bob signs in to the page, once
  volley user quota bob --gpus 4 --jobs 10";
const TEAM_EXAMPLES: &str = "\
Examples:
  volley team create vision
  volley team add vision bob member
  volley team show vision
  volley team quota vision --gpus 16
  volley team remove vision bob
  volley team rm vision                              it must have nothing in it";
const KEY_EXAMPLES: &str = "\
Examples:
  volley key new laptop                    prints the key, this once
  volley key new ci --user ci-bot --expires 90
  volley key ls
  volley key revoke 7";
const AUDIT_EXAMPLES: &str = "\
Examples:
  volley audit
  volley audit -e vision --deed queue.created
  volley audit --user bob -o json";
const EXAMPLE_OF_NONE: &str = "Examples:\n  volley user ls\n  volley team ls -o wide\n  volley key ls";

const USERS: &[Column] = &[
    Column("NAME", "/username", false),
    Column("ADMIN", "/admin", false),
    Column("SERVICE", "/service", false),
    Column("EMAIL", "/email", false),
    Column("DELETED", "/deleted", true),
];
const TEAMS: &[Column] = &[
    Column("NAME", "/name", false),
    Column("MEMBERS", "/members", false),
    Column("JOBS", "/quota/jobs", false),
    Column("GPUS", "/quota/gpus", false),
];
const KEYS: &[Column] = &[
    Column("ID", "/id", false),
    Column("NAME", "/name", false),
    Column("BEGINS", "/begins", false),
    Column("AGE", "@/created", false),
    Column("USED", "@/used", false),
    Column("EXPIRES", "/expires", false),
];
const AUDIT: &[Column] = &[
    Column("AT", "/at", false),
    Column("USER", "/user", false),
    Column("DEED", "/deed", false),
    Column("SUBJECT", "/subject", false),
    Column("FROM", "/address", false),
    Column("ID", "/id", true),
];

/// Options that all of these have.
#[derive(Args)]
struct Common {
    #[command(flatten)]
    remote: Remote,
    #[command(flatten)]
    output: Output,
}

impl Common {
    fn with(&self, home: &Home, work: impl AsyncFnOnce(Session) -> Result<()>) -> Result<ExitCode> {
        self.remote.with(home, work)?;
        Ok(ExitCode::SUCCESS)
    }

    fn list(&self, columns: &'static [Column], name: &'static str, values: Value) -> Result<()> {
        self.output.print(&Listing { columns, name, values: values.as_array().cloned().unwrap_or_default() })
    }
}

/// Work with users and service accounts
#[derive(Args)]
#[command(after_help = USER_EXAMPLES)]
pub struct UserVerb {
    #[command(subcommand)]
    verb: UserDeed,
    #[command(flatten)]
    common: Common,
}

#[derive(Subcommand)]
enum UserDeed {
    /// List users
    #[command(after_help = EXAMPLE_OF_NONE)]
    Ls,
    /// Make a user; its first key is printed
    #[command(after_help = USER_EXAMPLES)]
    Create {
        name: String,
        #[arg(long)]
        email: Option<String>,
        /// May administer the server
        #[arg(long)]
        admin: bool,
        /// A program, not a person
        #[arg(long)]
        service: bool,
    },
    /// Show a user, its teams and its quota
    #[command(after_help = USER_EXAMPLES)]
    Show { name: String },
    /// Change a user
    #[command(after_help = USER_EXAMPLES)]
    Edit {
        name: String,
        #[arg(long)]
        email: Option<String>,
        /// Whether it may administer the server
        #[arg(long, value_name = "true|false")]
        admin: Option<bool>,
    },
    /// Delete a user; what it made stays
    #[command(after_help = USER_EXAMPLES)]
    Rm { name: String },
    /// Make a link by which a user signs in to the page, once
    #[command(after_help = USER_EXAMPLES)]
    Link { name: Option<String> },
    /// Set a password, read from the terminal or stdin
    #[command(after_help = USER_EXAMPLES)]
    Password { name: Option<String> },
    /// Replace how much a user may run at a time; without numbers, there is no limit
    #[command(after_help = USER_EXAMPLES)]
    Quota {
        name: String,
        #[command(flatten)]
        quota: Amounts,
    },
}

#[derive(Args)]
struct Amounts {
    /// Running jobs at most
    #[arg(long, value_name = "N")]
    jobs: Option<u32>,
    /// GPUs at most
    #[arg(long, value_name = "N")]
    gpus: Option<u32>,
}

impl Amounts {
    fn body(&self) -> Value {
        json!({ "jobs": self.jobs, "gpus": self.gpus })
    }
}

impl UserVerb {
    pub fn run(self, home: &Home) -> Result<ExitCode> {
        let UserVerb { verb, common } = self;
        common.with(home, async |session| {
            let client = &session.client;
            let user = |name: &str, rest: &str| format!("/api/v1/users/{}{rest}", part(name));
            match verb {
                UserDeed::Ls => common.list(USERS, "/username", client.get("/api/v1/users").await?),
                UserDeed::Create { name, email, admin, service } => {
                    let body = json!({ "username": name, "email": email, "admin": admin, "service": service });
                    let made = client.post("/api/v1/users", &body).await?;
                    eprintln!("made user `{name}`; its key is shown this once");
                    shown(common.output, &made, "key")
                }
                UserDeed::Show { name } => print_one(common.output, &name, &client.get(&user(&name, "")).await?),
                UserDeed::Edit { name, email, admin } => {
                    if email.is_none() && admin.is_none() {
                        bail!("there is nothing to change\nhint: --email or --admin");
                    }
                    client.patch(&user(&name, ""), &json!({ "email": email, "admin": admin })).await?;
                    eprintln!("changed user `{name}`");
                    Ok(())
                }
                UserDeed::Rm { name } => {
                    client.delete(&user(&name, "")).await?;
                    eprintln!("deleted user `{name}`");
                    Ok(())
                }
                UserDeed::Link { name } => {
                    let name = name.unwrap_or_else(|| session.username.clone());
                    let made = client.post(&user(&name, "/link"), &json!({})).await?;
                    eprintln!(
                        "whoever opens this is `{name}`; it works once, until {}",
                        made["expires"].as_str().unwrap_or("-")
                    );
                    shown(common.output, &made, "url")
                }
                UserDeed::Password { name } => {
                    let name = name.unwrap_or_else(|| session.username.clone());
                    set_password(&session, &name, &user(&name, "/password")).await
                }
                UserDeed::Quota { name, quota } => {
                    let made = client.put(&user(&name, "/quota"), &quota.body()).await?;
                    print_one(common.output, &name, &made)
                }
            }
        })
    }
}

/// The current one is only asked for if the server wants it.
async fn set_password(session: &Session, name: &str, path: &str) -> Result<()> {
    let password = secret(&format!("new password for {name}: "))?;
    let put = session.client.put(path, &json!({ "password": password })).await;
    let wants_current = matches!(&put, Err(volley_client::Error::Refused { status, .. }) if status.as_u16() == 403);
    match wants_current && name == session.username {
        true => {
            let current = secret("current password: ")?;
            session.client.put(path, &json!({ "password": password, "current": current })).await?;
        }
        false => drop(put?),
    }
    eprintln!("set the password of `{name}`");
    Ok(())
}

/// A secret that is shown once: alone for people, so that it can be piped on.
fn shown(output: Output, made: &Value, field: &str) -> Result<()> {
    let bare = made[field].as_str().unwrap_or_default();
    match output.format {
        None | Some(Format::Name | Format::Wide) => output::print(&format!("{bare}\n")),
        Some(Format::Json | Format::Yaml) => print_one(output, bare, made),
    }
}

/// Work with teams and their members
#[derive(Args)]
#[command(after_help = TEAM_EXAMPLES)]
pub struct TeamVerb {
    #[command(subcommand)]
    verb: TeamDeed,
    #[command(flatten)]
    common: Common,
}

#[derive(Clone, Copy, ValueEnum)]
enum Role {
    Viewer,
    Member,
    Admin,
}

#[derive(Subcommand)]
enum TeamDeed {
    /// List teams
    #[command(after_help = EXAMPLE_OF_NONE)]
    Ls,
    /// Make a team
    #[command(after_help = TEAM_EXAMPLES)]
    Create { name: String },
    /// Show a team, its members and its quota
    #[command(after_help = TEAM_EXAMPLES)]
    Show { name: String },
    /// Put somebody into a team, or change the role
    #[command(after_help = TEAM_EXAMPLES)]
    Add { team: String, user: String, role: Role },
    /// Take somebody out of a team
    #[command(after_help = TEAM_EXAMPLES)]
    Remove { team: String, user: String },
    /// Delete a team that has no runs, queues or artifacts
    #[command(after_help = TEAM_EXAMPLES)]
    Rm { name: String },
    /// Replace how much a team may run at a time; without numbers, there is no limit
    #[command(after_help = TEAM_EXAMPLES)]
    Quota {
        name: String,
        #[command(flatten)]
        quota: Amounts,
    },
}

impl TeamVerb {
    pub fn run(self, home: &Home) -> Result<ExitCode> {
        let TeamVerb { verb, common } = self;
        common.with(home, async |session| {
            let client = &session.client;
            let team = |name: &str, rest: &str| format!("/api/v1/teams/{}{rest}", part(name));
            match verb {
                TeamDeed::Ls => common.list(TEAMS, "/name", client.get("/api/v1/teams").await?),
                TeamDeed::Create { name } => {
                    client.post("/api/v1/teams", &json!({ "name": name })).await?;
                    eprintln!("made team `{name}`; you are its admin");
                    Ok(())
                }
                TeamDeed::Show { name } => print_one(common.output, &name, &client.get(&team(&name, "")).await?),
                TeamDeed::Add { team: name, user, role } => {
                    let role = role.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
                    let path = team(&name, &format!("/members/{}", part(&user)));
                    client.put(&path, &json!({ "role": role })).await?;
                    eprintln!("`{user}` is {role} of `{name}`");
                    Ok(())
                }
                TeamDeed::Remove { team: name, user } => {
                    client.delete(&team(&name, &format!("/members/{}", part(&user)))).await?;
                    eprintln!("`{user}` is no longer in `{name}`");
                    Ok(())
                }
                TeamDeed::Rm { name } => {
                    client.delete(&team(&name, "")).await?;
                    eprintln!("deleted team `{name}`");
                    Ok(())
                }
                TeamDeed::Quota { name, quota } => {
                    print_one(common.output, &name, &client.put(&team(&name, "/quota"), &quota.body()).await?)
                }
            }
        })
    }
}

/// Work with API keys
#[derive(Args)]
#[command(after_help = KEY_EXAMPLES)]
pub struct KeyVerb {
    #[command(subcommand)]
    verb: KeyDeed,
    /// Whose keys, if one administers the server [default: your own]
    #[arg(long, value_name = "NAME", global = true)]
    user: Option<String>,
    #[command(flatten)]
    common: Common,
}

#[derive(Subcommand)]
enum KeyDeed {
    /// Make a key; it is printed this once
    #[command(after_help = KEY_EXAMPLES)]
    New {
        name: String,
        /// Days after which it no longer works [default: never]
        #[arg(long, value_name = "DAYS")]
        expires: Option<u32>,
    },
    /// List keys, without the keys
    #[command(after_help = KEY_EXAMPLES)]
    Ls,
    /// Revoke a key at once
    #[command(after_help = KEY_EXAMPLES)]
    Revoke { id: i64 },
}

impl KeyVerb {
    pub fn run(self, home: &Home) -> Result<ExitCode> {
        let KeyVerb { verb, user, common } = self;
        let whose = user.as_deref().map(|user| format!("?user={}", part(user))).unwrap_or_default();
        common.with(home, async |session| {
            let client = &session.client;
            match verb {
                KeyDeed::New { name, expires } => {
                    let body = json!({ "name": name, "expires_days": expires, "user": user });
                    let made = client.post("/api/v1/keys", &body).await?;
                    eprintln!("made key `{name}`; it is shown this once");
                    shown(common.output, &made, "key")
                }
                KeyDeed::Ls => common.list(KEYS, "/id", client.get(&format!("/api/v1/keys{whose}")).await?),
                KeyDeed::Revoke { id } => {
                    client.delete(&format!("/api/v1/keys/{id}{whose}")).await?;
                    eprintln!("revoked key {id}");
                    Ok(())
                }
            }
        })
    }
}

/// Show who did what, when and from where
#[derive(Args)]
#[command(after_help = AUDIT_EXAMPLES)]
pub struct AuditVerb {
    /// Only what this user did
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Only this kind of deed, such as queue.created
    #[arg(long, value_name = "DEED")]
    deed: Option<String>,
    /// As many entries, newest first
    #[arg(long, value_name = "N", default_value = "50")]
    limit: u32,
    #[command(flatten)]
    common: Common,
}

impl AuditVerb {
    pub fn run(self, home: &Home) -> Result<ExitCode> {
        let mut path = format!("/api/v1/audit?limit={}", self.limit);
        for (name, value) in [("entity", &self.common.remote.entity), ("user", &self.user), ("deed", &self.deed)] {
            if let Some(value) = value {
                path.push_str(&format!("&{name}={}", part(value)));
            }
        }
        self.common.with(home, async |session| self.common.list(AUDIT, "/id", session.client.get(&path).await?))
    }
}
