//! Which volumes are made of what, and how refusals read.

use super::*;
use serde_json::{Value, json};

fn pod(spec: Value) -> Pod {
    let mut pod = json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"},
        "spec": {"containers": [{"name": "c"}]}});
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    serde_json::from_value(pod).unwrap()
}

/// What a volume is made of when these claims and persistent volumes are there.
fn check_with(volume: Value, claims: Value, volumes: Value) -> Result<(String, Backing), String> {
    let mut volume = volume;
    volume["name"] = json!("v");
    let volume: Volume = serde_json::from_value(volume).unwrap();
    let claims: Vec<PersistentVolumeClaim> = serde_json::from_value(claims).unwrap();
    let volumes: Vec<PersistentVolume> = serde_json::from_value(volumes).unwrap();
    let lookup = Lookup {
        claim: &|name| claims.iter().find(|claim| claim.metadata.name.as_deref() == Some(name)).cloned(),
        volume: &|name| volumes.iter().find(|volume| volume.metadata.name.as_deref() == Some(name)).cloned(),
    };
    backing(&pod(json!({})), &volume, &lookup)
}

fn check(volume: Value) -> Result<Backing, String> {
    check_with(volume, json!([]), json!([])).map(|(_, backing)| backing)
}

#[test]
fn volumes_of_the_pod_itself_need_no_lookup() {
    let host = |path: &str, kind: &str| Backing::Host { path: path.to_owned(), kind: kind.to_owned() };
    let cases = [
        (json!({"emptyDir": {}}), Backing::Disk),
        (json!({"emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}), Backing::Memory { bytes: Some(64 << 20) }),
        (json!({"configMap": {"name": "m"}}), Backing::Written { is_secret: false }),
        (json!({"secret": {"secretName": "s"}}), Backing::Written { is_secret: true }),
        (json!({"projected": {"sources": []}}), Backing::Written { is_secret: true }),
        (json!({"hostPath": {"path": "/x", "type": "File"}}), host("/x", "File")),
        (json!({"nfs": {"server": "s", "path": "/x"}}), Backing::Nfs(Share::new("s", "/x", false, &[]))),
    ];
    for (volume, expected) in cases {
        assert_eq!(check(volume), Ok(expected));
    }
}

#[test]
fn a_memory_volume_is_no_larger_than_the_pods_memory() {
    let limited = json!({"containers": [{"name": "c", "resources": {"limits": {"memory": "1Gi"}}}]});
    let source = |limit: Value| serde_json::from_value(json!({"medium": "Memory", "sizeLimit": limit})).unwrap();
    let cases = [
        (json!({}), Value::Null, None),
        (limited.clone(), Value::Null, Some(1 << 30)),
        (limited.clone(), json!("2Gi"), Some(1 << 30)),
        (limited, json!("1Mi"), Some(1 << 20)),
    ];
    for (spec, limit, expected) in cases {
        assert_eq!(memory_bytes(&pod(spec), &source(limit)), expected);
    }
}

#[test]
fn other_kinds_are_refused_by_name() {
    for (volume, kind) in [
        (json!({"csi": {"driver": "d"}}), "\"csi\""),
        (json!({"iscsi": {"targetPortal": "t", "iqn": "i", "lun": 0}}), "\"iscsi\""),
        (json!({"image": {"reference": "i"}}), "\"image\""),
        (json!({"emptyDir": {"medium": "HugePages"}}), "\"HugePages\""),
    ] {
        let refused = check(volume).unwrap_err();
        assert!(refused.starts_with("MountVolume.SetUp failed for volume \"v\" : "), "{refused}");
        assert!(refused.contains(kind), "{refused}");
    }
}

fn claim(phase: &str) -> Value {
    json!([{"metadata": {"name": "c", "uid": "1"}, "spec": {"volumeName": "pv"}, "status": {"phase": phase}}])
}

fn persistent_volume(source: Value) -> Value {
    let mut spec = source;
    spec["claimRef"] = json!({"name": "c", "uid": "1"});
    spec["capacity"] = json!({"storage": "1Gi"});
    spec["accessModes"] = json!(["ReadWriteMany"]);
    json!([{"metadata": {"name": "pv"}, "spec": spec}])
}

// K-VOL-1
#[test]
fn a_bound_claim_is_what_its_volume_is() {
    let source = json!({"persistentVolumeClaim": {"claimName": "c"}});
    let cases = [
        (json!({"hostPath": {"path": "/x"}}), Backing::Host { path: "/x".into(), kind: String::new() }),
        (json!({"local": {"path": "/x"}}), Backing::Local { path: "/x".into() }),
        (
            json!({"nfs": {"server": "s", "path": "/x"}, "mountOptions": ["hard"]}),
            Backing::Nfs(Share::new("s", "/x", false, &["hard".to_owned()])),
        ),
    ];
    for (volume, expected) in cases {
        let found = check_with(source.clone(), claim("Bound"), persistent_volume(volume));
        assert_eq!(found, Ok(("pv".to_owned(), expected)));
    }
    let refused = check_with(source, claim("Bound"), persistent_volume(json!({"rbd": {"monitors": [], "image": ""}})));
    assert!(refused.unwrap_err().contains("volumes of kind \"rbd\" are not supported"));
}

#[test]
fn a_claim_that_is_not_bound_is_waited_for_in_the_kubelets_words() {
    let source = json!({"persistentVolumeClaim": {"claimName": "c"}});
    let other = json!([{"metadata": {"name": "pv"}, "spec": {"claimRef": {"name": "c", "uid": "2"}}}]);
    let deleted = json!([{"metadata": {"name": "c", "deletionTimestamp": "2026-01-01T00:00:00Z"}}]);
    let host = || persistent_volume(json!({"hostPath": {"path": "/x"}, "volumeMode": "Block"}));
    let cases = [
        (json!([]), json!([]), "failed to fetch PVC from API server: persistentvolumeclaims \"c\" not found"),
        (claim("Pending"), json!([]), "PVC is not bound"),
        (deleted, json!([]), "PVC is being deleted"),
        (claim("Bound"), json!([]), "failed to fetch PV pv from API server: persistentvolumes \"pv\" not found"),
        (claim("Bound"), other, "found PV object pv but its pv.Spec.ClaimRef.UID 2 does not point to claim.UID 1"),
        (claim("Bound"), host(), "volume v has volumeMode Block, but is specified in volumeMounts"),
    ];
    for (claims, volumes, why) in cases {
        let text = "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], \
                    failed to process volumes=[v]: error processing PVC ns/c: ";
        assert_eq!(check_with(source.clone(), claims, volumes), Err(format!("{text}{why}")));
    }
}

#[test]
fn an_ephemeral_volumes_claim_must_be_the_pods_own() {
    let source = json!({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}});
    let mut claims = claim("Bound");
    claims[0]["metadata"]["name"] = json!("p-v");
    let stranger = check_with(source.clone(), claims.clone(), json!([])).unwrap_err();
    assert!(stranger.ends_with("PVC ns/p-v was not created for pod ns/p (pod is not owner)"), "{stranger}");
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true});
    claims[0]["metadata"]["ownerReferences"] = json!([owner]);
    let volumes = persistent_volume(json!({"hostPath": {"path": "/x"}}));
    assert!(check_with(source.clone(), claims, volumes).is_ok());
    let missing = check_with(source, json!([]), json!([])).unwrap_err();
    assert!(missing.contains("makes no claims from ephemeral volumes"), "{missing}");
}

#[test]
fn tokens_belong_to_the_one_user_of_all_containers() {
    let user = |pod_user: Value, users: [Value; 2]| {
        let containers = users.map(|user| json!({"name": "c", "securityContext": {"runAsUser": user}}));
        ownership(&pod(json!({"securityContext": {"runAsUser": pod_user}, "containers": containers}))).user
    };
    assert_eq!(user(json!(1000), [Value::Null, Value::Null]), Some(1000));
    assert_eq!(user(json!(1000), [json!(7), json!(7)]), Some(7));
    assert_eq!(user(json!(1000), [json!(7), Value::Null]), None);
    assert_eq!(user(Value::Null, [json!(7), Value::Null]), None);
}

#[test]
fn a_token_is_private_where_somebody_owns_it() {
    let nobody = Ownership::default();
    assert_eq!(nobody.token_mode(0o644), 0o644);
    assert_eq!(Ownership { user: Some(7), ..nobody }.token_mode(0o644), 0o600);
    assert_eq!(Ownership::shared_mode(0o600, false, true), 0o640);
    assert_eq!(Ownership::shared_mode(0o755, true, true), 0o2755);
    assert_eq!(Ownership::shared_mode(0o777, true, false), 0o2777);
}

// K-AUTH-5
#[test]
fn tokens_are_renewed_after_four_fifths_of_their_life_or_a_day() {
    let at = |second| Timestamp::from_second(second).unwrap();
    assert_eq!(token_renewal(at(1000), at(1600)), at(1480));
    assert_eq!(token_renewal(at(0), at(365 * 86400)), at(86400));
}

#[test]
fn a_memory_volume_that_one_container_mounts_can_be_its_own() {
    let containers = |mounts: [Value; 2]| {
        let containers = mounts.map(|mounts| json!({"name": "c", "volumeMounts": mounts}));
        pod(json!({ "containers": containers }))
    };
    let mount = || json!([{"name": "v", "mountPath": "/dev/shm"}]);
    assert!(is_private(&containers([mount(), json!([])]), "v"));
    assert!(!is_private(&containers([mount(), mount()]), "v"));
    let inner = json!([{"name": "v", "mountPath": "/a", "subPath": "a"}]);
    assert!(!is_private(&containers([inner, json!([])]), "v"));
}
