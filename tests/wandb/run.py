"""A run with everything, then everything of it through the public API."""

import math

import wandb

with wandb.init(project="MyProj", name="first", config={"lr": 0.1, "net": {"depth": 3}}, tags=["a", "b"], group="g",
                job_type="train", notes="some notes") as run:
    for step in range(120):
        run.log({"loss": 1 / (step + 1), "val": {"acc": step / 120}, "odd": math.nan if step % 2 else math.inf})
    run.summary["best"] = 0.5
    print("hello from the console")
    with open("notes file.txt", "w") as file:
        file.write("kept")
    run.save("notes file.txt")
    run.log({"table": wandb.Table(columns=["x"], data=[[1], [2]])})
    path, run_id, entity = run.path, run.id, run.entity

assert entity == "alice", entity
api = wandb.Api()
run = api.run(f"alice/myproj/{run_id}")
assert run.state == "finished", run.state
assert run.name == "first" and run.group == "g" and run.job_type == "train", run
assert sorted(run.tags) == ["a", "b"] and run.notes == "some notes"
assert run.config["lr"] == 0.1 and run.config["net"] == {"depth": 3}, run.config
assert run.summary["best"] == 0.5 and abs(run.summary["loss"] - 1 / 120) < 1e-9
assert run.user.username == "alice"

rows = list(run.scan_history(keys=["loss", "_step"]))
assert len(rows) == 120 and rows[7]["loss"] == 1 / 8, (len(rows), rows[:2])
assert len(list(run.scan_history())) == 121
sampled = run.history(samples=10, keys=["loss"], pandas=False)
assert len(sampled) == 10 and sampled[0]["loss"] == 1.0, sampled
nested = run.history(keys=["val.acc"], pandas=False)
assert nested[-1]["val.acc"] == 119 / 120, nested[-1]

names = {file.name for file in run.files()}
assert {"notes file.txt", "config.yaml", "wandb-summary.json", "requirements.txt"} <= names, names
with run.file("notes file.txt").download(root="got", replace=True) as file:
    assert file.read() == "kept"

run.tags.append("c")
run.config["extra"] = 1
run.update()
again = wandb.Api().run(f"alice/MyProj/{run_id}")
assert "c" in again.tags and again.config["extra"] == 1 and again.state == "finished"

for number in range(3):
    with wandb.init(project="MyProj", config={"lr": number}) as other:
        other.log({"score": number})
api.flush()
runs = api.runs("alice/MyProj")
assert len(runs) == 4, len(runs)
assert [run.name for run in runs][0] == "first"
assert len(api.runs("alice/MyProj", filters={"config.lr": {"$gt": 0.5}})) == 2
best = api.runs("alice/MyProj", filters={"summary_metrics.score": {"$exists": True}}, order="-summary_metrics.score")
assert [run.summary["score"] for run in best] == [2, 1, 0]
assert "MyProj" in [project.name for project in api.projects("alice")]

failing = wandb.init(project="MyProj")
failing.finish(exit_code=3)
assert api.run(f"alice/MyProj/{failing.id}").state == "failed"
again.delete()
try:
    wandb.Api().run(f"alice/MyProj/{run_id}")
    raise SystemExit("the run is still there")
except (ValueError, wandb.errors.CommError):
    pass
