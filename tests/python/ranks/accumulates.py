"""Run by test_ranks.py on each rank: an Accumulator over ranks and a DistributedDataParallel leave the gradient of all ranks' samples."""

import sys

import torch
import torch.distributed as distributed
from leave import leave
from museum.parts import batch, loss_fn, model
from torch.nn.parallel import DistributedDataParallel

import accrue

CLOSE = 1e-12


def check(net, acc, whole, share):
    mine = accrue.batch_slice(whole, *share)
    for begin in range(0, share[1] - share[0], 2):
        acc.backward(loss_fn(net, accrue.batch_slice(mine, begin, begin + 2)))
    report = acc.step(torch.optim.SGD(net.parameters(), lr=0.0))
    truth = loss_fn(model().double(), whole)
    reference = model().double()
    loss = loss_fn(reference, whole)
    expected = torch.autograd.grad(loss.sum / loss.weight, list(reference.parameters()))
    for (name, parameter), gradient in zip(net.named_parameters(), expected):
        error = float((parameter.grad - gradient).norm() / gradient.norm())
        assert error < CLOSE, f"{name}: {error}"
    assert report.world == 2 and report.weight == truth.weight


def by_step(net, whole, share, group):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
    report = accrue.step(net, optimizer, accrue.batch_slice(whole, *share), loss_fn, micro_batch=2, group=group)
    reference = model().double()
    loss = loss_fn(reference, whole)
    for parameter, gradient in zip(net.parameters(), torch.autograd.grad(loss.sum / loss.weight, list(reference.parameters()))):
        assert float((parameter.grad - gradient).norm() / gradient.norm()) < CLOSE
    assert report.world == 2 and report.micro_batches == 6


def main():
    group = accrue.join()
    whole = batch()
    share = [(0, 7), (7, 10)][group.rank]
    net = model().double()
    check(net, accrue.Accumulator(net, group=group), whole, share)
    distributed.init_process_group("gloo")
    wrapped = DistributedDataParallel(model().double())
    acc = accrue.Accumulator(wrapped, group=group)
    check(wrapped, acc, whole, share)
    by_step(DistributedDataParallel(model().double()), whole, share, group)
    sys.stdout.write("fine\n")
    leave()


main()
