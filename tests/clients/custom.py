"""Custom resources from Python: the custom objects API and the dynamic client."""

import json
import time

import urllib3
from kubernetes import client, config, dynamic

urllib3.disable_warnings()
config.load_kube_config()
NAMESPACE, GROUP, VERSION, PLURAL = "python-custom", "toys.example.com", "v1", "trains"
core, customs = client.CoreV1Api(), client.CustomObjectsApi()
definitions = client.ApiextensionsV1Api()


def definition():
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "required": ["cars"],
                "properties": {
                    "cars": {"type": "integer", "minimum": 1},
                    "colour": {"type": "string", "default": "red"},
                },
            },
            "status": {"type": "object", "properties": {"moving": {"type": "boolean"}}},
        },
    }
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"plural": PLURAL, "singular": "train", "kind": "Train", "shortNames": ["tr"]}
    spec = {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": f"{PLURAL}.{GROUP}"}, "spec": spec}


def train(name, **spec):
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Train", "metadata": {"name": name}, "spec": spec}


def a_definition_is_established_at_once():
    definitions.create_custom_resource_definition(definition())
    for _ in range(100):
        found = definitions.read_custom_resource_definition(f"{PLURAL}.{GROUP}")
        conditions = {c.type: c.status for c in found.status.conditions or []}
        if conditions.get("Established") == "True":
            return
        time.sleep(0.02)
    raise AssertionError(f"not established: {conditions}")


def custom_objects_are_defaulted_checked_and_merge_patched():
    place = (GROUP, VERSION, NAMESPACE, PLURAL)
    created = customs.create_namespaced_custom_object(*place, train("blue", cars=2))
    assert created["spec"] == {"cars": 2, "colour": "red"}
    try:
        customs.create_namespaced_custom_object(*place, train("empty", cars=0))
    except client.exceptions.ApiException as error:
        causes = json.loads(error.body)["details"]["causes"]
        assert error.status == 422 and causes[0]["field"] == "spec.cars", error.body
    else:
        raise AssertionError("a train without cars must be refused")
    patched = customs.patch_namespaced_custom_object(*place, "blue", {"spec": {"cars": 5, "colour": None}})
    assert patched["spec"] == {"cars": 5, "colour": "red"} and patched["metadata"]["generation"] == 2
    moved = customs.patch_namespaced_custom_object_status(*place, "blue", {"status": {"moving": True}})
    assert moved["status"] == {"moving": True} and moved["metadata"]["generation"] == 2
    listed = customs.list_cluster_custom_object(GROUP, VERSION, PLURAL)
    assert listed["kind"] == "TrainList" and listed["items"][0]["kind"] == "Train"
    status = customs.delete_namespaced_custom_object(*place, "blue")
    assert status["status"] == "Success"


def the_dynamic_client_discovers_and_applies():
    cluster = dynamic.DynamicClient(client.ApiClient())
    trains = cluster.resources.get(api_version=f"{GROUP}/{VERSION}", kind="Train")
    assert trains.namespaced and trains.name == PLURAL
    made = trains.create(body=train("green", cars=1), namespace=NAMESPACE)
    assert made.spec.colour == "red"
    body = train("green", cars=4)
    applied = cluster.server_side_apply(trains, body=body, name="green", namespace=NAMESPACE, field_manager="me", force_conflicts=True)
    assert applied.spec.cars == 4 and any(f.manager == "me" for f in applied.metadata.managedFields)
    maps = cluster.resources.get(api_version="v1", kind="ConfigMap")
    maps.create(body={"metadata": {"name": "made"}, "data": {"a": "1"}}, namespace=NAMESPACE)
    patched = maps.patch(
        body={"data": {"a": None, "b": "2"}}, name="made", namespace=NAMESPACE, content_type="application/merge-patch+json"
    )
    assert patched.data.to_dict() == {"b": "2"}
    whole = maps.get(name="made", namespace=NAMESPACE).to_dict()
    whole["data"]["c"] = "3"
    assert maps.replace(body=whole, namespace=NAMESPACE).data.c == "3"
    assert [item.metadata.name for item in maps.get(namespace=NAMESPACE).items if item.metadata.name == "made"]
    maps.delete(name="made", namespace=NAMESPACE)
    try:
        maps.get(name="made", namespace=NAMESPACE)
    except dynamic.exceptions.NotFoundError as error:
        assert error.status == 404
    else:
        raise AssertionError("the map is gone")
    seen = []
    for event in trains.watch(namespace=NAMESPACE, timeout=1):
        seen.append((event["type"], event["object"].metadata.name))
    assert seen == [("ADDED", "green")], seen


core.create_namespace({"metadata": {"name": NAMESPACE}})
for step in (
    a_definition_is_established_at_once,
    custom_objects_are_defaulted_checked_and_merge_patched,
    the_dynamic_client_discovers_and_applies,
):
    print(step.__name__, flush=True)
    step()
