//! Accounts, token secrets and aggregated roles.

use crate::world::World;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

// K 21
#[tokio::test]
async fn a_namespace_has_its_account_and_certificate_again_after_somebody_deleted_them() {
    let world = World::start().await;
    world.create(("", "namespaces"), json!({"metadata": {"name": "n"}})).await;
    let both = || {
        let local = world.local();
        let map = local.get("", "configmaps", "n", "kube-root-ca.crt");
        local.get("", "serviceaccounts", "n", "default").zip(map)
    };
    let (account, map) = world.until("both", both).await;
    assert_eq!(map["data"]["ca.crt"], world.server.ca_pem);
    world.local().delete("", "serviceaccounts", ("n", "default"), "", "Background").await.unwrap();
    world.local().delete("", "configmaps", ("n", "kube-root-ca.crt"), "", "Background").await.unwrap();
    let (again, _) = world.until("both again", both).await;
    assert_ne!(account["metadata"]["uid"], again["metadata"]["uid"]);
}

// K-AUTH-6
#[tokio::test]
async fn a_token_secret_is_filled_and_goes_with_its_account() {
    let world = World::start().await;
    world.create(("", "serviceaccounts"), json!({"metadata": {"name": "robot"}})).await;
    let metadata = json!({"name": "token", "annotations": {"kubernetes.io/service-account.name": "robot"}});
    let secret = json!({"metadata": metadata, "type": "kubernetes.io/service-account-token"});
    world.create(("", "secrets"), secret).await;
    let is_filled = |secret: &Value| secret["data"]["token"].is_string();
    let secret = world.until("filled", || world.get(("", "secrets"), "token").filter(is_filled)).await;
    let plain = |key: &str| String::from_utf8(BASE64.decode(secret["data"][key].as_str().unwrap()).unwrap()).unwrap();
    assert_eq!(plain("namespace"), "default");
    assert_eq!(plain("ca.crt"), world.server.ca_pem);
    let user = world.server.token_user(&plain("token")).unwrap();
    assert_eq!(user.name, "system:serviceaccount:default:robot");
    world.delete(("", "serviceaccounts"), "robot", "Background").await.unwrap();
    world.until_gone(("", "secrets"), "token").await;
}

#[tokio::test]
async fn a_cluster_role_gathers_the_rules_of_those_it_selects() {
    let world = World::start().await;
    let roles = ("rbac.authorization.k8s.io", "clusterroles");
    let rule = json!({"clusterRoleSelectors": [{"matchLabels": {"part": "yes"}}]});
    world.create(roles, json!({"metadata": {"name": "whole"}, "aggregationRule": rule})).await;
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    world.create(roles, json!({"metadata": {"name": "part", "labels": {"part": "yes"}}, "rules": rules})).await;
    world.until("gathered", || world.get(roles, "whole").filter(|role| role["rules"] == rules)).await;
    world.delete(roles, "part", "Background").await.unwrap();
    let is_empty = |role: &Value| role["rules"].as_array().is_none_or(Vec::is_empty);
    world.until("given back", || world.get(roles, "whole").filter(is_empty)).await;
}
