//! What is served and how clients find out: discovery in both forms, OpenAPI, version and health.

use crate::harness::{Space, for_each_kubectl, squeeze, stage};
use crate::http::{anonymous, get, request};
use serde_json::{Value, json};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

fn aggregated(path: &str) -> Value {
    request("GET", path).header("Accept", AGGREGATED).send().ok()
}

// K-DISC-6
#[test]
fn version_is_a_kubernetes_release_that_says_who_answers() {
    let version = get("/version").ok();
    let keys: Vec<&str> = version.as_object().unwrap().keys().map(String::as_str).collect();
    let expected =
        ["buildDate", "compiler", "gitCommit", "gitTreeState", "gitVersion", "goVersion", "major", "minor", "platform"];
    assert_eq!(keys, expected);
    assert!(version.as_object().unwrap().values().all(Value::is_string));
    assert!(version["gitVersion"].as_str().unwrap().starts_with("v1.35.0+volley."), "{version}");
    assert_eq!((&version["major"], &version["minor"]), (&json!("1"), &json!("35")));
    assert_eq!(get("/version/").ok(), version);
}

// K-DISC-6
#[test]
fn every_kubectl_prints_the_server_version() {
    for_each_kubectl("version", |space| {
        let printed = space.ok(&["version"]);
        assert!(printed.contains("Server Version: ") && printed.contains("v1.35.0+volley."), "{printed}");
    });
}

// K-AUTH-2
#[test]
fn health_is_answered_to_anyone_as_plain_text() {
    for path in ["/healthz", "/livez", "/readyz"] {
        let answer = anonymous("GET", path).send();
        assert_eq!((answer.code, answer.body.as_str()), (200, "ok"));
        assert!(answer.header("content-type").starts_with("text/plain"));
    }
}

// K-DISC-1 K-CAT-3
#[test]
fn the_aggregated_core_document_has_one_nameless_group() {
    let document = aggregated("/api");
    assert_eq!(document["kind"], "APIGroupDiscoveryList");
    assert_eq!(document["apiVersion"], "apidiscovery.k8s.io/v2");
    let items = document["items"].as_array().unwrap();
    assert_eq!(items.len(), 1);
    assert_eq!(items[0]["metadata"].get("name"), None);
    let resources = items[0]["versions"][0]["resources"].as_array().unwrap();
    let pods = resources.iter().find(|r| r["resource"] == "pods").unwrap();
    assert_eq!(pods["scope"], "Namespaced");
    assert_eq!(pods["responseKind"], json!({"group": "", "version": "", "kind": "Pod"}));
    assert_eq!(pods["shortNames"], json!(["po"]));
    assert_eq!(pods["categories"], json!(["all"]));
    assert_eq!(pods["singularResource"], "pod");
    let nodes = resources.iter().find(|r| r["resource"] == "nodes").unwrap();
    assert_eq!(nodes["scope"], "Cluster");
    let scale = aggregated("/apis");
    let apps = scale["items"].as_array().unwrap().iter().find(|g| g["metadata"]["name"] == "apps").unwrap();
    let deployments =
        apps["versions"][0]["resources"].as_array().unwrap().iter().find(|r| r["resource"] == "deployments");
    let scale =
        deployments.unwrap()["subresources"].as_array().unwrap().iter().find(|s| s["subresource"] == "scale").unwrap();
    assert_eq!(scale["responseKind"], json!({"group": "autoscaling", "version": "v1", "kind": "Scale"}));
}

// K-DISC-2
#[test]
fn versions_of_a_group_come_highest_first_and_the_first_is_preferred() {
    let groups = get("/apis").ok();
    assert_eq!((&groups["kind"], &groups["apiVersion"]), (&json!("APIGroupList"), &json!("v1")));
    for group in groups["groups"].as_array().unwrap() {
        assert_eq!(group["preferredVersion"], group["versions"][0], "{group}");
    }
    let names: Vec<&str> = groups["groups"].as_array().unwrap().iter().map(|g| g["name"].as_str().unwrap()).collect();
    let aggregated = aggregated("/apis");
    let again: Vec<&str> =
        aggregated["items"].as_array().unwrap().iter().map(|g| g["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, again, "both forms have one order");
    let versions = get("/apis/autoscaling").ok()["versions"].clone();
    let versions: Vec<&str> = versions.as_array().unwrap().iter().map(|v| v["version"].as_str().unwrap()).collect();
    assert_eq!(versions, ["v2", "v1"]);
}

// K-DISC-1 K-DISC-2
#[test]
fn an_unchanged_discovery_document_is_not_sent_again() {
    for path in ["/api", "/apis"] {
        let first = request("GET", path).header("Accept", AGGREGATED).send();
        assert_eq!(
            first.header("content-type"),
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        );
        assert_eq!(first.header("vary"), "Accept");
        let tag = first.header("etag");
        assert!(tag.starts_with('"') && tag.ends_with('"'), "{tag}");
        let second = request("GET", path).header("Accept", AGGREGATED).header("If-None-Match", tag).send();
        assert_eq!((second.code, second.body.as_str()), (304, ""));
    }
}

// K-DISC-1
#[test]
fn legacy_discovery_has_the_documented_shape() {
    let api = get("/api").ok();
    let expected = json!({"kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": stage().address}]});
    assert_eq!(api, expected);
    let core = get("/api/v1").ok();
    assert_eq!(core.get("apiVersion"), None);
    assert_eq!((&core["kind"], &core["groupVersion"]), (&json!("APIResourceList"), &json!("v1")));
    let entry = |list: &Value, name: &str| {
        list["resources"].as_array().unwrap().iter().find(|r| r["name"] == name).cloned().unwrap_or_default()
    };
    let eviction = entry(&core, "pods/eviction");
    assert_eq!(
        (&eviction["group"], &eviction["version"], &eviction["kind"]),
        (&json!("policy"), &json!("v1"), &json!("Eviction"))
    );
    assert_eq!(eviction["singularName"], "");
    assert_eq!(entry(&core, "serviceaccounts/token")["group"], "authentication.k8s.io");
    assert_eq!(
        entry(&core, "namespaces")["verbs"],
        json!(["create", "delete", "get", "list", "patch", "update", "watch"])
    );
    let apps = get("/apis/apps/v1").ok();
    assert_eq!(apps["apiVersion"], "v1");
    assert_eq!(entry(&apps, "deployments/scale")["kind"], "Scale");
}

// K-DISC-5
#[test]
fn unknown_discovery_paths_are_404_and_the_rest_stays_up() {
    for path in ["/apis/nope.example.com", "/apis/nope.example.com/v1", "/api/v2", "/nope"] {
        let answer = get(path);
        assert_eq!((answer.code, answer.body.as_str()), (404, "404 page not found\n"), "{path}");
        assert!(answer.header("content-type").starts_with("text/plain"), "{path}");
    }
    for group in get("/apis").ok()["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            let path = format!("/apis/{}", version["groupVersion"].as_str().unwrap());
            let list = get(&path).ok();
            assert!(!list["resources"].as_array().unwrap().is_empty(), "{path}");
        }
    }
}

/// What `api-resources` lists of the catalogue: name, short names, version, scope and kind.
const CATALOGUE: &str = "\
bindings  v1  true  Binding
componentstatuses  cs  v1  false  ComponentStatus
configmaps  cm  v1  true  ConfigMap
endpoints  ep  v1  true  Endpoints
events  ev  v1  true  Event
limitranges  limits  v1  true  LimitRange
namespaces  ns  v1  false  Namespace
nodes  no  v1  false  Node
persistentvolumeclaims  pvc  v1  true  PersistentVolumeClaim
persistentvolumes  pv  v1  false  PersistentVolume
pods  po  v1  true  Pod
podtemplates  v1  true  PodTemplate
replicationcontrollers  rc  v1  true  ReplicationController
resourcequotas  quota  v1  true  ResourceQuota
secrets  v1  true  Secret
serviceaccounts  sa  v1  true  ServiceAccount
services  svc  v1  true  Service
mutatingwebhookconfigurations  admissionregistration.k8s.io/v1  false  MutatingWebhookConfiguration
validatingwebhookconfigurations  admissionregistration.k8s.io/v1  false  ValidatingWebhookConfiguration
customresourcedefinitions  crd,crds  apiextensions.k8s.io/v1  false  CustomResourceDefinition
controllerrevisions  apps/v1  true  ControllerRevision
daemonsets  ds  apps/v1  true  DaemonSet
deployments  deploy  apps/v1  true  Deployment
replicasets  rs  apps/v1  true  ReplicaSet
statefulsets  sts  apps/v1  true  StatefulSet
selfsubjectreviews  authentication.k8s.io/v1  false  SelfSubjectReview
tokenreviews  authentication.k8s.io/v1  false  TokenReview
localsubjectaccessreviews  authorization.k8s.io/v1  true  LocalSubjectAccessReview
selfsubjectaccessreviews  authorization.k8s.io/v1  false  SelfSubjectAccessReview
selfsubjectrulesreviews  authorization.k8s.io/v1  false  SelfSubjectRulesReview
subjectaccessreviews  authorization.k8s.io/v1  false  SubjectAccessReview
horizontalpodautoscalers  hpa  autoscaling/v2  true  HorizontalPodAutoscaler
cronjobs  cj  batch/v1  true  CronJob
jobs  batch/v1  true  Job
leases  coordination.k8s.io/v1  true  Lease
nodes  metrics.k8s.io/v1beta1  false  NodeMetrics
pods  metrics.k8s.io/v1beta1  true  PodMetrics
endpointslices  discovery.k8s.io/v1  true  EndpointSlice
events  ev  events.k8s.io/v1  true  Event
ingressclasses  networking.k8s.io/v1  false  IngressClass
ingresses  ing  networking.k8s.io/v1  true  Ingress
networkpolicies  netpol  networking.k8s.io/v1  true  NetworkPolicy
runtimeclasses  node.k8s.io/v1  false  RuntimeClass
poddisruptionbudgets  pdb  policy/v1  true  PodDisruptionBudget
clusterrolebindings  rbac.authorization.k8s.io/v1  false  ClusterRoleBinding
clusterroles  rbac.authorization.k8s.io/v1  false  ClusterRole
rolebindings  rbac.authorization.k8s.io/v1  true  RoleBinding
roles  rbac.authorization.k8s.io/v1  true  Role
priorityclasses  pc  scheduling.k8s.io/v1  false  PriorityClass
workloads  scheduling.k8s.io/v1alpha1  true  Workload
csidrivers  storage.k8s.io/v1  false  CSIDriver
csinodes  storage.k8s.io/v1  false  CSINode
csistoragecapacities  storage.k8s.io/v1  true  CSIStorageCapacity
storageclasses  sc  storage.k8s.io/v1  false  StorageClass
volumeattachments  storage.k8s.io/v1  false  VolumeAttachment";

// K-DISC-1 K-CAT-1
#[test]
fn every_kubectl_lists_the_whole_catalogue() {
    for_each_kubectl("resources", |space| {
        let listed = squeeze(&space.ok(&["api-resources"]));
        assert_eq!(listed[0], "NAME  SHORTNAMES  APIVERSION  NAMESPACED  KIND");
        for line in CATALOGUE.lines() {
            assert!(listed.iter().any(|l| l == line), "`{line}` is missing in {listed:#?}");
        }
    });
}

// K-DISC-1
#[test]
fn wide_api_resources_show_verbs_and_categories() {
    let space = Space::new("wide");
    let listed = squeeze(&space.ok(&["api-resources", "-o", "wide"]));
    let all = "create,delete,deletecollection,get,list,patch,update,watch";
    for line in [
        format!("pods  po  v1  true  Pod  {all}  all"),
        "namespaces  ns  v1  false  Namespace  create,delete,get,list,patch,update,watch".to_owned(),
        "bindings  v1  true  Binding  create".to_owned(),
        format!(
            "customresourcedefinitions  crd,crds  apiextensions.k8s.io/v1  false  CustomResourceDefinition  {all}  api-extensions"
        ),
    ] {
        assert!(listed.contains(&line), "`{line}` is missing in {listed:#?}");
    }
}

// K-DISC-2
#[test]
fn api_versions_are_those_of_the_catalogue() {
    let space = Space::new("versions");
    let printed = space.ok(&["api-versions"]);
    let listed: Vec<&str> = printed.lines().collect();
    for version in ["v1", "apps/v1", "batch/v1", "autoscaling/v1", "autoscaling/v2", "policy/v1", "events.k8s.io/v1"] {
        assert!(listed.contains(&version), "{version} is missing in {listed:?}");
    }
}

// K-DISC-1
#[test]
fn short_names_and_singulars_resolve() {
    let space = Space::new("short");
    space.ok(&["get", "po,svc,deploy,jobs,pvc,sa,crd,pc,cm,ev,ep,quota,limits,rc,rs,sts,ds,cj,pdb,hpa,ing,netpol"]);
    space.ok(&["get", "no,ns,pv,sc,cs"]);
    space.ok(&["get", "pod,service,deployment,job,deployments.apps,deployments.v1.apps,replicaset.v1.apps"]);
}

// K-CAT-1
#[test]
fn get_all_asks_for_every_kind_of_the_category() {
    let space = Space::new("all");
    let kinds = "pods replicationcontrollers services daemonsets.apps deployments.apps replicasets.apps statefulsets.apps \
                 horizontalpodautoscalers.autoscaling cronjobs.batch jobs.batch";
    let printed = space.ok(&["api-resources", "--categories=all", "-o", "name"]);
    let mut listed: Vec<&str> = printed.lines().collect();
    let mut expected: Vec<&str> = kinds.split_whitespace().collect();
    listed.sort_unstable();
    expected.sort_unstable();
    assert_eq!(listed, expected);
    let output = space.run(&["get", "all"]);
    assert_eq!((output.code, output.stderr), (0, format!("No resources found in {} namespace.\n", space.name)));
}

// K-OAPI-1 K-OAPI-2
#[test]
fn the_openapi_index_points_to_documents_that_never_change() {
    let index = get("/openapi/v3").ok();
    let paths = index["paths"].as_object().unwrap();
    for path in ["api/v1", "apis/apps/v1", "apis/batch/v1", "apis/apiextensions.k8s.io/v1"] {
        let url = paths[path]["serverRelativeURL"].as_str().unwrap();
        assert!(url.starts_with(&format!("/openapi/v3/{path}?hash=")), "{url}");
        let document = get(url);
        assert_eq!(document.header("cache-control"), "public, immutable");
        assert!(!document.header("etag").is_empty());
        let wrong = get(&format!("/openapi/v3/{path}?hash=nope"));
        assert_eq!((wrong.code, wrong.header("location")), (301, url));
        assert_eq!(get(&format!("/openapi/v3/{path}")).code, 200);
    }
}

// K-OAPI-3
#[test]
fn every_resource_has_a_patch_operation_with_field_validation() {
    for (path, expected) in [
        ("api/v1", "/api/v1/namespaces/{namespace}/pods/{name} Pod"),
        ("apis/apps/v1", "/apis/apps/v1/namespaces/{namespace}/deployments/{name} Deployment"),
        ("apis/scheduling.k8s.io/v1", "/apis/scheduling.k8s.io/v1/priorityclasses/{name} PriorityClass"),
    ] {
        let document = get(&format!("/openapi/v3/{path}")).ok();
        let (item, kind) = expected.split_once(' ').unwrap();
        let patch = &document["paths"][item]["patch"];
        assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], kind, "{item}");
        let parameters = [&patch["parameters"], &document["paths"][item]["parameters"]];
        let named = parameters
            .iter()
            .filter_map(|p| p.as_array())
            .flatten()
            .any(|p| p["name"] == "fieldValidation" && p["in"] == "query");
        assert!(named, "{item}");
    }
}

// K-OAPI-6
#[test]
fn openapi_v2_has_a_content_type_that_go_can_parse() {
    let accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let answer = request("GET", "/openapi/v2").header("Accept", accept).send();
    assert_eq!(answer.code, 200);
    assert_eq!(answer.header("content-type"), "application/com.github.proto-openapi.spec.v2.v1.0+protobuf");
}

// K-OAPI-1 K-OAPI-3 K-OAPI-6
#[test]
fn every_kubectl_validates_explains_and_applies_with_the_documents() {
    for_each_kubectl("openapi", |space| {
        let file = space.file("cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n");
        let file = file.to_str().unwrap();
        assert_eq!(space.ok(&["create", "-f", file]), "configmap/a created\n");
        assert_eq!(space.run(&["diff", "-f", file]).code, 0);
        assert_eq!(space.ok(&["replace", "-f", file]), "configmap/a replaced\n");
        assert_eq!(space.ok(&["apply", "-f", file]), "configmap/a configured\n");
        let explained = space.ok(&["explain", "pod.spec.containers"]);
        assert!(
            explained.starts_with("KIND:       Pod\nVERSION:    v1\n\nFIELD: containers <[]Container>\n"),
            "{explained}"
        );
        assert!(explained.contains("\n  imagePullPolicy\t<string>\n"), "{explained}");
    });
}

// K-OAPI-3
#[test]
fn explain_knows_groups_and_required_fields() {
    let space = Space::new("explain");
    let job = space.ok(&["explain", "job.spec"]);
    assert!(job.starts_with("GROUP:      batch\nKIND:       Job\nVERSION:    v1\n\nFIELD: spec <JobSpec>\n"), "{job}");
    assert!(job.contains("\n  template\t<PodTemplateSpec> -required-\n"), "{job}");
    let recursive = space.ok(&["explain", "service", "--recursive"]);
    assert!(recursive.contains("  spec\t<ServiceSpec>\n"), "{recursive}");
    assert!(space.fails(&["explain", "pod.spec.nope"]).contains("field \"nope\" does not exist"));
    let unknown = space.fails(&["explain", "nopes"]);
    assert!(unknown.contains("the server doesn't have a resource type \"nopes\""), "{unknown}");
}

// K-CAT-1
#[test]
fn cluster_info_and_top_say_what_is_there() {
    let space = Space::new("info");
    let info = space.ok(&["cluster-info"]);
    assert!(info.contains(&format!("is running at https://{}", stage().address)), "{info}");
    // What is used is measured by the node; a namespace without pods uses nothing.
    assert_eq!(space.ok(&["top", "pods"]), "");
}
