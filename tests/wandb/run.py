"""A run with everything, then everything of it through the public API."""

import math
import pathlib

import wandb

OLD = wandb.__version__.startswith("0.19")

with wandb.init(project="MyProj", name="first", config={"lr": 0.1, "net": {"depth": 3}}, tags=["a", "b"], group="g",
                job_type="train", notes="some notes") as run:
    for step in range(120):
        run.log({"loss": 1 / (step + 1), "val": {"acc": step / 120}, "odd": math.nan if step % 2 else math.inf})
    run.summary["best"] = 0.5
    print("hello from the console")
    with open("notes file.txt", "w") as file:
        file.write("kept")
    run.save("notes file.txt")
    run.log({"table": wandb.Table(columns=["x"], data=[[1], [2]]), "page": wandb.Html("<p>hi</p>")})
    run.define_metric("later", step_metric="epoch")
    run.alert(title="look", text="at this", level=wandb.AlertLevel.WARN)
    run.config.update({"late": [1, 2]})
    run.log_code(".", include_fn=lambda path: path.endswith("notes file.txt"))
    path, run_id, entity = run.path, run.id, run.entity

# ID-4, ID-5, PUB-1
assert entity == "alice", entity
api = wandb.Api()
assert api.viewer.username == "alice" and api.default_entity == "alice"
run = api.run(f"alice/myproj/{run_id}")
assert run.state == "finished", run.state
assert run.name == "first" and run.group == "g" and run.job_type == "train", run
assert sorted(run.tags) == ["a", "b"] and run.notes == "some notes"
assert run.config["lr"] == 0.1 and run.config["net"] == {"depth": 3}, run.config
assert run.summary["best"] == 0.5 and abs(run.summary["loss"] - 1 / 120) < 1e-9
assert run.user.username == "alice"

assert run.config["late"] == [1, 2] and run.metadata is not None, run.config

# PUB-3, PUB-4, PUB-5, PUB-6, GQL-8
rows = list(run.scan_history(keys=["loss", "_step"]))
assert len(rows) == 120 and rows[7]["loss"] == 1 / 8, (len(rows), rows[:2])
assert len(list(run.scan_history())) == 121
sampled = run.history(samples=10, keys=["loss"], pandas=False)
assert len(sampled) == 10 and sampled[0]["loss"] == 1.0, sampled
whole = next(iter(run.scan_history()))
assert whole["odd"] in (math.inf, "Infinity"), whole
nested = run.history(keys=["val.acc"], pandas=False)
assert nested[-1]["val.acc"] == 119 / 120, nested[-1]

# PUB-7, FS-6
if not OLD:
    lines = [line.content for line in run.console_logs()]
    assert "hello from the console" in lines, lines

# FILE-1, FILE-2, FILE-4, FILE-6, FS-9
names = {file.name for file in run.files()}
assert {"notes file.txt", "config.yaml", "wandb-summary.json", "requirements.txt"} <= names, names
with run.file("notes file.txt").download(root="got", replace=True) as file:
    assert file.read() == "kept"

assert any(name.startswith("media/html/page") for name in names), names
assert [file.name for file in run.files(pattern="%.yaml")] == ["config.yaml"] if not OLD else True
# FILE-5, FILE-7
pathlib.Path("extra.txt").write_text("more")
uploaded = run.upload_file("extra.txt")
assert uploaded.name == "extra.txt" and run.state == "finished", uploaded
uploaded.delete()
assert "extra.txt" not in {file.name for file in wandb.Api().run(f"alice/MyProj/{run_id}").files()}
# ART-10, ART-12
(table,) = [artifact for artifact in run.logged_artifacts() if artifact.type == "run_table"]
assert table.get("table").data == [[1], [2]]
assert "source-MyProj-notes_file.txt" in [a.name.split(":")[0] for a in run.logged_artifacts()] or any(
    artifact.type == "code" for artifact in run.logged_artifacts())

# PUB-9, RUN-2, RUN-5
run.tags.append("c")
run.config["extra"] = 1
run.update()
again = wandb.Api().run(f"alice/MyProj/{run_id}")
assert "c" in again.tags and again.config["extra"] == 1 and again.state == "finished"

for number in range(3):
    with wandb.init(project="MyProj", config={"lr": number}) as other:
        other.log({"score": number})
api.flush()
# PUB-2
runs = api.runs("alice/MyProj")
assert len(runs) == 4, len(runs)
assert [run.name for run in runs][0] == "first"
assert len(api.runs("alice/MyProj", filters={"config.lr": {"$gt": 0.5}})) == 2
best = api.runs("alice/MyProj", filters={"summary_metrics.score": {"$exists": True}}, order="-summary_metrics.score")
assert [run.summary["score"] for run in best] == [2, 1, 0]
found = api.runs("alice/MyProj", filters={"$or": [{"tags": "c"}, {"config.lr": 2}]}, order="-created_at", per_page=1)
assert [run.config["lr"] for run in found] == [2, 0.1], [run.config for run in found]
assert not api.runs("alice/MyProj", filters={"state": "running"})
# PUB-8
assert "MyProj" in [project.name for project in api.projects("alice")]

# FS-7, RUN-11
failing = wandb.init(project="MyProj")
failing.finish(exit_code=3)
assert api.run(f"alice/MyProj/{failing.id}").state == "failed"
made = api.create_run(project="MyProj", entity="alice")
assert wandb.Api().run("/".join(made.path)).state in ("pending", "running")
leaving = wandb.init(project="MyProj")
leaving.mark_preempting()
leaving.finish(exit_code=1)
assert api.run(f"alice/MyProj/{leaving.id}").state == "failed"
disabled = wandb.init(project="MyProj", mode="disabled")
disabled.log({"x": 1})
disabled.finish()
again.delete()
try:
    wandb.Api().run(f"alice/MyProj/{run_id}")
    raise SystemExit("the run is still there")
except (ValueError, wandb.errors.CommError):
    pass
