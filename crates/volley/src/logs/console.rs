//! The console of a launched item, as the server has it: lines of all ranks, told apart as those of a cluster's jobs are.

use super::print::Printer;
use anyhow::Result;
use jiff::Timestamp;
use std::collections::BTreeMap;
use volley_client::Client;
use volley_client::items::Item;
use volley_plan::logs::console::{is_of, labels, read};

/// Where lines without a rank stand in the order of colours.
const NO_RANK: &str = "";

pub struct Console {
    printer: Printer,
    wanted: Vec<String>,
    /// Numbers of the ranks in the order in which they were heard of.
    ranks: BTreeMap<String, usize>,
    /// Lines that were read.
    lines: u64,
    pub tail: Option<u64>,
}

impl Console {
    pub fn new(wanted: Vec<String>, has_times: bool) -> Console {
        Console { printer: Printer::new(true, has_times), wanted, ranks: BTreeMap::new(), lines: 0, tail: None }
    }

    /// Prints what comes until the run ends; for ever if there is no run yet, or it has ended before its item.
    pub async fn follow(&mut self, client: &Client, item: &Item) -> Result<()> {
        // The next look at the item says whether to go on.
        match self.print(client, item, true).await {
            Err(error) if error.downcast_ref::<std::io::Error>().is_some() => Err(error),
            Ok(()) | Err(_) => std::future::pending().await,
        }
    }

    /// Prints what is left of the console of an item that has ended.
    pub async fn print_rest(&mut self, client: &Client, item: &Item) -> Result<()> {
        self.print(client, item, false).await
    }

    async fn print(&mut self, client: &Client, item: &Item, follow: bool) -> Result<()> {
        let Some(run) = &item.run else {
            return Ok(());
        };
        let wanted = labels(&self.wanted, &item.place);
        let mut lines = match client.console(run, self.lines, self.tail, follow).await {
            Ok(lines) => lines,
            // W&B's agents name the run before it exists.
            Err(error) if error.is_missing() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        // A tail begins further behind than was asked for.
        self.lines = lines.first.max(self.lines);
        self.tail = None;
        while let Some(line) = lines.next().await? {
            self.lines += 1;
            self.tell(&line, &wanted)?;
            self.printer.flush()?;
        }
        Ok(())
    }

    fn tell(&mut self, line: &str, wanted: &[String]) -> Result<()> {
        let line = read(line);
        if !is_of(line.rank, wanted) {
            return Ok(());
        }
        let time = line.time.and_then(|time| format!("{}Z", time.trim_end_matches('Z')).parse::<Timestamp>().ok());
        let rank = line.rank.unwrap_or(NO_RANK);
        let next = self.ranks.len();
        let number = *self.ranks.entry(rank.to_owned()).or_insert(next);
        match line.rank {
            Some(rank) => {
                let prefix = self.printer.prefix(rank, number);
                self.printer.line(&prefix, time.unwrap_or_default(), line.text.as_bytes())
            }
            None => self.printer.plain(time.unwrap_or_default(), line.text.as_bytes()),
        }
    }
}
