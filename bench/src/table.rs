//! The table that a run prints.

/// One figure beside its reference.
pub struct Row {
    pub figure: &'static str,
    pub scale: String,
    pub value: f64,
    pub unit: &'static str,
    /// What it is compared with, and that value in the same unit.
    pub reference: (&'static str, f64),
}

#[derive(Default)]
pub struct Table {
    rows: Vec<Row>,
}

impl Table {
    /// Adds a row and shows it on standard error, so that a long run is seen to go on.
    pub fn add(&mut self, row: Row) {
        eprintln!("{}", cells(&row).join("  "));
        self.rows.push(row);
    }

    /// Markdown, so that it can go into the README as it is.
    pub fn render(&self) -> String {
        let mut lines =
            vec!["| figure | scale | value | unit | reference in the same run | its value | ratio |".to_owned()];
        lines.push("|---|---|---:|---|---|---:|---:|".to_owned());
        lines.extend(self.rows.iter().map(|row| format!("| {} |", cells(row).join(" | "))));
        lines.join("\n")
    }
}

fn cells(row: &Row) -> [String; 7] {
    let (name, reference) = row.reference;
    let ratio = if reference > 0.0 { format!("{:.2}", row.value / reference) } else { "–".to_owned() };
    let (figure, unit) = (row.figure.to_owned(), row.unit.to_owned());
    [figure, row.scale.clone(), number(row.value), unit, name.to_owned(), number(reference), ratio]
}

/// Three significant digits are all that a benchmark has.
fn number(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}
