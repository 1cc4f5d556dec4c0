"""What the demo launches: every rank says who it is, and the first logs a curve.

W&B's client finds the server, the key and the run in the environment, so nothing is said of them here.
"""

import os

import wandb

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
print(f"rank {rank} of {size}, the first is {os.environ['MASTER_ADDR']}", flush=True)
if rank == 0:
    with wandb.init(config={"ranks": size}) as run:
        for step in range(20):
            run.log({"loss": 1 / (step + 1)})
