//! The database: SQLite by default, PostgreSQL by URL, one interface over both.
//!
//! Nouns write their SQL once, with `$1` for parameters, and only in words that both engines know. Where they differ,
//! `Dialect` says so. On SQLite one connection writes, so that writers wait in line instead of failing as busy.

mod migrate;
mod value;

pub use value::{Row, Value};

use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Executor as _, PgPool, Postgres, SqlSafeStr, Sqlite, SqlitePool, Transaction};
use std::path::Path;
use std::str::FromStr as _;
use std::time::Duration;

/// Readers beside the one writer; more than cores, because a reader waits for the disk as well.
const SQLITE_READERS: u32 = 8;
/// A replica's share of PostgreSQL's hundred connections, so that several replicas fit.
const POSTGRES_CONNECTIONS: u32 = 24;
/// How long a request waits for a connection before it fails, which the client then retries.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(15);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to open the database `{at}`")]
    Open {
        at: String,
        #[source]
        cause: sqlx::Error,
    },
    #[error("the database failed")]
    Query(#[from] sqlx::Error),
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

/// What differs between the two engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Sqlite,
    Postgres,
}

#[derive(Clone)]
pub struct Database {
    pools: Pools,
}

#[derive(Clone)]
enum Pools {
    Sqlite { readers: SqlitePool, writer: SqlitePool },
    Postgres(PgPool),
}

/// A transaction that is undone unless it is committed.
pub enum Write {
    Sqlite(Transaction<'static, Sqlite>),
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

impl Database {
    /// Opens the database that the URL names, and brings its tables up to date.
    ///
    /// `postgres://…` is PostgreSQL; anything else is the path of an SQLite file, which is made if it is missing.
    pub async fn open(url: &str) -> Result<Database> {
        let is_postgres = url.starts_with("postgres://") || url.starts_with("postgresql://");
        let opened = if is_postgres { open_postgres(url).await } else { open_sqlite(Path::new(url)).await };
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
        Ok(match &self.pools {
            Pools::Sqlite { readers, .. } => {
                bound!(sql, args).fetch_all(readers).await?.into_iter().map(Row::Sqlite).collect()
            }
            Pools::Postgres(pool) => bound!(sql, args).fetch_all(pool).await?.into_iter().map(Row::Postgres).collect(),
        })
    }

    pub async fn maybe(&self, sql: impl SqlSafeStr, args: Vec<Value>) -> Result<Option<Row>> {
        Ok(match &self.pools {
            Pools::Sqlite { readers, .. } => bound!(sql, args).fetch_optional(readers).await?.map(Row::Sqlite),
            Pools::Postgres(pool) => bound!(sql, args).fetch_optional(pool).await?.map(Row::Postgres),
        })
    }

    pub async fn write(&self) -> Result<Write> {
        Ok(match &self.pools {
            // Without IMMEDIATE a transaction that reads first cannot wait for the lock; it fails as busy.
            Pools::Sqlite { writer, .. } => Write::Sqlite(writer.begin_with("BEGIN IMMEDIATE").await?),
            Pools::Postgres(pool) => Write::Postgres(pool.begin().await?),
        })
    }

    pub async fn close(&self) {
        match &self.pools {
            Pools::Sqlite { readers, writer } => {
                readers.close().await;
                writer.close().await;
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
            Write::Sqlite(open) => {
                bound!(sql, args).fetch_all(&mut **open).await?.into_iter().map(Row::Sqlite).collect()
            }
            Write::Postgres(open) => {
                bound!(sql, args).fetch_all(&mut **open).await?.into_iter().map(Row::Postgres).collect()
            }
        })
    }

    pub async fn maybe(&mut self, sql: impl SqlSafeStr, args: Vec<Value>) -> Result<Option<Row>> {
        Ok(match self {
            Write::Sqlite(open) => bound!(sql, args).fetch_optional(&mut **open).await?.map(Row::Sqlite),
            Write::Postgres(open) => bound!(sql, args).fetch_optional(&mut **open).await?.map(Row::Postgres),
        })
    }

    /// The one row that a statement with RETURNING, or a look-up by a known key, gives.
    pub async fn one(&mut self, sql: impl SqlSafeStr, args: Vec<Value>) -> Result<Row> {
        self.maybe(sql, args).await?.ok_or(Error::Query(sqlx::Error::RowNotFound))
    }

    /// How many rows the statement changed.
    pub async fn run(&mut self, sql: impl SqlSafeStr, args: Vec<Value>) -> Result<u64> {
        Ok(match self {
            Write::Sqlite(open) => bound!(sql, args).execute(&mut **open).await?.rows_affected(),
            Write::Postgres(open) => bound!(sql, args).execute(&mut **open).await?.rows_affected(),
        })
    }

    /// Runs several statements that take no arguments.
    pub async fn script(&mut self, sql: String) -> Result<()> {
        let sql = sqlx::AssertSqlSafe(sql);
        match self {
            Write::Sqlite(open) => open.execute(sqlx::raw_sql(sql)).await.map(drop)?,
            Write::Postgres(open) => open.execute(sqlx::raw_sql(sql)).await.map(drop)?,
        }
        Ok(())
    }

    pub async fn commit(self) -> Result<()> {
        match self {
            Write::Sqlite(open) => open.commit().await?,
            Write::Postgres(open) => open.commit().await?,
        }
        Ok(())
    }
}

async fn open_sqlite(path: &Path) -> std::result::Result<Pools, sqlx::Error> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        // An acknowledged write survives a power cut.
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(ACQUIRE_TIMEOUT);
    let writer = SqlitePoolOptions::new()
        .max_connections(1)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .connect_with(options.clone())
        .await?;
    let readers = SqlitePoolOptions::new()
        .max_connections(SQLITE_READERS)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .connect_with(options.read_only(true).create_if_missing(false))
        .await?;
    Ok(Pools::Sqlite { readers, writer })
}

async fn open_postgres(url: &str) -> std::result::Result<Pools, sqlx::Error> {
    let pool = PgPoolOptions::new()
        .max_connections(POSTGRES_CONNECTIONS)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .connect_with(PgConnectOptions::from_str(url)?)
        .await?;
    Ok(Pools::Postgres(pool))
}
