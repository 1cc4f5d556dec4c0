"""Lists in pages and watches from Python: time limits, resuming, and histories that are too short."""

import json
import threading

import urllib3
from kubernetes import client, config, watch

urllib3.disable_warnings()
config.load_kube_config()
core = client.CoreV1Api()
NAMESPACE = "python-following"


def make(name, **data):
    return core.create_namespaced_config_map(NAMESPACE, {"metadata": {"name": name, "labels": {"made": "here"}}, "data": data})


def pages_follow_each_other():
    for number in range(25):
        make(f"page-{number:02}")
    names, token, versions = [], None, set()
    while True:
        page = core.list_namespaced_config_map(NAMESPACE, limit=10, _continue=token, label_selector="made=here")
        names += [item.metadata.name for item in page.items]
        versions.add(page.metadata.resource_version)
        token = page.metadata._continue
        if token is None:
            break
        if len(names) == 10:
            make("page-00-later")
    assert names == [f"page-{number:02}" for number in range(25)], names
    assert len(versions) == 1, "all pages are of one moment"
    first = core.list_namespaced_config_map(NAMESPACE, limit=10)
    assert first.metadata.remaining_item_count >= 16
    try:
        core.list_namespaced_config_map(NAMESPACE, limit=10, _continue="nonsense")
    except client.exceptions.ApiException as error:
        assert error.status == 400 and json.loads(error.body)["reason"] == "BadRequest"
    else:
        raise AssertionError("a broken token must be refused")


def a_watch_ends_by_itself_and_resumes_where_it_was():
    start = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    make("w-1", a="1")
    core.patch_namespaced_config_map("w-1", NAMESPACE, {"data": {"a": "2"}})
    first = watch.Watch()
    seen = [
        (event["type"], event["object"].metadata.name)
        for event in first.stream(core.list_namespaced_config_map, NAMESPACE, resource_version=start, timeout_seconds=1)
    ]
    assert seen == [("ADDED", "w-1"), ("MODIFIED", "w-1")], seen
    core.delete_namespaced_config_map("w-1", NAMESPACE)
    second = watch.Watch()
    for event in second.stream(core.list_namespaced_config_map, NAMESPACE, resource_version=first.resource_version, timeout_seconds=5):
        assert (event["type"], event["object"].metadata.name) == ("DELETED", "w-1")
        second.stop()


def a_watch_is_told_within_its_life():
    follower, seen = watch.Watch(), []
    start = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version

    def write():
        for number in range(5):
            make(f"live-{number}")

    writer = threading.Timer(0.2, write)
    writer.start()
    stream = follower.stream(
        core.list_namespaced_config_map, NAMESPACE, resource_version=start, timeout_seconds=10, allow_watch_bookmarks=True
    )
    for event in stream:
        if event["type"] != "BOOKMARK":
            seen.append(event["object"].metadata.name)
        if len(seen) == 5:
            follower.stop()
    writer.join()
    assert seen == [f"live-{number}" for number in range(5)], seen


def a_history_that_is_too_short_is_an_error_that_clients_know():
    # The server was restarted before this script ran, so what happened before is no longer remembered.
    try:
        for _ in watch.Watch().stream(core.list_namespaced_config_map, NAMESPACE, resource_version="1", timeout_seconds=2):
            pass
    except client.exceptions.ApiException as error:
        assert error.status == 410 and "Expired: too old resource version: 1" in error.reason, error
    else:
        raise AssertionError("revision 1 is not remembered")


core.create_namespace({"metadata": {"name": NAMESPACE}})
for step in (
    pages_follow_each_other,
    a_watch_ends_by_itself_and_resumes_where_it_was,
    a_watch_is_told_within_its_life,
    a_history_that_is_too_short_is_an_error_that_clients_know,
):
    print(step.__name__, flush=True)
    step()
