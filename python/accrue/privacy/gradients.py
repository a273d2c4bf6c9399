"""Sums of clipped gradients of a model that a Python loop owns, without a gradient for each sample."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase

from accrue.options import check_function, check_options
from accrue.privacy.clipping import ClippedSum
from accrue.privacy.graphs import OPERATION, Edge, Graph, expect_separate, noted_calls, refuse
from accrue.privacy.randomness import Randomness
from accrue.privacy.reports import Unprotected, measured
from accrue.privacy.uses import Use, exact, squared_norms, weighted_sum

# Norms and sums are of the model's precision: what a sample adds may be longer than the clip by this share, in which rounding has room.
ROUNDING = 2.0**-10
# Modules around a model whose backward passes do more than autograd's, or hide what it does.
WRAPPERS = ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "OptimizedModule")


class ClippedGradients:
    """The sum of the samples' gradients, each scaled down to a norm of at most `clip` over all trained parameters.

    A micro-batch has one forward and one backward pass. The backward pass computes no gradients of parameters, but keeps those of the layers'
    results; from them follow the norm of each sample's gradient, and after that the sum of the clipped ones in a product of the usual size. No
    sample has a gradient for itself.

    Layers: Linear, transformers' Conv1D, Embedding, LayerNorm, RMSNorm, Conv2d, also if they share a parameter or run several times, and
    parameters that are added to, or multiplied elementwise with, values of the samples (RMSNorms of other libraries, class tokens, learned
    positions). Any other use of a trained parameter is refused by its name, in micro-batches of more than one sample; with one, all models are right.

    Refused, too: batch normalisation, buffers that a pass changes, layers without the samples as their first dimension, and losses that depend on
    several samples. The last is tested in the first micro-batch by a pass of its own; a loss must not get around it without a gradient.

    The model is left as it was, also after an error: no hook stays, and no `.grad` is read or written.

        clipped = ClippedGradients(model, loss_fn, clip=1.0)
        for micro_batch in window:
            clipped.add(micro_batch)
        total = clipped.total()

    Args:
        model: a torch.nn.Module. Parameters with requires_grad are trained.
        loss_fn: loss_fn(model, micro_batch) returns the mean loss of each sample, a tensor [samples]; or the sum of each sample's loss terms
            and the number of its terms, two tensors [samples].
        clip: the largest norm of a sample's gradient.

    Raises:
        UsageError: the model cannot be run in this way, or an option is wrong.
    """

    def __init__(self, model: nn.Module, loss_fn: Callable[[Any, Any], Any], *, clip: float):
        if not isinstance(model, nn.Module):
            refuse("a torch.nn.Module as model", f"a value of type {type(model).__name__}", "the model itself")
        check_function(OPERATION, "loss_fn", loss_fn)
        check_options(OPERATION, {"clip": clip}, clip=float)
        if not (math.isfinite(clip) and clip > 0):
            refuse("a finite number above 0 as clip", str(clip), "clip=1.0")
        _expect_plain(model)
        self._model, self._loss_fn, self._clip = model, loss_fn, float(clip)
        self.parameters = _trained(model)
        if not self.parameters:
            refuse("a model with trained parameters", "none with requires_grad", "requires_grad_() for those that are trained")
        # Forms of passes in which the samples were found to be separate.
        self._separate: set[tuple[Any, ...]] = set()
        self.forget()

    @property
    def samples(self) -> int:
        """The samples that were added, also those that counted as 0."""
        return self._samples

    @property
    def unprotected(self) -> Unprotected:
        """Losses and norms of what was added. They are measured without noise: keep them where the data are."""
        return measured(self._samples, self._losses, self._norms, self._clip)

    def add(self, micro_batch: Any) -> None:
        """Adds the clipped gradients of a micro-batch. A sample without a loss term, or without a finite gradient, counts as 0.

        Raises:
            UsageError: the model or its losses cannot be run in this way; nothing was added.
        """
        _expect_no_statistics(self._model)
        trained = _trained(self._model)
        if trained.keys() != self.parameters.keys() or any(trained[name] is not each for name, each in self.parameters.items()):
            refuse("the trained parameters that the model had at the beginning", "others", "requires_grad_() before the first micro-batch")
        names = {parameter: name for name, parameter in trained.items()}
        with _expect_still_buffers(self._model), noted_calls(self._model, names) as calls:
            losses, weights = _checked(self._loss_fn(self._model, micro_batch))
        if losses.shape[0] == 0:
            return
        counts = (weights > 0).tolist()
        means = (losses.detach().double() * weights.double()).tolist()
        if losses.shape[0] == 1:
            gradients = torch.autograd.grad(losses, list(trained.values()), weights, allow_unused=True)
            del losses
            with torch.no_grad(), _full_precision(weights.device.type):
                self._sum_one({name: each for name, each in zip(trained, gradients) if each is not None}, means[0], counts[0])
        else:
            graph = Graph(losses, calls, names)
            calls.clear()
            uses = self._backward(graph, losses, weights, names)
            del losses, graph
            with torch.no_grad(), _full_precision(weights.device.type):
                self._sum(uses, means, weights > 0)

    def total(self) -> dict[str, torch.Tensor]:
        """Returns the sum by parameter, in double precision and without noise."""
        return self._sum_so_far().total()

    def take(self, noise: float, randomness: Randomness) -> Iterator[tuple[str, torch.Tensor]]:
        """Yields each parameter's sum with Gaussian noise of deviation `noise` * clip in each element, in double precision. The next sum is empty.

        The deviation is larger than stated by 2^-10, in which the rounding of norms and sums has room.
        """
        sums = self._sum_so_far()
        self.forget()
        return sums.taken_with_noise(noise * (1 + ROUNDING), randomness)

    def forget(self) -> None:
        """Begins an empty sum."""
        self._sums: ClippedSum | None = None
        self._samples = 0
        self._losses: list[float] = []
        self._norms: list[float] = []

    def _sum_so_far(self) -> ClippedSum:
        if self._sums is None:
            self._sums = ClippedSum(self.parameters, self._clip)
        return self._sums

    def _backward(self, graph: Graph, losses: torch.Tensor, weights: torch.Tensor, names: Mapping[nn.Parameter, str]) -> dict[str, list[Use]]:
        form = tuple(graph.form)
        if form not in self._separate and expect_separate(graph, losses, weights):
            self._separate.add(form)
        uses: dict[str, list[Use]] = {}

        def visit(tap: Edge, gradient: torch.Tensor) -> None:
            with _full_precision(gradient.device.type):
                # Inputs are kept only for uses that still need them.
                for finder in graph.taps[tap]:
                    for parameter, use in finder(gradient):
                        uses.setdefault(names[parameter], []).append(use)
            graph.taps[tap] = []

        graph.visit(losses, weights, visit, again=False)
        return uses

    def _sum(self, uses: dict[str, list[Use]], means: list[float], counts: torch.Tensor) -> None:
        shapes = {name: self.parameters[name].shape for name in uses}
        squares = torch.zeros(len(means), dtype=torch.float64, device=counts.device)
        for name, some in uses.items():
            squares += squared_norms(some, shapes[name]).to(counts.device)
        norms = squares.sqrt()
        kept = norms.isfinite() & counts
        self._count(means, norms.tolist(), kept.tolist())
        if not bool(kept.any()):
            return
        # Products with a weight of 0 would not remove what is not finite.
        chosen = None if bool(kept.all()) else kept.nonzero().flatten()
        factors = (self._clip / norms[kept]).clamp(max=1.0)
        for name in list(uses):
            some = uses.pop(name)
            some = some if chosen is None else [use.kept(chosen) for use in some]
            self._sum_so_far().add_sum(name, weighted_sum(some, factors, shapes[name]))

    def _sum_one(self, gradients: Mapping[str, torch.Tensor], mean: float, counts: bool) -> None:
        norm = math.sqrt(sum(float(each.double().square().sum()) for each in gradients.values()))
        kept = math.isfinite(norm) and counts
        self._count([mean], [norm], [kept])
        if kept:
            factor = min(1.0, self._clip / norm) if norm > 0 else 1.0
            for name, each in gradients.items():
                self._sum_so_far().add_sum(name, exact(each) * factor)

    def _count(self, means: Sequence[float], norms: Sequence[float], kept: Sequence[bool]) -> None:
        self._samples += len(means)
        self._losses += [mean for mean, keep in zip(means, kept) if keep]
        self._norms += [norm for norm, keep in zip(norms, kept) if keep]


def _trained(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def _checked(found: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns what loss_fn returned as losses of samples and, for each, 1 / its number of terms; 0 if it has none, or no finite loss."""
    pair = tuple(found) if isinstance(found, (tuple, list)) else (found, None)
    if len(pair) != 2 or not torch.is_tensor(pair[0]) or pair[0].dim() != 1 or not (pair[1] is None or torch.is_tensor(pair[1])):
        refuse("a loss for each sample from loss_fn: a tensor [samples], or two of them for sums and numbers of terms",
               f"a tensor of shape {list(found.shape)}" if torch.is_tensor(found) else f"a value of type {type(found).__name__}",
               'cross_entropy(..., reduction="none") and a mean for each sample')
    losses, terms = pair
    if terms is not None and (terms.shape != losses.shape or terms.requires_grad):
        refuse("as many numbers of terms as losses, which require no gradient", f"{list(terms.shape)} for {list(losses.shape)}",
               "counting the terms of each sample from the labels")
    if not losses.requires_grad:
        refuse("losses that depend on trained parameters", "losses without a gradient", "a loss_fn without torch.no_grad() and detach()")
    terms = torch.ones_like(losses) if terms is None else terms.to(losses)
    counts = losses.detach().isfinite() & terms.isfinite() & (terms > 0)
    return losses, torch.where(counts, 1 / terms, 0)


def _expect_plain(model: nn.Module) -> None:
    for name, module in model.named_modules():
        if type(module).__name__ in WRAPPERS:
            refuse("a model of one process that is not compiled", f"{name or 'the model'}, a {type(module).__name__}", "the module inside of it")


def _expect_no_statistics(model: nn.Module) -> None:
    for name, module in model.named_modules():
        if isinstance(module, _NormBase) and module.training and (isinstance(module, _BatchNorm) or module.track_running_stats):
            refuse("layers without statistics over samples", f"{name}, a {type(module).__name__}", "LayerNorm; or eval() and requires_grad_(False) for this layer")


@contextlib.contextmanager
def _expect_still_buffers(model: nn.Module) -> Iterator[None]:
    """Raises UsageError if a buffer is changed within: it would have something of the samples, without noise."""
    before = [(name, buffer, buffer._version) for name, buffer in model.named_buffers()]
    yield
    for name, buffer, version in before:
        if buffer._version != version:
            refuse("buffers that a pass does not change", f"{name}, which was changed", "eval() of the layer that has it")


@contextlib.contextmanager
def _full_precision(device: str) -> Iterator[None]:
    """Products of float32 are computed with all of its bits."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.autocast(device, enabled=False):
            yield
    finally:
        torch.set_float32_matmul_precision(before)
