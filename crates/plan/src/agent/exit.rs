//! How a process or a container of the agent's own machine ended, in one sentence that names the cause.

use serde::{Deserialize, Serialize};

/// Last lines that are told; more are in its log.
const LINES_MAX: usize = 10;
/// Signals by the names that people know; others are told by their number.
const SIGNALS: &[(i64, &str)] = &[
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (11, "SIGSEGV"),
    (13, "SIGPIPE"),
    (15, "SIGTERM"),
    (24, "SIGXCPU"),
    (25, "SIGXFSZ"),
];
/// A shell gives this much more than a signal's number for a program that died of it.
const SIGNAL_FROM: i64 = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    /// 128 more than the signal's number, where a signal ended it.
    pub code: i64,
    /// The kernel took memory back by killing while it ran.
    pub is_out_of_memory: bool,
}

impl Exit {
    pub fn by_code(code: i64) -> Exit {
        Exit { code, is_out_of_memory: false }
    }

    pub fn by_signal(signal: i64, is_out_of_memory: bool) -> Exit {
        Exit { code: SIGNAL_FROM + signal, is_out_of_memory }
    }

    pub fn is_success(self) -> bool {
        self.code == 0
    }

    /// Why it failed: `what` is what ran, and its last lines are behind.
    pub fn reason(self, what: &str, last_lines: &[String]) -> String {
        let signal = SIGNALS.iter().find(|(number, _)| number + SIGNAL_FROM == self.code);
        let cause = match signal {
            _ if self.is_out_of_memory => format!("ran out of memory (exit code {})", self.code),
            Some((_, name)) => format!("was ended by {name} (exit code {})", self.code),
            None => format!("ended with exit code {}", self.code),
        };
        let shown = &last_lines[last_lines.len().saturating_sub(LINES_MAX)..];
        match shown {
            [] => format!("{what} {cause}"),
            lines => format!("{what} {cause}; its last lines:\n{}", lines.join("\n")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // C-9
    #[test]
    fn an_end_is_told_with_its_cause_and_its_last_lines() {
        let lines: Vec<String> = (0..12).map(|number| format!("line {number}")).collect();
        let told = Exit::by_code(3).reason("process `python`", &lines);
        assert!(told.starts_with("process `python` ended with exit code 3; its last lines:\nline 2\n"), "{told}");
        assert_eq!(Exit::by_signal(11, false).reason("it", &[]), "it was ended by SIGSEGV (exit code 139)");
        assert_eq!(Exit::by_signal(9, true).reason("it", &[]), "it ran out of memory (exit code 137)");
        assert_eq!(Exit::by_signal(40, false).reason("it", &[]), "it ended with exit code 168");
        assert!(Exit::by_code(0).is_success() && !Exit::by_code(1).is_success());
    }
}
