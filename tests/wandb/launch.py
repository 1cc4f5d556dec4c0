"""Jobs of every source, launched into queues and run by W&B's own agent on this machine: to the end, until stopped,
without a run of their own, and not at all."""

import json
import os
import pathlib
import subprocess
import time
import urllib.request

import wandb

OLD = wandb.__version__.startswith("0.19")
END = time.monotonic() + 240


def wandb_command(*arguments, fails=False):
    done = subprocess.run(["wandb", *arguments], capture_output=True, text=True)
    said = done.stdout + done.stderr
    assert (done.returncode != 0) == fails, f"{arguments}: {said}"
    return said


def graphql(query):
    request = urllib.request.Request(os.environ["WANDB_BASE_URL"] + "/graphql", json.dumps({"query": query}).encode(), {
        "Content-Type": "application/json", "Authorization": "Bearer " + os.environ["WANDB_API_KEY"]})
    return json.load(urllib.request.urlopen(request))["data"]


def code(name, text):
    folder = pathlib.Path(name)
    folder.mkdir(exist_ok=True)
    (folder / "requirements.txt").write_text("")
    (folder / "train.py").write_text(text)
    said = wandb_command("job", "create", "-p", "p", "-e", "alice", "-n", name, "-E", "python train.py", "code", name)
    assert "Created job" in said, said


code("train", """
import wandb
with wandb.init() as run:
    for step in range(5):
        run.log({"loss": 1 / (step + 1), "lr": run.config.get("lr", 0)})
""")
code("endless", """
import time, wandb
with wandb.init() as run:
    run.log({"x": 1})
    while True:
        time.sleep(0.2)
""")
code("mute", "print('no run of mine')\n")
for name in ("train", "endless", "mute"):
    assert name in wandb_command("job", "list", "-p", "p", "-e", "alice")
assert "train.py" in wandb_command("job", "describe", "alice/p/train:latest")
assert wandb.Api().job("alice/p/train:latest").name.startswith("train")

api = wandb.Api()
api.create_run_queue(name="here", type="local-process", config={}, entity="alice", prioritization_mode="V0")


def launch(job, *more):
    wandb_command("launch", "-j", f"alice/p/{job}:latest", "-q", "here", "-e", "alice", "-p", "p", *more)


launch("mute", "--priority", "critical")
launch("train", "-c", '{"overrides": {"run_config": {"lr": 0.25}}}', "--name", "quick")
launch("endless", "--priority", "high", "--name", "endless")
wandb_command("launch", "-d", "busybox:1", "-q", "here", "-e", "alice", "-p", "p", "--priority", "low")
wandb_command("launch", "-j", "alice/p/nothing:latest", "-q", "here", "-e", "alice", "-p", "p", fails=True)
wandb_command("launch", "-j", "alice/p/train:latest", "-q", "nowhere", "-e", "alice", "-p", "p", fails=True)

QUEUE = """{ project(name: "model-registry", entityName: "alice") {
  launchAgents { id name agentStatus }
  runQueue(name: "here") { statistics { pending running finished failed waitSeconds { count p50 } durationSeconds { count } }
    runQueueItems { edges { node { id state priority associatedRunId runSpec error { message stage } } } } } } }"""


def items():
    queue = graphql(QUEUE)["project"]["runQueue"]
    by_job = {(edge["node"]["runSpec"].get("job") or "image").split("/")[-1]: edge["node"] for edge in queue["runQueueItems"]["edges"]}
    return by_job, queue["statistics"]


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
    assert running.stop() is None if not OLD else graphql('mutation { stopRun(input: {id: "%s"}) { success } }' % running.storage_id)
    # The item that could not be run says why, and where it failed.
    until(lambda: items()[0]["image"]["state"] == "FAILED")
    assert items()[0]["image"]["error"]["stage"] == "agent", items()
    until(lambda: items()[0]["train:latest"]["state"] == "FINISHED")
    (run,) = wandb.Api().runs("alice/p", filters={"displayName": "quick"})
    assert run.state == "finished" and run.config["lr"] == 0.25 and run.summary["loss"] == 1 / 5, run.summary
    assert [used.name for used in run.used_artifacts()] == ["train:v0"], list(run.used_artifacts())
    until(lambda: items()[0]["endless:latest"]["state"] == "FAILED")
    # A process that never called wandb.init is reported by the agent, after it has looked for a run for a minute.
    until(lambda: items()[0]["mute:latest"]["state"] == "FAILED")
    mute = items()[0]["mute:latest"]
    assert mute["error"]["stage"] == "run" and mute["priority"] == 0, mute
    statistics = items()[1]
    assert statistics["finished"] == 1 and statistics["failed"] == 3 and statistics["waitSeconds"]["count"] == 4, statistics
    (told,) = graphql(QUEUE)["project"]["launchAgents"]
    graphql('mutation { stopLaunchAgent(input: {launchAgentId: "%s"}) { success } }' % told["id"])
    while agent.poll() is None:
        assert time.monotonic() < END, pathlib.Path("agent.out").read_text()
        time.sleep(0.5)
    assert graphql(QUEUE)["project"]["launchAgents"][0]["agentStatus"] == "KILLED"
finally:
    if agent.poll() is None:
        agent.terminate()
        agent.wait()
item = api.run_queue("alice", "here").items[1]
assert item.state == "finished" and item.wait_until_finished().name == "quick", item.state
