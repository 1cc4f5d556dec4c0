//! Finding lines of a console: by their words, by the rank that wrote them, or the one in which a failure begins.

use super::console::ConsoleLine;
use regex::Regex;
use std::sync::LazyLock;

/// How programs say that they failed. A measure that is called an error (`val error 0.1`, `errors: 0`) says nothing of it.
static FAILURE: LazyLock<Regex> = LazyLock::new(|| {
    // Each in a group of its own, so that the case that one of them ignores is ignored by no other.
    let ways = [
        r"^Traceback \(most recent call last\)",
        r"^\s*(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Interrupt)\b(?::|$|\()",
        r"\b(?:ERROR|FATAL|CRITICAL)\b",
        r"(?i)^\s*(?:\S+: )?(?:fatal|error)(?:\[\w+\])?: \D",
        r"^Error[: ]",
        r"\bpanicked at\b",
        r"(?i)\bsegmentation fault\b|\bcore dumped\b|\bout of memory\b|\boom[- ]?kill",
        r"^(?:Killed|Aborted)$",
        r": (?:not found|No such file or directory|Permission denied)$",
    ];
    let all = ways.map(|way| format!("(?:{way})")).join("|");
    Regex::new(&all).expect("written here, and tested")
});

/// Whether a line says that something failed.
pub fn is_failure(text: &str) -> bool {
    FAILURE.is_match(text)
}

/// What is looked for; what is left out fits every line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// In lower case.
    text: Option<String>,
    label: Option<String>,
    is_failure: bool,
}

impl Wanted {
    pub fn new(text: Option<&str>, label: Option<&str>, is_failure: bool) -> Wanted {
        let given = |words: Option<&str>| words.filter(|words| !words.is_empty()).map(str::to_owned);
        Wanted { text: given(text).map(|text| text.to_lowercase()), label: given(label), is_failure }
    }

    pub fn fits(&self, line: &ConsoleLine) -> bool {
        let is_labelled = self.label.is_none() || self.label == line.label;
        let has_text = |text: &String| line.text.to_lowercase().contains(text);
        is_labelled && self.text.as_ref().is_none_or(has_text) && (!self.is_failure || is_failure(&line.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::console::parse;

    #[test]
    fn a_failure_is_told_from_a_measure_and_from_talk_about_one() {
        for line in [
            "Traceback (most recent call last):",
            "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",
            "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1275",
            "KeyboardInterrupt",
            "2026-01-01 00:00:01 ERROR could not open the file",
            "error: could not compile `volley`",
            "cargo: error: no such command",
            "fatal: not a git repository",
            "error[E0308]: mismatched types",
            "thread 'main' panicked at src/main.rs:3:5:",
            "Segmentation fault (core dumped)",
            "Killed",
            "Error response from daemon: no such image",
            "sh: 1: trian: not found",
        ] {
            assert!(is_failure(line), "{line}");
        }
        for line in [
            "",
            "step 4 loss 0.1",
            "val error 0.1",
            "error: 0.125",
            "mean squared error: 0.3",
            "0 errors, 2 warnings",
            "recovered from 3 errors",
            "UserWarning: no error will be raised",
            "terror everywhere",
        ] {
            assert!(!is_failure(line), "{line}");
        }
    }

    #[test]
    fn words_are_found_in_any_case_and_only_of_the_rank_that_is_asked_for() {
        let line = parse("2026-01-31T12:00:00.123456 [worker-1] Loss 0.5");
        for (text, label, fits) in [
            (None, None, true),
            (Some("loss"), None, true),
            (Some("LOSS 0"), Some("worker-1"), true),
            (Some("loss"), Some("worker-0"), false),
            (Some("gain"), Some("worker-1"), false),
            (Some(""), Some(""), true),
        ] {
            assert_eq!(Wanted::new(text, label, false).fits(&line), fits, "{text:?} {label:?}");
        }
        assert!(!Wanted::new(None, None, true).fits(&line));
    }
}
