//! The key pair of a Job with the plugin `ssh`: RSA, as its users' sshd may be an old one.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rsa::RsaPrivateKey;
use rsa::pkcs1::{EncodeRsaPrivateKey, LineEnding};
use rsa::rand_core::OsRng;
use rsa::traits::PublicKeyParts;
use volley_plan::job::volcano::SshKey;

const BITS: usize = 2048;

/// Makes a pair on a thread of its own: it takes up to a second.
pub async fn generate() -> SshKey {
    tokio::task::spawn_blocking(make).await.expect("making a key does not panic, and its thread is not cancelled")
}

fn make() -> SshKey {
    let private = RsaPrivateKey::new(&mut OsRng, BITS).expect("2048 bits are enough for a key");
    let pem = private.to_pkcs1_pem(LineEnding::LF).expect("a key that was just made can be written");
    SshKey { private: pem.to_string(), public: public(&private.e().to_bytes_be(), &private.n().to_bytes_be()) }
}

/// A line of `authorized_keys` (RFC 4253, 6.6): three strings, each after its length; numbers do not look negative.
fn public(exponent: &[u8], modulus: &[u8]) -> String {
    let mut blob = Vec::new();
    for (part, is_number) in [(&b"ssh-rsa"[..], false), (exponent, true), (modulus, true)] {
        let is_padded = is_number && part.first().is_some_and(|byte| byte & 0x80 != 0);
        let length = part.len() + usize::from(is_padded);
        blob.extend(u32::try_from(length).expect("keys are short").to_be_bytes());
        blob.extend(is_padded.then_some(0));
        blob.extend(part);
    }
    format!("ssh-rsa {}\n", STANDARD.encode(blob))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[tokio::test]
    async fn a_pair_is_one_that_ssh_takes() {
        let pair = generate().await;
        assert!(pair.private.starts_with("-----BEGIN RSA PRIVATE KEY-----\n"));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("id_rsa");
        std::fs::write(&file, &pair.private).unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let Ok(read) = Command::new("ssh-keygen").args(["-y", "-f"]).arg(&file).output() else {
            // A machine without ssh: the parts are at least those of RFC 4253.
            let blob = STANDARD.decode(pair.public.trim().trim_start_matches("ssh-rsa ")).unwrap();
            assert_eq!(blob.len(), 4 + 7 + 4 + 3 + 4 + 257);
            return;
        };
        assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
        assert_eq!(String::from_utf8_lossy(&read.stdout), pair.public);
    }
}
