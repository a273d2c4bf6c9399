"""Run by test_ranks.py on each rank: what rank 1 alone refuses, both raise, with the same text. Its argument is what is wrong there."""

import sys

import torch
import torch.distributed as distributed
from leave import leave
from museum.parts import batch, loss_fn, model, words
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import accrue


def watched(wrong):
    """A window of a loop over this rank's samples, which shares its gradients by itself."""
    net = model()
    optimizer = torch.optim.SGD((nn.Linear(2, 2) if wrong == "optimizer" else net).parameters(), lr=0.1)
    micro_batches = [accrue.batch_slice(batch(), begin, begin + 2) for begin in range(0, 2 if wrong == "short window" else 6, 2)]

    def loss(net, micro):
        if wrong == "loss":
            raise ZeroDivisionError("no such sample")
        return loss_fn(net, micro)

    with accrue.watch(net, optimizer, loss) as w:
        for micro in w.micro_batches(micro_batches):
            (loss_fn(net, micro).sum / sum(map(words, micro_batches))).backward()
        if wrong == "record":
            w._recorder.seen.failure = "KeyError: 'lr'"
        optimizer.step()
    return w.report


def accumulated(wrong):
    mesh = init_device_mesh("cpu", (2,))
    net = fully_shard(model(), mesh=mesh)
    acc = accrue.Accumulator(net, batch=accrue.Samples(8))
    micro = accrue.batch_slice(batch(), 0, 2)
    acc.backward(loss_fn(net, micro), sample_ids=[0, 1])
    refused = None
    try:
        loss, size, ids = loss_fn(net, micro), None, [0, 1]
        acc.backward(loss.sum if wrong == "no loss" else loss, accrue.Tokens(3) if wrong == "unit" else size, [] if wrong == "sample_ids" else ids)
    except accrue.UsageError as error:
        refused = error
    acc.backward(loss_fn(net, micro), sample_ids=[0, 1])
    report = acc.step(torch.optim.SGD(net.parameters(), lr=0.1))
    assert report.stepped and report.micro_batches == 2 * distributed.get_world_size(), report
    if refused:
        raise refused


def main():
    distributed.init_process_group("gloo")
    kind = sys.argv[1] if distributed.get_rank() == 1 else "none"
    run = accumulated if sys.argv[1] in ("sample_ids", "unit", "no loss") else watched
    try:
        said = run(kind)
        sys.stdout.write(f"judged {said.judged}: {said.conclusion}\n")
    except accrue.Error as error:
        sys.stdout.write(f"refused {type(error).__name__}: {error}\n")
    leave()


main()
