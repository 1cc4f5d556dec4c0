//! The admin's kubeconfig: one cluster, one user with an embedded certificate, one context, all named `volley`.

use super::pki::Pki;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::net::SocketAddr;

/// The whole file as YAML.
pub fn text(pki: &Pki, address: SocketAddr) -> String {
    let encode = |pem: &str| STANDARD.encode(pem);
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: volley\n\
         clusters:\n- name: volley\n  cluster:\n    server: https://{address}\n{compression}    certificate-authority-data: {ca}\n\
         contexts:\n- name: volley\n  context:\n    cluster: volley\n    user: volley\n\
         users:\n- name: volley\n  user:\n    client-certificate-data: {cert}\n    client-key-data: {key}\n",
        // On one machine, packing and unpacking lists costs more than moving them.
        compression = if address.ip().is_loopback() { "    disable-compression: true\n" } else { "" },
        ca = encode(&pki.ca_pem),
        cert = encode(&pki.admin_cert_pem),
        key = encode(&pki.admin_key_pem),
    )
}
