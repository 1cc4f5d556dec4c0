//! The database: SQLite by default, PostgreSQL by URL, one interface over both.
//!
//! Nouns write their SQL once, with `$1` for parameters, and only in words that both engines know. Where they differ,
//! `Dialect` says so. On SQLite one connection writes, and `group` makes those who wait for it durable together.

mod group;
mod memory;
mod migrate;
mod value;

pub use value::{Row, Value};

use group::{Door, Turn};
use memory::{Amount, Recall};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{
    ConnectOptions as _, Connection as _, Executor as _, PgPool, Postgres, SqlSafeStr, SqlitePool, Transaction,
};
use std::fs::File;
use std::path::Path;
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Readers beside the one writer; more than cores, because a reader waits for the disk as well.
const SQLITE_READERS: u32 = 8;
/// The log is folded into the file when it has this many pages (of 4 KB); folding syncs the disk twice more.
const CHECKPOINT_PAGES: &str = "4000";
/// A replica's share of PostgreSQL's hundred connections, so that several replicas fit.
const POSTGRES_CONNECTIONS: u32 = 24;
/// How long a request waits for a connection before it fails, which the client then retries.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a server that was killed may still seem to be there.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(2);
const CLAIM_PAUSE: Duration = Duration::from_millis(5);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to open the database `{at}`")]
    Open {
        at: String,
        #[source]
        cause: sqlx::Error,
    },
    #[error("failed to claim the database `{at}`; hint: another server may be using it, stop that one first")]
    InUse {
        at: String,
        #[source]
        cause: std::io::Error,
    },
    #[error("the database failed")]
    Query(#[from] sqlx::Error),
    #[error("the database failed to make a change durable")]
    Commit(#[source] Arc<sqlx::Error>),
    #[error(
        "the database is of version {found}, this program knows up to {known}; hint: run the newer volley that wrote it"
    )]
    Newer { found: i64, known: i64 },
    #[error("migration {version} failed")]
    Migration {
        version: i64,
        #[source]
        cause: sqlx::Error,
    },
}

pub type Result<T> = std::result::Result<T, Error>;

/// PostgreSQL's codes for a transaction that was undone because of others: a serialization failure and a deadlock.
const LOST_TO_OTHERS: [&str; 2] = ["40001", "40P01"];

impl Error {
    /// Whether the same transaction may well succeed when it is tried again: nothing of it was done.
    pub fn is_lost_to_others(&self) -> bool {
        let Error::Query(sqlx::Error::Database(cause)) = self else {
            return false;
        };
        cause.code().is_some_and(|code| LOST_TO_OTHERS.contains(&code.as_ref()))
    }
}

/// What differs between the two engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Sqlite,
    Postgres,
}

impl Dialect {
    /// Behind a SELECT: locks its rows, and waits for those that others have locked.
    pub fn lock(self) -> &'static str {
        match self {
            Dialect::Sqlite => "",
            Dialect::Postgres => "FOR UPDATE",
        }
    }

    /// The same, but for those that others have locked. SQLite has one writer anyway.
    pub fn skip_locked(self) -> &'static str {
        match self {
            Dialect::Sqlite => "",
            Dialect::Postgres => "FOR UPDATE SKIP LOCKED",
        }
    }
}

#[derive(Clone)]
pub struct Database {
    pools: Pools,
}

#[derive(Clone)]
enum Pools {
    Sqlite { readers: SqlitePool, writer: Arc<Door>, claim: Arc<File> },
    Postgres(PgPool),
}

/// A transaction that is undone unless it is committed.
pub enum Write {
    Sqlite(Turn),
    Postgres(Transaction<'static, Postgres>),
}

/// The arguments of a statement, in order: `args![name, 3]`.
#[macro_export]
macro_rules! args {
    ($($value:expr),* $(,)?) => { vec![$($crate::database::Value::from($value)),*] };
}

macro_rules! bound {
    ($sql:expr, $args:expr) => {{
        let mut query = sqlx::query($sql);
        for value in $args {
            query = match value {
                Value::Int(value) => query.bind(value),
                Value::Real(value) => query.bind(value),
                Value::Text(value) => query.bind(value),
                Value::Bytes(value) => query.bind(value),
            };
        }
        query
    }};
}

macro_rules! rows {
    ($sql:expr, $args:expr, $pool:expr) => {
        bound!($sql, $args).fetch_all($pool).await?.into_iter().map(Row::from).collect()
    };
}

impl Database {
    /// Opens the database that the URL names, and brings its tables up to date.
    ///
    /// `postgres://…` is PostgreSQL; anything else is the path of an SQLite file, which is made if it is missing.
    pub async fn open(url: &str) -> Result<Database> {
        let is_postgres = is_postgres(url);
        let opened = match is_postgres {
            true => open_postgres(url).await,
            false => open_sqlite(Path::new(url), claim(Path::new(url)).await?).await,
        };
        // A URL may hold a password, so only a path is named.
        let at = if is_postgres { "postgres://…" } else { url };
        let database = Database { pools: opened.map_err(|cause| Error::Open { at: at.to_owned(), cause })? };
        migrate::run(&database).await?;
        Ok(database)
    }

    pub fn dialect(&self) -> Dialect {
        match &self.pools {
            Pools::Sqlite { .. } => Dialect::Sqlite,
            Pools::Postgres(_) => Dialect::Postgres,
        }
    }

    pub async fn all(&self, sql: impl SqlSafeStr, args: Vec<Value>) -> Result<Vec<Row>> {
        let sql = sql.into_sql_str();
        Ok(match &self.pools {
            Pools::Sqlite { readers, writer, .. } => {
                let memory = &writer.memory;
                match memory.recall(Amount::All, sql.as_str(), &args) {
                    Recall::Known(rows) => rows,
                    Recall::Unknown(ticket) => memory.keep(ticket, rows!(sql, args, readers)),
                    Recall::Never => rows!(sql, args, readers),
                }
            }
            Pools::Postgres(pool) => rows!(sql, args, pool),
        })
    }

    pub async fn maybe(&self, sql: impl SqlSafeStr, args: Vec<Value>) -> Result<Option<Row>> {
        let sql = sql.into_sql_str();
        Ok(match &self.pools {
            Pools::Sqlite { readers, writer, .. } => {
                let memory = &writer.memory;
                match memory.recall(Amount::One, sql.as_str(), &args) {
                    Recall::Known(rows) => rows.into_iter().next(),
                    Recall::Unknown(ticket) => {
                        let row = bound!(sql, args).fetch_optional(readers).await?.map(Row::from);
                        memory.keep(ticket, row.into_iter().collect()).into_iter().next()
                    }
                    Recall::Never => bound!(sql, args).fetch_optional(readers).await?.map(Row::from),
                }
            }
            Pools::Postgres(pool) => bound!(sql, args).fetch_optional(pool).await?.map(Row::from),
        })
    }

    pub async fn write(&self) -> Result<Write> {
        Ok(match &self.pools {
            Pools::Sqlite { writer, .. } => Write::Sqlite(writer.enter().await?),
            Pools::Postgres(pool) => Write::Postgres(pool.begin().await?),
        })
    }

    pub async fn close(&self) {
        match &self.pools {
            Pools::Sqlite { readers, writer, claim, .. } => {
                readers.close().await;
                writer.close().await;
                let _ = claim.unlock();
            }
            Pools::Postgres(pool) => pool.close().await,
        }
    }
}

impl Write {
    pub fn dialect(&self) -> Dialect {
        match self {
            Write::Sqlite(_) => Dialect::Sqlite,
            Write::Postgres(_) => Dialect::Postgres,
        }
    }

    pub async fn all(&mut self, sql: impl SqlSafeStr, args: Vec<Value>) -> Result<Vec<Row>> {
        Ok(match self {
            Write::Sqlite(turn) => {
                let sql = sql.into_sql_str();
                let connection = turn.connection(sql.as_str())?;
                let rows = bound!(sql, args).fetch_all(connection).await;
                turn.note(rows)?.into_iter().map(Row::from).collect()
            }
            Write::Postgres(open) => {
                bound!(sql, args).fetch_all(&mut **open).await?.into_iter().map(Row::from).collect()
            }
        })
    }

    pub async fn maybe(&mut self, sql: impl SqlSafeStr, args: Vec<Value>) -> Result<Option<Row>> {
        Ok(match self {
            Write::Sqlite(turn) => {
                let sql = sql.into_sql_str();
                let connection = turn.connection(sql.as_str())?;
                let row = bound!(sql, args).fetch_optional(connection).await;
                turn.note(row)?.map(Row::from)
            }
            Write::Postgres(open) => bound!(sql, args).fetch_optional(&mut **open).await?.map(Row::from),
        })
    }

    /// The one row that a statement with RETURNING, or a look-up by a known key, gives.
    pub async fn one(&mut self, sql: impl SqlSafeStr, args: Vec<Value>) -> Result<Row> {
        self.maybe(sql, args).await?.ok_or(Error::Query(sqlx::Error::RowNotFound))
    }

    /// How many rows the statement changed.
    pub async fn run(&mut self, sql: impl SqlSafeStr, args: Vec<Value>) -> Result<u64> {
        Ok(match self {
            Write::Sqlite(turn) => {
                let sql = sql.into_sql_str();
                let connection = turn.connection(sql.as_str())?;
                let done = bound!(sql, args).execute(connection).await;
                turn.note(done)?.rows_affected()
            }
            Write::Postgres(open) => bound!(sql, args).execute(&mut **open).await?.rows_affected(),
        })
    }

    /// Runs several statements that take no arguments.
    pub async fn script(&mut self, sql: String) -> Result<()> {
        let sql = sqlx::AssertSqlSafe(sql);
        match self {
            Write::Sqlite(turn) => {
                let done = turn.connection("a script")?.execute(sqlx::raw_sql(sql)).await;
                turn.note(done).map(drop)?;
            }
            Write::Postgres(open) => open.execute(sqlx::raw_sql(sql)).await.map(drop)?,
        }
        Ok(())
    }

    pub async fn commit(self) -> Result<()> {
        match self {
            Write::Sqlite(turn) => turn.commit().await?,
            Write::Postgres(open) => open.commit().await?,
        }
        Ok(())
    }
}

/// `$4, $5, …`: places for so many arguments, of which the first has this number.
pub fn places(first: usize, count: usize) -> String {
    (first..first + count).map(|place| format!("${place}")).collect::<Vec<_>>().join(", ")
}

pub fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

/// Copies an SQLite file as of one moment, while others write it.
pub async fn copy(from: &Path, to: &Path) -> Result<()> {
    let failed = |cause| Error::Open { at: from.display().to_string(), cause };
    let options = SqliteConnectOptions::new().filename(from).busy_timeout(ACQUIRE_TIMEOUT);
    let mut connection = options.connect().await.map_err(failed)?;
    sqlx::query("VACUUM INTO $1").bind(to.display().to_string()).execute(&mut connection).await?;
    connection.close().await?;
    Ok(())
}

/// Only one server writes a file, because it remembers what it read. Whoever copies the file need not ask.
async fn claim(path: &Path) -> Result<File> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let in_use = |cause| Error::InUse { at: path.display().to_string(), cause };
    let file = File::options().write(true).create(true).truncate(false).open(name).map_err(in_use)?;
    let began = Instant::now();
    // One that was killed holds it until the kernel has taken all of its files away.
    while let Err(error) = file.try_lock() {
        if began.elapsed() > CLAIM_TIMEOUT {
            return Err(in_use(error.into()));
        }
        tokio::time::sleep(CLAIM_PAUSE).await;
    }
    Ok(file)
}

async fn open_sqlite(path: &Path, claim: File) -> std::result::Result<Pools, sqlx::Error> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        // An acknowledged write survives a power cut.
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(ACQUIRE_TIMEOUT);
    let writer = Door::open(&options.clone().pragma("wal_autocheckpoint", CHECKPOINT_PAGES)).await?;
    // Opened when they are first used, when the tables are up to date: a column that comes later is more than they can read.
    let readers = SqlitePoolOptions::new()
        .max_connections(SQLITE_READERS)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .connect_lazy_with(options.read_only(true).create_if_missing(false));
    Ok(Pools::Sqlite { readers, writer, claim: Arc::new(claim) })
}

async fn open_postgres(url: &str) -> std::result::Result<Pools, sqlx::Error> {
    let pool = PgPoolOptions::new()
        .max_connections(POSTGRES_CONNECTIONS)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .connect_with(PgConnectOptions::from_str(url)?)
        .await?;
    Ok(Pools::Postgres(pool))
}

#[cfg(test)]
#[path = "../../../../tests/wandb/postgres.rs"]
pub mod postgres;

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A database with one entity, one user and one project, each with the number 1.
    pub async fn with_project() -> (tempfile::TempDir, Database) {
        let folder = tempfile::tempdir().unwrap();
        let database = with_project_at(&folder.path().join("volley.db").display().to_string()).await;
        (folder, database)
    }

    /// The same at a given place.
    pub async fn with_project_at(url: &str) -> Database {
        let database = Database::open(url).await.unwrap();
        let mut write = database.write().await.unwrap();
        let setup = "INSERT INTO entities (name, is_team, created_at) VALUES ('e', 0, 0); \
                     INSERT INTO users (username, name, is_admin, is_service, entity_id, created_at) VALUES ('u', 'u', 1, 0, 1, 0); \
                     INSERT INTO projects (entity_id, name, folded, created_at) VALUES (1, 'p', 'p', 0)";
        write.script(setup.to_owned()).await.unwrap();
        write.commit().await.unwrap();
        database
    }
}
