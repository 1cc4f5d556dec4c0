//! SQLite's one writer, shared: writers take turns, and those who came meanwhile are made durable together.
//!
//! Each turn is a savepoint in one transaction, so a member that fails undoes only itself. The one behind whom nobody
//! waits commits for all, with one sync of the disk, and only then is any of them answered. Whatever must not be broken
//! off by a client that goes away runs in a task of its own.

use super::memory::{self, Memory};
use super::{ACQUIRE_TIMEOUT, Error, Result};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};

/// Members of one transaction: enough that the sync of the disk no longer counts, few enough that the first is not kept
/// waiting for long.
const MEMBERS_MAX: usize = 256;

type Answer = std::result::Result<(), Arc<sqlx::Error>>;

/// Where writers queue.
pub struct Door {
    group: Arc<Mutex<Group>>,
    waiting: AtomicUsize,
    /// Forgets when what it remembers is changed.
    pub memory: Memory,
}

/// The transaction that is open, and who waits for it to become durable.
struct Group {
    /// Nothing once the database is closed.
    connection: Option<SqliteConnection>,
    is_open: bool,
    members: Vec<oneshot::Sender<Answer>>,
    /// Whether a member changed what is remembered.
    is_remembered: bool,
}

/// One writer's turn; undone unless it is committed.
pub struct Turn {
    door: Arc<Door>,
    /// Nothing once it was handed to the task that ends the turn.
    group: Option<OwnedMutexGuard<Group>>,
    /// After an error nothing more is done, as on PostgreSQL: SQLite may have undone the whole transaction.
    has_failed: bool,
    is_remembered: bool,
}

impl Door {
    pub async fn open(options: &SqliteConnectOptions) -> std::result::Result<Arc<Door>, sqlx::Error> {
        let connection = Some(options.connect().await?);
        let group = Group { connection, is_open: false, members: Vec::new(), is_remembered: false };
        let group = Arc::new(Mutex::new(group));
        Ok(Arc::new(Door { group, waiting: AtomicUsize::new(0), memory: Memory::default() }))
    }

    /// Waits for a turn.
    pub async fn enter(self: &Arc<Door>) -> Result<Turn> {
        let place = Place::take(self);
        let locked = tokio::time::timeout(ACQUIRE_TIMEOUT, self.group.clone().lock_owned()).await;
        let group = locked.map_err(|_| sqlx::Error::PoolTimedOut)?;
        place.leave();
        let mut turn = Turn { door: self.clone(), group: Some(group), has_failed: false, is_remembered: false };
        let begun = turn.group.as_mut().expect("a turn begins with its group").begin().await;
        turn.note(begun)?;
        Ok(turn)
    }

    pub async fn close(&self) {
        let mut group = self.group.lock().await;
        group.commit(&self.memory).await;
        if let Some(connection) = group.connection.take()
            && let Err(error) = connection.close().await
        {
            tracing::warn!(%error, "failed to close the database");
        }
    }

    fn is_anybody_waiting(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Commits what is open, unless somebody comes who will.
    async fn end(&self, group: &mut Group) {
        let is_full = group.members.len() >= MEMBERS_MAX;
        if group.is_open && (is_full || !self.is_anybody_waiting()) {
            group.commit(&self.memory).await;
        }
    }
}

/// A place in the queue. Whoever leaves it without a turn may have been the one that others relied on to commit.
struct Place<'a> {
    door: &'a Arc<Door>,
    has_turn: bool,
}

impl<'a> Place<'a> {
    fn take(door: &'a Arc<Door>) -> Place<'a> {
        door.waiting.fetch_add(1, Ordering::SeqCst);
        Place { door, has_turn: false }
    }

    fn leave(mut self) {
        self.has_turn = true;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.door.waiting.fetch_sub(1, Ordering::SeqCst);
        if !self.has_turn {
            let door = self.door.clone();
            detach(async move {
                let mut group = door.group.clone().lock_owned().await;
                door.end(&mut group).await;
            });
        }
    }
}

impl Turn {
    /// The connection, for this statement, whose outcome `note` must be told.
    pub fn connection(&mut self, sql: &str) -> Result<&mut SqliteConnection> {
        self.is_remembered |= memory::writes_quiet_table(sql);
        if self.has_failed {
            return Err(Error::Query(sqlx::Error::Protocol("the transaction has failed before".to_owned())));
        }
        let group = self.group.as_mut().expect("a turn holds its group until it ends");
        group.connection.as_mut().ok_or(Error::Query(sqlx::Error::PoolClosed))
    }

    pub fn note<T>(&mut self, outcome: std::result::Result<T, sqlx::Error>) -> Result<T> {
        self.has_failed |= outcome.is_err();
        Ok(outcome?)
    }

    /// Waits until what was done in this turn is on the disk.
    pub async fn commit(mut self) -> Result<()> {
        if self.has_failed {
            return Err(Error::Query(sqlx::Error::Protocol("the transaction has failed before".to_owned())));
        }
        let mut group = self.group.take().expect("a turn holds its group until it ends");
        let door = self.door.clone();
        let (sender, receiver) = oneshot::channel();
        group.is_remembered |= self.is_remembered;
        tokio::spawn(async move {
            group.keep(sender).await;
            door.end(&mut group).await;
        });
        let answer = receiver.await.map_err(|_| sqlx::Error::WorkerCrashed)?;
        answer.map_err(Error::Commit)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(mut group) = self.group.take() else {
            return;
        };
        let door = self.door.clone();
        detach(async move {
            group.undo().await;
            door.end(&mut group).await;
        });
    }
}

/// Runs to its end whoever waits. Where the runtime is gone the program ends, and SQLite undoes what was open.
fn detach(work: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(work);
    }
}

impl Group {
    async fn execute(&mut self, sql: &'static str) -> std::result::Result<(), sqlx::Error> {
        let connection = self.connection.as_mut().ok_or(sqlx::Error::PoolClosed)?;
        sqlx::query(sql).execute(connection).await.map(drop)
    }

    async fn begin(&mut self) -> std::result::Result<(), sqlx::Error> {
        if !self.is_open {
            // Said before it is so: whoever goes away now must leave a group that somebody ends.
            self.is_open = true;
            // Without IMMEDIATE a transaction that reads first cannot wait for the lock; it fails as busy.
            if let Err(error) = self.execute("BEGIN IMMEDIATE").await {
                self.is_open = false;
                return Err(error);
            }
        }
        self.execute("SAVEPOINT member").await
    }

    /// Keeps what the member did as part of the transaction.
    async fn keep(&mut self, member: oneshot::Sender<Answer>) {
        match self.execute("RELEASE member").await {
            Ok(()) => self.members.push(member),
            Err(error) => {
                let error = Arc::new(error);
                let _ = member.send(Err(error.clone()));
                self.lose(error).await;
            }
        }
    }

    /// Undoes what the member did. If its savepoint is gone, so is the transaction with all of its members.
    async fn undo(&mut self) {
        if !self.is_open {
            return;
        }
        let undone = match self.execute("ROLLBACK TO member").await {
            Ok(()) => self.execute("RELEASE member").await,
            Err(error) => Err(error),
        };
        if let Err(error) = undone {
            self.lose(Arc::new(error)).await;
        }
    }

    async fn commit(&mut self, memory: &Memory) {
        if !self.is_open {
            return;
        }
        match self.execute("COMMIT").await {
            Ok(()) => {
                // Before anybody is told, so that whoever was told reads what was written.
                if std::mem::take(&mut self.is_remembered) {
                    memory.forget();
                }
                self.answer(&Ok(()));
            }
            Err(error) => self.lose(Arc::new(error)).await,
        }
    }

    async fn lose(&mut self, error: Arc<sqlx::Error>) {
        // It fails where SQLite has rolled back by itself, which is as good.
        let _ = self.execute("ROLLBACK").await;
        self.answer(&Err(error));
    }

    fn answer(&mut self, answer: &Answer) {
        self.is_open = false;
        for member in self.members.drain(..) {
            let _ = member.send(answer.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::args;
    use crate::database::Database;
    use std::collections::BTreeSet;

    async fn opened() -> (tempfile::TempDir, Database) {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(&folder.path().join("volley.db").display().to_string()).await.unwrap();
        (folder, database)
    }

    const INSERT: &str = "INSERT INTO settings (name, value) VALUES ($1, '')";

    async fn names(database: &Database) -> BTreeSet<String> {
        let rows = database.all("SELECT name FROM settings", args![]).await.unwrap();
        rows.iter().map(|row| row.get("name").unwrap()).collect()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn members_of_a_group_fail_alone() {
        let (_folder, database) = opened().await;
        let tasks = (0..200).map(|number| {
            let database = database.clone();
            tokio::spawn(async move {
                let mut write = database.write().await.unwrap();
                write.run(INSERT, args![format!("own-{number}")]).await.unwrap();
                match number % 4 {
                    // Somebody else has this name, so it fails, and what it did before is undone.
                    0 => write.run(INSERT, args!["same"]).await.map(drop).err().map_or("kept", |_| "failed"),
                    1 => "dropped",
                    _ => write.commit().await.map_or("failed", |()| "kept"),
                }
            })
        });
        let mut kept = BTreeSet::new();
        let mut write = database.write().await.unwrap();
        write.run(INSERT, args!["same"]).await.unwrap();
        let tasks: Vec<_> = tasks.collect();
        write.commit().await.unwrap();
        for (number, task) in tasks.into_iter().enumerate() {
            match task.await.unwrap() {
                "kept" => drop(kept.insert(format!("own-{number}"))),
                other => assert_eq!(other, if number % 4 == 0 { "failed" } else { "dropped" }),
            }
        }
        assert_eq!(kept.len(), 100);
        kept.insert("same".to_owned());
        assert_eq!(names(&database).await, kept);
    }

    #[tokio::test]
    async fn a_transaction_that_failed_is_not_committed() {
        let (_folder, database) = opened().await;
        let mut write = database.write().await.unwrap();
        write.run(INSERT, args!["one"]).await.unwrap();
        assert!(write.run(INSERT, args!["one"]).await.is_err());
        assert!(write.run(INSERT, args!["two"]).await.is_err());
        assert!(write.commit().await.is_err());
        assert_eq!(names(&database).await, BTreeSet::new());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn whoever_goes_away_while_waiting_leaves_nobody_behind() {
        let (_folder, database) = opened().await;
        for round in 0..50 {
            let mut first = database.write().await.unwrap();
            first.run(INSERT, args![format!("kept-{round}")]).await.unwrap();
            let waiting = tokio::spawn({
                let database = database.clone();
                async move { drop(database.write().await) }
            });
            tokio::task::yield_now().await;
            let committed = tokio::spawn(first.commit());
            waiting.abort();
            committed.await.unwrap().unwrap();
        }
        assert_eq!(names(&database).await.len(), 50);
    }

    #[tokio::test]
    async fn what_was_committed_is_there_after_the_database_was_opened_again() {
        let (folder, database) = opened().await;
        let mut write = database.write().await.unwrap();
        write.run(INSERT, args!["one"]).await.unwrap();
        write.commit().await.unwrap();
        database.close().await;
        assert!(database.write().await.is_err(), "a closed database takes no writes");
        let again = Database::open(&folder.path().join("volley.db").display().to_string()).await.unwrap();
        assert_eq!(names(&again).await, BTreeSet::from(["one".to_owned()]));
    }
}
