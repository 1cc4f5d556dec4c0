"""The typed Python client: what a script or a service written with `kubernetes` does all day."""

import json

import urllib3
from kubernetes import client, config, utils

urllib3.disable_warnings()
config.load_kube_config()
core, batch, apps = client.CoreV1Api(), client.BatchV1Api(), client.AppsV1Api()
NAMESPACE = "python-typed"


def error_of(call, *arguments, **options):
    """The ApiException that a call must raise."""
    try:
        call(*arguments, **options)
    except client.exceptions.ApiException as error:
        return error
    raise AssertionError(f"{call.__name__} did not fail")


def plain(answer):
    """An answer as JSON; releases of the client differ in whether a Status is an object."""
    return client.ApiClient().sanitize_for_serialization(answer)


def create_read_replace_delete():
    created = core.create_namespaced_config_map(
        NAMESPACE,
        client.V1ConfigMap(metadata=client.V1ObjectMeta(name="settings", labels={"app": "a"}), data={"colour": "blue"}),
    )
    assert created.metadata.uid and created.metadata.creation_timestamp.tzinfo is not None
    read = core.read_namespaced_config_map("settings", NAMESPACE)
    assert read.data == {"colour": "blue"} and read.metadata.resource_version == created.metadata.resource_version
    # The whole object goes back as it came, with times spelt `+00:00` and managedFields in place.
    read.data["colour"] = "green"
    assert "+00:00" in json.dumps(client.ApiClient().sanitize_for_serialization(read))
    replaced = core.replace_namespaced_config_map("settings", NAMESPACE, read)
    assert replaced.data == {"colour": "green"} and replaced.metadata.uid == created.metadata.uid
    assert replaced.metadata.creation_timestamp == created.metadata.creation_timestamp
    same = core.replace_namespaced_config_map("settings", NAMESPACE, replaced)
    assert same.metadata.resource_version == replaced.metadata.resource_version, "an unchanged PUT is no write"
    stale = error_of(core.replace_namespaced_config_map, "settings", NAMESPACE, read)
    body = json.loads(stale.body)
    assert (stale.status, stale.reason, body["reason"]) == (409, "Conflict", "Conflict"), stale
    assert "the object has been modified" in body["message"]
    listed = core.list_namespaced_config_map(NAMESPACE, label_selector="app=a")
    assert [item.metadata.name for item in listed.items] == ["settings"]
    status = plain(core.delete_namespaced_config_map("settings", NAMESPACE))
    assert status["status"] == "Success" and status["details"]["name"] == "settings", status
    missing = error_of(core.read_namespaced_config_map, "settings", NAMESPACE)
    assert missing.status == 404 and json.loads(missing.body)["details"] == {"name": "settings", "kind": "configmaps"}


def errors_name_their_field():
    pod = {"metadata": {"name": "bad"}, "spec": {"containers": [{"name": "UPPER", "image": "host"}]}}
    error = error_of(core.create_namespaced_pod, NAMESPACE, pod)
    body = json.loads(error.body)
    assert error.status == 422 and error.reason == "Unprocessable Entity", error
    assert [cause["field"] for cause in body["details"]["causes"]] == ["spec.containers[0].name"], body
    taken = {"metadata": {"name": "taken"}}
    core.create_namespaced_secret(NAMESPACE, taken)
    error = error_of(core.create_namespaced_secret, NAMESPACE, taken)
    assert error.status == 409 and json.loads(error.body)["reason"] == "AlreadyExists"
    selector = error_of(core.list_namespaced_pod, NAMESPACE, label_selector="a in b")
    assert selector.status == 400 and json.loads(selector.body)["reason"] == "BadRequest"
    unknown = error_of(core.list_namespaced_pod, NAMESPACE, field_selector="spec.colour=red")
    assert unknown.status == 400 and "spec.colour" in json.loads(unknown.body)["message"]


def dict_patches_merge_strategically():
    containers = [{"name": "main", "image": "host", "env": [{"name": "A", "value": "1"}]}]
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    apps.create_namespaced_deployment(NAMESPACE, {"metadata": {"name": "web"}, "spec": spec})
    sidecar = {"spec": {"template": {"spec": {"containers": [{"name": "sidecar", "image": "host"}]}}}}
    patched = apps.patch_namespaced_deployment("web", NAMESPACE, sidecar)
    names = {container.name for container in patched.spec.template.spec.containers}
    assert names == {"main", "sidecar"}, f"lists with a merge key are merged, got {names}"
    variable = {"name": "main", "env": [{"name": "B", "value": "2"}]}
    patched = apps.patch_namespaced_deployment(
        "web", NAMESPACE, {"spec": {"template": {"spec": {"containers": [variable]}}}}
    )
    main = next(c for c in patched.spec.template.spec.containers if c.name == "main")
    assert {e.name: e.value for e in main.env} == {"A": "1", "B": "2"}
    assert patched.metadata.generation == 3
    scale = apps.read_namespaced_deployment_scale("web", NAMESPACE)
    # Without its version, because the controller writes the status meanwhile.
    scale.metadata.resource_version, scale.spec.replicas = None, 2
    assert apps.replace_namespaced_deployment_scale("web", NAMESPACE, scale).spec.replicas == 2
    assert apps.read_namespaced_deployment("web", NAMESPACE).spec.replicas == 2
    apps.delete_namespaced_deployment("web", NAMESPACE)


def list_patches_are_json_patches():
    core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": "listed"}, "data": {"a": "1", "b": "2"}})
    steps = [
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "replace", "path": "/data/a", "value": "3"},
        {"op": "remove", "path": "/data/b"},
    ]
    assert core.patch_namespaced_config_map("listed", NAMESPACE, steps).data == {"a": "3"}
    failed = error_of(core.patch_namespaced_config_map, "listed", NAMESPACE, steps)
    assert failed.status == 422 and json.loads(failed.body)["reason"] == "Invalid", failed


def a_job_deleted_without_a_policy_leaves_its_pods():
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "host"}]}}
    job = batch.create_namespaced_job(NAMESPACE, {"metadata": {"name": "orphans"}, "spec": {"template": template}})
    owner = client.V1OwnerReference(
        api_version="batch/v1", kind="Job", name="orphans", uid=job.metadata.uid, controller=False
    )
    pod = {"metadata": {"name": "child", "ownerReferences": [client.ApiClient().sanitize_for_serialization(owner)]}}
    core.create_namespaced_pod(NAMESPACE, pod | {"spec": template["spec"]})
    _, code, headers = batch.delete_namespaced_job_with_http_info("orphans", NAMESPACE)
    assert code == 200
    text = "child pods are preserved by default when jobs are deleted"
    assert text in headers.get("Warning", ""), headers
    child = core.read_namespaced_pod("child", NAMESPACE)
    assert child.metadata.deletion_timestamp is None
    core.delete_namespaced_pod("child", NAMESPACE, grace_period_seconds=0)


def manifests_are_created_from_dicts():
    manifest = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "front", "namespace": NAMESPACE},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]},
    }
    (service,) = utils.create_from_dict(client.ApiClient(), manifest)
    assert service.spec.cluster_ip.startswith("10.96.") and service.spec.ports[0].target_port == "http"
    both = {"apiVersion": "v1", "kind": "List", "items": [manifest | {"metadata": {"name": name, "namespace": NAMESPACE}} for name in ("x", "y")]}
    assert len(utils.create_from_dict(client.ApiClient(), both)) == 2
    try:
        utils.create_from_dict(client.ApiClient(), manifest)
    except utils.FailToCreateError as error:
        assert error.api_exceptions[0].status == 409
    else:
        raise AssertionError("the second creation must fail")


def discovery_and_reviews_parse():
    assert client.VersionApi().get_code().major == "1"
    assert any(group.name == "batch" for group in client.ApisApi().get_api_versions().groups)
    assert any(resource.name == "pods/status" for resource in core.get_api_resources().resources)
    attributes = {"resourceAttributes": {"verb": "create", "resource": "pods", "namespace": NAMESPACE}}
    review = client.AuthorizationV1Api().create_self_subject_access_review({"spec": attributes})
    assert review.status.allowed is True
    core.create_namespaced_service_account(NAMESPACE, {"metadata": {"name": "robot"}})
    token = core.create_namespaced_service_account_token("robot", NAMESPACE, {"spec": {"audiences": []}})
    answer = client.AuthenticationV1Api().create_token_review({"spec": {"token": token.status.token}})
    assert answer.status.authenticated and answer.status.user.username == f"system:serviceaccount:{NAMESPACE}:robot"


core.create_namespace({"metadata": {"name": NAMESPACE}})
try:
    # Its controller makes it within milliseconds; a script that cannot wait makes it first.
    core.create_namespaced_service_account(NAMESPACE, {"metadata": {"name": "default"}})
except client.exceptions.ApiException as error:
    assert error.status == 409
for step in (
    create_read_replace_delete,
    errors_name_their_field,
    dict_patches_merge_strategically,
    list_patches_are_json_patches,
    a_job_deleted_without_a_policy_leaves_its_pods,
    manifests_are_created_from_dicts,
    discovery_and_reviews_parse,
):
    print(step.__name__, flush=True)
    step()
