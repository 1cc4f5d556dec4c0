//! Chores of the repository: `cargo run -p xtask -- <chore>`.

mod gen_types;
mod rules;
mod tidy;

use anyhow::{Result, bail};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["gen", "types"] => gen_types::write(),
        ["gen", "types", "--check"] => gen_types::check(),
        ["gen", "rules"] => rules::write(),
        ["gen", "rules", "--check"] => rules::check(),
        ["tidy"] => tidy::check(),
        _ => bail!("usage: xtask gen types|rules [--check] | xtask tidy"),
    }
}

/// The folder of the whole repository.
fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}
