//! Passwords: Argon2id, kept as its parameters, the salt and the hash.
//!
//! The parameters are OWASP's least for this kind: 19 MiB and two passes. A hash takes tens of milliseconds and that much
//! memory, so only a few are made at a time, and those who wait are bounded by the limit on sign-ins.

use super::keys::hex;
use crate::fault::{Fault, Result};
use argon2::{Algorithm, Argon2, Params, Version};
use rand::RngExt as _;
use tokio::sync::Semaphore;

const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
const SALT_BYTES: usize = 16;
const HASH_BYTES: usize = 32;
/// Words of one's own choice; NIST asks for at least eight characters and for no other rules.
const LENGTH: std::ops::RangeInclusive<usize> = 8..=256;
/// Hashes at a time: two, which is 38 MiB.
static TURNS: Semaphore = Semaphore::const_new(2);

pub fn check(password: &str) -> Result<()> {
    let is_long_enough = LENGTH.contains(&password.chars().count());
    let (least, most) = (LENGTH.start(), LENGTH.end());
    is_long_enough.then_some(()).ok_or_else(|| Fault::bad(format!("a password has {least} to {most} characters")))
}

/// What is kept of a password.
pub async fn hash(password: String) -> Result<String> {
    let mut salt = [0u8; SALT_BYTES];
    rand::rng().fill(&mut salt);
    let hash = derive(password, salt.to_vec()).await?;
    Ok(format!("argon2id${}${}", hex(&salt), hex(&hash)))
}

/// Whether this is the password. Without one that is kept it takes as long, so that nobody learns who has one.
pub async fn is_right(password: String, kept: Option<String>) -> Result<bool> {
    let mut parts = kept.as_deref().unwrap_or_default().split('$').skip(1);
    let salt = parts.next().and_then(bytes).unwrap_or_else(|| vec![0; SALT_BYTES]);
    let wanted = parts.next().and_then(bytes);
    let hash = derive(password, salt).await?;
    Ok(wanted.is_some_and(|wanted| is_same(&wanted, &hash)))
}

async fn derive(password: String, salt: Vec<u8>) -> Result<Vec<u8>> {
    let _turn = TURNS.acquire().await.map_err(Fault::internal)?;
    let work = move || {
        let params = Params::new(MEMORY_KIB, PASSES, 1, Some(HASH_BYTES)).expect("parameters that Argon2 allows");
        let mut hash = vec![0; HASH_BYTES];
        let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        argon.hash_password_into(password.as_bytes(), &salt, &mut hash).map(|()| hash)
    };
    tokio::task::spawn_blocking(work).await.map_err(Fault::internal)?.map_err(Fault::internal)
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    let pair = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    (0..text.len()).step_by(2).map(pair).collect()
}

/// Looks at every byte, however early they differ.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |seen, (a, b)| seen | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_the_password_itself_is_right() {
        let kept = hash("correct horse".to_owned()).await.unwrap();
        assert!(kept.starts_with("argon2id$") && !kept.contains("horse"));
        assert_ne!(kept, hash("correct horse".to_owned()).await.unwrap(), "every hash has its own salt");
        assert!(is_right("correct horse".to_owned(), Some(kept.clone())).await.unwrap());
        for (password, kept) in [("correct hors", Some(kept)), ("", None), ("x", Some("broken".to_owned()))] {
            assert!(!is_right(password.to_owned(), kept).await.unwrap());
        }
    }

    #[test]
    fn a_password_is_neither_short_nor_endless() {
        assert!(check("12345678").is_ok());
        assert!(check("1234567").is_err() && check(&"x".repeat(257)).is_err());
    }
}
