//! One minimal object of each kind and everything that the server adds to it (spec K appendix D).

use super::prepare::{prepare_create, prepare_update};
use super::workloads::job_labels;
use super::{fill, network};
use serde_json::{Value, json};

/// Fills an object and compares it; filling again must change nothing.
fn check(group: &str, kind: &str, mut object: Value, expected: Value) {
    fill(group, kind, &mut object);
    assert_eq!(object, expected, "{kind}");
    fill(group, kind, &mut object);
    assert_eq!(object, expected, "{kind}, filled twice");
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}})
}

fn filled_template() -> Value {
    json!({
        "metadata": {"labels": {"app": "a"}},
        "spec": {
            "containers": [{
                "name": "c", "image": "i:1", "imagePullPolicy": "IfNotPresent", "resources": {},
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            }],
            "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
            "securityContext": {}, "terminationGracePeriodSeconds": 30,
        },
    })
}

#[test]
fn a_job_gets_counts_modes_and_policies() {
    let expected = json!({
        "metadata": {"name": "j", "labels": {"app": "a"}},
        "spec": {
            "parallelism": 1, "completions": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": false,
            "manualSelector": false, "podReplacementPolicy": "TerminatingOrFailed", "template": filled_template(),
        },
        "status": {},
    });
    check("batch", "Job", json!({"metadata": {"name": "j"}, "spec": {"template": template()}}), expected);
}

#[test]
fn a_jobs_defaults_depend_on_what_is_set() {
    let mut job = json!({"spec": {"parallelism": 2, "backoffLimitPerIndex": 1, "podFailurePolicy": {"rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}}});
    fill("batch", "Job", &mut job);
    assert_eq!(job["spec"].get("completions"), None);
    assert_eq!(job["spec"]["backoffLimit"], json!(i32::MAX));
    assert_eq!(job["spec"]["podReplacementPolicy"], "Failed");
    assert_eq!(job["spec"]["podFailurePolicy"]["rules"][0]["onPodConditions"][0]["status"], "True");
}

// K-JOB-1
#[test]
fn a_new_job_is_labelled_with_its_name_and_uid() {
    let mut job = json!({"metadata": {"name": "j"}, "spec": {"template": {"metadata": {}}}});
    fill("batch", "Job", &mut job);
    job_labels(&mut job, "u1");
    let labels = json!({
        "batch.kubernetes.io/controller-uid": "u1", "controller-uid": "u1",
        "batch.kubernetes.io/job-name": "j", "job-name": "j",
    });
    assert_eq!(job["spec"]["template"]["metadata"]["labels"], labels);
    assert_eq!(job["metadata"]["labels"], labels);
    assert_eq!(job["spec"]["selector"], json!({"matchLabels": {"batch.kubernetes.io/controller-uid": "u1"}}));
}

// K-JOB-1
#[test]
fn a_manual_selector_is_left_alone_and_own_labels_stay() {
    let mut job = json!({"metadata": {"name": "j"}, "spec": {"manualSelector": true}});
    let before = job.clone();
    job_labels(&mut job, "u1");
    assert_eq!(job, before);
    let mut job = json!({"metadata": {"name": "j", "labels": {"team": "x"}}, "spec": {"template": template()}});
    job_labels(&mut job, "u1");
    assert_eq!(job["metadata"]["labels"], json!({"team": "x"}));
    assert_eq!(job["spec"]["template"]["metadata"]["labels"]["app"], "a");
}

#[test]
fn a_cron_job_fills_its_pods_but_not_its_jobs() {
    let object = json!({"metadata": {"name": "c"}, "spec": {
        "schedule": "* * * * *", "jobTemplate": {"spec": {"template": template()}}}});
    let expected = json!({
        "metadata": {"name": "c"},
        "spec": {
            "schedule": "* * * * *", "concurrencyPolicy": "Allow", "suspend": false, "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1,
            "jobTemplate": {"metadata": {}, "spec": {"template": filled_template()}},
        },
        "status": {},
    });
    check("batch", "CronJob", object, expected);
}

#[test]
fn a_deployment_rolls_by_quarters() {
    let selector = json!({"matchLabels": {"app": "a"}});
    let expected = json!({
        "metadata": {"name": "d"},
        "spec": {
            "replicas": 1, "selector": selector, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
            "template": filled_template(),
        },
        "status": {},
    });
    let object = json!({"metadata": {"name": "d"}, "spec": {"selector": selector, "template": template()}});
    check("apps", "Deployment", object, expected);
    let mut recreate = json!({"spec": {"strategy": {"type": "Recreate"}}});
    fill("apps", "Deployment", &mut recreate);
    assert_eq!(recreate["spec"]["strategy"], json!({"type": "Recreate"}));
}

#[test]
fn sets_and_controllers_get_their_counts() {
    let spec = || json!({"spec": {"template": template()}});
    let replica_set = json!({"spec": {"replicas": 1, "template": filled_template()}, "status": {"replicas": 0}});
    check("apps", "ReplicaSet", spec(), replica_set);
    let daemon_set = json!({
        "spec": {
            "template": filled_template(), "revisionHistoryLimit": 10,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
        },
        "status": {"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0},
    });
    check("apps", "DaemonSet", spec(), daemon_set);
    let controller = json!({
        "metadata": {"labels": {"app": "a"}},
        "spec": {"replicas": 1, "selector": {"app": "a"}, "template": filled_template()},
        "status": {"replicas": 0},
    });
    check("", "ReplicationController", spec(), controller);
    check("apps", "ControllerRevision", json!({"data": {}}), json!({"data": {}, "revision": 0}));
    check("", "PodTemplate", json!({"template": template()}), json!({"template": filled_template()}));
}

#[test]
fn a_stateful_set_completes_its_claims() {
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}});
    let filled_claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem", "resources": {}},
        "status": {"phase": "Pending"},
    });
    let expected = json!({
        "spec": {
            "replicas": 1, "podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10, "serviceName": "",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            "template": filled_template(), "volumeClaimTemplates": [filled_claim],
        },
        "status": {"replicas": 0, "availableReplicas": 0},
    });
    let object = json!({"spec": {"template": template(), "volumeClaimTemplates": [claim]}});
    check("apps", "StatefulSet", object, expected);
}

// K-SVC-1
#[test]
fn a_service_gets_its_type_ports_and_policies() {
    let object = json!({"spec": {"selector": {"app": "a"}, "ports": [{"port": 80}]}});
    let expected = json!({
        "spec": {
            "selector": {"app": "a"}, "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        },
        "status": {"loadBalancer": {}},
    });
    check("", "Service", object, expected.clone());
    let mut service = expected;
    network::set_cluster_ip(&mut service, "10.0.0.7");
    network::fill_ip_families(&mut service);
    assert_eq!(service["spec"]["clusterIPs"], json!(["10.0.0.7"]));
    assert_eq!(service["spec"]["ipFamilies"], json!(["IPv4"]));
    assert_eq!(service["spec"]["ipFamilyPolicy"], "SingleStack");
}

// K-SVC-1
#[test]
fn services_of_other_types_differ() {
    let headless = json!({"spec": {"clusterIP": "None", "selector": {"app": "a"}}});
    let expected = json!({
        "spec": {
            "clusterIP": "None", "clusterIPs": ["None"], "selector": {"app": "a"}, "type": "ClusterIP",
            "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
        },
        "status": {"loadBalancer": {}},
    });
    check("", "Service", headless, expected);
    let external = json!({"spec": {"type": "ExternalName", "externalName": "a.example"}});
    let expected = json!({
        "spec": {"type": "ExternalName", "externalName": "a.example", "sessionAffinity": "None"},
        "status": {"loadBalancer": {}},
    });
    check("", "Service", external, expected);
    let balanced = json!({"spec": {"type": "LoadBalancer", "sessionAffinity": "ClientIP",
        "ports": [{"port": 1, "nodePort": 30001}, {"port": 2, "name": "b", "targetPort": "x"}]}});
    let expected = json!({
        "spec": {
            "type": "LoadBalancer", "sessionAffinity": "ClientIP", "externalTrafficPolicy": "Cluster",
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}, "internalTrafficPolicy": "Cluster",
            "allocateLoadBalancerNodePorts": true,
            "ports": [
                {"port": 1, "nodePort": 30001, "protocol": "TCP", "targetPort": 1},
                {"port": 2, "name": "b", "protocol": "TCP", "targetPort": "x"},
            ],
        },
        "status": {"loadBalancer": {}},
    });
    check("", "Service", balanced, expected.clone());
    assert_eq!(network::ports_without_node_port(&expected), [1]);
}

#[test]
fn network_kinds_get_protocols() {
    let endpoints = json!({"subsets": [{"ports": [{"port": 1}]}]});
    check("", "Endpoints", endpoints, json!({"subsets": [{"ports": [{"port": 1, "protocol": "TCP"}]}]}));
    let slice = json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 1}]});
    let expected = json!({
        "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {}}],
        "ports": [{"port": 1, "name": "", "protocol": "TCP"}],
    });
    check("discovery.k8s.io", "EndpointSlice", slice, expected);
    let empty = json!({"addressType": "IPv4", "endpoints": null, "ports": null});
    check("discovery.k8s.io", "EndpointSlice", json!({"addressType": "IPv4"}), empty);
    let ingress = json!({"spec": {}, "status": {"loadBalancer": {}}});
    check("networking.k8s.io", "Ingress", json!({}), ingress);
    let policy = json!({"spec": {"podSelector": {}, "policyTypes": ["Ingress"]}});
    check("networking.k8s.io", "NetworkPolicy", json!({"spec": {}}), policy);
    let policy = json!({"spec": {"podSelector": {}, "egress": [{"ports": [{"port": 1, "protocol": "TCP"}]}],
        "policyTypes": ["Ingress", "Egress"]}});
    check("networking.k8s.io", "NetworkPolicy", json!({"spec": {"egress": [{"ports": [{"port": 1}]}]}}), policy);
    let class = json!({"spec": {"controller": "a", "parameters": {"kind": "k", "scope": "Cluster"}}});
    let object = json!({"spec": {"controller": "a", "parameters": {"kind": "k"}}});
    check("networking.k8s.io", "IngressClass", object, class);
}

#[test]
fn core_kinds_get_types_and_phases() {
    let secret = json!({"data": {"a": "eA==", "b": "Yg=="}, "stringData": {"a": "hi"}});
    check("", "Secret", secret, json!({"type": "Opaque", "data": {"a": "aGk=", "b": "Yg=="}}));
    check("", "ConfigMap", json!({"data": {"a": "b"}}), json!({"data": {"a": "b"}}));
    check("", "ServiceAccount", json!({"metadata": {"name": "s"}}), json!({"metadata": {"name": "s"}}));
    let namespace = json!({
        "metadata": {"name": "n", "labels": {"kubernetes.io/metadata.name": "n"}}, "spec": {}, "status": {"phase": "Active"},
    });
    check("", "Namespace", json!({"metadata": {"name": "n"}}), namespace);
    let node = json!({
        "metadata": {"name": "n"}, "spec": {},
        "status": {
            "capacity": {"cpu": "1"}, "allocatable": {"cpu": "1"}, "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
            "nodeInfo": {
                "architecture": "", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "",
                "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "", "operatingSystem": "", "osImage": "",
                "systemUUID": "",
            },
        },
    });
    check("", "Node", json!({"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "1"}}}), node);
    let limits = json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}}]}});
    let expected = json!({"spec": {"limits": [{
        "type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}, "default": {"cpu": "2"},
        "defaultRequest": {"cpu": "2", "memory": "1Mi"},
    }]}});
    check("", "LimitRange", limits, expected);
    check("", "ResourceQuota", json!({}), json!({"spec": {}, "status": {}}));
}

// K-EVT-1
#[test]
fn events_write_their_empty_fields() {
    let core = json!({
        "involvedObject": {}, "source": {}, "firstTimestamp": null, "lastTimestamp": null, "eventTime": null,
        "reportingComponent": "", "reportingInstance": "",
    });
    check("", "Event", json!({}), core);
    let events = json!({
        "regarding": {}, "eventTime": null, "deprecatedSource": {}, "deprecatedFirstTimestamp": null,
        "deprecatedLastTimestamp": null,
    });
    check("events.k8s.io", "Event", json!({}), events);
}

#[test]
fn storage_kinds_get_modes_and_policies() {
    let volume = json!({
        "spec": {"hostPath": {"path": "/d", "type": ""}, "persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"},
        "status": {"phase": "Pending"},
    });
    check("", "PersistentVolume", json!({"spec": {"hostPath": {"path": "/d"}}}), volume);
    let claim = json!({"spec": {"resources": {}, "volumeMode": "Filesystem"}, "status": {"phase": "Pending"}});
    check("", "PersistentVolumeClaim", json!({}), claim);
    let class = json!({"provisioner": "p", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"});
    check("storage.k8s.io", "StorageClass", json!({"provisioner": "p"}), class);
    let driver = json!({"spec": {
        "attachRequired": true, "podInfoOnMount": false, "storageCapacity": false,
        "fsGroupPolicy": "ReadWriteOnceWithFSType", "requiresRepublish": false, "seLinuxMount": false,
        "volumeLifecycleModes": ["Persistent"],
    }});
    check("storage.k8s.io", "CSIDriver", json!({}), driver);
    check("storage.k8s.io", "CSINode", json!({}), json!({"spec": {"drivers": null}}));
    check("storage.k8s.io", "CSIStorageCapacity", json!({}), json!({"storageClassName": ""}));
    let attachment = json!({"spec": {"source": {}}, "status": {"attached": false}});
    check("storage.k8s.io", "VolumeAttachment", json!({}), attachment);
}

#[test]
fn a_claims_two_data_sources_mirror_each_other() {
    let source = json!({"kind": "PersistentVolumeClaim", "name": "a"});
    let mut claim = json!({"spec": {"dataSource": source}});
    fill("", "PersistentVolumeClaim", &mut claim);
    assert_eq!(claim["spec"]["dataSourceRef"], source);
}

#[test]
fn access_kinds_get_groups() {
    let group = "rbac.authorization.k8s.io";
    check(group, "Role", json!({}), json!({"rules": null}));
    check(group, "ClusterRole", json!({}), json!({"rules": null}));
    let binding = json!({
        "roleRef": {"kind": "Role", "name": "r"},
        "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s"}],
    });
    let expected = json!({
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "r"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s"}],
    });
    check(group, "RoleBinding", binding.clone(), expected.clone());
    check(group, "ClusterRoleBinding", binding, expected);
}

#[test]
fn policy_kinds_get_their_numbers() {
    let class = json!({"value": 5, "preemptionPolicy": "PreemptLowerPriority"});
    check("scheduling.k8s.io", "PriorityClass", json!({"value": 5}), class);
    check("coordination.k8s.io", "Lease", json!({}), json!({"spec": {}}));
    let budget = json!({
        "spec": {},
        "status": {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0},
    });
    check("policy", "PodDisruptionBudget", json!({}), budget);
    check("node.k8s.io", "RuntimeClass", json!({"handler": "h"}), json!({"handler": "h"}));
    check("resource.k8s.io", "DeviceClass", json!({}), json!({"spec": {}}));
    let request = |exactly: Value| json!({"spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}});
    let mut claim = request(json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}));
    claim["status"] = json!({});
    check("resource.k8s.io", "ResourceClaim", request(json!({"deviceClassName": "gpu"})), claim);
    let template = json!({"spec": {"metadata": {}, "spec": {"devices": {}}}});
    check("resource.k8s.io", "ResourceClaimTemplate", json!({}), template);
    let request = json!({"spec": {"audiences": null, "expirationSeconds": 3600}});
    check("authentication.k8s.io", "TokenRequest", json!({}), request);
}

#[test]
fn an_autoscaler_aims_at_cpu_and_completes_its_behaviour() {
    let object = json!({"spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d"},
        "behavior": {"scaleDown": {"selectPolicy": "Disabled"}}}});
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    let expected = json!({
        "spec": {
            "minReplicas": 1, "maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d"},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}],
            "behavior": {
                "scaleUp": {"selectPolicy": "Max", "stabilizationWindowSeconds": 0, "policies": [pods, percent]},
                "scaleDown": {"selectPolicy": "Disabled", "policies": [percent]},
            },
        },
        "status": {"desiredReplicas": 0, "currentMetrics": null},
    });
    check("autoscaling", "HorizontalPodAutoscaler", object, expected);
}

#[test]
fn webhooks_fail_closed_after_ten_seconds() {
    let object = json!({"webhooks": [{"name": "a.b.c", "clientConfig": {"service": {"name": "s", "namespace": "n"}},
        "rules": [{"operations": ["CREATE"]}]}]});
    let mut expected = json!({"webhooks": [{
        "name": "a.b.c", "clientConfig": {"service": {"name": "s", "namespace": "n", "port": 443}},
        "rules": [{"operations": ["CREATE"], "scope": "*"}], "failurePolicy": "Fail", "matchPolicy": "Equivalent",
        "namespaceSelector": {}, "objectSelector": {}, "timeoutSeconds": 10,
    }]});
    let group = "admissionregistration.k8s.io";
    check(group, "ValidatingWebhookConfiguration", object.clone(), expected.clone());
    expected["webhooks"][0]["reinvocationPolicy"] = "Never".into();
    check(group, "MutatingWebhookConfiguration", object, expected);
}

// K-WR-5
#[test]
fn a_new_object_starts_with_the_servers_own_fields() {
    let prepared = |group: &str, kind: &str, mut object: Value| {
        fill(group, kind, &mut object);
        prepare_create(group, kind, &mut object);
        let once = object.clone();
        prepare_create(group, kind, &mut object);
        assert_eq!(object, once, "{kind}, prepared twice");
        object
    };
    let namespace = prepared("", "Namespace", json!({"metadata": {"name": "n"}, "status": {"phase": "Terminating"}}));
    assert_eq!(namespace["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(namespace["status"], json!({"phase": "Active"}));
    let claim = prepared("", "PersistentVolumeClaim", json!({"status": {"phase": "Bound"}}));
    assert_eq!(claim["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    assert_eq!(claim["status"], json!({"phase": "Pending"}));
    let daemon_set = prepared("apps", "DaemonSet", json!({}));
    assert_eq!(daemon_set["metadata"]["annotations"]["deprecated.daemonset.template.generation"], "1");
    let node = prepared("", "Node", json!({"status": {"phase": "Running"}}));
    assert_eq!(node["status"]["phase"], "Running", "a node brings its own status");
}

#[test]
fn a_daemon_set_counts_its_templates() {
    let old = json!({
        "metadata": {"annotations": {"deprecated.daemonset.template.generation": "4"}}, "spec": {"template": {"a": 1}},
    });
    let generation = |template: Value| {
        let mut new = json!({"spec": {"template": template}});
        prepare_update("apps", "DaemonSet", &mut new, &old);
        new["metadata"]["annotations"]["deprecated.daemonset.template.generation"].clone()
    };
    assert_eq!(generation(json!({"a": 1})), "4");
    assert_eq!(generation(json!({"a": 2})), "5");
}

// K-SVC-1
#[test]
fn a_service_update_keeps_its_addresses_and_ports() {
    let old = json!({"spec": {
        "type": "NodePort", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack", "externalTrafficPolicy": "Cluster", "ports": [{"port": 80, "nodePort": 30080}],
    }});
    let updated = |mut new: Value| {
        prepare_update("", "Service", &mut new, &old);
        new["spec"].clone()
    };
    assert_eq!(
        updated(json!({"spec": {"type": "NodePort", "ports": [{"port": 81}], "externalTrafficPolicy": "Cluster"}})),
        json!({
            "type": "NodePort", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "externalTrafficPolicy": "Cluster", "ports": [{"port": 81, "nodePort": 30080}],
        })
    );
    let mut narrowed = old.clone();
    narrowed["spec"]["type"] = "ClusterIP".into();
    assert_eq!(
        updated(narrowed),
        json!({
            "type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "ports": [{"port": 80}],
        })
    );
    let mut moved = old.clone();
    moved["spec"]["type"] = "ExternalName".into();
    moved["spec"]["externalName"] = "a.example".into();
    assert_eq!(updated(moved), json!({"type": "ExternalName", "externalName": "a.example", "ports": [{"port": 80}]}));
    let changed = updated(json!({"spec": {"type": "NodePort", "clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.1"]}}));
    assert_eq!(changed["clusterIPs"], json!(["10.0.0.9"]));
}
