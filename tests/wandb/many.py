"""A hundred thousand rows, all of them there, in order, and sampled."""

import wandb

ROWS = 100_000
with wandb.init(project="many") as run:
    for step in range(ROWS):
        run.log({"x": step})
run = wandb.Api().run(f"alice/many/{run.id}")
assert run.lastHistoryStep == ROWS - 1
sampled = run.history(samples=1000, keys=["x"], pandas=False)
assert len(sampled) == 1000 and sampled[0]["x"] == 0, len(sampled)
assert [row["x"] for row in run.scan_history(keys=["x"], min_step=50_000, max_step=50_100)] == list(range(50_000, 50_100))
count = 0
for row in run.scan_history(keys=["x"], page_size=10_000):
    assert row["x"] == count, (row, count)
    count += 1
assert count == ROWS, count
