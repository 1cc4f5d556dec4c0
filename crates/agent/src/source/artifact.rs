//! Code from an artifact of the server: every file at its own place below the folder, and with the digest that it has.

use crate::runner::{Done, Failure};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path};
use volley_client::Client;
use volley_client::artifacts::Entry;

/// Files asked for at a time.
const FILES_EACH: usize = 100;
/// Of all files together; code is small, and data has artifacts of its own.
const BYTES_MAX: u64 = 2 << 30;

pub async fn fetch(client: &Client, id: &str, folder: &Path) -> Done {
    let refused = |what: String| Failure::Refused(format!("the job's code: {what}"));
    let entries = match client.artifact_entries(id).await {
        Ok(Some(entries)) => entries,
        Ok(None) => return Err(refused(format!("artifact `{id}` is gone; hint: make the job again"))),
        Err(error) if error.is_passing() => return Err(error.into()),
        Err(error) => return Err(refused(format!("artifact `{id}` cannot be read: {error}"))),
    };
    check(&entries).map_err(refused)?;
    for part in entries.chunks(FILES_EACH) {
        let names: Vec<&str> = part.iter().map(|entry| entry.name.as_str()).collect();
        let urls = client.artifact_urls(id, &names).await?;
        for entry in part {
            let url = urls.get(&entry.name).ok_or_else(|| refused(format!("file `{}` is gone", entry.name)))?;
            let bytes = client.download(url).await?;
            if !entry.is(&bytes) {
                return Err(refused(format!("file `{}` is not what its artifact says (digest)", entry.name)));
            }
            put(folder, &entry.name, &bytes)?;
        }
    }
    Ok(())
}

/// All that stands against a list of files, before one is fetched.
fn check(entries: &[Entry]) -> Result<(), String> {
    if let Some(entry) = entries.iter().find(|entry| !is_below(&entry.name)) {
        return Err(format!("file `{}` would lie outside its folder", entry.name));
    }
    if let Some(entry) = entries.iter().find(|entry| entry.reference.is_some()) {
        return Err(format!("file `{}` is a reference to another place, which is not followed", entry.name));
    }
    let bytes = entries.iter().fold(0u64, |sum, entry| sum.saturating_add(entry.size));
    if bytes > BYTES_MAX {
        return Err(format!("its files have {bytes} bytes together, and {BYTES_MAX} are allowed"));
    }
    Ok(())
}

/// A name that stays below the folder it is put in.
fn is_below(name: &str) -> bool {
    let mut parts = Path::new(name).components().peekable();
    parts.peek().is_some() && !name.contains('\0') && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// The folder is new and has no links, so a name that stays below it does so in truth.
fn put(folder: &Path, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let path = folder.join(name);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    // Artifacts do not keep what may be run; what says by what it is run may.
    let mode = if bytes.starts_with(b"#!") { 0o755 } else { 0o644 };
    std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(path)?.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> Entry {
        Entry { name: name.to_owned(), digest: String::new(), size: 1, reference: None }
    }

    // J-7, J-11
    #[test]
    fn files_stay_below_their_folder() {
        for fine in ["a.py", "a/b.py", "a/..b"] {
            assert_eq!(check(&[entry(fine)]), Ok(()), "{fine}");
        }
        for wrong in ["/etc/passwd", "../a", "a/../../b", "", "a\0b", ".."] {
            assert!(check(&[entry(wrong)]).is_err(), "{wrong:?}");
        }
        assert!(check(&[Entry { reference: Some("s3://x".into()), ..entry("a") }]).is_err());
        assert!(check(&[Entry { size: u64::MAX, ..entry("a") }, entry("b")]).is_err());
    }
}
