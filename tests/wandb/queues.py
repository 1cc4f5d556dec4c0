"""A queue's life through the public API and the command that launches."""

import json
import subprocess

import wandb
from wandb.sdk.launch import launch_add

api = wandb.Api()
variables = {"gpus": {"schema": {"type": "integer", "minimum": 1, "maximum": 8, "default": 2}},
             "kind": {"schema": {"type": "string", "enum": ["a100", "h100"]}}}
config = {"spec": {"replicas": "{{gpus}}", "label": "kind-{{kind}}", "name": "${run_id}"}}
# QUE-1, QUE-2, QUE-3, QUE-7, LA-D-1, LA-D-3, LA-D-5, LA-D-6
queue = api.create_run_queue(name="gpu", type="kubernetes", config=config, entity="alice",
                             prioritization_mode="V0", template_variables=variables)
# QUE-6, QUE-8, QUE-11, LA-D-4, LA-D-8, LA-Y-4
read = api.run_queue("alice", "gpu")
assert read.type == "kubernetes" and read.prioritization_mode == "V0" and read.access == "PROJECT", read
assert read.default_resource_config["resource_args"]["kubernetes"] == config, read.default_resource_config
assert [json.loads(v["schema"])["type"] for v in read.template_variables] == ["integer", "string"], read.template_variables

try:
    api.create_run_queue(name="gpu", type="kubernetes", config={}, entity="alice")
    raise SystemExit("the same name twice")
except Exception as error:
    assert "exists already" in str(error), error


def add(**arguments):
    return launch_add(docker_image="busybox:1", project="p", entity="alice", queue_name="gpu", **arguments)


item = add(template_variables={"kind": "h100", "gpus": 4}, priority=1)
assert item.state == "pending", item.state
for wrong in ({"kind": "v100"}, {"kind": "h100", "gpus": 9}, {"gpus": 1}):
    try:
        add(template_variables=wrong)
        raise SystemExit(f"{wrong} was accepted")
    except Exception as error:
        assert "template variable" in str(error), error

said = subprocess.run(["wandb", "launch", "-d", "busybox:1", "-q", "gpu", "-e", "alice", "-p", "p", "--set-var", "kind=a100",
                       "--priority", "critical"], capture_output=True, text=True)
assert said.returncode == 0, said.stdout + said.stderr
# QUE-9, JOB-3
items = api.run_queue("alice", "gpu").items
assert len(items) == 2, items

# QUE-4, QUE-5, LA-D-7, LA-D-10, LA-D-11
upserted = api.upsert_run_queue(name="gpu", resource_type="kubernetes", resource_config={"spec": {}}, entity="alice",
                                external_links={"page": "http://example.invalid"})
assert upserted.access == "PROJECT" and upserted.external_links["links"][0]["label"] == "page", upserted.external_links
assert api.run_queue("alice", "gpu").template_variables == []
item.delete()
assert len(api.run_queue("alice", "gpu").items) == 1
upserted.delete()
try:
    api.run_queue("alice", "gpu").id
    raise SystemExit("the queue is still there")
except Exception as error:
    assert "gpu" in str(error) or "not" in str(error), error
