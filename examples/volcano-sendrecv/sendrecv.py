"""Every rank passes its number round a ring by send and receive, then all add up by all-reduce; both must agree.

Volcano's pytorch plugin says who is who: MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK are in the environment.
"""

import socket

import torch
import torch.distributed as dist


def ring(rank, size):
    """The sum of all ranks' numbers, by neighbours only: what came last is passed on, until every number was here."""
    number = torch.tensor([rank + 1.0])
    total = number.clone()
    for _ in range(size - 1):
        sending = dist.isend(number, (rank + 1) % size)
        received = torch.empty(1)
        dist.recv(received, (rank - 1) % size)
        sending.wait()
        number = received
        total += received
    return total.item()


def all_reduce(rank):
    number = torch.tensor([rank + 1.0])
    dist.all_reduce(number)
    return number.item()


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    by_ring, by_all_reduce = ring(rank, size), all_reduce(rank)
    print(f"rank {rank} of {size} on {socket.gethostname()}: ring {by_ring:g}, all-reduce {by_all_reduce:g}", flush=True)
    assert by_ring == by_all_reduce == size * (size + 1) / 2, "the ranks disagree"
    # The job ends with the master, so it must not be done before every rank has spoken.
    dist.barrier()
    dist.destroy_process_group()


main()
