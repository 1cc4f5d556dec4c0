//! Makes the built web page a part of the program: a table of the files in `web/dist`, which `make web` fills.
//!
//! An empty folder gives an empty table, so that the server builds where there is no Node.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let dist = here.join("../../web/dist");
    println!("cargo::rerun-if-changed={}", dist.display());
    println!("cargo::rerun-if-changed=build.rs");

    let mut paths = Vec::new();
    if dist.is_dir() {
        gather(&dist, &dist, &mut paths)?;
    }
    paths.sort();
    let mut table = String::from("pub static FILES: &[File] = &[\n");
    for path in paths {
        let place = fs::canonicalize(&dist)?.join(&path);
        let bytes = |ending: &str| format!("include_bytes!({:?})", format!("{}{ending}", place.display()));
        writeln!(table, "File {{ path: {path:?}, brotli: {}, gzip: {} }},", bytes(".br"), bytes(".gz"))
            .expect("a string takes all");
    }
    table.push_str("];\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("page.rs"), table)
}

/// Every file is there twice, as `.br` and as `.gz`; it is listed once, without the ending.
fn gather(root: &Path, folder: &Path, paths: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            gather(root, &path, paths)?;
        } else if path.extension().is_some_and(|ending| ending == "br") {
            let inner = path.strip_prefix(root).expect("it was found below the root").with_extension("");
            paths.push(inner.to_str().expect("names made by the build").to_owned());
        }
    }
    Ok(())
}
