"""Trains a small classifier with DistributedDataParallel; torchrun starts it in every pod.

It goes on from its checkpoint when there is one, so a group that torchrun forms anew loses one epoch at most. Each rank
prints what it does and keeps the same lines in a file of the log folder.
"""

import argparse
import os
import socket

import torch
import torch.distributed as dist
from torch.nn import CrossEntropyLoss, Linear, ReLU, Sequential
from torch.nn.parallel import DistributedDataParallel


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data_path", required=True, help="folder with train.pt")
    parser.add_argument("--checkpoint_path", required=True)
    parser.add_argument("--log_path", required=True, help="folder for one log per rank")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--stop_file", default="", help="end after the epoch in which this file appears")
    return parser.parse_args()


class Log:
    """One rank's voice: on standard output, and in a file."""

    def __init__(self, folder, rank):
        os.makedirs(folder, exist_ok=True)
        self.file = open(os.path.join(folder, f"rank-{rank}.log"), "a", buffering=1)

    def say(self, line):
        print(line, flush=True)
        self.file.write(line + "\n")


def share(folder, rank, size):
    """This rank's part of the data: every size-th image."""
    data = torch.load(os.path.join(folder, "train.pt"))
    return data["images"][rank::size], data["labels"][rank::size]


def resume(model, path):
    """The epoch to begin with, after the weights of the last checkpoint were taken over."""
    if not os.path.exists(path):
        return 0
    checkpoint = torch.load(path)
    model.load_state_dict(checkpoint["model"])
    return checkpoint["epoch"] + 1


def save(model, epoch, path):
    """Replaces the checkpoint at once, so that a death in the middle leaves the old one."""
    torch.save({"model": model.state_dict(), "epoch": epoch}, path + ".new")
    os.replace(path + ".new", path)


def train(model, optimizer, images, labels):
    """One epoch over this rank's images; the mean loss."""
    total = 0.0
    batches = list(zip(images.split(32), labels.split(32)))
    for batch, wanted in batches:
        loss = CrossEntropyLoss()(model(batch), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(batches)


def main():
    options = arguments()
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    log = Log(options.log_path, rank)
    images, labels = share(options.data_path, rank, size)
    network = Sequential(Linear(28 * 28, 32), ReLU(), Linear(32, 10))
    first = resume(network, options.checkpoint_path)
    model = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    log.say(f"rank {rank} of {size} on {socket.gethostname()}: {len(labels)} images, from epoch {first}")
    for epoch in range(first, options.epochs):
        loss = train(model, optimizer, images, labels)
        # All ranks must agree on the end, so what one of them sees is told to all.
        told = torch.tensor([loss, float(os.path.exists(options.stop_file))])
        dist.all_reduce(told)
        mean_loss, votes_to_stop = told.tolist()
        log.say(f"rank {rank} epoch {epoch} loss {mean_loss / size:.4f}")
        if rank == 0:
            save(network, epoch, options.checkpoint_path)
        if votes_to_stop:
            break
    log.say(f"rank {rank} has finished")
    dist.barrier()
    dist.destroy_process_group()


main()
