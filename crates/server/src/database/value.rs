//! What goes into a statement and what comes out of it, on either engine.
//!
//! A value knows its type even when it is null, because PostgreSQL asks for it. Times are microseconds since 1970,
//! truth is 0 or 1, JSON is text.

use super::Result;
use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{Decode, Postgres, Row as _, Sqlite, Type};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub enum Value {
    Int(Option<i64>),
    Real(Option<f64>),
    Text(Option<String>),
    Bytes(Option<Vec<u8>>),
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Int(one), Value::Int(other)) => one == other,
            // To the bit, so that a value equals itself whatever it is.
            (Value::Real(one), Value::Real(other)) => one.map(f64::to_bits) == other.map(f64::to_bits),
            (Value::Text(one), Value::Text(other)) => one == other,
            (Value::Bytes(one), Value::Bytes(other)) => one == other,
            _ => false,
        }
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Value::Int(value) => value.hash(state),
            Value::Real(value) => value.map(f64::to_bits).hash(state),
            Value::Text(value) => value.hash(state),
            Value::Bytes(value) => value.hash(state),
        }
    }
}

/// Shared, because rows may be remembered.
#[derive(Clone)]
pub enum Row {
    Sqlite(Arc<SqliteRow>),
    Postgres(Arc<PgRow>),
}

impl From<SqliteRow> for Row {
    fn from(row: SqliteRow) -> Row {
        Row::Sqlite(Arc::new(row))
    }
}

impl From<PgRow> for Row {
    fn from(row: PgRow) -> Row {
        Row::Postgres(Arc::new(row))
    }
}

impl Row {
    pub fn get<T>(&self, column: &str) -> Result<T>
    where
        T: for<'r> Decode<'r, Sqlite> + Type<Sqlite> + for<'r> Decode<'r, Postgres> + Type<Postgres>,
    {
        Ok(match self {
            Row::Sqlite(row) => row.try_get(column)?,
            Row::Postgres(row) => row.try_get(column)?,
        })
    }

    /// A column that holds 0 or 1.
    pub fn is(&self, column: &str) -> Result<bool> {
        Ok(self.get::<i64>(column)? != 0)
    }
}

macro_rules! value_from {
    ($($given:ty => $variant:ident, $change:expr;)*) => {$(
        impl From<$given> for Value {
            fn from(given: $given) -> Value {
                Value::$variant(Some(($change)(given)))
            }
        }
        impl From<Option<$given>> for Value {
            fn from(given: Option<$given>) -> Value {
                Value::$variant(given.map($change))
            }
        }
    )*};
}

value_from! {
    i64 => Int, |value| value;
    i32 => Int, i64::from;
    bool => Int, i64::from;
    usize => Int, |value| i64::try_from(value).unwrap_or(i64::MAX);
    jiff::Timestamp => Int, |value: jiff::Timestamp| value.as_microsecond();
    f64 => Real, |value| value;
    &str => Text, str::to_owned;
    &String => Text, String::clone;
    String => Text, |value| value;
    Vec<u8> => Bytes, |value| value;
}
