//! What verbs print on stdout: a table for people, JSON, YAML or bare names for programs.

use anyhow::Result;
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use serde::Serialize;
use std::io::Write;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Json,
    Yaml,
    Wide,
    Name,
}

/// `-o`, for verbs that print something.
#[derive(Debug, Clone, Copy, Args)]
pub struct Output {
    /// Print in this form instead of a table for people
    #[arg(short = 'o', long = "output", value_name = "FORMAT", global = true)]
    pub format: Option<Format>,
}

/// What can be printed in every form.
pub trait Show: Serialize {
    /// Rows of cells, headings first; `wide` asks for all columns.
    fn rows(&self, wide: bool) -> Vec<Vec<String>>;
    fn names(&self) -> Vec<String>;
    /// The table for people; a kind that others print too keeps their layout.
    fn table(&self, wide: bool) -> String {
        aligned(&self.rows(wide))
    }
}

impl Output {
    pub fn print(self, value: &impl Show) -> Result<()> {
        let text = match self.format {
            None => value.table(false),
            Some(Format::Wide) => value.table(true),
            Some(Format::Name) => value.names().into_iter().map(|name| name + "\n").collect(),
            Some(Format::Json) => serde_json::to_string_pretty(value)? + "\n",
            // By way of JSON, so that both forms have the same keys in the same order.
            Some(Format::Yaml) => yaml(&serde_json::to_value(value)?)?,
        };
        print(&text)
    }
}

/// Writes data to stdout; that the reader left is an error that `failure` knows.
pub fn print(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    Ok(stdout.flush()?)
}

pub fn yaml(value: &serde_json::Value) -> Result<String> {
    let text = serde_saphyr::to_string(value)?;
    Ok(if text.ends_with('\n') { text } else { text + "\n" })
}

/// Cells in columns three blanks apart, as kubectl prints them.
pub fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text += cells.join("   ").trim_end();
        text.push('\n');
    }
    text
}

/// Cells in columns of at least these widths, as `printf` sets them; a width of 0 is the widest cell and three blanks.
///
/// Unlike with `printf`, a cell that is too wide widens its column and never touches the next.
pub fn padded(rows: &[Vec<String>], least: &[usize]) -> String {
    let longest = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let width = |(column, least): (usize, &usize)| match (longest(column).unwrap_or(0), *least) {
        (longest, 0) => longest + 3,
        (longest, least) => least.max(longest + 1),
    };
    let widths: Vec<usize> = least.iter().enumerate().map(width).collect();
    let line = |row: &Vec<String>| {
        let cells: String = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        cells.trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

/// The time since then, as kubectl's tables have it.
pub fn age(then: Timestamp, now: Timestamp) -> String {
    let seconds = (now.as_second() - then.as_second()).max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A size for people, in powers of ten as `docker image ls` has it.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let (mut value, mut unit) = (count as f64, 0);
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{count}B") } else { format!("{value:.1}{}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["NAME".into(), "HEALTH".into()], vec!["cluster".into(), "ok".into()]];
        assert_eq!(aligned(&rows), "NAME      HEALTH\ncluster   ok\n");
    }

    #[test]
    fn yaml_quotes_what_would_read_as_something_else() {
        let value = json!({"a": "true", "b": "1", "c": "", "d": ["x: y", "null"], "e": null, "f": {}, "g": "0644"});
        let text = yaml(&value).unwrap();
        assert_eq!(serde_saphyr::from_str::<serde_json::Value>(&text).unwrap(), value, "{text}");
    }

    #[test]
    fn sizes_and_ages_have_few_digits() {
        let sizes = [0, 999, 1_000, 999_949, 999_999, 12_345_678_901].map(bytes);
        assert_eq!(sizes, ["0B", "999B", "1.0kB", "999.9kB", "1.0MB", "12.3GB"]);
        let now = Timestamp::from_second(1_000_000).unwrap();
        let age_of = |seconds: i64| age(Timestamp::from_second(1_000_000 - seconds).unwrap(), now);
        assert_eq!([-5, 119, 120, 7_200, 172_800].map(age_of), ["0s", "119s", "2m", "2h", "2d"]);
    }
}
