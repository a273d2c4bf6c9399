"""Run by test_ranks.py on each rank: a loop over DistributedDataParallel, watched. Its argument is what the loop does; prints the causes.

mean-of-devices: https://github.com/huggingface/transformers/issues/34242 (2024)
"""

import sys

import torch
import torch.distributed as distributed
from leave import leave
from museum.parts import batch, cross_entropy, loss_fn, model, words
from torch.nn.parallel import DistributedDataParallel

import accrue


def main():
    distributed.init_process_group("gloo")
    rank, world = distributed.get_rank(), distributed.get_world_size()
    whole = batch()
    mine = accrue.batch_slice(whole, *[(0, 6), (6, 10)][rank])
    window = [accrue.batch_slice(mine, begin, begin + 2) for begin in range(0, accrue.batch_size(mine), 2)]
    net = DistributedDataParallel(model())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    own, all_words = sum(words(micro) for micro in window), words(whole)
    divisor = {"right": all_words / world, "mean-of-devices": own, "never-multiplied": all_words}[sys.argv[1]]
    with accrue.watch(net, optimizer, loss_fn) as w:
        for place, micro in enumerate(window):
            net.require_backward_grad_sync = place + 1 == len(window)
            (cross_entropy(net, micro, "sum") / divisor).backward()
        optimizer.step()
    sys.stdout.write(f"causes {' '.join(w.report.causes or ['none'])}\n")  # ranks share the terminal
    leave()


main()
