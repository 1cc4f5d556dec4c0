//! API keys: forty hexadecimal characters, which every version of W&B's clients takes.
//!
//! A key has 160 bits of chance, so its plain SHA-256 is as good as a slow hash and costs nothing per request. The
//! digest is looked up, not compared, so there is no time to measure.

use rand::RngExt as _;
use sha2::{Digest as _, Sha256};

pub const KEY_LENGTH: usize = 40;

pub fn new_key() -> String {
    let mut bytes = [0u8; KEY_LENGTH / 2];
    rand::rng().fill(&mut bytes);
    hex(&bytes)
}

/// What is kept of a key. A prefix up to the first dash (`local-…`) is part of how clients write it, not of the key.
pub fn digest(key: &str) -> String {
    let bare = key.split_once('-').map_or(key, |(_, bare)| bare);
    hex(&Sha256::digest(bare.as_bytes()))
}

/// Enough of a key to recognise it in a list.
pub fn hint(key: &str) -> String {
    key.chars().take(4).collect()
}

/// Whether clients of all versions would send this key.
pub fn is_acceptable(key: &str) -> bool {
    let bare = key.split_once('-').map_or(key, |(_, bare)| bare);
    bare.len() == KEY_LENGTH && bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // AUTH-2
    #[test]
    fn a_new_key_has_the_length_that_clients_demand_and_is_never_the_same() {
        let (one, other) = (new_key(), new_key());
        assert!(is_acceptable(&one) && is_acceptable(&other));
        assert_ne!(one, other);
        assert!(is_acceptable(&format!("local-{one}")));
        assert!(!is_acceptable("short"));
    }

    // AUTH-2
    #[test]
    fn the_prefix_is_no_part_of_the_key() {
        let key = new_key();
        assert_eq!(digest(&key), digest(&format!("local-{key}")));
        assert!(!digest(&key).contains(&key[..8]));
    }
}
