"""Run by test_ranks.py on four ranks: windows of a module that fully_shard() divided, on meshes of one and two dimensions. Its arguments are
meshes: "4", "2x2", "4x1" and "1x4" repeat and divide (hybrid sharding), "tensor" divides the model in its second dimension."""

import math
import sys
import warnings

import torch
import torch.distributed as distributed
from leave import leave
from museum.parts import batch, loss_fn, model, words
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import accrue

CLOSE = 1e-10
SAMPLES, WINDOWS, CLIP, RATE = 16, 3, 0.05, 1.0


def divided(shape):
    """A module in fp64 on the mesh, this rank's place among those with samples of their own, and how many those are."""
    net = model().double()
    if shape == "tensor":
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
        parallelize_module(net, mesh["model"], {"hidden": ColwiseParallel(), "head": RowwiseParallel()})
        return fully_shard(net, mesh=mesh["data"]), mesh.get_local_rank("data"), 2
    sizes = tuple(int(size) for size in shape.split("x"))
    names = ("shard",) if len(sizes) == 1 else ("replicate", "shard")
    mesh = init_device_mesh("cpu", sizes, mesh_dim_names=names)
    fully_shard(net.hidden, mesh=mesh)
    return fully_shard(net, mesh=mesh), distributed.get_rank(), 4


def whole(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def error(net, reference):
    return max(float((whole(ours) - theirs).norm() / theirs.norm())
               for ours, theirs in zip((p.detach() for p in net.parameters()), (p.detach() for p in reference.parameters())))


def take_reference_step(reference, everything):
    """The mean over all ranks' words, differentiated once, and clipped. Returns the norm and the weight."""
    loss = loss_fn(reference, everything)
    gradients = torch.autograd.grad(loss.sum / loss.weight, list(reference.parameters()))
    norm = math.sqrt(sum(float(gradient.square().sum()) for gradient in gradients))
    with torch.no_grad():
        for parameter, gradient in zip(reference.parameters(), gradients):
            parameter -= RATE * gradient * min(1.0, CLIP / norm)
    return norm, loss.weight


def check_steps(shape):
    net, rank, world = divided(shape)
    everything = batch(SAMPLES)
    reference = model().double()
    optimizer = torch.optim.SGD(net.parameters(), lr=RATE)
    acc = accrue.Accumulator(net, batch=accrue.Tokens(words(everything)), clip_norm=CLIP)
    begin, end = acc.share(accrue.Samples(SAMPLES))
    assert (begin, end) == (SAMPLES * rank // world, SAMPLES * (rank + 1) // world)
    micros = [accrue.batch_slice(everything, at, at + 1) for at in range(begin, end)]
    for _ in range(WINDOWS):
        for micro in micros:
            assert not acc.full()
            acc.backward(loss_fn(net, micro))
        assert acc.full(), "as many words as all ranks have"
        report = acc.step(optimizer)
        norm, weight = take_reference_step(reference, everything)
        assert report.weight == weight, (report.weight, weight)
        assert report.world == world and report.micro_batches == SAMPLES
        assert abs(report.grad_norm / norm - 1) < CLOSE
        assert error(net, reference) < CLOSE, error(net, reference)
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.mul_(1.001)
    assert error(net, reference) > CLOSE, "the comparison sees a difference"


def check_samples(shape):
    """A batch in samples counts those, and no words; a micro-batch may have no word that counts."""
    net, rank, world = divided(shape)
    acc = accrue.Accumulator(net, batch=accrue.Samples(2 * world))
    micro = accrue.batch_slice(batch(SAMPLES), rank, rank + 1)
    try:
        acc.backward(loss_fn(net, micro))
        raise SystemExit("words were taken for samples")
    except accrue.UsageError as refused:
        assert "Samples(n)" in str(refused)
    acc.backward(loss_fn(net, micro), accrue.Samples(1))
    assert not acc.full()
    acc.backward(accrue.Loss(loss_fn(net, micro).sum, 0), sample_ids=[7])
    assert acc.full()
    acc.discard()
    assert not acc.pending


class Poison(nn.Module):
    """Multiplies by what it is told, in forward or in backward alone."""

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(context, x, factor):
            context.factor = factor
            return x.clone()

        @staticmethod
        def backward(context, gradient):
            return gradient * context.factor, None


def bad_loss(net, micro):
    loss = loss_fn(net, micro)
    return accrue.Loss(loss.sum * float("nan"), loss.weight)


def bad_gradient(net, micro):
    loss = loss_fn(net, micro)
    return accrue.Loss(Poison.Scaled.apply(loss.sum, float("inf")), loss.weight)


def check_quarantine(shape):
    """What is not finite on one rank is left out on all of them, is told of, and leaves the others as if it had not been there."""
    net, rank, world = divided(shape)
    everything = batch(SAMPLES)
    good = accrue.batch_slice(everything, 0, world)
    reference = model().double()
    optimizer, told = torch.optim.SGD(net.parameters(), lr=RATE), []
    acc = accrue.Accumulator(net, clip_norm=CLIP, max_quarantined=2, on_event=told.append)
    for window in range(WINDOWS):
        micro = accrue.batch_slice(good, rank, rank + 1)
        acc.backward((bad_loss if rank == 0 else loss_fn)(net, micro))
        assert acc.pending and acc.weight == 0
        acc.backward(loss_fn(net, micro))
        report = acc.step(optimizer)
        take_reference_step(reference, good)
        assert report.stepped and report.quarantined == world
        assert error(net, reference) < CLOSE, "the window is that of what is left"
        assert len(told) == window + 1 and told[-1].name == "quarantined" and "1 of" in told[-1].reason
    for place in range(3):
        try:
            acc.backward(bad_loss(net, good))
            assert place < 2, "the third of a window is one too many"
        except accrue.RunError as many:
            assert place == 2 and "at most 2 micro-batches" in str(many)
    acc.discard()


def check_dropped(shape):
    """A window whose gradient is not finite changes nothing, is told of, and many of them in a row are an error."""
    net, rank, world = divided(shape)
    good = accrue.batch_slice(batch(SAMPLES), rank, rank + 1)
    optimizer, told = torch.optim.SGD(net.parameters(), lr=RATE), []
    before = [whole(p.detach()).clone() for p in net.parameters()]
    acc = accrue.Accumulator(net, max_quarantined=2, on_event=told.append)
    for _ in range(2):
        acc.backward((bad_gradient if rank == 0 else loss_fn)(net, good))
        assert not acc.step(optimizer).stepped
    assert [event.name for event in told] == ["dropped"] * 2 and "norm" in told[0].reason
    assert all(torch.equal(a, whole(b.detach())) for a, b in zip(before, net.parameters()))
    acc.backward(loss_fn(net, good))
    assert acc.step(optimizer).stepped, "a window that is not finite leaves nothing to the next one"
    for place in range(3):
        acc.backward((bad_gradient if rank == 0 else loss_fn)(net, good))
        try:
            acc.step(optimizer)
            assert place < 2, "the third in a row is one too many"
        except accrue.RunError as many:
            assert place == 2 and "2 windows in a row" in str(many)
    silent = accrue.Accumulator(net)
    silent.backward(bad_gradient(net, good))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        silent.step(optimizer)
    assert any("dropped" in str(warning.message) for warning in warned), "without on_event it is a warning"


def check_refusals(shape):
    net, rank, _ = divided(shape)
    micro = accrue.batch_slice(batch(SAMPLES), rank, rank + 1)
    acc = accrue.Accumulator(net)
    loss = loss_fn(net, micro).sum  # a collective, too
    try:
        acc.backward(accrue.Loss(1.0 if rank == 0 else loss, 1))
        raise SystemExit("a loss without a graph was accepted")
    except accrue.UsageError as refused:
        assert "depends on the parameters" in str(refused)
    net_of_parts = model().double()
    fully_shard(net_of_parts.hidden, mesh=init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "other"))["data"])
    fully_shard(net_of_parts, mesh=init_device_mesh("cpu", (4,)))
    try:
        accrue.Accumulator(net_of_parts)
        raise SystemExit("parts on different ranks were accepted")
    except accrue.UsageError as refused:
        assert "2 and 4 ranks" in str(refused)


def main():
    distributed.init_process_group("gloo")
    for shape in sys.argv[1:]:
        for check in (check_steps, check_samples, check_quarantine, check_dropped, check_refusals):
            check(shape)
    sys.stdout.write("fine\n")
    leave()


main()
