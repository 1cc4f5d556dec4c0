"""Trains a small perceptron on random data with DistributedDataParallel, one process per pod, and tells that all agree.

Volcano's pytorch plugin says who is who: MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK are in the environment.
"""

import torch
import torch.distributed as dist
from torch.nn import Linear, MSELoss, ReLU, Sequential
from torch.nn.parallel import DistributedDataParallel

STEPS = 20


def all_reduce(value):
    total = torch.tensor([float(value)])
    dist.all_reduce(total)
    return total.item()


def train(rank, size):
    """Loss over all ranks before and after; each rank has data of its own, and all have the same weights."""
    model = DistributedDataParallel(Sequential(Linear(8, 32), ReLU(), Linear(32, 1)))
    torch.manual_seed(rank)
    inputs = torch.randn(64, 8)
    wanted = inputs.sum(dim=1, keepdim=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    for _ in range(STEPS):
        loss = MSELoss()(model(inputs), wanted)
        losses.append(all_reduce(loss) / size)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    weights = sum(parameter.sum().item() for parameter in model.parameters())
    return losses[0], losses[-1], weights


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    print(f"rank {rank} of {size}: all-reduce {all_reduce(rank + 1):g}", flush=True)
    first, last, weights = train(rank, size)
    print(f"rank {rank} of {size}: loss {first:.4f} to {last:.4f}, weights {weights:.6f}", flush=True)
    # The job ends with the master, so it must not be done before every rank has spoken.
    dist.barrier()
    dist.destroy_process_group()


main()
