//! Files of runs: what a run saves beside its history.

pub mod graphql;
pub mod store;

use crate::fault::{Fault, Result};

/// Names are paths of this many characters at most.
const NAME_MAX: usize = 1024;

#[derive(Clone, Debug)]
pub struct File {
    pub id: i64,
    pub run_id: i64,
    pub name: String,
    pub size: i64,
    pub md5: Option<String>,
    pub updated_at: i64,
}

/// A file's name without a leading `./`; a name that leads elsewhere is refused.
///
/// Bytes are kept under numbers, so a name cannot touch the disk. It is refused for those who download it.
pub fn clean(name: &str) -> Result<&str> {
    let bare = name.trim_start_matches("./");
    let leads_out = bare.starts_with('/') || bare.split('/').any(|part| part == "..");
    let is_odd = bare.is_empty() || bare.chars().count() > NAME_MAX || bare.contains('\0');
    match leads_out || is_odd {
        true => Err(Fault::bad(format!("`{name}` cannot name a file; hint: a relative path without `..`"))),
        false => Ok(bare),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // FILE-3
    #[test]
    fn names_are_relative_paths() {
        assert_eq!(clean("./a b/é%.txt").unwrap(), "a b/é%.txt");
        assert_eq!(clean("a..b/c").unwrap(), "a..b/c");
        for wrong in ["", "./", "/etc/passwd", "../x", "a/../../x", "a\0b", &"x".repeat(2000)] {
            assert!(clean(wrong).is_err(), "{wrong:?}");
        }
    }
}
