//! Who may do what: reviews, roles, service account tokens and impersonation.

use crate::harness::{Space, eventually, for_each_kubectl, for_some_kubectls, squeeze};
use crate::http::{anonymous, get, post, request};
use serde_json::{Value, json};

// K-AUTH-1 K-AUTH-7
#[test]
fn every_kubectl_asks_what_it_may() {
    for_each_kubectl("can", |space| {
        assert_eq!(space.ok(&["auth", "can-i", "create", "pods"]), "yes\n");
        let nobody = space.run(&["auth", "can-i", "get", "pods", "--as=nobody"]);
        assert_eq!((nobody.code, nobody.stdout.as_str()), (1, "no\n"));
        space.ok(&["create", "role", "reader", "--verb=get,list", "--resource=pods,pods/log"]);
        space.ok(&["create", "rolebinding", "jane", "--role=reader", "--user=jane"]);
        assert_eq!(space.ok(&["auth", "can-i", "list", "pods", "--as=jane"]), "yes\n");
        assert_eq!(space.run(&["auth", "can-i", "delete", "pods", "--as=jane"]).stdout, "no\n");
        assert_eq!(space.ok(&["auth", "can-i", "get", "pods", "--subresource=log", "--as=jane"]), "yes\n");
        space.ok(&["get", "pods", "--as=jane"]);
        let list = squeeze(&space.ok(&["auth", "can-i", "--list", "--as=jane"]));
        assert_eq!(list[0], "Resources  Non-Resource URLs  Resource Names  Verbs");
        assert!(
            list.contains(&"pods/log  []  []  [get list]".to_owned())
                && list.contains(&"pods  []  []  [get list]".to_owned()),
            "{list:?}"
        );
        let admin = squeeze(&space.ok(&["auth", "can-i", "--list"]));
        assert!(admin.contains(&"*.*  []  []  [*]".to_owned()), "{admin:?}");
        if space.kubectl.minor >= 28 {
            let me = squeeze(&space.ok(&["auth", "whoami"]));
            assert_eq!(me[0], "ATTRIBUTE  VALUE");
            assert!(me[1].starts_with("Username  kubernetes-admin"), "{me:?}");
            assert!(
                me.iter().any(|line| line.contains("system:masters") && line.contains("system:authenticated")),
                "{me:?}"
            );
        }
    });
}

// K-AUTH-7
#[test]
fn reviews_answer_on_the_wire() {
    let space = Space::new("reviews");
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let review = json!({"spec": {"resourceAttributes": {"namespace": space.name, "verb": "get", "resource": "pods"}}});
    let answer = post(path, &review);
    assert_eq!((answer.code, &answer.json()["status"]["allowed"]), (201, &json!(true)));
    let subject = json!({"spec": {"user": "nobody", "resourceAttributes": {"namespace": space.name, "verb": "get", "resource": "pods"}}});
    let answer = post("/apis/authorization.k8s.io/v1/subjectaccessreviews", &subject);
    assert_eq!((answer.code, &answer.json()["status"]["allowed"]), (201, &json!(false)));
    let mut local = subject.clone();
    local["metadata"] = json!({"namespace": space.name});
    assert_eq!(post(&space.group("authorization.k8s.io/v1", "localsubjectaccessreviews"), &local).code, 201);
    let rules =
        post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", &json!({"spec": {"namespace": space.name}})).ok();
    assert_eq!(rules["status"]["incomplete"], false);
    assert!(rules["status"]["resourceRules"].as_array().unwrap().iter().any(|r| r["verbs"] == json!(["*"])), "{rules}");
    let me = post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!({})).ok();
    assert_eq!(me["status"]["userInfo"]["username"], "kubernetes-admin");
    let neither = post(path, &json!({"spec": {}}));
    assert_eq!((neither.code, neither.status().1.as_str()), (422, "Invalid"), "{}", neither.body);
}

/// The claims of a token, by base64 without padding.
fn claims(token: &str) -> Value {
    const ALPHABET: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for letter in token.split('.').nth(1).unwrap().chars() {
        bits = (bits << 6) | u32::try_from(ALPHABET.find(letter).unwrap()).unwrap();
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from((bits >> count) & 0xff).unwrap());
        }
    }
    serde_json::from_slice(&bytes).unwrap()
}

// K-AUTH-2 K-AUTH-3 K-AUTH-5 K-SUB-4
#[test]
fn service_accounts_get_tokens_and_use_them() {
    for_some_kubectls("token", |space| {
        space.ok(&["create", "serviceaccount", "robot"]);
        let token = space.ok(&["create", "token", "robot", "--duration=20m"]);
        let token = token.trim();
        let claims = claims(token);
        assert_eq!(claims["sub"], format!("system:serviceaccount:{}:robot", space.name));
        assert_eq!(claims["aud"], json!(["https://kubernetes.default.svc"]));
        assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 1200);
        assert_eq!(claims["kubernetes.io"]["serviceaccount"]["name"], "robot");
        assert_eq!(claims["kubernetes.io"]["namespace"], space.name.as_str());
        let as_robot = |path: &str| anonymous("GET", path).header("Authorization", &format!("Bearer {token}")).send();
        let text = format!(
            "pods is forbidden: User \"system:serviceaccount:{0}:robot\" cannot list resource \"pods\" in API group \"\" in the namespace \"{0}\"",
            space.name
        );
        assert_eq!(as_robot(&space.core("pods")).status(), (403, "Forbidden".into(), text));
        space.ok(&[
            "create",
            "rolebinding",
            "robots",
            "--clusterrole=view",
            &format!("--group=system:serviceaccounts:{}", space.name),
        ]);
        assert_eq!(as_robot(&space.core("pods")).code, 200);
        let said = space.fails(&["create", "token", "robot", "--duration=10s"]);
        assert_eq!(
            said,
            "error: failed to create token: TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 10: may not specify a duration less than 10 minutes\n"
        );
        space.ok(&["delete", "sa", "robot"]);
        assert_eq!(as_robot(&space.core("pods")).code, 401, "a token ends with its account");
    });
}

// K-AUTH-5
#[test]
fn token_requests_have_defaults() {
    let space = Space::new("defaults");
    eventually("the default account", || (get(&space.core("serviceaccounts/default")).code == 200).then_some(()));
    let answer = post(&space.core("serviceaccounts/default/token"), &json!({}));
    assert_eq!(answer.code, 201, "{}", answer.body);
    let object = answer.json();
    assert_eq!((&object["kind"], &object["apiVersion"]), (&json!("TokenRequest"), &json!("authentication.k8s.io/v1")));
    assert_eq!(object["spec"]["expirationSeconds"], 3600);
    let token = object["status"]["token"].as_str().unwrap().to_owned();
    let claims = claims(&token);
    for claim in ["aud", "exp", "iat", "nbf", "iss", "jti", "sub"] {
        assert!(claims.get(claim).is_some(), "{claim} in {claims}");
    }
    let review = post("/apis/authentication.k8s.io/v1/tokenreviews", &json!({"spec": {"token": token}})).ok();
    assert_eq!(review["status"]["authenticated"], true, "{review}");
    assert_eq!(review["status"]["user"]["username"], format!("system:serviceaccount:{}:default", space.name));
}

// K-AUTH-3
#[test]
fn impersonation_is_for_those_who_may() {
    let space = Space::new("as");
    let ask = |user: &str, groups: &[&str]| {
        let mut request = request("GET", &space.core("pods")).header("Impersonate-User", user);
        for group in groups {
            request = request.header("Impersonate-Group", group);
        }
        request.send().code
    };
    assert_eq!(ask("nobody", &[]), 403);
    assert_eq!(ask("nobody", &["system:masters"]), 200);
    let review = request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("Impersonate-User", "u")
        .header("Impersonate-Group", "g")
        .json(&json!({}))
        .send()
        .ok();
    assert_eq!(review["status"]["userInfo"]["groups"], json!(["g", "system:authenticated"]));
}

// K-NS-1
#[test]
fn the_start_up_objects_are_there() {
    let space = Space::new("startup");
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        assert_eq!(get(&format!("/api/v1/namespaces/{name}")).code, 200, "{name}");
    }
    eventually("account and certificate", || {
        let found =
            [get(&space.core("serviceaccounts/default")).code, get(&space.core("configmaps/kube-root-ca.crt")).code];
        (found == [200, 200]).then_some(())
    });
    assert!(
        get(&space.core("configmaps/kube-root-ca.crt")).ok()["data"]["ca.crt"]
            .as_str()
            .unwrap()
            .starts_with("-----BEGIN CERTIFICATE-----")
    );
    let service = get("/api/v1/namespaces/default/services/kubernetes").ok();
    assert_eq!(service["metadata"]["labels"], json!({"component": "apiserver", "provider": "kubernetes"}));
    assert_eq!(
        (&service["spec"]["ports"][0]["name"], &service["spec"]["ports"][0]["port"]),
        (&json!("https"), &json!(443))
    );
    assert_eq!(get("/api/v1/namespaces/default/endpoints/kubernetes").code, 200);
    for (name, value) in [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)] {
        assert_eq!(get(&format!("/apis/scheduling.k8s.io/v1/priorityclasses/{name}")).ok()["value"], value);
    }
    for role in
        ["cluster-admin", "admin", "edit", "view", "system:basic-user", "system:discovery", "system:public-info-viewer"]
    {
        assert_eq!(get(&format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{role}")).code, 200, "{role}");
    }
    let node = eventually("the node", || get("/api/v1/nodes").ok()["items"].get(0).cloned());
    assert!(node["metadata"]["labels"]["kubernetes.io/hostname"].is_string(), "{node}");
}
