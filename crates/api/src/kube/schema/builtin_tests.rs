//! The table of built-in types, looked up as its callers do.

use super::*;

fn core(name: &str) -> StructRef {
    named(&format!("io.k8s.api.core.v1.{name}")).expect(name)
}

/// The SMP key (or `values`, or `-`) and the SSA type of a list, in the notation of Appendix B.
fn list(owner: &StructRef, field: &str) -> String {
    let Shape::List { list, patch, .. } = &owner.get().field(field).expect(field).shape else {
        unreachable!("{field} is no list")
    };
    let patch = match patch {
        ListPatch::Replace => "-".to_owned(),
        ListPatch::MergeValues => "values".to_owned(),
        ListPatch::MergeBy { key, retain_keys } => format!("{key}{}", if *retain_keys { "+retain" } else { "" }),
    };
    let list = match list {
        ListType::Atomic => "atomic".to_owned(),
        ListType::Set => "set".to_owned(),
        ListType::Map(keys) => format!("map({})", keys.join(",")),
    };
    format!("{patch} {list}")
}

#[test]
fn table_is_sorted_and_every_reference_resolves() {
    let index = index();
    assert!(index.entries.is_sorted_by_key(|entry| entry.name));
    for id in 0..index.entries.len() {
        let built = get(id as u16);
        assert!(built.fields.is_sorted_by(|a, b| a.name < b.name), "{}", built.name);
        for (field, line) in built.fields.iter().zip(index.entries[id].body.lines()) {
            let is_any = matches!(innermost(&field.shape), Shape::Any);
            assert_eq!(is_any, line.contains("any ") || line.contains("schema-or-"), "{} {line}", built.name);
        }
    }
}

fn innermost(shape: &Shape) -> &Shape {
    match shape {
        Shape::Map { values, .. } => innermost(values),
        Shape::List { items, .. } => innermost(items),
        Shape::Scalar(_) | Shape::Struct(_) | Shape::Any => shape,
    }
}

#[test]
fn kinds_are_found_by_group_version_and_kind_or_by_name() {
    let pod = of("", "v1", "Pod").expect("served");
    assert_eq!(pod.get().name.as_ref(), "io.k8s.api.core.v1.Pod");
    let crd = of("apiextensions.k8s.io", "v1", "CustomResourceDefinition").expect("served");
    let name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition";
    assert_eq!(crd.get().name.as_ref(), name);
    assert!(named(name).is_some() && named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta").is_some());
    assert!(of("apps", "v1", "DeleteOptions").is_some());
    assert!(of("apps", "v1beta1", "Deployment").is_none() && named("io.k8s.api.core.v1.Nothing").is_none());
    let StructRef::Builtin(id) = pod else { unreachable!("built in") };
    assert_eq!(kind_of(id), Some(("", "v1", "Pod")));
}

// Appendix B, both sides
#[test]
fn lists_of_pods_have_their_keys() {
    let spec = core("PodSpec");
    for field in ["containers", "initContainers", "ephemeralContainers", "imagePullSecrets", "schedulingGates"] {
        assert_eq!(list(&spec, field), "name map(name)", "{field}");
    }
    for field in ["volumes", "resourceClaims"] {
        assert_eq!(list(&spec, field), "name+retain map(name)", "{field}");
    }
    assert_eq!(list(&spec, "hostAliases"), "ip map(ip)");
    assert_eq!(list(&spec, "topologySpreadConstraints"), "topologyKey map(topologyKey,whenUnsatisfiable)");
    assert_eq!(list(&spec, "tolerations"), "- atomic");
    assert_eq!(list(&spec, "readinessGates"), "- atomic");
    for container in [core("Container"), core("EphemeralContainer")] {
        assert_eq!(list(&container, "env"), "name map(name)");
        assert_eq!(list(&container, "ports"), "containerPort map(containerPort,protocol)");
        assert_eq!(list(&container, "volumeMounts"), "mountPath map(mountPath)");
        assert_eq!(list(&container, "volumeDevices"), "devicePath map(devicePath)");
        for field in ["command", "args", "envFrom", "resizePolicy"] {
            assert_eq!(list(&container, field), "- atomic", "{field}");
        }
    }
    assert_eq!(list(&core("ResourceRequirements"), "claims"), "- map(name)");
    let status = core("PodStatus");
    assert_eq!(list(&status, "conditions"), "type map(type)");
    assert_eq!(list(&status, "podIPs"), "ip map(ip)");
    assert_eq!(list(&status, "hostIPs"), "ip atomic");
    assert_eq!(list(&status, "containerStatuses"), "- atomic");
    assert_eq!(list(&status, "resourceClaimStatuses"), "name+retain map(name)");
}

// Appendix B, both sides
#[test]
fn lists_of_other_kinds_have_their_keys() {
    let meta = named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta").expect("in the table");
    assert_eq!(list(&meta, "ownerReferences"), "uid map(uid)");
    assert_eq!(list(&meta, "finalizers"), "values set");
    assert_eq!(list(&core("ServiceSpec"), "ports"), "port map(port,protocol)");
    assert_eq!(list(&core("ServiceSpec"), "clusterIPs"), "- atomic");
    assert_eq!(list(&core("ServiceStatus"), "conditions"), "type map(type)");
    assert_eq!(list(&core("ServiceAccount"), "secrets"), "name map(name)");
    assert_eq!(list(&core("ServiceAccount"), "imagePullSecrets"), "- atomic");
    assert_eq!(list(&core("NodeSpec"), "taints"), "- atomic");
    assert_eq!(list(&core("NodeSpec"), "podCIDRs"), "values set");
    assert_eq!(list(&core("NodeStatus"), "conditions"), "type map(type)");
    assert_eq!(list(&core("NodeStatus"), "addresses"), "type map(type)");
    assert_eq!(list(&core("NodeStatus"), "images"), "- atomic");
    for (name, expected) in [
        ("core.v1.NamespaceStatus", "type map(type)"),
        ("core.v1.PersistentVolumeClaimStatus", "type map(type)"),
        ("apps.v1.DeploymentStatus", "type map(type)"),
        ("apps.v1.ReplicaSetStatus", "type map(type)"),
        ("apps.v1.StatefulSetStatus", "type map(type)"),
        ("apps.v1.DaemonSetStatus", "type map(type)"),
        ("policy.v1.PodDisruptionBudgetStatus", "type map(type)"),
        ("autoscaling.v2.HorizontalPodAutoscalerStatus", "type map(type)"),
        ("batch.v1.JobStatus", "type atomic"),
    ] {
        let status = named(&format!("io.k8s.api.{name}")).expect(name);
        assert_eq!(list(&status, "conditions"), expected, "{name}");
    }
    let extensions = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition";
    assert_eq!(list(&named(&format!("{extensions}Status")).expect("status"), "conditions"), "- map(type)");
    assert_eq!(list(&named(&format!("{extensions}Spec")).expect("spec"), "versions"), "- atomic");
    let uncounted = named("io.k8s.api.batch.v1.UncountedTerminatedPods").expect("in the table");
    assert_eq!(list(&uncounted, "failed"), "- set");
    let webhooks = of("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration").expect("served");
    assert_eq!(list(&webhooks, "webhooks"), "name map(name)");
    let slice = of("discovery.k8s.io", "v1", "EndpointSlice").expect("served");
    assert_eq!(list(&slice, "endpoints"), "- atomic");
    assert_eq!(list(&named("io.k8s.api.discovery.v1.Endpoint").expect("endpoint"), "addresses"), "- set");
    assert_eq!(list(&of("rbac.authorization.k8s.io", "v1", "Role").expect("served"), "rules"), "- atomic");
}

// Appendix B
#[test]
fn atomic_maps_and_key_defaults_are_marked() {
    for name in [
        "core.v1.NodeSelector",
        "core.v1.NodeSelectorTerm",
        "core.v1.LocalObjectReference",
        "core.v1.ObjectReference",
        "core.v1.TypedLocalObjectReference",
        "core.v1.SecretReference",
        "core.v1.SecretKeySelector",
        "core.v1.ConfigMapKeySelector",
        "core.v1.ObjectFieldSelector",
        "core.v1.ResourceFieldSelector",
        "rbac.v1.RoleRef",
        "rbac.v1.Subject",
        "core.v1.ScopeSelector",
        "core.v1.EndpointAddress",
        "core.v1.EndpointPort",
    ] {
        assert!(named(&format!("io.k8s.api.{name}")).expect(name).get().atomic, "{name}");
    }
    for name in ["LabelSelector", "OwnerReference"] {
        assert!(named(&format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}")).expect(name).get().atomic, "{name}");
    }
    assert!(!core("PodSpec").get().atomic);
    for (owner, field) in
        [("PodSpec", "nodeSelector"), ("ServiceSpec", "selector"), ("ReplicationControllerSpec", "selector")]
    {
        let shape = &core(owner).get().field(field).expect(field).shape.clone();
        assert!(matches!(shape, Shape::Map { atomic: true, .. }), "{owner}");
    }
    assert!(named("io.k8s.api.apps.v1.DeploymentStrategy").expect("in the table").get().retain_keys);
    for port in ["ContainerPort", "ServicePort"] {
        let default = core(port).get().field("protocol").expect("protocol").key_default.clone();
        assert_eq!(default, Some("TCP".into()), "{port}");
    }
}

// Appendix A-1 A-3
#[test]
fn inlined_fields_and_pointers_are_known() {
    let empty_dir = core("Volume").get().field("emptyDir").and_then(|f| f.proto).expect("on the wire");
    assert_eq!((empty_dir.number, empty_dir.via, empty_dir.pointer), (2, [2, 0], true));
    let replicas = named("io.k8s.api.apps.v1.DeploymentSpec").expect("in the table");
    assert!(replicas.get().field("replicas").and_then(|f| f.proto).expect("on the wire").pointer);
    let node_name = core("PodSpec").get().field("nodeName").and_then(|f| f.proto).expect("on the wire");
    assert!(!node_name.pointer);
    let scale = named("io.k8s.api.admissionregistration.v1.RuleWithOperations").expect("in the table");
    assert_eq!(scale.get().field("apiGroups").and_then(|f| f.proto).expect("on the wire").via, [2, 0]);
}
