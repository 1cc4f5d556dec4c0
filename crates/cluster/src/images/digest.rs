//! Content digests: the only names by which bytes are trusted. Every blob, manifest and unpacked layer is checked
//! against one. Only `sha256` is served by registries in practice; other algorithms are refused by name.

use serde::{Deserialize, Serialize};
use std::fmt;

/// `sha256:<64 hex digits>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    #[error("invalid checksum digest format: {0:?}")]
    Format(String),
    #[error("unsupported digest algorithm: {0:?}, only sha256 is understood")]
    Algorithm(String),
}

const ALGORITHM: &str = "sha256";
const HEX_LENGTH: usize = 64;

/// Digits of a layer's folder name: 64 bits are enough to tell layers apart (the full id is checked beside the folder),
/// and 127 such names, the most an image has, fit into one page of mount options.
const SHORT_LENGTH: usize = 16;

impl Digest {
    pub fn parse(text: &str) -> Result<Digest, DigestError> {
        let (algorithm, hex) = text.split_once(':').ok_or_else(|| DigestError::Format(text.to_owned()))?;
        if algorithm != ALGORITHM {
            return Err(DigestError::Algorithm(algorithm.to_owned()));
        }
        let is_hex = hex.len() == HEX_LENGTH && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if is_hex { Ok(Digest(text.to_owned())) } else { Err(DigestError::Format(text.to_owned())) }
    }

    /// The digest of bytes in memory.
    pub fn of(bytes: &[u8]) -> Digest {
        let mut hasher = Hasher::default();
        hasher.update(bytes);
        hasher.finish()
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The digits after `sha256:`.
    pub fn hex(&self) -> &str {
        &self.0[ALGORITHM.len() + 1..]
    }

    /// The first digits, for folder names.
    pub fn short(&self) -> &str {
        &self.hex()[..SHORT_LENGTH]
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;
    fn try_from(text: String) -> Result<Digest, DigestError> {
        Digest::parse(&text)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.0
    }
}

/// A digest in the making.
pub struct Hasher(ring::digest::Context);

impl Default for Hasher {
    fn default() -> Hasher {
        Hasher(ring::digest::Context::new(&ring::digest::SHA256))
    }
}

impl Hasher {
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn finish(self) -> Digest {
        let mut text = String::with_capacity(ALGORITHM.len() + 1 + HEX_LENGTH);
        text.push_str(ALGORITHM);
        text.push(':');
        for byte in self.0.finish().as_ref() {
            text.push_str(&format!("{byte:02x}"));
        }
        Digest(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_sha256_in_lower_case_hex() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").as_str(), empty);
        assert_eq!(Digest::parse(empty).expect("well formed").short(), "e3b0c44298fc1c14");
        assert_eq!(Digest::parse("sha512:00"), Err(DigestError::Algorithm("sha512".to_owned())));
        for broken in ["", "sha256", "sha256:12", &empty.to_uppercase(), &empty.replace('e', "E")] {
            assert!(Digest::parse(broken).is_err(), "{broken}");
        }
    }
}
