"""Run by test_ranks.py on each rank: an Accumulator over a module that fully_shard() divided takes the steps of all ranks' samples."""

import sys

import torch
import torch.distributed as distributed
from leave import leave
from museum.parts import batch, loss_fn, model, words
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import accrue

CLIP = 0.05
BOUNDS = {torch.float64: 1e-10, torch.float32: 1e-4}
WINDOWS = 3


def divided(dtype):
    net = model().to(dtype)
    mesh = init_device_mesh("cpu", (2,))
    fully_shard(net.hidden, mesh=mesh)
    return fully_shard(net, mesh=mesh)


def check(dtype, rank):
    whole = batch()
    mine = accrue.batch_slice(whole, *[(0, 8), (8, 10)][rank])
    size = [4, 1][rank]  # each backward is a collective: as many on each rank
    net, reference = divided(dtype), model().to(dtype)
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    acc = accrue.Accumulator(net, batch=accrue.Tokens(words(whole)), clip_norm=CLIP)
    for _ in range(WINDOWS):
        for begin in (0, size):
            assert not acc.full()
            acc.backward(loss_fn(net, accrue.batch_slice(mine, begin, begin + size)))
        assert acc.full(), "as many words as all ranks have"
        report = acc.step(optimizer)
        loss = loss_fn(reference, whole)
        gradients = torch.autograd.grad(loss.sum / loss.weight, list(reference.parameters()))
        norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
        with torch.no_grad():
            for parameter, gradient in zip(reference.parameters(), gradients):
                parameter -= gradient * min(1.0, CLIP / float(norm))
        for (name, parameter), expected in zip(net.named_parameters(), reference.parameters()):
            error = float((parameter.full_tensor() - expected).detach().norm() / CLIP)
            assert error < BOUNDS[dtype], f"{name}: {error}"
        assert report.weight == loss.weight and abs(report.grad_norm / float(norm) - 1) < BOUNDS[dtype] and report.world == 2
    bad = loss_fn(net, accrue.batch_slice(mine, 0, size))
    acc.backward(accrue.Loss(bad.sum * float("nan"), bad.weight))
    assert not acc.step(optimizer).stepped
    acc.backward(loss_fn(net, accrue.batch_slice(mine, 0, size)))
    assert acc.step(optimizer).stepped, "a window of what is not finite alone leaves nothing to the next one"


def check_disturbed(rank):
    """What somebody does to an open window, on one rank alone, is refused on both, and the next window is as if it had not been."""
    mine = accrue.batch_slice(batch(), *[(0, 4), (4, 8)][rank])
    disturbances = {"step()": lambda net, sgd: sgd.step(), "zero_grad()": lambda net, sgd: sgd.zero_grad(),
                    "clipping": lambda net, sgd: torch.nn.utils.clip_grad_value_(net.parameters(), 1e-9),
                    "nothing": lambda net, sgd: None}
    for name, disturb in disturbances.items():
        for is_last in (False, True):
            net = divided(torch.float64)
            sgd = torch.optim.SGD(net.parameters(), lr=0.0)
            acc = accrue.Accumulator(net)
            acc.backward(loss_fn(net, mine))
            if rank == 1:
                disturb(net, sgd)
            try:
                acc.step(sgd) if is_last else acc.backward(loss_fn(net, mine))
                assert name == "nothing", f"{name} was accepted on rank {rank}"
            except accrue.UsageError as error:
                assert (name if rank == 1 else "another rank") in str(error), error
                assert name != "nothing" and not acc.pending
            acc.discard()
            acc.backward(loss_fn(net, mine))
            assert acc.step(sgd).grad_norm > 0


def main():
    distributed.init_process_group("gloo")
    check_disturbed(distributed.get_rank())
    for dtype in BOUNDS:
        check(dtype, distributed.get_rank())
    for wrong in ({"accumulate": "fixed"}, {"check_finite": False}, {"measure_noise": True}):
        try:
            accrue.Accumulator(divided(torch.float32), **wrong)
            raise SystemExit(f"{wrong} was accepted")
        except accrue.UsageError as error:
            assert next(iter(wrong)) in str(error)
    net = divided(torch.float32)
    try:
        accrue.watch(net, torch.optim.SGD(net.parameters(), lr=1.0), loss_fn)
        raise SystemExit("a model that fully_shard() divided was watched")
    except accrue.UsageError as error:
        assert "whole on each rank" in str(error)
    sys.stdout.write("fine\n")
    leave()


main()
