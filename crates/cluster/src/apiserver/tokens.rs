//! Service account tokens: ES256 JWTs, their check, and the documents that let others check them (spec K 20.2).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as B64;
use jiff::Timestamp;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use volley_api::kube::text;
use volley_plan::access::User;

pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
pub const AUDIENCE: &str = "https://kubernetes.default.svc";

/// The key that signs tokens.
pub struct Tokens {
    key: EcdsaKeyPair,
    key_id: String,
}

/// Under this key a user's extra data names the certificate or token that proved who they are.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The service account that a token speaks for.
#[derive(Debug, PartialEq, Eq)]
pub struct Account {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

/// A token to be made.
pub struct Claims<'a> {
    pub account: &'a Account,
    pub audiences: &'a [String],
    pub now: Timestamp,
    pub seconds: i64,
    /// Name and uid of the pod that the token is bound to.
    pub pod: Option<(String, String)>,
}

impl Tokens {
    /// A signer from a PKCS#8 key that `generate` made.
    pub fn new(pkcs8: &[u8]) -> Tokens {
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &SystemRandom::new())
            .expect("the token key was made by generate() and is checked when it is read");
        let key_id = B64.encode(ring::digest::digest(&ring::digest::SHA256, key.public_key().as_ref()));
        Tokens { key, key_id }
    }

    pub fn generate() -> Vec<u8> {
        EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
            .expect("the system has randomness")
            .as_ref()
            .to_vec()
    }

    pub fn is_key(pkcs8: &[u8]) -> bool {
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &SystemRandom::new()).is_ok()
    }

    pub fn sign(&self, claims: &Claims<'_>) -> String {
        let now = claims.now.as_second();
        let Account { namespace, name, uid } = claims.account;
        let mut kubernetes = json!({"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}});
        if let Some((pod, uid)) = &claims.pod {
            kubernetes["pod"] = json!({"name": pod, "uid": uid});
        }
        let body = json!({
            "aud": claims.audiences, "exp": now + claims.seconds, "iat": now, "nbf": now, "iss": ISSUER,
            "jti": uuid::Uuid::new_v4().to_string(), "sub": format!("system:serviceaccount:{namespace}:{name}"),
            "kubernetes.io": kubernetes,
        });
        let header = json!({"alg": "ES256", "kid": self.key_id});
        let signed = format!("{}.{}", B64.encode(header.to_string()), B64.encode(body.to_string()));
        let signature =
            self.key.sign(&SystemRandom::new(), signed.as_bytes()).expect("signing with a whole key cannot fail");
        format!("{signed}.{}", B64.encode(signature))
    }

    /// The account of a token that we signed, that is in date and meant for this API.
    pub fn verify(&self, token: &str) -> Option<Value> {
        let body = self.claims(token)?;
        let is_ours = body["aud"].as_array()?.iter().any(|audience| audience == AUDIENCE || audience == ISSUER);
        is_ours.then_some(body)
    }

    /// The claims of a token that we signed and that is in date, whoever it is meant for.
    pub fn claims(&self, token: &str) -> Option<Value> {
        let (signed, signature) = token.rsplit_once('.')?;
        let signature = B64.decode(signature).ok()?;
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.key.public_key().as_ref());
        key.verify(signed.as_bytes(), &signature).ok()?;
        let body: Value = serde_json::from_slice(&B64.decode(signed.split_once('.')?.1).ok()?).ok()?;
        let now = Timestamp::now().as_second();
        (body["exp"].as_i64()? > now && body["nbf"].as_i64()? <= now + 60).then_some(body)
    }

    pub fn jwks(&self) -> Value {
        // An uncompressed point: one marker byte, then x and y.
        let point = self.key.public_key().as_ref();
        let (x, y) = point[1..].split_at(32);
        json!({"keys": [{"use": "sig", "kty": "EC", "kid": self.key_id, "crv": "P-256", "alg": "ES256",
            "x": B64.encode(x), "y": B64.encode(y)}]})
    }

    pub fn openid(&self, address: &str) -> Value {
        json!({"issuer": ISSUER, "jwks_uri": format!("https://{address}/openid/v1/jwks"),
            "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"]})
    }
}

/// The user that claims are about.
pub fn user(claims: &Value) -> User {
    let Account { namespace, name, uid } = account(claims);
    User { extra: extra(claims), ..User::service_account(&namespace, &name, &uid) }
}

/// What else a token says of its user: its own id, and the pod that it is bound to.
fn extra(claims: &Value) -> BTreeMap<String, Vec<String>> {
    let jti = Some(text(claims, "jti")).filter(|jti| !jti.is_empty()).map(|jti| format!("JTI={jti}"));
    let mut extra: BTreeMap<String, Vec<String>> =
        jti.map(|id| (CREDENTIAL_ID.to_owned(), vec![id])).into_iter().collect();
    let pod = &claims["kubernetes.io"]["pod"];
    for (key, part) in [("pod-name", "name"), ("pod-uid", "uid")] {
        if let Some(value) = pod[part].as_str() {
            extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value.to_owned()]);
        }
    }
    extra
}

/// The account that claims are about.
pub fn account(claims: &Value) -> Account {
    let kubernetes = &claims["kubernetes.io"];
    Account {
        namespace: text(kubernetes, "namespace").to_owned(),
        name: text(kubernetes, "serviceaccount.name").to_owned(),
        uid: text(kubernetes, "serviceaccount.uid").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // K-AUTH-5
    #[test]
    fn a_token_speaks_for_its_account_until_it_ends_or_is_touched() {
        let tokens = Tokens::new(&Tokens::generate());
        let account = Account { namespace: "a".into(), name: "b".into(), uid: "u".into() };
        let sign = |seconds, audience: &str| {
            let audiences = [audience.to_owned()];
            tokens.sign(&Claims { account: &account, audiences: &audiences, now: Timestamp::now(), seconds, pod: None })
        };
        let token = sign(600, AUDIENCE);
        let read = tokens.verify(&token).expect("ours");
        assert_eq!(super::account(&read), Account { namespace: "a".into(), name: "b".into(), uid: "u".into() });
        assert!(user(&read).extra[CREDENTIAL_ID][0].starts_with("JTI="));
        assert_eq!(tokens.verify(&sign(-1, AUDIENCE)), None);
        assert_eq!(tokens.verify(&sign(600, "somebody else")), None);
        assert_eq!(tokens.verify(&token.replace('.', "..")), None);
        assert_eq!(Tokens::new(&Tokens::generate()).verify(&token), None);
    }
}
