"""Artifacts with versions, aliases and references, made, found, changed and downloaded."""

import pathlib

import wandb

pathlib.Path("data/sub").mkdir(parents=True, exist_ok=True)
pathlib.Path("data/a.txt").write_text("one")
pathlib.Path("data/sub/b c.txt").write_text("two")

# ART-1, ART-8
with wandb.init(project="p") as run:
    artifact = wandb.Artifact("things", type="dataset", metadata={"k": 1}, description="some things")
    artifact.add_dir("data")
    artifact.add_reference("http://example.invalid/far", name="far", checksum=False)
    logged = run.log_artifact(artifact, aliases=["best"]).wait()
    assert logged.version == "v0" and set(logged.aliases) == {"best", "latest"}, (logged.version, logged.aliases)

# ART-2, ART-3, ART-4
with wandb.init(project="p") as run:
    same = wandb.Artifact("things", type="dataset")
    same.add_dir("data")
    same.add_reference("http://example.invalid/far", name="far", checksum=False)
    assert run.log_artifact(same).wait().version == "v0"
    pathlib.Path("data/a.txt").write_text("changed")
    changed = wandb.Artifact("things", type="dataset")
    changed.add_dir("data")
    assert run.log_artifact(changed).wait().version == "v1"
    # ART-9
    used = run.use_artifact("things:best")
    assert used.version == "v0"
    with used.get_entry("sub/b c.txt").download() and open(used.get_entry("sub/b c.txt").download()) as file:
        assert file.read() == "two"
    run_id = run.id

# ART-11, ART-13, ART-14, ART-15
api = wandb.Api()
artifact = api.artifact("alice/p/things:latest")
assert artifact.version == "v1" and artifact.type == "dataset"
folder = artifact.download(root="got")
assert pathlib.Path(folder, "a.txt").read_text() == "changed"
first = api.artifact("alice/p/things:v0")
assert first.metadata == {"k": 1} and first.description == "some things"
assert sorted(first.manifest.entries) == ["a.txt", "far", "sub/b c.txt"]
first.aliases.append("old")
first.metadata["more"] = True
first.save()
assert api.artifact("alice/p/things:old").metadata == {"k": 1, "more": True}
assert [a.version for a in api.artifacts("dataset", "alice/p/things")] == ["v1", "v0"]
run = api.run(f"alice/p/{run_id}")
# Content that was there already is this run's output as well.
assert [a.name for a in run.logged_artifacts() if a.type == "dataset"] == ["things:v0", "things:v1"]
assert [a.name for a in run.used_artifacts()] == ["things:v0"]
# A version that is not the newest is logged once more.
assert run.log_artifact(first).version == "v0"
assert [a.version for a in api.artifacts("dataset", "alice/p/things")] == ["v1", "v0"]
assert [file.name for file in artifact.files(names=["a.txt"])] == ["a.txt"]
assert not list(artifact.files(names=["nothing"]))
# Older clients count all files of the artifact, whatever they asked for.
is_older = tuple(map(int, wandb.__version__.split(".")[:2])) < (0, 28)
assert is_older or len(artifact.files(names=["a.txt"])) == 1
assert api.artifact_exists("alice/p/things:v1") and not api.artifact_exists("alice/p/nothing:v1")
first.delete(delete_aliases=True)
assert not api.artifact_exists("alice/p/things:v0")
