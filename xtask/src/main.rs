//! Chores of the repository: `cargo run -p xtask -- <chore>`.

mod gen_types;

use anyhow::{Result, bail};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["gen", "types"] => gen_types::write(),
        ["gen", "types", "--check"] => gen_types::check(),
        _ => bail!("usage: xtask gen types [--check]"),
    }
}
