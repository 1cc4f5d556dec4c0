//! Rows of tables that seldom change, remembered until one of those tables is written.
//!
//! Nearly every request asks who the caller is and what the entity, the project and the queue are. This process alone
//! writes an SQLite file, so it knows when an answer is out of date; on PostgreSQL other replicas write as well,
//! and nothing is remembered.

use super::{Row, Value};
use parking_lot::Mutex;
use std::collections::HashMap;

/// Tables that change by hand, or once a minute, and are read by every request.
const QUIET: [&str; 7] = ["api_keys", "entities", "members", "projects", "queues", "resource_configs", "users"];
/// Answers that are kept at most; a server with more callers and projects than this forgets all and begins again.
const ANSWERS_MAX: usize = 4096;

#[derive(Default)]
pub struct Memory(Mutex<Answers>);

#[derive(Default)]
struct Answers {
    /// Counts the changes of the quiet tables.
    generation: u64,
    kept: HashMap<Question, Vec<Row>>,
}

/// How much of an answer is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Amount {
    One,
    All,
}

/// A statement and its arguments.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Question {
    amount: Amount,
    sql: String,
    args: Vec<Value>,
}

/// What to do with the answer, once the database has given it.
pub struct Ticket {
    question: Question,
    generation: u64,
}

pub enum Recall {
    Known(Vec<Row>),
    Unknown(Ticket),
    /// It reads tables that change all the time.
    Never,
}

impl Memory {
    pub fn recall(&self, amount: Amount, sql: &str, args: &[Value]) -> Recall {
        if !reads_quiet_tables_only(sql) {
            return Recall::Never;
        }
        let question = Question { amount, sql: sql.to_owned(), args: args.to_vec() };
        let answers = self.0.lock();
        match answers.kept.get(&question) {
            Some(rows) => Recall::Known(rows.clone()),
            None => Recall::Unknown(Ticket { question, generation: answers.generation }),
        }
    }

    /// Keeps an answer, unless something was changed since it was asked for; gives it back.
    pub fn keep(&self, ticket: Ticket, rows: Vec<Row>) -> Vec<Row> {
        let mut answers = self.0.lock();
        if answers.generation == ticket.generation {
            if answers.kept.len() >= ANSWERS_MAX {
                answers.kept.clear();
            }
            answers.kept.insert(ticket.question, rows.clone());
        }
        rows
    }

    pub fn forget(&self) {
        let mut answers = self.0.lock();
        answers.generation += 1;
        answers.kept.clear();
    }
}

/// Whether a statement may change a table that is remembered; what is not understood may.
pub fn writes_quiet_table(sql: &str) -> bool {
    let mut words = sql.split_ascii_whitespace();
    let table = match words.next() {
        Some("SELECT") => return false,
        Some("UPDATE") => words.next(),
        Some("INSERT" | "DELETE") => words.nth(1),
        // Popping an item is the only statement of this form.
        Some("WITH") => return !sql.contains("UPDATE items SET"),
        _ => None,
    };
    table.is_none_or(|table| QUIET.contains(&table))
}

fn reads_quiet_tables_only(sql: &str) -> bool {
    let mut words = sql.split_ascii_whitespace();
    if words.next() != Some("SELECT") {
        return false;
    }
    let mut has_table = false;
    while let Some(word) = words.next() {
        // A subquery or a list behind FROM is no name in the list, so it counts as a table that changes.
        if word == "FROM" || word == "JOIN" || word == "(SELECT" {
            let is_quiet = word != "(SELECT" && words.next().is_some_and(|table| QUIET.contains(&table));
            if !is_quiet {
                return false;
            }
            has_table = true;
        }
    }
    has_table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;
    use crate::database::Database;

    #[test]
    fn statements_are_told_apart() {
        for quiet in [
            "SELECT * FROM entities WHERE name = $1",
            "SELECT q.*, u.username FROM queues q JOIN projects p ON p.id = q.project_id JOIN users u ON u.id = q.user_id",
        ] {
            assert!(reads_quiet_tables_only(quiet), "{quiet}");
        }
        for other in [
            "SELECT r.* FROM runs r JOIN projects p ON p.id = r.project_id",
            "SELECT 1",
            "SELECT *, (SELECT COUNT(*) FROM runs) FROM projects",
            "SELECT * FROM projects, runs",
            "UPDATE users SET name = $1",
        ] {
            assert!(!reads_quiet_tables_only(other), "{other}");
        }
        for write in
            ["UPDATE users SET name = $1", "INSERT INTO members (x) VALUES (1)", "DELETE FROM queues", "CREATE TABLE x"]
        {
            assert!(writes_quiet_table(write), "{write}");
        }
        for other in ["INSERT INTO items (x) VALUES (1)", "SELECT 1", "UPDATE runs SET name = 'UPDATE users'"] {
            assert!(!writes_quiet_table(other), "{other}");
        }
    }

    #[tokio::test]
    async fn what_was_changed_is_seen_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(&folder.path().join("volley.db").display().to_string()).await.unwrap();
        let names = async || {
            let rows = database.all("SELECT name FROM entities ORDER BY id", args![]).await.unwrap();
            rows.iter().map(|row| row.get("name").unwrap()).collect::<Vec<String>>()
        };
        for number in 0..20 {
            assert_eq!(names().await.len(), number);
            let mut write = database.write().await.unwrap();
            let sql = "INSERT INTO entities (name, is_team, created_at) VALUES ($1, 0, 0)";
            write.run(sql, args![format!("e{number}")]).await.unwrap();
            assert_eq!(names().await.len(), number, "others do not see what is not committed");
            write.commit().await.unwrap();
        }
    }
}
