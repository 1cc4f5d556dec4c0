"""What an offline run logged is there after `wandb sync`."""

import wandb

run = wandb.Api().run("alice/p/later")
assert run.state == "finished", run.state
assert [row["x"] for row in run.scan_history(keys=["x"])] == list(range(30))
