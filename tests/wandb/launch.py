"""A code job, launched into a queue and run by W&B's own agent on this machine."""

import pathlib
import subprocess
import time

import wandb

code = pathlib.Path("code")
code.mkdir(exist_ok=True)
(code / "requirements.txt").write_text("")
(code / "train.py").write_text("""
import wandb
with wandb.init() as run:
    for step in range(5):
        run.log({"loss": 1 / (step + 1), "lr": run.config.get("lr", 0)})
""")


def wandb_command(*arguments):
    done = subprocess.run(["wandb", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


api = wandb.Api()
api.create_run_queue(name="here", type="local-process", config={}, entity="alice")
wandb_command("job", "create", "-p", "p", "-e", "alice", "-n", "train", "-E", "python train.py", "code", "code")
wandb_command("launch", "-j", "alice/p/train:latest", "-q", "here", "-e", "alice", "-p", "p",
              "-c", '{"overrides": {"run_config": {"lr": 0.25}}}')
agent = subprocess.Popen(["wandb", "launch-agent", "-q", "here", "-e", "alice", "-j", "1", "-l", "-"],
                         stdout=open("agent.out", "w"), stderr=subprocess.STDOUT)
try:
    end = time.monotonic() + 180
    while True:
        done = [run for run in wandb.Api().runs("alice/p", filters={"state": "finished", "jobType": {"$ne": "cli_create_job"}})]
        if done:
            break
        said = pathlib.Path("agent.out").read_text()
        assert agent.poll() is None, said
        assert time.monotonic() < end, said
        time.sleep(1)
finally:
    agent.terminate()
    agent.wait()
run = done[0]
assert run.config["lr"] == 0.25, run.config
assert run.summary["loss"] == 1 / 5, run.summary
(item,) = api.run_queue("alice", "here").items
assert item.state in ("finished", "running"), item.state
