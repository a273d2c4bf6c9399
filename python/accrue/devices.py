"""One window over several ranks: compares the gradient that they share with the gradient that is right."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as distributed

from accrue import _native
from accrue.errors import Error, NotJudged, RunError
from accrue.report import Report
from accrue.tensors import norm

# Bounds of the relative rounding error of a gradient: passes of other shapes, and a sum over ranks in any order.
BOUNDS = {torch.float64: 1e-10, torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 4e-3}

Tensors = list[torch.Tensor]


def world() -> int:
    """Returns the number of ranks of torch.distributed; 1 if it was not set up."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def first_of_ranks(own: Any) -> tuple[int, Any] | None:
    """Returns the lowest rank whose `own` is not None, with its value; None if there is none. A collective of all ranks."""
    if world() == 1:
        return None if own is None else (0, own)
    found: list[Any] = [None] * world()
    distributed.all_gather_object(found, own)
    return next(((rank, said) for rank, said in enumerate(found) if said is not None), None)


@contextlib.contextmanager
def on_all_ranks(operation: str) -> Iterator[None]:
    """Raises an exception of one rank on all ranks, with the same text, so that no rank waits in a collective that another one never enters."""
    if world() == 1:
        yield
        return
    error = None
    try:
        yield
    except Exception as raised:
        error = raised
    said = None
    if isinstance(error, NotJudged):
        said = (NotJudged, error.reason, error.instead)
    elif error is not None:
        is_own = isinstance(error, Error)
        said = (type(error), error.operation, error.expected, error.received, error.suggestion) if is_own else (
            RunError, operation, "a loss_fn and a window that run on each rank", f"{type(error).__name__}: {error}", "the same on one rank")
    if first := first_of_ranks(said):
        rank, (kind, *words) = first
        if kind is NotJudged:
            raise NotJudged(f"{words[0]}, on rank {rank}", words[1]) from error
        of, expected, received, suggestion = words
        raise kind(of, expected, f"{received}, on rank {rank}", suggestion) from error


def _gradients(loss: _native.Loss, trained: Tensors) -> Tensors:
    found = torch.autograd.grad(loss.sum, trained, allow_unused=True)
    return [torch.zeros_like(tensor) if gradient is None else gradient for tensor, gradient in zip(trained, found)]


def _over_ranks(tensors: Tensors) -> Tensors:
    for tensor in tensors:
        distributed.all_reduce(tensor)
    return tensors


# Gradients that nearly vanish are judged relative to this part of what is usual for a parameter of their size, as in the prover.
VANISHING = 1e-3


def _errors(left: Tensors, right: Tensors) -> list[float]:
    """Returns each parameter's error, relative to the norm of its gradient."""
    elements = sum(tensor.numel() for tensor in right)
    usual = (sum(norm(tensor) ** 2 for tensor in right) / max(elements, 1)) ** 0.5
    return [norm(a - b) / max(norm(b), VANISHING * usual * b.numel() ** 0.5, 1e-300) for a, b in zip(left, right)]


def _error(left: Tensors, right: Tensors) -> float:
    """Returns the error of the parameter that differs most."""
    return max(_errors(left, right))


def _factor(left: Tensors, right: Tensors) -> float:
    """Returns the factor in left = factor * right, by least squares."""
    dot = sum(float((a.double() * b.double()).sum()) for a, b in zip(left, right))
    return dot / max(sum(float(b.double().square().sum()) for b in right), 1e-300)


class _Window:
    """Sums over this rank's micro-batches, and the means that ranks may make of them."""

    def __init__(self, losses: Sequence[Callable[[], _native.Loss]], trained: Tensors):
        self.sums = [torch.zeros_like(tensor) for tensor in trained]
        self.means = [torch.zeros_like(tensor) for tensor in trained]
        self.weight = 0.0
        for run in losses:
            loss = run()
            for place, gradient in enumerate(_gradients(loss, trained)):
                self.sums[place] += gradient
                self.means[place] += gradient / (max(loss.weight, 1e-30) * len(losses))
            self.weight += loss.weight

    def truth(self) -> Tensors:
        weight = torch.tensor([self.weight], dtype=torch.float64, device=self.sums[0].device)
        total = float(_over_ranks([weight])[0])
        return [tensor / total for tensor in _over_ranks([tensor.clone() for tensor in self.sums])]

    def mean_over_ranks(self, own: Tensors) -> Tensors:
        return [tensor / world() for tensor in _over_ranks([tensor.clone() for tensor in own])]

    def own_mean(self) -> Tensors:
        return [tensor / max(self.weight, 1e-30) for tensor in self.sums]


def report_over_ranks(losses: Sequence[Callable[[], _native.Loss]], named: Sequence[tuple[str, torch.Tensor]], left: Tensors) -> Report:
    """Compares the gradient that a window left on this rank with that of the mean over all ranks' windows. A collective of all ranks.

    Args:
        losses: functions that run this rank's micro-batches; each returns accrue.Loss.
        named: the trained parameters by name.
        left: what was in `.grad` when the optimizer stepped, in the order of `named`.
    """
    trained = [tensor for _, tensor in named]
    with on_all_ranks("watch"):
        window = _Window(losses, trained)
    truth, own = window.truth(), window.own_mean()
    by_rank, by_micro_batch = window.mean_over_ranks(own), window.mean_over_ranks(window.means)
    bound = BOUNDS.get(trained[0].dtype, BOUNDS[torch.float32])
    error, factor = _error(left, truth), _factor(left, truth)
    scaled = [factor * tensor for tensor in truth]
    explanations = [
        (truth, [], ""),
        (by_rank, ["device-mean"], f"the gradient is the mean over {world()} ranks of their own means"),
        (by_micro_batch, ["device-mean", "weighting"], "the gradient is the mean over ranks and micro-batches of their means"),
        (own, ["unknown"], "the gradient is this rank's alone: ranks never shared it"),
        (scaled, ["normalization"], f"the gradient is {factor:.4g} times the true one"),
    ]
    for gradient, causes, evidence in explanations:
        if _error(left, gradient) <= bound:
            break
    else:
        causes, evidence = ["unknown"], "no mean over ranks or micro-batches is what the window left"
    parameters = [{"name": name, "relative_error": each, "bound": bound} for (name, _), each in zip(named, _errors(left, truth))]
    fields = _native.describe_causes(causes, error, bound)
    return Report.of(fields, evidence=[evidence] if causes else [], reference=f"the windows of {world()} ranks", parameters=parameters)
