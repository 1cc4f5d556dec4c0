//! `volley image map`: names that mean another image here, or the machine itself.
//!
//! They are kept in `$VOLLEY_HOME/image-maps`, one a line, and hold from the next pod on: a running process is told to
//! read the file again. Those of `--image-map` go before them and last as long as the process.

use crate::control::{self, Answer, Ask};
use crate::home::{Home, write_private_durably};
use crate::output::{Output, Show};
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::process::ExitCode;
use volley_cluster::images::reference::ImageMap;

const EXAMPLES: &str = "\
Examples:
  volley image map                           what holds now, in the order in which it is looked through
  volley image map 'pytorch/*=host'          run them on this machine's own environment
  volley image map train=registry.lan:5000/team/train:7
  volley image map --rm 'pytorch/*'

In a pattern, `*` stands for any letters and `?` for one. The first that matches a pod's image holds, and the newest is
looked at first. Pods that run already stay as they are.";

/// Show or change which image names mean something else here
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Map {
    /// Maps to add, before those that are there
    #[arg(value_name = "PATTERN=host|IMAGE", value_parser = written)]
    maps: Vec<String>,
    /// Remove the map of this pattern; may be repeated
    #[arg(long, value_name = "PATTERN")]
    rm: Vec<String>,
    #[command(flatten)]
    output: Output,
}

/// One map as users see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MapRow {
    pub pattern: String,
    pub runs: String,
    pub from: Origin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Origin {
    /// An option or a setting of the start.
    Start,
    /// `volley image map`.
    Kept,
}

/// Checked, but kept as it was written.
fn written(text: &str) -> Result<String, String> {
    match text.contains('\n') {
        true => Err("a map is one line".to_owned()),
        false => ImageMap::parse(text).map(|_| text.to_owned()).map_err(|error| error.to_string()),
    }
}

impl Map {
    pub fn run(self, home: &Home) -> Result<ExitCode> {
        if !(self.maps.is_empty() && self.rm.is_empty()) {
            self.change(home)?;
        }
        let rows = match control::ask(home, &Ask::Maps)? {
            Some(Answer::Maps(rows)) => rows,
            Some(other) => bail!("the running process answered `{other:?}` to a question about image maps"),
            None => rows(&[], &kept(home)?),
        };
        self.output.print(&rows)?;
        Ok(ExitCode::SUCCESS)
    }

    fn change(&self, home: &Home) -> Result<()> {
        // Of two changes at the same time, the second must see the first.
        let _turn = home.turn()?;
        let mut lines = lines(home)?;
        for pattern in &self.rm {
            let before = lines.len();
            lines.retain(|line| pattern_of(line) != pattern);
            if lines.len() == before {
                bail!("no map of `{pattern}` is kept\nhint: `volley image map` lists them; those of the start stay");
            }
        }
        lines.retain(|line| !self.maps.iter().any(|new| pattern_of(new) == pattern_of(line)));
        let text: String = self.maps.iter().chain(&lines).map(|line| format!("{line}\n")).collect();
        write_private_durably(&home.image_maps(), &text)
    }
}

fn pattern_of(line: &str) -> &str {
    line.rsplit_once('=').map_or(line, |(pattern, _)| pattern)
}

/// The file's maps as written, without blank lines and comments.
fn lines(home: &Home) -> Result<Vec<String>> {
    let path = home.image_maps();
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| format!("failed to read `{}`", path.display())),
    };
    let lines = text.lines().map(str::trim);
    Ok(lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect())
}

/// The maps that are kept; everything wrong with the file is told at once.
pub fn kept(home: &Home) -> Result<Vec<ImageMap>> {
    let (mut maps, mut problems) = (Vec::new(), Vec::new());
    for line in lines(home)? {
        match ImageMap::parse(&line) {
            Ok(map) => maps.push(map),
            Err(error) => problems.push(error.to_string()),
        }
    }
    match problems.is_empty() {
        true => Ok(maps),
        false => Err(anyhow!(
            "`{}` cannot be used\n  {}\nhint: correct or remove these lines",
            home.image_maps().display(),
            problems.join("\n  ")
        )),
    }
}

/// Those of the start first, as they are looked through.
pub fn rows(start: &[ImageMap], kept: &[ImageMap]) -> Vec<MapRow> {
    let row = |map: &ImageMap, from| {
        let text = map.to_string();
        let (pattern, runs) = text.rsplit_once('=').unwrap_or((&text, ""));
        MapRow { pattern: pattern.to_owned(), runs: runs.to_owned(), from }
    };
    let start = start.iter().map(|map| row(map, Origin::Start));
    start.chain(kept.iter().map(|map| row(map, Origin::Kept))).collect()
}

impl Show for Vec<MapRow> {
    fn rows(&self, _wide: bool) -> Vec<Vec<String>> {
        let mut rows = vec![["PATTERN", "RUNS", "FROM"].map(str::to_owned).to_vec()];
        for map in self {
            let from = match map.from {
                Origin::Start => "--image-map",
                Origin::Kept => "volley image map",
            };
            rows.push(vec![map.pattern.clone(), map.runs.clone(), from.to_owned()]);
        }
        rows
    }

    fn names(&self) -> Vec<String> {
        self.iter().map(|map| map.pattern.clone()).collect()
    }
}
