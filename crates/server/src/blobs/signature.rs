//! URLs that carry their own permission.

use super::{Blobs, settle};
use crate::database::{self, Database};
use crate::people::keys;
use jiff::Timestamp;
use ring::hmac;

/// How long a URL holds. A client may queue uploads behind a slow line for hours.
const LIFETIME_S: i64 = 24 * 3600;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
}

impl Access {
    fn word(self) -> &'static str {
        match self {
            Access::Read => "read",
            Access::Write => "write",
        }
    }
}

pub async fn secret(database: &Database) -> database::Result<String> {
    settle(database, "signing-key", format!("{}{}", keys::new_key(), keys::new_key())).await
}

impl Blobs {
    /// The path under the server's URL by which whoever has it may read or write `key`.
    pub fn signed_path(&self, access: Access, key: &str, now: Timestamp) -> String {
        let until = now.as_second() + LIFETIME_S;
        let tag = hmac::sign(&self.key, message(access, key, until).as_bytes());
        format!("/blobs/{key}?until={until}&sign={}", keys::hex(tag.as_ref()))
    }

    pub fn is_permitted(&self, access: Access, key: &str, until: i64, sign: &str, now: Timestamp) -> bool {
        let Some(tag) = bytes_of_hex(sign) else {
            return false;
        };
        let is_genuine = hmac::verify(&self.key, message(access, key, until).as_bytes(), &tag).is_ok();
        is_genuine && now.as_second() <= until
    }
}

fn message(access: Access, key: &str, until: i64) -> String {
    format!("{}\n{until}\n{key}", access.word())
}

fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let is_even = text.len().is_multiple_of(2) && text.is_ascii();
    let pairs = || (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok());
    is_even.then(pairs)?.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn blobs(folder: &std::path::Path) -> Blobs {
        let database = Database::open(&folder.join("volley.db").display().to_string()).await.unwrap();
        Blobs::open(&folder.join("blobs").display().to_string(), &crate::blobs::Aws::default(), &database)
            .await
            .unwrap()
    }

    // FILE-2
    #[tokio::test]
    async fn a_url_permits_what_it_was_made_for_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = blobs(folder.path()).await;
        let now = Timestamp::from_second(1_000_000).unwrap();
        let path = blobs.signed_path(Access::Write, "files/1/2", now);
        let (key, query) = path.strip_prefix("/blobs/").unwrap().split_once('?').unwrap();
        let (until, sign) = query.strip_prefix("until=").unwrap().split_once("&sign=").unwrap();
        let until: i64 = until.parse().unwrap();
        assert!(blobs.is_permitted(Access::Write, key, until, sign, now));
        assert!(!blobs.is_permitted(Access::Read, key, until, sign, now));
        assert!(!blobs.is_permitted(Access::Write, "files/1/3", until, sign, now));
        assert!(!blobs.is_permitted(Access::Write, key, until + 1, sign, now));
        let later = Timestamp::from_second(until + 1).unwrap();
        assert!(!blobs.is_permitted(Access::Write, key, until, sign, later));
        assert!(!blobs.is_permitted(Access::Write, key, until, "zz", now));
    }

    #[tokio::test]
    async fn what_was_put_is_read_back_and_replaced_and_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = blobs(folder.path()).await;
        for text in ["first", "second"] {
            let stored = blobs.put("files/1/2", futures::stream::iter([Ok(text.into())])).await.unwrap();
            assert_eq!(usize::try_from(stored.size).unwrap(), text.len());
            assert_eq!(blobs.read("files/1/2").await.unwrap(), text.as_bytes());
        }
        blobs.delete_all("files/1").await.unwrap();
        blobs.delete_all("files/1").await.unwrap();
        assert!(blobs.read("files/1/2").await.unwrap_err().is_missing());
    }
}
