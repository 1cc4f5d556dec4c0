//! How work that takes a while looks: bars on a terminal, plain lines elsewhere; always on stderr.

use super::work::{Step, StepStage};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Often enough to look alive, rarely enough to cost nothing.
const TICK: Duration = Duration::from_millis(120);

/// The bars, or what was last said of each layer. It clears itself away when dropped.
pub struct Progress {
    bars: Option<MultiProgress>,
    /// Turns for as long as it is held.
    _spinner: Option<ProgressBar>,
    layers: Mutex<BTreeMap<String, (StepStage, Option<ProgressBar>)>>,
}

impl Progress {
    /// An empty label is for work that takes no time.
    pub fn new(label: &str) -> Progress {
        let is_shown = io::stderr().is_terminal() && !label.is_empty();
        let bars = is_shown.then(MultiProgress::new);
        let spinner = bars.as_ref().map(|bars| bars.add(ProgressBar::new_spinner().with_message(label.to_owned())));
        spinner.iter().for_each(|spinner| spinner.enable_steady_tick(TICK));
        Progress { bars, _spinner: spinner, layers: Mutex::default() }
    }

    pub fn show(&self, step: &Step) {
        let mut layers = self.layers.lock().unwrap_or_else(PoisonError::into_inner);
        let before = layers.get(&step.layer).map(|(stage, _)| *stage);
        let bar = match (&self.bars, layers.remove(&step.layer)) {
            (Some(_), Some((_, bar))) => bar,
            (Some(bars), None) => Some(bars.add(bar(step))),
            (None, _) => None,
        };
        match &bar {
            Some(bar) => {
                bar.set_position(step.bytes);
                bar.set_message(step.at.word());
            }
            None if before != Some(step.at) => eprintln!("{}", step.line()),
            None => {}
        }
        layers.insert(step.layer.clone(), (step.at, bar));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bars) = &self.bars {
            // A terminal that went away needs no clearing.
            let _ = bars.clear();
        }
    }
}

fn bar(step: &Step) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {bytes}/{total_bytes} {msg:11}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(step.total).with_style(style).with_prefix(step.layer.clone())
}

impl StepStage {
    fn word(self) -> &'static str {
        match self {
            StepStage::Waiting => "waiting",
            StepStage::Downloading => "downloading",
            StepStage::Unpacking => "unpacking",
            StepStage::Done => "done",
        }
    }
}

impl Step {
    fn line(&self) -> String {
        let size = crate::output::bytes(self.total);
        format!("layer {} {} ({size})", self.layer, self.at.word())
    }
}
