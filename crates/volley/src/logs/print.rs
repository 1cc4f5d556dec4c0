//! Lines on stdout, each with its rank before it; on a terminal every rank has its colour.

use crate::failure::colour_wanted;
use anyhow::Result;
use jiff::Timestamp;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

/// Colours that are told apart on dark and on light ground; red is left to what is wrong.
const COLOURS: [u8; 10] = [36, 33, 32, 35, 34, 96, 93, 92, 95, 94];
/// Longer labels do not push everybody's lines to the right.
const LABEL_WIDTH_MAX: usize = 40;

pub struct Printer<W: Write = BufWriter<StdoutLock<'static>>> {
    out: W,
    has_prefix: bool,
    has_times: bool,
    is_coloured: bool,
    is_terminal: bool,
    /// As wide as the widest label so far.
    width: usize,
}

/// What stands before every line of one log.
#[derive(Debug, Clone)]
pub struct Prefix {
    pub label: String,
    /// Its place in the order of ranks, which chooses its colour.
    pub number: usize,
}

impl Printer {
    pub fn new(has_prefix: bool, has_times: bool) -> Printer {
        let stdout = io::stdout().lock();
        let is_terminal = stdout.is_terminal();
        let is_coloured = colour_wanted(is_terminal);
        Printer { out: BufWriter::new(stdout), has_prefix, has_times, is_coloured, is_terminal, width: 0 }
    }
}

impl<W: Write> Printer<W> {
    /// Lines of a single pod need no name.
    pub fn leave_out_prefix(&mut self) {
        self.has_prefix = false;
    }

    /// Makes room for a label before its first line, so that the column stays where it is.
    pub fn widen(&mut self, label: &str) {
        self.width = self.width.max(label.chars().count().min(LABEL_WIDTH_MAX));
    }

    pub fn prefix(&mut self, label: &str, number: usize) -> Prefix {
        self.widen(label);
        Prefix { label: label.to_owned(), number }
    }

    pub fn line(&mut self, prefix: &Prefix, time: Timestamp, text: &[u8]) -> Result<()> {
        if self.has_prefix {
            let (label, width) = (&prefix.label, self.width);
            match self.is_coloured {
                true => write!(self.out, "\x1b[{}m{label:width$} |\x1b[0m ", COLOURS[prefix.number % COLOURS.len()])?,
                false => write!(self.out, "{label:width$} | ")?,
            }
        }
        self.plain(time, text)
    }

    /// A line of nobody in particular.
    pub fn plain(&mut self, time: Timestamp, text: &[u8]) -> Result<()> {
        if self.has_times {
            write!(self.out, "{time} ")?;
        }
        let text = if self.is_terminal { last_overwrite(text) } else { text };
        self.out.write_all(text)?;
        // What a program colours and does not end would colour the next rank's lines.
        if self.is_terminal && text.contains(&0x1b) {
            self.out.write_all(b"\x1b[0m")?;
        }
        Ok(self.out.write_all(b"\n")?)
    }

    pub fn flush(&mut self) -> Result<()> {
        Ok(self.out.flush()?)
    }
}

/// What a terminal would be left with: progress bars go back to the start of their line, where our prefix stands.
fn last_overwrite(text: &[u8]) -> &[u8] {
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    text.rsplit(|byte| *byte == b'\r').next().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(is_terminal: bool, text: &[u8]) -> String {
        let mut printer = Printer {
            out: Vec::new(),
            has_prefix: true,
            has_times: false,
            is_coloured: is_terminal,
            is_terminal,
            width: 0,
        };
        let master = printer.prefix("master-0", 0);
        let worker = printer.prefix("worker-10", 1);
        printer.line(&master, Timestamp::UNIX_EPOCH, text).unwrap();
        printer.has_times = true;
        printer.line(&worker, Timestamp::UNIX_EPOCH, b"b").unwrap();
        String::from_utf8(printer.out).unwrap()
    }

    #[test]
    fn labels_stand_in_a_column() {
        assert_eq!(printed(false, b"a"), "master-0  | a\nworker-10 | 1970-01-01T00:00:00Z b\n");
    }

    #[test]
    fn a_terminal_sees_colours_and_the_last_state_of_a_progress_bar() {
        let expected = "\x1b[36mmaster-0  |\x1b[0m 100%\n\x1b[33mworker-10 |\x1b[0m 1970-01-01T00:00:00Z b\n";
        assert_eq!(printed(true, b"1%\r50%\r100%\r"), expected);
        assert!(printed(true, b"\x1b[31mbad").contains("bad\x1b[0m\n"));
        assert!(printed(false, b"1%\r50%").starts_with("master-0  | 1%\r50%\n"), "a file gets all of it");
    }
}
