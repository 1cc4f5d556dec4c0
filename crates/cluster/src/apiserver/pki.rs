//! Keys and certificates of one home: made at the first start, read at every later one, never shown in a log.

use super::tokens::Tokens;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use std::fs;
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// All secrets of a cluster.
pub struct Pki {
    pub ca_pem: String,
    pub server_cert_pem: String,
    pub server_key_pem: String,
    pub admin_cert_pem: String,
    pub admin_key_pem: String,
    pub admin_token: String,
    /// PKCS#8 of the key that signs service account tokens.
    pub token_key: Vec<u8>,
}

#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    #[error("failed to read or write `{path}`")]
    File { path: PathBuf, source: std::io::Error },
    #[error("`{path}` is damaged; move the folder `pki` away to have new keys made (old kubeconfigs stop working)")]
    Damaged { path: PathBuf },
    #[error("failed to make a certificate")]
    Certificate(#[from] rcgen::Error),
}

/// Names that clients may call the server by, besides the addresses it listens on.
const SERVER_NAMES: &[&str] = &[
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    // The address of the `kubernetes` service, by which pods call.
    "10.96.0.1",
];

impl Pki {
    /// Reads the keys below `home/pki`, making those that are missing. `names` are further names or addresses of the
    /// server; its certificate is made anew at each start, since they may have changed.
    pub fn open(home: &Path, names: &[String]) -> Result<Pki, PkiError> {
        let folder = home.join("pki");
        fs::create_dir_all(&folder).map_err(|source| PkiError::File { path: folder.clone(), source })?;
        let ca_key_pem = kept(&folder.join("ca.key"), || Ok(KeyPair::generate()?.serialize_pem()))?;
        let damaged = |name: &str| PkiError::Damaged { path: folder.join(name) };
        let ca_key = KeyPair::from_pem(&ca_key_pem).map_err(|_| damaged("ca.key"))?;
        let ca_pem = kept(&folder.join("ca.crt"), || Ok(ca_params()?.self_signed(&ca_key)?.pem()))?;
        let issuer = Issuer::from_ca_cert_pem(&ca_pem, &ca_key).map_err(|_| damaged("ca.crt"))?;
        let (server_cert_pem, server_key_pem) = leaf(&issuer, server_params(names)?)?;
        let (admin_cert_pem, admin_key_pem) = admin(&folder, &issuer)?;
        let admin_token = kept(&folder.join("admin.token"), || Ok(random_token()))?;
        let token_key_text = kept(&folder.join("token.key"), || Ok(hex(&Tokens::generate())))?;
        let token_key = unhex(&token_key_text).filter(|key| Tokens::is_key(key)).ok_or_else(|| damaged("token.key"))?;
        Ok(Pki { ca_pem, server_cert_pem, server_key_pem, admin_cert_pem, admin_key_pem, admin_token, token_key })
    }
}

/// The admin's certificate and key, kept so that written kubeconfigs stay good.
fn admin(folder: &Path, issuer: &Issuer<'_, &KeyPair>) -> Result<(String, String), PkiError> {
    let (cert_path, key_path) = (folder.join("admin.crt"), folder.join("admin.key"));
    if !cert_path.exists() || !key_path.exists() {
        let (cert, key) = leaf(issuer, client_params("kubernetes-admin", "system:masters")?)?;
        write_secret(&key_path, &key)?;
        write_secret(&cert_path, &cert)?;
    }
    let read =
        |path: &Path| fs::read_to_string(path).map_err(|source| PkiError::File { path: path.to_owned(), source });
    Ok((read(&cert_path)?, read(&key_path)?))
}

// Certificates outlive the machine that made them; the key of the CA is what protects them.
fn ca_params() -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    params.distinguished_name.push(DnType::CommonName, "volley-ca");
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2120, 1, 1));
    Ok(params)
}

fn server_params(names: &[String]) -> Result<CertificateParams, rcgen::Error> {
    let mut all: Vec<String> = SERVER_NAMES.iter().map(ToString::to_string).collect();
    all.extend(["127.0.0.1".to_owned(), "::1".to_owned()]);
    // An unspecified address is no name: clients reach such a server by one of the others.
    let is_name = |name: &&String| name.parse::<IpAddr>().is_ok_and(|ip| !ip.is_unspecified()) || !name.is_empty();
    all.extend(names.iter().filter(is_name).cloned());
    all.dedup();
    let mut params = CertificateParams::new(all)?;
    params.distinguished_name.push(DnType::CommonName, "volley-apiserver");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2120, 1, 1));
    Ok(params)
}

fn client_params(user: &str, group: &str) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.distinguished_name.push(DnType::CommonName, user);
    params.distinguished_name.push(DnType::OrganizationName, group);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2120, 1, 1));
    Ok(params)
}

fn leaf(issuer: &Issuer<'_, &KeyPair>, params: CertificateParams) -> Result<(String, String), PkiError> {
    let key = KeyPair::generate()?;
    let cert = params.signed_by(&key, issuer)?;
    Ok((cert.pem(), key.serialize_pem()))
}

/// The text of a file, made and written first when it is missing.
fn kept(path: &Path, make: impl FnOnce() -> Result<String, PkiError>) -> Result<String, PkiError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let text = make()?;
            write_secret(path, &text)?;
            Ok(text)
        }
        Err(source) => Err(PkiError::File { path: path.to_owned(), source }),
    }
}

/// Writes a file that only its owner may read, whole or not at all.
pub fn write_secret(path: &Path, text: &str) -> Result<(), PkiError> {
    let failed = |source| PkiError::File { path: path.to_owned(), source };
    let draft = path.with_extension("new");
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    fs::rename(&draft, path).map_err(failed)
}

fn random_token() -> String {
    let bytes: [u8; 32] = rand::random();
    hex(&bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let text = text.trim();
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(text.get(i..i + 2)?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_made_once_and_kept() {
        let home = tempfile::tempdir().expect("a folder");
        let first = Pki::open(home.path(), &[]).expect("new keys");
        let second = Pki::open(home.path(), &["10.0.0.7".into()]).expect("the same keys");
        assert_eq!(first.ca_pem, second.ca_pem);
        assert_eq!(first.admin_cert_pem, second.admin_cert_pem);
        assert_eq!(first.admin_token, second.admin_token);
        assert_eq!(first.token_key, second.token_key);
    }

    #[test]
    fn damaged_keys_are_named() {
        let home = tempfile::tempdir().expect("a folder");
        Pki::open(home.path(), &[]).expect("new keys");
        fs::write(home.path().join("pki/ca.key"), "nonsense").expect("written");
        let error = Pki::open(home.path(), &[]).err().expect("refused").to_string();
        assert!(error.contains("ca.key") && error.contains("move the folder"), "{error}");
    }
}
