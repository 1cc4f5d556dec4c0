"""Artifacts in portfolios and registries, collections that are edited, and manifests that several runs fill."""

import pathlib

import wandb

OLD = wandb.__version__.startswith("0.19")


def dataset(name, text, **more):
    pathlib.Path(f"{text}.txt").write_text(text)
    artifact = wandb.Artifact(name, type="dataset", **more)
    artifact.add_file(f"{text}.txt")
    return artifact


with wandb.init(project="p") as run:
    first = run.log_artifact(dataset("data", "one", metadata={"rows": 1}), aliases=["best"], tags=["small"]).wait()
    second = run.log_artifact(dataset("data", "two", metadata={"rows": 2})).wait()
    run.link_artifact(first, "chosen", aliases=["good"])
    run.link_artifact(second, "chosen")

api = wandb.Api()
linked = api.artifact("alice/p/chosen:good")
assert linked.is_link and linked.version == "v0" and linked.source_name == "data:v0", (linked.version, linked.source_name)
assert pathlib.Path(linked.download(root="linked"), "one.txt").read_text() == "one"
assert api.artifact("alice/p/chosen:latest").source_name == "data:v1"
assert [artifact.source_name for artifact in api.artifacts("dataset", "alice/p/chosen")] == ["data:v1", "data:v0"]
linked.aliases.append("better")
linked.save()
assert api.artifact("alice/p/chosen:better").source_name == "data:v0"
assert not api.artifact_exists("alice/p/data:better")
linked.unlink()
assert not api.artifact_exists("alice/p/chosen:v0") and api.artifact_exists("alice/p/data:v0")

if not OLD:
    assert [a.version for a in api.artifacts("dataset", "alice/p/data", tags=["small"])] == ["v0"]
assert api.artifact_collection_exists("alice/p/data", "dataset")
assert "dataset" in [kind.name for kind in api.artifact_types("alice/p")]
names = [collection.name for collection in api.artifact_type("dataset", "alice/p").collections()]
assert sorted(names) == ["chosen", "data"], names

collection = api.artifact_collection("dataset", "alice/p/data")
assert collection.is_sequence()
collection.description = "what was measured"
collection.tags = ["measured"]
collection.name = "measurements"
collection.save()
collection = wandb.Api().artifact_collection("dataset", "alice/p/measurements")
assert collection.description == "what was measured" and list(collection.tags) == ["measured"], collection.tags
assert collection.aliases and "best" in collection.aliases
collection.change_type("numbers")
assert wandb.Api().artifact("alice/p/measurements:best").type == "numbers"

# A manifest that only adds, and one that is filled by two runs.
with wandb.init(project="p") as run:
    run.log_artifact(dataset("growing", "red")).wait()
    grown = run.log_artifact(dataset("growing", "green", incremental=True)).wait()
    assert sorted(grown.manifest.entries) == ["green.txt", "red.txt"], grown.manifest.entries
    assert sorted(wandb.Api().artifact("alice/p/growing:latest").manifest.entries) == ["green.txt", "red.txt"]
    draft = wandb.Api().artifact("alice/p/growing:latest").new_draft()
    draft.remove("red.txt")
    assert sorted(run.log_artifact(draft).wait().manifest.entries) == ["green.txt"]
with wandb.init(project="p", group="several") as run:
    run.upsert_artifact(dataset("parts", "left"), distributed_id="several")
with wandb.init(project="p", group="several") as run:
    run.finish_artifact(dataset("parts", "right"), distributed_id="several")
parts = wandb.Api().artifact("alice/p/parts:latest")
assert sorted(parts.manifest.entries) == ["left.txt", "right.txt"] and parts.version == "v0", parts.manifest.entries
assert pathlib.Path(parts.download(root="parts"), "left.txt").read_text() == "left"

# A registry is a project whose collections are portfolios.
api = wandb.Api()
registry = api.create_registry(name="models", visibility="restricted" if OLD else "organization", organization="alice")
assert registry.name == "models"
with wandb.init(project="p") as run:
    run.link_artifact(run.log_artifact(dataset("net", "weights")), "wandb-registry-models/nets", aliases=["prod"])
api = wandb.Api()
registries = [found.name.removeprefix("wandb-registry-") for found in api.registries(organization="alice")]
assert registries == ["models"], registries
(found,) = api.registries(organization="alice").collections()
assert found.name == "nets", found.name
(version,) = api.registries(organization="alice").collections(filter={"name": "nets"}).versions(filter={"alias": "prod"})
assert version.source_name == "net:v0", version.source_name
assert not list(api.registries(organization="alice").collections(filter={"name": "other"}))
assert api.artifact("wandb-registry-models/nets:prod").source_name == "net:v0"

collection = api.artifact_collection("dataset", "alice/p/chosen")
assert not collection.is_sequence()
collection.delete()
assert not wandb.Api().artifact_collection_exists("alice/p/chosen", "dataset")
assert list(api.reports("alice/p")) == []
