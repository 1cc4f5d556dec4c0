"""Jobs of every source, launched into queues and run by W&B's own agent on this machine: to the end, until stopped,
without a run of their own, and not at all."""

import json
import os
import pathlib
import subprocess
import time
import urllib.request

import wandb
from wandb.sdk.launch import launch_add

END = time.monotonic() + 240


def wandb_command(*arguments):
    done = subprocess.run(["wandb", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def graphql(query):
    request = urllib.request.Request(os.environ["WANDB_BASE_URL"] + "/graphql", json.dumps({"query": query}).encode(), {
        "Content-Type": "application/json", "Authorization": "Bearer " + os.environ["WANDB_API_KEY"]})
    return json.load(urllib.request.urlopen(request))["data"]


folder = pathlib.Path("code")
folder.mkdir()
(folder / "requirements.txt").write_text("")
(folder / "train.py").write_text("""
import wandb
with wandb.init() as run:
    for step in range(5):
        run.log({"loss": 1 / (step + 1), "lr": run.config.get("lr", 0)})
""")
(folder / "endless.py").write_text("""
import time, wandb
with wandb.init() as run:
    run.log({"x": 1})
    while True:
        time.sleep(0.2)
""")
(folder / "mute.py").write_text("print('no run of mine')\n")
# JOB-1, JOB-4, ART-18
said = wandb_command("job", "create", "-p", "p", "-e", "alice", "-n", "train", "-E", "python train.py", "code", "code")
assert "Created job" in said, said
assert "train" in wandb_command("job", "list", "-p", "p", "-e", "alice")
assert wandb.Api().job("alice/p/train:latest").name == "alice/p/train:latest"

api = wandb.Api()
api.create_run_queue(name="here", type="local-process", config={}, entity="alice", prioritization_mode="V0")


def launch(name, priority, program, **more):
    launch_add(job="alice/p/train:latest", entity="alice", project="p", queue_name="here", name=name, priority=priority,
               entry_point=["python", program], **more)


launch("mute", 0, "mute.py")
launch("quick", 2, "train.py", config={"overrides": {"run_config": {"lr": 0.25}}})
launch("endless", 1, "endless.py")
launch_add(docker_image="busybox:1", entity="alice", project="p", queue_name="here", name="image", priority=3)
for wrong in ({"job": "alice/p/nothing:latest", "queue_name": "here"}, {"job": "alice/p/train:latest", "queue_name": "nowhere"}):
    try:
        launch_add(entity="alice", project="p", **wrong)
        raise SystemExit(f"{wrong} was queued")
    except wandb.errors.Error:
        pass

QUEUE = """{ project(name: "model-registry", entityName: "alice") {
  runQueue(name: "here") { launchAgents { id name agentStatus } statistics { pending running finished failed waitSeconds { count p50 } durationSeconds { count } }
    runQueueItems { edges { node { id state priority associatedRunId runSpec error { message stage } } } } } } }"""


def items():
    queue = graphql(QUEUE)["project"]["runQueue"]
    by_name = {edge["node"]["runSpec"]["name"]: edge["node"] for edge in queue["runQueueItems"]["edges"]}
    return by_name, queue["statistics"]


def until(condition):
    while not (found := condition()):
        said = pathlib.Path("agent.out").read_text()
        assert agent.poll() is None and time.monotonic() < END, f"{items()}\n{said}"
        time.sleep(0.5)
    return found


agent = subprocess.Popen(["wandb", "launch-agent", "-q", "here", "-e", "alice", "-j", "4", "-l", "-"],
                         stdout=open("agent.out", "w"), stderr=subprocess.STDOUT)
try:
    running = until(lambda: [run for run in wandb.Api().runs("alice/p", filters={"displayName": "endless", "state": "running"})])
    running = running[0]
    # RUN-13, RUN-14, AGT-14
    graphql('mutation { stopRun(input: {id: "%s"}) { success } }' % running.storage_id)
    # The item that could not be run says why, and where it failed. AGT-10
    until(lambda: items()[0]["image"]["state"] == "FAILED")
    assert items()[0]["image"]["error"]["stage"] == "agent", items()
    until(lambda: items()[0]["quick"]["state"] == "FINISHED")
    # RUN-7, RUN-12, LP-1, RQI-4, RQI-6
    (run,) = wandb.Api().runs("alice/p", filters={"displayName": "quick"})
    assert run.state == "finished" and run.config["lr"] == 0.25 and run.summary["loss"] == 1 / 5, run.summary
    # JOB-5
    assert [used.name for used in run.used_artifacts()] == ["train:v0"], list(run.used_artifacts())
    until(lambda: items()[0]["endless"]["state"] == "FAILED")
    # A process that never called wandb.init is reported by the agent, after it has looked for a run for a minute. AGT-13
    until(lambda: items()[0]["mute"]["state"] == "FAILED")
    mute = items()[0]["mute"]
    assert mute["error"]["stage"] == "run" and mute["priority"] == 0, mute
    statistics = items()[1]
    assert statistics["finished"] == 1 and statistics["failed"] == 3 and statistics["waitSeconds"]["count"] == 3, statistics
    # AGT-1, AGT-2, AGT-3, AGT-5, AGT-6, LA-L-12, LA-L-15
    (told,) = graphql(QUEUE)["project"]["runQueue"]["launchAgents"]
    graphql('mutation { stopLaunchAgent(input: {launchAgentId: "%s"}) { success } }' % told["id"])
    while agent.poll() is None:
        assert time.monotonic() < END, pathlib.Path("agent.out").read_text()
        time.sleep(0.5)
    assert graphql(QUEUE)["project"]["runQueue"]["launchAgents"][0]["agentStatus"] == "KILLED"
finally:
    if agent.poll() is None:
        agent.terminate()
        agent.wait()
# PUB-10, LA-Y-2
item = api.run_queue("alice", "here").items[1]
# Its `wait_until_finished` looks for the run in the queue's project, where no run is.
assert item.state == "finished", item.state
