"""What the demo launches: every rank says who it is and what it does, and the first logs a curve.

W&B's client finds the server, the key and the run in the environment, so nothing is said of them here. Two arguments make it last:
how many steps, and how long one takes in seconds.
"""

import os
import sys
import time

import wandb

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
steps, pause = (int(sys.argv[1]), float(sys.argv[2])) if len(sys.argv) > 2 else (20, 0)
print(f"rank {rank} of {size}, the first is {os.environ['MASTER_ADDR']}", flush=True)


def work(tell):
    for step in range(steps):
        tell(step)
        if pause:
            print(f"rank {rank} has done step {step}", flush=True)
            time.sleep(pause)


if rank == 0:
    with wandb.init(config={"ranks": size}) as run:
        work(lambda step: run.log({"loss": 1 / (step + 1)}))
else:
    work(lambda step: None)
