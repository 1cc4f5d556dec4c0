//! A filter of runs as SQL, so that the database leaves out most of what does not pass.
//!
//! The SQL lets through everything that passes, and sometimes a little more: what it cannot say, or says less exactly than
//! `plan::run::filter`, is left to that, which is asked of every run that comes back. So both always agree.

use crate::database::{Dialect, Value as Argument};
use jiff::Timestamp;
use serde_json::Value;
use std::cmp::Ordering;
use volley_plan::run::filter::{Filter, Test};

/// SQLite takes a thousand conditions in a row, and some ten thousands of arguments.
const PARTS_MAX: usize = 400;
const VALUES_MAX: usize = 10_000;
/// What a text of a time leaves out, and a little more.
const TIME_ERROR_US: i64 = 2_000_000;
/// Two readers of the same decimal number may differ by less than this part of it.
const READING_ERROR: f64 = 1e-12;

/// A condition on a run `r` (its user is `u`), with arguments behind those that the statement has already.
pub struct Condition {
    pub sql: String,
    pub args: Vec<Argument>,
    /// Whether it lets through nothing but what passes.
    pub is_exact: bool,
}

impl Condition {
    pub fn everything() -> Condition {
        Condition { sql: "1 = 1".to_owned(), args: Vec::new(), is_exact: true }
    }
}

pub fn condition(filter: &Filter, dialect: Dialect, args_before: usize) -> Condition {
    let mut writer = Writer { dialect, args_before, args: Vec::new(), is_exact: true };
    let sql = writer.filter(filter, false);
    writer.is_exact &= sql.is_some();
    Condition { sql: sql.unwrap_or_else(|| "1 = 1".to_owned()), args: writer.args, is_exact: writer.is_exact }
}

struct Writer {
    dialect: Dialect,
    args_before: usize,
    args: Vec<Argument>,
    is_exact: bool,
}

/// Nothing means that everything must be let through.
type Sql = Option<String>;

impl Writer {
    fn bind(&mut self, value: impl Into<Argument>) -> String {
        self.args.push(value.into());
        format!("${}", self.args_before + self.args.len())
    }

    fn filter(&mut self, filter: &Filter, is_negated: bool) -> Sql {
        let args = self.args.len();
        let sql = match (filter, is_negated) {
            (Filter::All(inner), false) | (Filter::Any(inner), true) => self.every(inner, is_negated),
            (Filter::Any(inner), false) | (Filter::All(inner), true) => self.some(inner, is_negated),
            (Filter::Not(inner), _) => self.filter(inner, !is_negated),
            (Filter::Field(name, test), _) => self.field(name, test, is_negated),
        };
        if sql.is_none() {
            // Arguments that nothing names are refused.
            self.args.truncate(args);
        }
        sql
    }

    fn every(&mut self, inner: &[Filter], is_negated: bool) -> Sql {
        let mut parts = Vec::new();
        for filter in inner {
            let part = self.filter(filter, is_negated);
            self.is_exact &= part.is_some();
            parts.extend(part);
        }
        (!parts.is_empty()).then(|| format!("({})", parts.join(" AND ")))
    }

    fn some(&mut self, inner: &[Filter], is_negated: bool) -> Sql {
        if inner.len() > PARTS_MAX {
            return None;
        }
        let parts: Option<Vec<String>> = inner.iter().map(|filter| self.filter(filter, is_negated)).collect();
        Some(any_of(&parts?))
    }

    fn field(&mut self, name: &str, test: &Test, is_negated: bool) -> Sql {
        if let Some(column) = text_column(name) {
            let collation = if self.dialect == Dialect::Postgres { " COLLATE \"C\"" } else { "" };
            let sql = self.text(&format!("{column}{collation}"), test)?;
            return Some(if is_negated { format!("NOT {sql}") } else { sql });
        }
        self.is_exact = false;
        if name == "tags" {
            return if is_negated { None } else { self.tags(test) };
        }
        if let Some(column) = time_column(name) {
            return if is_negated { None } else { self.time(column, test) };
        }
        let (column, path) = json_place(name)?;
        if self.dialect != Dialect::Sqlite {
            return None;
        }
        let seen = self.json(column, &path, test, is_negated)?;
        // What other programs do not take for JSON is looked at line by line.
        Some(format!("(CASE WHEN json_valid({column}) THEN {seen} ELSE 1 = 1 END)"))
    }

    /// Tags are kept as a list in JSON: who has a tag has its words in it, or an escape that may stand for them.
    fn tags(&mut self, test: &Test) -> Sql {
        let find = if self.dialect == Dialect::Sqlite { "instr" } else { "strpos" };
        match test {
            Test::Equal(Value::String(tag)) => {
                let place = self.bind(tag);
                Some(format!("({find}(r.tags, {place}) > 0 OR {find}(r.tags, '\\') > 0)"))
            }
            Test::In(wanted) if wanted.len() <= PARTS_MAX => {
                let one = |tag: &Value| self.tags(&Test::Equal(tag.clone()));
                let parts: Vec<String> = wanted.iter().map(one).collect::<Option<_>>()?;
                Some(any_of(&parts))
            }
            _ => None,
        }
    }

    /// Times are compared as the texts that clients see, which have no parts of a second.
    fn time(&mut self, column: &str, test: &Test) -> Sql {
        let around = |wanted: &Value| {
            let second = wanted.as_str().and_then(whole_second)?;
            Some((second - TIME_ERROR_US, second + TIME_ERROR_US))
        };
        Some(match test {
            Test::Equal(wanted) => {
                let (low, high) = around(wanted)?;
                let (low, high) = (self.bind(low), self.bind(high));
                format!("({column} BETWEEN {low} AND {high})")
            }
            Test::Compare(orders, wanted) => {
                let (low, high) = around(wanted)?;
                let is_upwards = orders.contains(&Ordering::Greater);
                let place = self.bind(if is_upwards { low } else { high });
                let sign = if is_upwards { ">=" } else { "<=" };
                format!("({column} {sign} {place})")
            }
            _ => return None,
        })
    }

    /// A column of text or nothing; the answer is never null.
    fn text(&mut self, column: &str, test: &Test) -> Sql {
        Some(match test {
            Test::Exists(true) => format!("({column} IS NOT NULL)"),
            Test::Exists(false) | Test::Equal(Value::Null) => format!("({column} IS NULL)"),
            Test::Equal(Value::String(text)) => {
                let place = self.bind(text);
                format!("({column} IS NOT NULL AND {column} = {place})")
            }
            Test::Compare(orders, Value::String(text)) => {
                let place = self.bind(text);
                format!("({column} IS NOT NULL AND {column} {} {place})", operator(orders))
            }
            Test::Equal(_) | Test::Compare(..) => "(1 = 0)".to_owned(),
            Test::In(wanted) if wanted.len() > VALUES_MAX => return None,
            Test::In(wanted) => {
                let texts: Vec<String> = wanted.iter().filter_map(Value::as_str).map(|text| self.bind(text)).collect();
                let mut parts = Vec::new();
                if !texts.is_empty() {
                    parts.push(format!("({column} IS NOT NULL AND {column} IN ({}))", texts.join(", ")));
                }
                if wanted.contains(&Value::Null) {
                    parts.push(format!("({column} IS NULL)"));
                }
                any_of(&parts)
            }
            Test::Matches(_) | Test::Size(_) => return None,
        })
    }

    fn json(&mut self, column: &str, path: &str, test: &Test, is_negated: bool) -> Sql {
        let path = self.bind(path);
        let (kind, value) = (format!("json_type({column}, {path})"), format!("json_extract({column}, {path})"));
        let absent = format!("({kind} IS NULL OR {kind} = 'null')");
        let either = |is: bool, yes: &str| if is { format!("NOT {yes}") } else { yes.to_owned() };
        match test {
            Test::Exists(wanted) => Some(either(*wanted != is_negated, &absent)),
            Test::Equal(wanted) => self.json_equal((&kind, &value, &absent), wanted, is_negated),
            Test::In(wanted) if wanted.len() > PARTS_MAX => None,
            Test::In(wanted) => {
                let one = |wanted: &Value| self.json_equal((&kind, &value, &absent), wanted, is_negated);
                let parts: Vec<String> = wanted.iter().map(one).collect::<Option<_>>()?;
                match (parts.is_empty(), is_negated) {
                    (_, false) => Some(any_of(&parts)),
                    (true, true) => None,
                    (false, true) => Some(format!("({})", parts.join(" AND "))),
                }
            }
            Test::Compare(orders, Value::Number(number)) => {
                let number = number.as_f64()?;
                // What might just pass is let through, either way round.
                let is_upwards = orders.contains(&Ordering::Greater);
                let error = number.abs() * READING_ERROR + f64::MIN_POSITIVE;
                let bound = if is_upwards == is_negated { number + error } else { number - error };
                let place = self.bind(bound);
                let sign = if is_upwards { ">=" } else { "<=" };
                let is_number = format!("COALESCE({kind} IN ('integer', 'real'), 0)");
                let passes = format!("({is_number} AND CAST({value} AS REAL) {sign} {place})");
                Some(either(is_negated, &passes))
            }
            Test::Compare(orders, Value::String(text)) => {
                let place = self.bind(text);
                let passes = format!("(COALESCE({kind} = 'text', 0) AND {value} {} {place})", operator(orders));
                Some(either(is_negated, &passes))
            }
            Test::Compare(..) | Test::Matches(_) | Test::Size(_) => None,
        }
    }

    /// A list may hold what is wanted, so lists are let through.
    fn json_equal(&mut self, (kind, value, absent): (&str, &str, &str), wanted: &Value, is_negated: bool) -> Sql {
        let same = match wanted {
            Value::Null if is_negated => return Some(format!("NOT {absent}")),
            Value::Null => absent.to_owned(),
            Value::Bool(wanted) => format!("{kind} = '{wanted}'"),
            Value::String(text) => {
                let place = self.bind(text);
                format!("({kind} = 'text' AND {value} = {place})")
            }
            // Two readings of the same decimal may differ, so it cannot be told that a number is another.
            Value::Number(_) if is_negated => return None,
            Value::Number(number) => {
                let number = number.as_f64()?;
                let error = number.abs() * READING_ERROR + f64::MIN_POSITIVE;
                let (low, high) = (self.bind(number - error), self.bind(number + error));
                format!("({kind} IN ('integer', 'real') AND CAST({value} AS REAL) BETWEEN {low} AND {high})")
            }
            Value::Array(_) | Value::Object(_) => return None,
        };
        Some(match is_negated {
            false => format!("COALESCE({same} OR {kind} = 'array', 0)"),
            true => format!("NOT COALESCE({same}, 0)"),
        })
    }
}

fn any_of(parts: &[String]) -> String {
    if parts.is_empty() { "(1 = 0)".to_owned() } else { format!("({})", parts.join(" OR ")) }
}

fn operator(orders: &[Ordering]) -> &'static str {
    match (orders.contains(&Ordering::Greater), orders.contains(&Ordering::Equal)) {
        (true, true) => ">=",
        (true, false) => ">",
        (false, true) => "<=",
        (false, false) => "<",
    }
}

pub fn text_column(field: &str) -> Option<&'static str> {
    Some(match field {
        "state" => "r.state",
        "name" => "r.name",
        "displayName" | "display_name" => "r.display_name",
        "jobType" | "job_type" => "r.job_type",
        "group" | "groupName" => "r.group_name",
        "sweep" | "sweepName" => "r.sweep_name",
        "username" | "user" => "u.username",
        "host" => "r.host",
        "commit" => "r.commit_hash",
        "notes" => "r.notes",
        "description" => "r.description",
        _ => return None,
    })
}

fn time_column(field: &str) -> Option<&'static str> {
    Some(match field {
        "createdAt" | "created_at" => "r.created_at",
        "updatedAt" | "updated_at" => "r.updated_at",
        "heartbeatAt" | "heartbeat_at" => "r.heartbeat_at",
        _ => return None,
    })
}

/// The moment that a text begins with, or the day; whatever zone it names, it is compared as it is written.
fn whole_second(text: &str) -> Option<i64> {
    let written = match text.len() {
        10 => format!("{text}T00:00:00Z"),
        19.. if text.as_bytes()[10] == b'T' => format!("{}Z", text.get(..19)?),
        _ => return None,
    };
    Some(written.parse::<Timestamp>().ok()?.as_microsecond())
}

/// The column and the path of a value whose name has no dots, which could mean several places.
fn json_place(field: &str) -> Option<(&'static str, String)> {
    let is_plain = |key: &str| !key.is_empty() && !key.contains(['.', '"', '\\']) && !key.chars().any(char::is_control);
    if let Some(key) = field.strip_prefix("config.") {
        let key = key.strip_suffix(".value").unwrap_or(key);
        return is_plain(key).then(|| ("r.config", format!("$.\"{key}\".\"value\"")));
    }
    let key = field.strip_prefix("summary_metrics.").or_else(|| field.strip_prefix("summary."))?;
    is_plain(key).then(|| ("r.summary", format!("$.\"{key}\"")))
}
