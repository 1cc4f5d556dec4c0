"""A run that is rewound, one that is forked off it, and one that two processes write together."""

import os
import pathlib
import subprocess
import sys

import wandb

with wandb.init(project="p", id="trunk", config={"lr": 1}) as run:
    for step in range(10):
        run.log({"x": step})
with wandb.init(project="p", fork_from="trunk?_step=4", id="twig") as run:
    for step in range(5, 8):
        run.log({"x": -step}, step=step)
api = wandb.Api()
twig = [row["x"] for row in api.run("alice/p/twig").scan_history(keys=["x"])]
assert twig == [0, 1, 2, 3, 4, -5, -6, -7], twig
assert len(list(api.run("alice/p/trunk").scan_history(keys=["x"]))) == 10

with wandb.init(project="p", resume_from="trunk?_step=2") as run:
    run.log({"x": 100})
trunk = wandb.Api().run("alice/p/trunk")
assert [row["x"] for row in trunk.scan_history(keys=["x"])] == [0, 1, 2, 100]
assert trunk.summary["x"] == 100 and trunk.config["lr"] == 1 and trunk.state == "finished", trunk.state

try:
    wandb.init(project="p", fork_from="nowhere?_step=4")
    raise SystemExit("a run was forked off one that does not exist")
except wandb.errors.CommError:
    pass

# Ranks join one run; the first one ends it.
rank = """
import pathlib, sys, time, wandb
rank = int(sys.argv[1])
settings = wandb.Settings(mode="shared", x_primary=rank == 0, x_label=f"rank{rank}", x_update_finish_state=rank == 0)
run = wandb.init(project="p", id="joint", settings=settings, config={"world": 2} if rank == 0 else None)
for step in range(20):
    run.log({f"loss{rank}": step})
print(f"rank {rank} speaks")
while rank == 0 and not pathlib.Path("others-are-done").exists():
    time.sleep(0.1)
run.finish()
"""
# As on another machine, so without this one's service.
alone = {name: value for name, value in os.environ.items() if "SERVICE" not in name}
first = subprocess.Popen([sys.executable, "-c", rank, "0"], env=alone)
try:
    subprocess.run([sys.executable, "-c", rank, "1"], env=alone, check=True)
    pathlib.Path("others-are-done").write_text("")
    assert first.wait(60) == 0
finally:
    first.kill()
joint = wandb.Api().run("alice/p/joint")
assert joint.state == "finished", joint.state
assert joint.config["world"] == 2, joint.config
for number in (0, 1):
    rows = [row[f"loss{number}"] for row in joint.scan_history(keys=[f"loss{number}"])]
    assert rows == list(range(20)), rows
    assert joint.summary[f"loss{number}"] == 19
