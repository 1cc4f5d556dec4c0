"""Jobs from an image and from a repository, their versions, and the command that launches in all its options."""

import json
import pathlib
import subprocess

import wandb


def command(*arguments, fails=False, **more):
    done = subprocess.run(arguments, capture_output=True, text=True, **more)
    said = done.stdout + done.stderr
    assert (done.returncode != 0) == fails, f"{arguments}: {said}"
    return said


def wandb_command(*arguments, **more):
    return command("wandb", *arguments, **more)


# JOB-1, JOB-2, JOB-4, LA-J-1, LA-J-2, LA-J-3, LA-J-6
image = ("job", "create", "-p", "jobs", "-e", "alice", "-n", "hello", "-a", "good", "image", "busybox:1")
assert "Created job" in wandb_command(*image)
assert "No changes" in wandb_command(*image)
assert "Updated job" in wandb_command(*image[:-1], "busybox:2")
said = wandb_command("job", "list", "-p", "jobs", "-e", "alice")
assert "hello" in said and "latest" in said, said
assert "busybox:1" in wandb_command("job", "describe", "alice/jobs/hello:v0")
assert "not found" in wandb_command("job", "describe", "alice/jobs/nothing:latest")

# Git speaks to a repository on this machine as if it were behind ssh: clients take no other.
repository = pathlib.Path("repository").absolute()
repository.mkdir()
(repository / "requirements.txt").write_text("")
(repository / "train.py").write_text("import wandb\nwandb.init().finish()\n")
git = ("git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@example.invalid")
command("git", "init", "-q", "-b", "main", str(repository))
command(*git, "add", ".")
command(*git, "commit", "-q", "-m", "first")
ssh = pathlib.Path("ssh").absolute()
ssh.write_text('#!/bin/sh\nfor last; do :; done\neval "$last"\n')
ssh.chmod(0o755)
pathlib.Path(".gitconfig").write_text(f"[core]\n\tsshCommand = {ssh}\n[safe]\n\tdirectory = *\n")
said = wandb_command("job", "create", "-p", "jobs", "-e", "alice", "-n", "repo", "-E", "python train.py", "-g", "main",
                     "git", f"ssh://git@localhost{repository}")
assert "Created job" in said, said
assert wandb.Api().artifact("alice/jobs/repo:latest").type == "job"

api = wandb.Api()
api.create_run_queue(name="k8s", type="kubernetes", entity="alice", prioritization_mode="V0",
                     config={"spec": {"replicas": "{{nodes}}"}},
                     template_variables={"nodes": {"schema": {"type": "integer", "minimum": 1, "maximum": 4}}})
launch = ("launch", "-q", "k8s", "-e", "alice", "-p", "jobs")
pathlib.Path("spec.json").write_text(json.dumps({"overrides": {"args": ["--fast"], "run_config": {"lr": 1}}}))
said = wandb_command(*launch, "-d", "busybox:1", "--set-var", "nodes=2", "--priority", "high", "-c", "spec.json", "--name", "n")
assert "replicas" in said or "Pushed" in said or "added to queue" in said, said
wandb_command(*launch, "-j", "alice/jobs/hello:good", "--set-var", "nodes=3")
for wrong in ("nodes=9", "nodes=many", "gpus=1"):
    wandb_command(*launch, "-d", "busybox:1", "--set-var", wrong, fails=True)
wandb_command(*launch, "-d", "busybox:1", fails=True)
wandb_command(*launch, "-d", "busybox:1", "-j", "alice/jobs/hello:good", "--set-var", "nodes=1", fails=True)
wandb_command("launch", "-q", "-e", "alice", "-p", "jobs", "-d", "busybox:1", "-r", "kubernetes")
assert len(api.run_queue("alice", "k8s").items) == 2
assert len(api.run_queue("alice", "default").items) == 1
queued = api.queued_run("alice", "jobs", "k8s", api.run_queue("alice", "k8s").items[0].id, project_queue="model-registry")
assert queued.state == "pending", queued.state

# A job's inputs are checked before anything is queued. LA-I-5, LA-I-6, LA-I-7
job = wandb.Api().artifact("alice/jobs/hello:latest")
job.metadata["input_schemas"] = {"@wandb.config": {"type": "object", "properties": {"lr": {"type": "number", "maximum": 1}}}}
job.save()
checked = ("launch", "-q", "-e", "alice", "-p", "jobs", "-j", "alice/jobs/hello:latest", "-r", "kubernetes", "-c")
said = wandb_command(*checked, json.dumps({"overrides": {"run_config": {"lr": 2}}}), fails=True)
assert "must be at most 1" in said, said
wandb_command(*checked, json.dumps({"overrides": {"run_config": {"lr": 0.5}}}))

# A sweep whose scheduler is an item on the queue. SWP-2, LA-W-1
pathlib.Path("sweep.yaml").write_text("""
method: grid
metric: {name: loss, goal: minimize}
parameters: {x: {values: [1, 2]}}
job: alice/jobs/hello:latest
launch: {queue: plain}
""")
api.create_run_queue(name="plain", type="local-process", config={}, entity="alice")
said = wandb_command("launch-sweep", "sweep.yaml", "-e", "alice", "-p", "jobs", "-q", "plain")
assert "alice/jobs" in said, said
(item,) = api.run_queue("alice", "plain").items
assert item.state == "pending"
assert [sweep.state for sweep in api.project("jobs", "alice").sweeps()] == ["PENDING"]
