"""A grid that an agent searches to its end."""

import wandb

seen = []


def train():
    with wandb.init() as run:
        seen.append((run.config["a"], run.config["b"]))
        run.log({"loss": run.config["a"] * run.config["b"]})


# SWP-1, SWP-3, SWP-4, LA-W-3
config = {"method": "grid", "metric": {"name": "loss", "goal": "minimize"},
          "parameters": {"a": {"values": [1, 2]}, "b": {"values": [3, 4]}}}
sweep = wandb.sweep(config, project="p", entity="alice")
wandb.agent(sweep, function=train, project="p", entity="alice")
assert sorted(seen) == [(1, 3), (1, 4), (2, 3), (2, 4)], seen
read = wandb.Api().sweep(f"alice/p/{sweep}")
assert len(read.runs) == 4 and read.state == "FINISHED", (len(read.runs), read.state)
assert read.config["method"] == "grid" and read.expected_run_count == 4
