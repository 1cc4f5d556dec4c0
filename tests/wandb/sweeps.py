"""Sweeps from files: random, Bayesian, with runs that are stopped early; and what people do to a sweep by command."""

import pathlib
import subprocess

import wandb

pathlib.Path("train.py").write_text("""
import time, wandb
with wandb.init() as run:
    x = run.config["x"]
    for step in range(6):
        run.log({"loss": x ** 2 + 1 / (step + 1)})
    # Who is not good waits to be stopped.
    end = time.monotonic() + (120 if x > 5 else 0)
    while time.monotonic() < end:
        time.sleep(0.2)
""")


def wandb_command(*arguments, fails=False):
    done = subprocess.run(["wandb", *arguments], capture_output=True, text=True)
    said = done.stdout + done.stderr
    assert (done.returncode != 0) == fails, f"{arguments}: {said}"
    return said


def make(name, text):
    pathlib.Path(name).write_text("program: train.py\nmetric: {name: loss, goal: minimize}\n" + text)
    said = wandb_command("sweep", "-p", "s", "-e", "alice", name)
    return said.split("wandb agent alice/s/")[1].split()[0]


sweep = make("bayes.yaml", "method: bayes\nrun_cap: 5\nparameters: {x: {min: -2.0, max: 2.0}}\n")


def train():
    with wandb.init() as run:
        run.log({"loss": run.config["x"] ** 2})


wandb.agent(f"alice/s/{sweep}", function=train)
read = wandb.Api().sweep(f"alice/s/{sweep}")
xs = [run.config["x"] for run in read.runs]
assert len(set(xs)) == 5 and all(-2 <= x <= 2 for x in xs), xs
assert read.state == "FINISHED" and read.expected_run_count == 5 and read.order == "+summary_metrics.loss", read.state
assert read.best_run().summary["loss"] == min(x ** 2 for x in xs)

# A run from before the sweep is one of its runs, and what it tried is not tried again.
with wandb.init(project="s", entity="alice", config={"x": 1, "note": "by hand"}) as before:
    before.log({"loss": 1})
pathlib.Path("prior.yaml").write_text("method: grid\nmetric: {name: loss, goal: minimize}\nparameters: {x: {values: [1, 2]}}\n")
said = wandb_command("sweep", "-p", "s", "-e", "alice", "--prior_run", before.id, "prior.yaml")
prior = said.split("wandb agent alice/s/")[1].split()[0]
wandb.agent(f"alice/s/{prior}", function=train)
runs = wandb.Api().sweep(f"alice/s/{prior}").runs
assert sorted(run.config["x"] for run in runs) == [1, 2] and before.id in [run.id for run in runs], list(runs)

early = make("early.yaml", """method: grid
parameters: {x: {values: [0, 1, 9]}}
early_terminate: {type: hyperband, min_iter: 4, eta: 3}
""")
wandb_command("agent", f"alice/s/{early}")
states = {run.config["x"]: run.state for run in wandb.Api().sweep(f"alice/s/{early}").runs}
# Who was good ended by itself, who was not was stopped long before its time; and no point was left out.
assert set(states) == {0, 1, 9} and states[0] == "finished" and states[9] != "finished", states

other = make("random.yaml", "method: random\nparameters: {x: {values: [1, 2], probabilities: [0.5, 0.5]}}\n")
wandb_command("agent", "--count", "1", f"alice/s/{other}")
for option, state in (("--pause", "PAUSED"), ("--resume", "RUNNING"), ("--cancel", "CANCELED")):
    wandb_command("sweep", option, f"alice/s/{other}")
    assert wandb.Api().sweep(f"alice/s/{other}").state == state, (option, state)
sweeps = wandb.Api().project("s", "alice").sweeps()
assert {sweep.id for sweep in sweeps} == {sweep, prior, early, other}, list(sweeps)
wandb_command("agent", "alice/s/nothing", fails=True)
