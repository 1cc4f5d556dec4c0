//! A plot as SVG: how full the cluster was, and how many jobs waited, over time; for one policy or two.

use super::run::{Outcome, Sample};
use std::fmt::Write;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 24.0;
const PANEL: f64 = 180.0;
const TOPS: [f64; 2] = [56.0, 292.0];
const HEIGHT: f64 = 530.0;
/// Columns of pixels: more would not be seen.
const COLUMNS: usize = 480;
/// Light and dark, by what the reader's system wants; both colours of lines stand out on both.
const STYLE: &str = "\
svg{background:#fff;font:12px system-ui,sans-serif;--ink:#1f2328;--dim:#6e7781;--grid:#d8dee4;--a:#0969da;--b:#bc4c00}\
@media(prefers-color-scheme:dark){svg{background:#0d1117;--ink:#e6edf3;--dim:#8b949e;--grid:#30363d;--a:#58a6ff;--b:#f0883e}}\
text{fill:var(--ink)}.dim{fill:var(--dim)}.title{font-size:14px;font-weight:600}\
.grid{stroke:var(--grid);stroke-width:1}.line{fill:none;stroke-width:1.6;stroke-linejoin:round}\
.a{stroke:var(--a)}.b{stroke:var(--b);stroke-dasharray:5 3}.fill{fill:var(--a);opacity:.14;stroke:none}";

/// One policy's name and what came of it.
pub struct Series<'a> {
    pub name: &'a str,
    pub outcome: &'a Outcome,
}

/// Draws up to two series from `first` to `last`, in seconds.
pub fn svg(title: &str, series: &[Series], (first, last): (i64, i64)) -> String {
    let last = last.max(first + 1);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n<style>{STYLE}</style>\n\
         <title>{0}</title>\n<text class=\"title\" x=\"{LEFT}\" y=\"24\">{0}</text>\n",
        escaped(title)
    );
    legend(&mut out, series);
    let used = |sample: &Sample, outcome: &Outcome| 100.0 * sample.used as f64 / outcome.total.max(1) as f64;
    let waiting = |sample: &Sample, _: &Outcome| sample.waiting as f64;
    panel(
        &mut out,
        TOPS[0],
        &format!("{} in use, %", series.first().map_or("", |one| one.outcome.resource.as_str())),
        series,
        (first, last),
        (100.0, &used),
    );
    let most = series.iter().flat_map(|one| one.outcome.samples.iter().map(|sample| sample.waiting)).max().unwrap_or(0);
    panel(&mut out, TOPS[1], "jobs that wait", series, (first, last), (nice(most as f64), &waiting));
    out.push_str("</svg>\n");
    out
}

fn legend(out: &mut String, series: &[Series]) {
    for (number, one) in series.iter().enumerate().filter(|_| series.len() > 1) {
        let x = WIDTH - RIGHT - 200.0 * (series.len() - number) as f64;
        let class = ["a", "b"][number.min(1)];
        let _ = writeln!(
            out,
            "<path class=\"line {class}\" d=\"M{x} 20h28\"/><text x=\"{}\" y=\"24\">{}</text>",
            x + 34.0,
            escaped(one.name)
        );
    }
}

type Measure<'m> = &'m dyn Fn(&Sample, &Outcome) -> f64;

fn panel(
    out: &mut String,
    top: f64,
    label: &str,
    series: &[Series],
    (first, last): (i64, i64),
    (most, measure): (f64, Measure),
) {
    let width = WIDTH - LEFT - RIGHT;
    let _ = writeln!(out, "<text class=\"dim\" x=\"{LEFT}\" y=\"{}\">{}</text>", top - 8.0, escaped(label));
    for step in 0..=4 {
        let y = top + PANEL * f64::from(step) / 4.0;
        let value = most * f64::from(4 - step) / 4.0;
        let shown = if most >= 8.0 || value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") };
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M{LEFT} {y}h{width}\"/><text class=\"dim\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{shown}</text>",
            LEFT - 8.0,
            y + 4.0
        );
    }
    for (at, text) in ticks(last - first) {
        let x = LEFT + width * at as f64 / (last - first) as f64;
        let _ = writeln!(
            out,
            "<text class=\"dim\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{text}</text>",
            top + PANEL + 18.0
        );
    }
    for (number, one) in series.iter().enumerate() {
        let points = columns(one.outcome, (first, last), measure);
        let place = |(column, value): (usize, &f64)| {
            let x = LEFT + width * (column as f64 + 0.5) / COLUMNS as f64;
            format!("{x:.1} {:.1}", top + PANEL * (1.0 - (value / most).clamp(0.0, 1.0)))
        };
        let path: Vec<String> = points.iter().enumerate().map(place).collect();
        let path = path.join("L");
        if number == 0 {
            let (from, to, floor) = (LEFT + width * 0.5 / COLUMNS as f64, LEFT + width, top + PANEL);
            let _ = writeln!(out, "<path class=\"fill\" d=\"M{path}L{to:.1} {floor}L{from:.1} {floor}Z\"/>");
        }
        let _ = writeln!(out, "<path class=\"line {}\" d=\"M{path}\"/>", ["a", "b"][number.min(1)]);
    }
}

/// The mean over the time of each column.
fn columns(outcome: &Outcome, (first, last): (i64, i64), measure: Measure) -> Vec<f64> {
    let step = (last - first) as f64 / COLUMNS as f64;
    let samples = &outcome.samples;
    let (mut at, mut values) = (0, Vec::with_capacity(COLUMNS));
    for column in 0..COLUMNS {
        let (from, to) = (first as f64 + step * column as f64, first as f64 + step * (column + 1) as f64);
        while at + 1 < samples.len() && samples[at + 1].at as f64 <= from {
            at += 1;
        }
        let (mut sum, mut next) = (0.0, at);
        while next < samples.len() && (samples[next].at as f64) < to {
            let begin = (samples[next].at as f64).max(from);
            let end = samples.get(next + 1).map_or(to, |after| (after.at as f64).min(to));
            sum += measure(&samples[next], outcome) * (end - begin).max(0.0);
            next += 1;
        }
        values.push(sum / step);
    }
    values
}

/// A round number not below, of which a quarter is a whole one.
fn nice(most: f64) -> f64 {
    let scale = 10f64.powf((most.max(4.0) / 4.0).log10().floor());
    let found = [4.0, 8.0, 12.0, 16.0, 20.0, 40.0].into_iter().map(|step| step * scale).find(|round| *round >= most);
    found.unwrap_or(40.0 * scale)
}

/// Where the axis of time is marked, and how.
fn ticks(span: i64) -> Vec<(i64, String)> {
    const STEPS: [(i64, &str); 14] = [
        (1, "s"),
        (10, "s"),
        (60, "m"),
        (300, "m"),
        (900, "m"),
        (3600, "h"),
        (4 * 3600, "h"),
        (12 * 3600, "h"),
        (86_400, "d"),
        (2 * 86_400, "d"),
        (7 * 86_400, "d"),
        (30 * 86_400, "d"),
        (90 * 86_400, "d"),
        (365 * 86_400, "d"),
    ];
    let (step, unit) = STEPS.into_iter().find(|(step, _)| span / step <= 10).unwrap_or((span.max(1), "s"));
    let each = match unit {
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => 1,
    };
    (0..=span / step).map(|mark| (mark * step, format!("{}{unit}", mark * step / each))).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
