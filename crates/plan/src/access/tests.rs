//! Who may do what: rules, bindings, refusals, escalation and impersonation.

use super::*;
use proptest::prelude::*;

fn role(kind: &str, namespace: &str, name: &str, rules: Value) -> Value {
    json!({"kind": kind, "metadata": {"name": name, "namespace": namespace}, "rules": rules})
}

fn binding(kind: &str, namespace: &str, name: &str, role: [&str; 2], subjects: Value) -> Value {
    let role_ref = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": role[0], "name": role[1]});
    json!({"kind": kind, "metadata": {"name": name, "namespace": namespace}, "roleRef": role_ref, "subjects": subjects})
}

fn user(name: &str) -> User {
    User::authenticated(name, [])
}

fn on<'a>(verb: &'a str, resource: &'a str, namespace: &'a str, name: &'a str) -> Request<'a> {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    Request::Resource { verb, group: "", resource, subresource, namespace, name }
}

/// `ann` reads pods in `ns`; group `ops` reads nodes everywhere; service account `ns/robot` makes pods in `ns`.
fn world() -> Rules {
    let reader = json!([{"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get", "list"]}]);
    let nodes = json!([
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["*"]},
        {"nonResourceURLs": ["/metrics", "/debug/*"], "verbs": ["get"]},
    ]);
    let maker = json!([{"apiGroups": [""], "resources": ["pods"], "resourceNames": ["only"], "verbs": ["delete"]}]);
    Rules::new(&[
        role("Role", "ns", "reader", reader),
        role("ClusterRole", "", "nodes", nodes),
        role("ClusterRole", "", "maker", maker),
        binding("RoleBinding", "ns", "ann-reads", ["Role", "reader"], json!([{"kind": "User", "name": "ann"}])),
        binding("ClusterRoleBinding", "", "ops", ["ClusterRole", "nodes"], json!([{"kind": "Group", "name": "ops"}])),
        binding(
            "RoleBinding",
            "ns",
            "robot",
            ["ClusterRole", "maker"],
            json!([{"kind": "ServiceAccount", "name": "robot", "namespace": "ns"}]),
        ),
        binding("RoleBinding", "ns", "dangling", ["Role", "gone"], json!([{"kind": "User", "name": "ann"}])),
    ])
}

// K-AUTH-4 K-AUTH-7
#[test]
fn a_request_is_allowed_by_the_binding_that_covers_it() {
    let rules = world();
    let reason = |user: &User, request: Request<'_>| rules.allowed(user, &request).map(|reason| reason.to_string());
    let ann = user("ann");
    assert_eq!(
        reason(&ann, on("get", "pods", "ns", "p")).as_deref(),
        Some("RBAC: allowed by RoleBinding \"ann-reads/ns\" of Role \"reader\" to User \"ann\"")
    );
    assert!(reason(&ann, on("get", "pods/log", "ns", "p")).is_some());
    for denied in [
        on("get", "pods", "other", "p"),
        on("get", "pods", "", ""),
        on("delete", "pods", "ns", "p"),
        on("get", "pods/exec", "ns", "p"),
        on("list", "secrets", "ns", ""),
    ] {
        assert_eq!(reason(&ann, denied), None, "{denied:?}");
    }
    let operator = User::authenticated("op", ["ops".to_owned()]);
    assert_eq!(
        reason(&operator, on("patch", "nodes", "", "n")).as_deref(),
        Some("RBAC: allowed by ClusterRoleBinding \"ops\" of ClusterRole \"nodes\" to Group \"ops\"")
    );
    let robot = User::service_account("ns", "robot", "u1");
    assert_eq!(
        reason(&robot, on("delete", "pods", "ns", "only")).as_deref(),
        Some("RBAC: allowed by RoleBinding \"robot/ns\" of ClusterRole \"maker\" to ServiceAccount \"robot/ns\"")
    );
    assert_eq!(reason(&robot, on("delete", "pods", "ns", "another")), None);
    assert_eq!(reason(&robot, on("delete", "pods", "ns", "")), None);
}

// K-AUTH-2
#[test]
fn paths_are_matched_exactly_or_by_prefix() {
    let rules = world();
    let operator = User::authenticated("op", ["ops".to_owned()]);
    let may = |path: &str| rules.allowed(&operator, &Request::Path { verb: "get", path }).is_some();
    assert!(may("/metrics") && may("/debug/") && may("/debug/pprof"));
    assert!(!may("/metrics/x") && !may("/debug") && !may("/"));
}

// K-AUTH-1
#[test]
fn masters_may_do_everything() {
    let admin = User::authenticated("admin", [MASTERS.to_owned()]);
    let rules = Rules::default();
    assert_eq!(rules.allowed(&admin, &on("delete", "nodes", "", "n")), Some(Reason::Masters));
    let (resources, paths) = rules.rules_for(&admin, "ns");
    assert_eq!(resources, [json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})]);
    assert_eq!(paths, [json!({"verbs": ["*"], "nonResourceURLs": ["*"]})]);
}

// K-AUTH-2 K-AUTH-3
#[test]
fn users_get_the_groups_of_their_kind() {
    assert_eq!(user("ann").groups, ["system:authenticated"]);
    assert_eq!(User::anonymous().name, "system:anonymous");
    assert_eq!(User::anonymous().groups, ["system:unauthenticated"]);
    let robot = User::service_account("ns", "robot", "u1");
    assert_eq!(robot.name, "system:serviceaccount:ns:robot");
    assert_eq!(robot.groups, ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"]);
    assert_eq!(robot.as_service_account(), Some(("ns", "robot")));
    assert_eq!(robot.to_json()["uid"], "u1");
    assert_eq!(user("ann").as_service_account(), None);
}

// K-AUTH-7
#[test]
fn a_rules_review_lists_what_holds_in_the_namespace() {
    let rules = world();
    let (resources, paths) = rules.rules_for(&user("ann"), "ns");
    assert_eq!(resources, [json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "pods/log"]})]);
    assert!(paths.is_empty());
    assert_eq!(rules.rules_for(&user("ann"), "other"), (vec![], vec![]));
    let (resources, _) = rules.rules_for(&User::service_account("ns", "robot", ""), "ns");
    assert_eq!(resources[0]["resourceNames"], json!(["only"]));
}

#[test]
fn refusals_name_the_user_the_verb_and_the_place() {
    let ann = user("ann");
    let listing = Request::Resource {
        verb: "list",
        group: "apps",
        resource: "deployments",
        subresource: "",
        namespace: "ns",
        name: "",
    };
    let error = forbidden(&ann, &listing);
    assert_eq!(
        error.message,
        "deployments.apps is forbidden: User \"ann\" cannot list resource \"deployments\" in API group \"apps\" in the namespace \"ns\""
    );
    assert_eq!((error.code, error.reason), (403, "Forbidden"));
    assert_eq!(
        forbidden(&ann, &on("create", "pods/exec", "ns", "p")).message,
        "pods \"p\" is forbidden: User \"ann\" cannot create resource \"pods/exec\" in API group \"\" in the namespace \"ns\""
    );
    assert_eq!(
        denial(&ann, &on("list", "nodes", "", "")),
        "User \"ann\" cannot list resource \"nodes\" in API group \"\" at the cluster scope"
    );
    let path = Request::Path { verb: "get", path: "/metrics" };
    assert_eq!(forbidden(&ann, &path).message, "forbidden: User \"ann\" cannot get path \"/metrics\"");
}

#[test]
fn aggregated_roles_are_the_union_of_the_roles_they_select() {
    let labelled = |name: &str, label: &str, resource: &str| {
        let mut role =
            role("ClusterRole", "", name, json!([{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}]));
        role["metadata"]["labels"] = json!({label: "true"});
        role
    };
    let aggregated = |name: &str, label: &str, own_label: &str| {
        json!({
            "kind": "ClusterRole", "metadata": {"name": name, "labels": {own_label: "true"}},
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]},
            "rules": [{"apiGroups": ["stale"], "resources": ["stale"], "verbs": ["get"]}],
        })
    };
    let all = [
        aggregated("edit", "to-edit", "none"),
        aggregated("view", "to-view", "to-edit"),
        labelled("part-edit", "to-edit", "secrets"),
        labelled("part-view", "to-view", "pods"),
        labelled("unrelated", "else", "nodes"),
    ];
    let resources =
        |role: &Value| aggregate(role, &all).iter().map(|rule| rule["resources"][0].clone()).collect::<Vec<_>>();
    assert_eq!(resources(&all[1]), ["pods"]);
    assert_eq!(resources(&all[0]), ["secrets", "pods"]);
    assert_eq!(resources(&all[4]), ["nodes"]);
    let mut objects = all.to_vec();
    objects.push(binding(
        "ClusterRoleBinding",
        "",
        "b",
        ["ClusterRole", "edit"],
        json!([{"kind": "User", "name": "ann"}]),
    ));
    assert!(Rules::new(&objects).allowed(&user("ann"), &on("get", "pods", "ns", "")).is_some());
    let own_loop = [aggregated("loop", "self", "self")];
    assert!(aggregate(&own_loop[0], &own_loop).is_empty());
}

#[test]
fn nobody_grants_more_than_they_hold() {
    let rules = world();
    let ann = user("ann");
    let grants = |verbs: Value, resource: &str| {
        role("Role", "ns", "new", json!([{"apiGroups": [""], "resources": [resource], "verbs": verbs}]))
    };
    assert_eq!(rules.escalates(&ann, &grants(json!(["get"]), "pods")), None);
    assert_eq!(
        rules.escalates(&ann, &grants(json!(["get", "delete", "watch"]), "pods")).unwrap(),
        "user \"ann\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\" \"watch\"]}"
    );
    assert!(rules.escalates(&ann, &grants(json!(["*"]), "pods")).is_some());
    assert!(rules.escalates(&ann, &grants(json!(["get"]), "*")).is_some());
    let admin = User::authenticated("admin", [MASTERS.to_owned()]);
    assert_eq!(rules.escalates(&admin, &grants(json!(["*"]), "*")), None);
    let bind = |kind: &str, name: &str| binding("RoleBinding", "ns", "new", [kind, name], json!([]));
    assert_eq!(rules.escalates(&ann, &bind("Role", "reader")), None);
    assert!(rules.escalates(&ann, &bind("ClusterRole", "nodes")).unwrap().contains("NonResourceURLs:[\"/metrics\"]"));
    assert_eq!(
        rules.escalates(&ann, &bind("Role", "gone")).unwrap(),
        "roles.rbac.authorization.k8s.io \"gone\" not found"
    );
    let aggregated =
        json!({"kind": "ClusterRole", "metadata": {"name": "a"}, "aggregationRule": {"clusterRoleSelectors": []}});
    assert_eq!(
        rules.escalates(&ann, &aggregated).unwrap(),
        "must have cluster-admin privileges to use aggregationRule"
    );
}

#[test]
fn the_verbs_escalate_and_bind_lift_the_limit() {
    let powers = json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "clusterroles"], "verbs": ["escalate", "bind"]}]);
    let rules = Rules::new(&[
        role("ClusterRole", "", "powers", powers),
        role("ClusterRole", "", "nodes", json!([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["*"]}])),
        binding("ClusterRoleBinding", "", "b", ["ClusterRole", "powers"], json!([{"kind": "User", "name": "ann"}])),
    ]);
    let role = role("Role", "ns", "r", json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]));
    assert_eq!(rules.escalates(&user("ann"), &role), None);
    assert!(rules.escalates(&user("bob"), &role).is_some());
    let bind = binding("ClusterRoleBinding", "", "n", ["ClusterRole", "nodes"], json!([]));
    assert_eq!(rules.escalates(&user("ann"), &bind), None);
}

#[test]
fn acting_as_somebody_needs_the_verb_on_each_part() {
    let admin = User::authenticated("admin", [MASTERS.to_owned()]);
    let rules = world();
    let nobody = rules.impersonate(&admin, User { name: "nobody".to_owned(), ..User::default() }).unwrap();
    assert_eq!(nobody.groups, ["system:authenticated"]);
    let robot = User { name: "system:serviceaccount:ns:robot".to_owned(), ..User::default() };
    let robot = rules.impersonate(&admin, robot).unwrap();
    assert_eq!(robot.groups, ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"]);
    let anonymous = User { name: "system:anonymous".to_owned(), ..User::default() };
    assert_eq!(rules.impersonate(&admin, anonymous).unwrap().groups, ["system:unauthenticated"]);
    let error = rules.impersonate(&user("ann"), User { name: "bob".to_owned(), ..User::default() }).unwrap_err();
    assert_eq!(
        error.message,
        "users \"bob\" is forbidden: User \"ann\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope"
    );
}

fn some_rule() -> impl Strategy<Value = Value> {
    let resource = prop_oneof![Just("pods"), Just("pods/log"), Just("*"), Just("*/log"), Just("nodes")];
    let verb = prop_oneof![Just("get"), Just("list"), Just("*")];
    let group = prop_oneof![Just(""), Just("apps"), Just("*")];
    let names = proptest::option::of("[ab]");
    (proptest::collection::vec(resource, 1..3), verb, group, names).prop_map(|(resources, verb, group, name)| {
        json!({"apiGroups": [group], "resources": resources, "verbs": [verb], "resourceNames": name.into_iter().collect::<Vec<_>>()})
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // K-AUTH-4
    #[test]
    fn what_a_covered_rule_allows_the_covering_rule_allows_too(one in some_rule(), other in some_rule()) {
        let (one, other) = (Rule::read(&one), Rule::read(&other));
        let covers = other.pieces().iter().all(|piece| one.covers(piece));
        for (resource, name) in [("pods", "a"), ("pods/log", "b"), ("nodes", "")] {
            for verb in ["get", "list"] {
                let request = on(verb, resource, "ns", name);
                prop_assert!(!covers || !other.allows(&request) || one.allows(&request));
            }
        }
    }

    // K-AUTH-4
    #[test]
    fn a_rule_covers_itself_and_everything_covers_it(rule in some_rule()) {
        let rule = Rule::read(&rule);
        for piece in rule.pieces() {
            prop_assert!(rule.covers(&piece));
            prop_assert!(Rule::everything()[0].covers(&piece));
        }
    }
}
