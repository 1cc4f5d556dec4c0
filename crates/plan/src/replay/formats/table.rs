//! Rows of cells with a heading, as CSV has them.

use super::Problem;

/// A heading and rows with their line numbers.
#[derive(Debug, Default)]
pub struct Table {
    heading: Vec<String>,
    pub rows: Vec<(usize, Vec<String>)>,
}

/// The cells of one line; quotes keep commas together and are doubled inside.
pub fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut cell, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut letters = line.trim_end_matches('\r').chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => {
                letters.next();
                cell.push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(std::mem::take(&mut cell).trim().to_owned()),
            other => cell.push(other),
        }
    }
    cells.push(cell.trim().to_owned());
    cells
}

impl Table {
    /// Lines that are empty or begin with `#` say nothing. `fixed` is the heading of a table that has none.
    pub fn read(text: &str, fixed: Option<&[&str]>) -> Table {
        let text = text.trim_start_matches('\u{feff}');
        let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line));
        let mut lines = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        let heading = match fixed {
            Some(names) => names.iter().map(|name| (*name).to_owned()).collect(),
            None => lines.next().map(|(_, line)| cells(line)).unwrap_or_default(),
        };
        let heading = heading.iter().map(|name| name.trim().to_ascii_lowercase()).collect();
        Table { heading, rows: lines.map(|(number, line)| (number, cells(line))).collect() }
    }

    pub fn heading(&self) -> &[String] {
        &self.heading
    }

    /// The columns that must be there.
    pub fn require(&self, names: &[&str]) -> Result<(), Vec<Problem>> {
        let missing: Vec<&str> =
            names.iter().copied().filter(|name| !self.heading.iter().any(|own| own == name)).collect();
        match missing.is_empty() {
            true => Ok(()),
            false => Err(vec![Problem::at(
                1,
                missing[0],
                format!("the column is missing; there are {}", self.heading.join(", ")),
            )]),
        }
    }

    /// A row's cell of a column, or nothing.
    pub fn cell<'a>(&self, row: &'a [String], name: &str) -> &'a str {
        let at = self.heading.iter().position(|own| own == name);
        at.and_then(|at| row.get(at)).map_or("", String::as_str)
    }

    /// A number of a column; nothing where the cell is empty.
    pub fn number(&self, (line, row): (usize, &[String]), name: &str) -> Result<Option<f64>, Problem> {
        match self.cell(row, name) {
            "" => Ok(None),
            text => match text.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Some(number)),
                _ => Err(Problem::at(line, name, format!("`{text}` is no number"))),
            },
        }
    }
}
