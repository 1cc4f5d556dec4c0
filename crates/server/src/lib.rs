//! `volley server`: the control plane. W&B's own clients work against it.
//!
//! Cut by noun: `people`, `project`, `run`, `file`, `artifact`, `queue`, `agent`, `sweep`, each with its SQL (`store`) and its
//! part of the schema (`graphql`). What they stand on: `database`, `blobs` (bytes), `events` (what happened), `graphql` (what
//! the nouns share), `http` (the doors). Every decision is in `volley_plan`; here facts are gathered and deeds done.

pub mod http;
pub mod graphql;
pub mod people;
pub mod project;
pub mod run;
pub mod file;
pub mod artifact;
pub mod queue;
pub mod agent;
pub mod sweep;
pub mod events;
pub mod blobs;
pub mod backup;
pub mod database;
pub mod fault;
mod ids;
mod server_info;
mod watchman;

use blobs::{Aws, Blobs};
use database::Database;
use events::News;
use events::feed::Feed;
use events::progress::Progress;
use http::limits::{Limits, Rates};
use jiff::Timestamp;
use people::keys;
use people::store::{NewKey, NewUser};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use sweep::early::Judge;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use volley_plan::news::Window;

/// How long requests under way may take to end when the server stops; an upload can take hours.
const STOP_MAX: Duration = Duration::from_secs(10);

/// What a server is started with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the key of the first user is left, and by default the database and the bytes.
    pub folder: PathBuf,
    pub listen: SocketAddr,
    /// `postgres://…`, or the path of an SQLite file; by default `volley.db` in the folder.
    pub database: Option<String>,
    /// `s3://bucket/prefix`, or a folder; by default `blobs` in the folder.
    pub blobs: Option<String>,
    /// How an S3-compatible store is reached.
    pub aws: Aws,
    /// What clients call this server in the URLs that it hands out; by default `http://` and the address.
    pub public_url: Option<String>,
    /// The name of the user that a new server has.
    pub first_user: String,
    /// Its key; one is made when none is given.
    pub first_key: Option<String>,
    /// How often one may ask.
    pub rates: Rates,
    /// How long events are kept for whoever comes back.
    pub events: Window,
}

impl Settings {
    pub(crate) fn database_url(&self) -> String {
        self.database.clone().unwrap_or_else(|| self.folder.join("volley.db").display().to_string())
    }

    pub(crate) fn blobs_place(&self) -> String {
        self.blobs.clone().unwrap_or_else(|| self.folder.join("blobs").display().to_string())
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("failed to make the folder `{}`", at.display())]
    Folder { at: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Database(#[from] database::Error),
    #[error(transparent)]
    Blobs(#[from] blobs::Error),
    #[error("failed to listen on {at}; hint: another program may have the port, choose one with --listen")]
    Listen { at: SocketAddr, source: std::io::Error },
    #[error(
        "the key for the first user must have {} letters and digits; hint: leave it out and one is made",
        keys::KEY_LENGTH
    )]
    Key,
    #[error("failed to write the first user's key to `{}`", at.display())]
    KeyFile { at: PathBuf, source: std::io::Error },
}

/// What all requests share.
pub struct State {
    pub database: Database,
    pub blobs: Blobs,
    pub news: News,
    pub feed: Feed,
    pub progress: Progress,
    pub judge: Judge,
    pub window: Window,
    pub schema: graphql::root::Schema,
    pub limits: Limits,
    /// Without a slash at the end.
    pub public_url: String,
    /// Somebody chose it; otherwise clients may know the server by other addresses too.
    pub has_public_url: bool,
    /// Ends what would otherwise go on for as long as a client listens.
    pub stop: CancellationToken,
}

pub type Shared = Arc<State>;

/// A running server.
pub struct Server {
    shared: Shared,
    address: SocketAddr,
    tasks: TaskTracker,
    first_link: Option<String>,
}

/// How a server is, for as long as it runs.
#[derive(Clone)]
pub struct Pulse(Shared);

impl Pulse {
    /// `ok`, or what is wrong.
    pub async fn health(&self) -> String {
        match self.0.database.maybe("SELECT 1 AS one", args![]).await {
            Ok(_) => "ok".to_owned(),
            Err(error) => format!("the database does not answer: {error}"),
        }
    }

    pub fn url(&self) -> &str {
        &self.0.public_url
    }
}

impl Server {
    pub async fn start(settings: Settings) -> Result<Server, StartError> {
        std::fs::create_dir_all(&settings.folder)
            .map_err(|source| StartError::Folder { at: settings.folder.clone(), source })?;
        let database = Database::open(&settings.database_url()).await?;
        let blobs = Blobs::open(&settings.blobs_place(), &settings.aws, &database).await?;
        let token = add_first_user(&database, &settings).await?;

        let failed = |source| StartError::Listen { at: settings.listen, source };
        let listener = TcpListener::bind(settings.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let public_url = settings.public_url.clone().unwrap_or_else(|| format!("http://{address}"));
        let has_public_url = settings.public_url.is_some();
        let news = News::default();
        let public_url = public_url.trim_end_matches('/').to_owned();
        let stop = CancellationToken::new();
        let (schema, limits) = (graphql::root::schema(), Limits::new(settings.rates));
        let shared = Arc::new(State {
            database,
            blobs,
            news,
            feed: Feed::default(),
            progress: Progress::default(),
            judge: Judge::default(),
            window: settings.events,
            schema,
            limits,
            public_url,
            has_public_url,
            stop: stop.clone(),
        });

        let tasks = TaskTracker::new();
        tasks.spawn(http::serve(listener, shared.clone(), stop.clone()));
        tasks.spawn(watchman::watch(shared.clone(), stop));
        tasks.spawn(run::columns::work(shared.clone()));
        tasks.spawn({
            let shared = shared.clone();
            async move { shared.feed.run(&shared.database, &shared.news, &shared.stop).await }
        });
        tasks.spawn({
            let shared = shared.clone();
            async move { shared.progress.run(&shared).await }
        });
        tasks.close();
        let first_link = token.map(|token| people::sessions::link_url(&shared.public_url, &token));
        Ok(Server { shared, address, tasks, first_link })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self) -> &str {
        &self.shared.public_url
    }

    /// The link by which the first user signs in to the page, if this start made that user.
    pub fn first_link(&self) -> Option<String> {
        self.first_link.clone()
    }

    pub fn pulse(&self) -> Pulse {
        Pulse(self.shared.clone())
    }

    /// Takes no more requests, lets those under way end, and closes the database.
    pub async fn stop(self) {
        self.shared.stop.cancel();
        if tokio::time::timeout(STOP_MAX, self.tasks.wait()).await.is_err() {
            tracing::warn!("requests were still under way when the server stopped");
        }
        self.shared.database.close().await;
    }
}

/// A new server has one user, an administrator, whose key is left in a file that only its owner can read.
///
/// What comes back is the secret of a link by which it signs in to the page.
async fn add_first_user(database: &Database, settings: &Settings) -> Result<Option<String>, StartError> {
    if people::store::has_users(database).await? {
        return Ok(None);
    }
    if settings.first_key.as_deref().is_some_and(|key| !keys::is_acceptable(key)) {
        return Err(StartError::Key);
    }
    let key = settings.first_key.clone().unwrap_or_else(keys::new_key);
    let at = settings.folder.join("api-key");
    write_private(&at, &key).map_err(|source| StartError::KeyFile { at, source })?;
    let now = Timestamp::now();
    let mut write = database.write().await?;
    let new = NewUser { username: &settings.first_user, email: None, is_admin: true, is_service: false };
    let user = people::store::create_user(&mut write, &new, now).await?;
    let new = NewKey { user, name: "first", key: &key, expires_at: None };
    people::store::add_key(&mut write, &new, now).await?;
    let token = people::sessions::add_link(&mut write, user, now).await?;
    write.commit().await?;
    Ok(Some(token))
}

fn write_private(at: &std::path::Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(at)?;
    writeln!(file, "{text}")
}
