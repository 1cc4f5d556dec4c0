//! How an answer looks on a terminal, and what programs get.

use super::observe::Subject;
use crate::failure::colour_wanted;
use crate::output::{self, Show, aligned};
use jiff::Timestamp;
use serde::Serialize;
use std::io::IsTerminal;
use volley_api::kube::text;
use volley_plan::why::history::Record;
use volley_plan::why::world::Change;
use volley_plan::why::{Answer, JobName, State};

/// An answer, with the one for a changed cluster beside it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    answer: Answer,
    #[serde(skip_serializing_if = "Option::is_none")]
    what_if: Option<WhatIf>,
    #[serde(skip)]
    now: Timestamp,
}

#[derive(Debug, Serialize)]
struct WhatIf {
    changes: Vec<String>,
    /// Whether it would start at once.
    starts: bool,
    answer: Answer,
}

impl Shown {
    pub fn new(answer: Answer, now: Timestamp) -> Shown {
        Shown { api_version: "volley.dev/v1", kind: "Why", answer, what_if: None, now }
    }

    pub fn what_if(&mut self, changes: &[Change], answer: Answer) {
        let changes = changes.iter().map(ToString::to_string).collect();
        let starts = answer.is_free() || matches!(answer.state, State::Running | State::Finished);
        self.what_if = Some(WhatIf { changes, starts, answer });
    }
}

/// `in 23m`, or nothing for what has passed.
fn until(when: Timestamp, now: Timestamp) -> String {
    if when <= now { "any moment".to_owned() } else { format!("in {}", output::age(now, when)) }
}

/// How a state is called where the sentence does not say it, and its colour.
fn word(state: State) -> (&'static str, &'static str) {
    match state {
        State::Waiting => ("is waiting", "33"),
        State::Starting => ("is starting", "36"),
        State::Running | State::Finished => ("", "32"),
        State::Failed => ("", "31"),
        State::Suspended => ("", "35"),
    }
}

fn text_of(answer: &Answer, now: Timestamp, is_coloured: bool) -> String {
    let paint =
        |text: &str, colour: &str| if is_coloured { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() };
    let (word, colour) = word(answer.state);
    let mut about: Vec<String> = answer.queue.iter().map(|queue| format!("queue {queue}")).collect();
    about.extend(answer.since.map(|since| format!("for {}", output::age(since, now))));
    let about = if about.is_empty() { String::new() } else { format!(" ({})", about.join(", ")) };
    let name = paint(&format!("{}/{}", answer.job.kind, answer.job.name), "1");
    let bold = format!("1;{colour}");
    let mut text = match answer.state {
        State::Waiting | State::Starting => format!("{name} {}{about}: {}\n", paint(word, &bold), answer.message),
        // These sentences begin with their verb.
        State::Running | State::Finished | State::Failed | State::Suspended => {
            let (verb, rest) = answer
                .message
                .split_once([' ', ':'])
                .map_or((answer.message.as_str(), ""), |(verb, _)| (verb, &answer.message[verb.len()..]));
            format!("{name} {}{rest}\n", paint(verb, &bold))
        }
    };
    for line in &answer.lines {
        text += &format!("  {} {line}\n", paint("|", "2"));
    }
    if let Some(when) = answer.when.filter(|_| answer.state == State::Waiting) {
        text += &format!("  {} {} ({})\n", paint("when:", "1"), when.strftime("%H:%M UTC, about"), until(when, now));
    }
    for (number, help) in answer.unblock.iter().enumerate() {
        let label = if number == 0 { "help:" } else { "  or:" };
        text += &format!("  {} {help}\n", paint(label, "1"));
    }
    text
}

impl Show for Shown {
    fn rows(&self, _wide: bool) -> Vec<Vec<String>> {
        Vec::new()
    }

    fn names(&self) -> Vec<String> {
        vec![format!("{}/{}", self.answer.job.kind, self.answer.job.name)]
    }

    fn table(&self, _wide: bool) -> String {
        let is_coloured = colour_wanted(std::io::stdout().is_terminal());
        let mut shown = text_of(&self.answer, self.now, is_coloured);
        if let Some(what_if) = &self.what_if {
            let nodes = &what_if.answer.nodes;
            let on = if nodes.is_empty() {
                String::new()
            } else {
                format!(" on {}", nodes[..nodes.len().min(5)].join(", "))
            };
            let outcome = match what_if.starts {
                true => format!("it would start at once{on}"),
                false => format!("it would still wait: {}", what_if.answer.message),
            };
            shown += &format!("with {}: {outcome}\n", what_if.changes.join(" and "));
        }
        shown
    }
}

/// The reasons over time.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct History {
    api_version: &'static str,
    kind: &'static str,
    job: JobName,
    history: Vec<Record>,
}

impl History {
    pub fn new(subject: &Subject, history: Vec<Record>) -> History {
        let part = |path: &str| text(&subject.object, path).to_owned();
        let job = JobName {
            kind: subject.kind().to_owned(),
            namespace: part("metadata.namespace"),
            name: part("metadata.name"),
        };
        History { api_version: "volley.dev/v1", kind: "WhyHistory", job, history }
    }
}

impl Show for History {
    fn rows(&self, _wide: bool) -> Vec<Vec<String>> {
        let mut rows = vec![["TIME", "REASON", "MESSAGE"].map(str::to_owned).to_vec()];
        rows.extend(self.history.iter().map(|record| {
            vec![record.at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(), record.reason.clone(), record.message.clone()]
        }));
        rows
    }

    fn names(&self) -> Vec<String> {
        vec![format!("{}/{}", self.job.kind, self.job.name)]
    }

    fn table(&self, wide: bool) -> String {
        match self.history.is_empty() {
            true => format!("{}/{} has never waited, as far as is known\n", self.job.kind, self.job.name),
            false => aligned(&self.rows(wide)),
        }
    }
}
