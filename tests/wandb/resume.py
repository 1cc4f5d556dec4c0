"""A run that goes on where it stopped, one that must exist and does not, and one without a network."""

import wandb

with wandb.init(project="p", id="again") as run:
    for _ in range(5):
        run.log({"x": 1})
# RUN-8, RUN-9
with wandb.init(project="p", id="again", resume="must") as run:
    assert run.resumed and run.starting_step == 5, run.starting_step
    for _ in range(5):
        run.log({"x": 2})
run = wandb.Api().run("alice/p/again")
rows = list(run.scan_history(keys=["_step", "x"]))
assert [row["_step"] for row in rows] == list(range(10)), rows
assert [row["x"] for row in rows] == [1] * 5 + [2] * 5

try:
    wandb.init(project="p", id="nowhere", resume="must")
    raise SystemExit("a run that does not exist was resumed")
except wandb.errors.UsageError:
    pass

with wandb.init(project="p", id="later", mode="offline") as run:
    for step in range(30):
        run.log({"x": step})
