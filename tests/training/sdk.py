"""Kubeflow's TrainingClient as it is published: a function becomes a PyTorchJob over three pods, is waited for, read, changed
and deleted; and a job object that fails is told as a failure.

A list of steps that assert what their author would take for granted; the cluster is that of KUBECONFIG.
"""

import time

from kubeflow.training import (
    KubeflowOrgV1PyTorchJob,
    KubeflowOrgV1PyTorchJobSpec,
    KubeflowOrgV1ReplicaSpec,
    KubeflowOrgV1RunPolicy,
    TrainingClient,
)
from kubernetes import client as kubernetes

NAME = "from-function"
PODS = ["from-function-master-0", "from-function-worker-0", "from-function-worker-1"]
PATIENCE_S = 300
# The torch 1.13 of Debian 12 misreads its own defaults for these two on Python 3.11; examples/pytorchjob-mnist says more.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PET_MONITOR_INTERVAL": "0.5", "PET_REDIRECTS": "9:1", "PET_TEE": "9:1"}


def train(parameters):
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    number = torch.tensor([float(parameters["base"] + dist.get_rank())])
    dist.all_reduce(number)
    print(f"rank {dist.get_rank()} of {dist.get_world_size()} sees {number.item():g}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


def create(training):
    training.create_job(
        name=NAME,
        train_func=train,
        parameters={"base": 10},
        num_workers=3,
        num_procs_per_worker=1,
        env_vars=ENVIRONMENT,
    )
    assert [job.metadata.name for job in training.list_jobs()] == [NAME]
    assert training.get_job(NAME).spec.nproc_per_node == "1"


def wait(training):
    seen = []
    job = training.wait_for_job_conditions(
        NAME, wait_timeout=PATIENCE_S, polling_interval=1, callback=lambda job: seen.append(job.metadata.name)
    )
    assert seen and job.status.completion_time is not None
    # What the SDK's own end-to-end test looks at (PT-SDK-4).
    told = {condition.type: condition.status for condition in training.get_job_conditions(NAME)}
    assert told["Created"] == told["Succeeded"] == "True", told
    assert all(told.get(name) != "True" for name in ("Running", "Restarting", "Failed")), told
    assert training.is_job_succeeded(NAME) and not training.is_job_failed(NAME)


def read(training):
    assert sorted(training.get_job_pod_names(NAME)) == PODS
    assert training.get_job_pod_names(NAME, is_master=True) == PODS[:1]
    logs, _ = training.get_job_logs(NAME)
    assert list(logs) == PODS[:1] and "rank 0 of 3 sees 33\n" in logs[PODS[0]], logs
    # The job ends with its master; the workers print before that, and end in their own time.
    logs, events = training.get_job_logs(NAME, is_master=False, verbose=True)
    assert sorted(logs) == PODS, logs
    for rank, pod in enumerate(PODS):
        assert f"rank {rank} of 3 sees 33\n" in logs[pod], logs
    assert any("Created pod: from-function-worker-1" in event for event in events[f"pytorchjob/{NAME}"]), events
    followed, _ = training.get_job_logs(NAME, follow=True)
    assert list(followed) == PODS[:1], followed


def update(training):
    job = training.get_job(NAME)
    job.metadata.labels = {"seen": "yes"}
    training.update_job(job, NAME)
    assert training.get_job(NAME).metadata.labels == {"seen": "yes"}


def delete(training):
    training.delete_job(NAME)
    deadline = time.monotonic() + PATIENCE_S
    while training.list_jobs() or training.get_job_pods(NAME):
        assert time.monotonic() < deadline, "the job or its pods are still there"
        time.sleep(0.1)
    try:
        training.get_job(NAME)
    except RuntimeError:
        return
    raise AssertionError("a deleted job was found")


def failure(training):
    container = kubernetes.V1Container(name="pytorch", image="any", command=["sh", "-c", "echo sorry; exit 3"])
    template = kubernetes.V1PodTemplateSpec(spec=kubernetes.V1PodSpec(containers=[container]))
    master = KubeflowOrgV1ReplicaSpec(replicas=1, template=template, restart_policy="Never")
    spec = KubeflowOrgV1PyTorchJobSpec(
        run_policy=KubeflowOrgV1RunPolicy(clean_pod_policy="None"), pytorch_replica_specs={"Master": master}
    )
    metadata = kubernetes.V1ObjectMeta(name="fails")
    job = KubeflowOrgV1PyTorchJob(api_version="kubeflow.org/v1", kind="PyTorchJob", metadata=metadata, spec=spec)
    training.create_job(job)
    try:
        training.wait_for_job_conditions("fails", wait_timeout=PATIENCE_S, polling_interval=1)
    except RuntimeError as error:
        assert "is Failed" in str(error), error
    else:
        raise AssertionError("a failed job was waited for in peace")
    logs, _ = training.get_job_logs("fails")
    assert logs == {"fails-master-0": "sorry\n"}, logs


def main():
    training = TrainingClient(job_kind="PyTorchJob")
    for step in (create, wait, read, update, delete, failure):
        print(step.__name__, flush=True)
        step(training)


main()
