"""Run by test_ranks.py on each rank: an Accumulator over a module that fully_shard() divided takes the step of all ranks' samples."""

import sys

import torch
import torch.distributed as distributed
from museum.parts import batch, loss_fn, model
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import accrue


def main():
    distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    whole = batch()
    mine = accrue.batch_slice(whole, *[(0, 7), (7, 10)][rank])
    net = model().double()
    mesh = init_device_mesh("cpu", (2,))
    fully_shard(net.hidden, mesh=mesh)
    fully_shard(net, mesh=mesh)
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    acc = accrue.Accumulator(net, clip_norm=0.05)
    for begin in range(0, 8, [2, 1][rank]):  # each backward is a collective: as many on each rank
        acc.backward(loss_fn(net, accrue.batch_slice(mine, begin, begin + [2, 1][rank])))
        if begin // [2, 1][rank] == [3, 3][rank]:
            break
    report = acc.step(optimizer)
    reference = model().double()
    loss = loss_fn(reference, whole)
    gradients = torch.autograd.grad(loss.sum / loss.weight, list(reference.parameters()))
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
    for (name, parameter), before, gradient in zip(net.named_parameters(), reference.parameters(), gradients):
        expected = before.detach() - gradient * (0.05 / norm)
        error = float((parameter.full_tensor() - expected).norm() / gradient.norm())
        assert error < 1e-5, f"{name}: {error}"  # torch's clipping divides by norm + 1e-6
    assert report.weight == loss.weight and abs(report.grad_norm - float(norm)) < 1e-12 and report.world == 2
    try:
        accrue.Accumulator(net, accumulate="fixed")
    except accrue.UsageError as error:
        assert "accumulate" in str(error)
        sys.stdout.write("fine\n")
    distributed.destroy_process_group()


main()
