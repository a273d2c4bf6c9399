"""Runs a window's micro-batches again, each with everything it read restored: parameters, buffers, modes, generators, and objects outside the
model.
"""

import contextlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as modules

from accrue import _native
from accrue.devices import VANISHING
from accrue.errors import NotJudged
from accrue.models import without_ranks
from accrue.tensors import norm
from accrue.watching import Hook, MicroBatch, Recorder, micro_batch_of

# Factors of a loss, none a power of two: with each, every product of the backward pass rounds differently.
SCALES = [(129 + 2 * (37 * place % 64)) / 256 for place in range(1, 17)]
# Gradients of all micro-batches are kept up to this number of bytes; beyond it they are computed again for each use.
MOST_BYTES_KEPT = 1 << 30
# Half a loss gives half its gradient, except for numbers that underflow (fp16).
MOST_UNSCALED = 1e-2


class _Known(torch.autograd.Function):
    """A loss whose gradient is known already."""

    @staticmethod
    def forward(ctx, value, gradients, *trained):
        ctx.gradients = gradients
        return value.clone()

    @staticmethod
    def backward(ctx, upstream):
        return None, None, *[gradient * upstream for gradient in ctx.gradients]


class Replay:
    """Gradients of a window's micro-batches by loss_fn, at the current values of the trained parameters.

    Each micro-batch's gradient is computed in its own pass, from the state in which the micro-batch began. So micro-batches may run in any order,
    buffers that carry over from one to the next have their old values, and re-entrant checkpoints and in-place changes of saved tensors do no
    harm. As in the user's loop, losses are divided by the window's weight before they are differentiated, so that a hook that clamps sees gradients
    of the usual size.
    """

    def __init__(self, model: nn.Module, loss_fn: Any, recorder: Recorder):
        self._model = model
        self._loss_fn = loss_fn
        self._trained = recorder.trained
        self._before = recorder.before
        self._micro_batches: list[MicroBatch] = recorder.seen.micro_batches
        self._by_backward = False  # whether a re-entrant checkpoint needs backward() instead of grad()
        self._kept: dict[int, tuple] = {}
        self._passes = 0
        self.other_inputs = ""  # set if loss_fn calls the model with other tensors than the loop did
        gradients = sum(tensor.numel() * tensor.element_size() for tensor in self._trained)
        self._keeps = gradients * len(self._micro_batches) <= MOST_BYTES_KEPT
        self.weight = 0.0
        for micro in self._micro_batches:
            loss = self._loss_of(micro)  # with a graph, which a penalty on the gradient needs
            if not isinstance(loss, _native.Loss):
                break  # the type is refused by the prover
            self.weight += loss.weight

    def loss(self, begin: int, end: int) -> _native.Loss:
        """Returns the Loss of micro-batches [begin, end) as the prover needs it: a sum that can be differentiated once, and its weight."""
        total, weight = torch.zeros((), dtype=torch.float64), 0.0
        sums = [torch.zeros_like(tensor, dtype=torch.float64) for tensor in self._trained]
        for place in range(begin, end):
            run = self._run(place)
            if isinstance(run, tuple):
                value, of_one, gradients = run
            else:
                return run
            total = total + value
            weight += of_one
            for each, gradient in zip(sums, gradients):
                each += gradient.double() * (self.weight or 1.0)
        gradients = [each.to(tensor.dtype) for each, tensor in zip(sums, self._trained)]
        return _native.Loss(_Known.apply(total, gradients, *self._trained), weight)

    def gradients(self, place: int) -> list[torch.Tensor]:
        """Returns the gradients of a micro-batch's loss / the window's weight."""
        return self._run(place)[2]

    def repeats(self, place: int) -> bool:
        """Returns whether a micro-batch gives the same gradient twice."""
        return _distance(self._gradients(place, 1.0), self._gradients(place, 1.0)) <= MOST_UNSCALED

    def is_linear(self, place: int) -> bool:
        """Returns whether half the loss gives half the gradient. It does not if a hook clips or normalises each backward pass."""
        whole = self._run(place)[2]
        return _distance([2 * gradient for gradient in self._gradients(place, 0.5)], whole) <= MOST_UNSCALED

    def _run(self, place: int) -> Any:
        is_at_start = all(torch.equal(tensor.detach(), before) for tensor, before in zip(self._trained, self._before))
        if is_at_start and place in self._kept:
            return self._kept[place]
        scale = 1.0
        if not is_at_start:
            self._passes += 1
            scale = SCALES[self._passes % len(SCALES)]
        run = self._differentiated(place, scale)
        if isinstance(run, tuple) and is_at_start and self._keeps:
            self._kept[place] = run
        return run

    def _gradients(self, place: int, scale: float) -> list[torch.Tensor]:
        return self._differentiated(place, scale, undo=False)[2]

    def _differentiated(self, place: int, scale: float, undo: bool = True) -> Any:
        """Returns the loss's sum and weight, and the gradient of sum / the window's weight. `undo`: removes the scale from it."""
        loss = self._loss_of(self._micro_batches[place])
        if not isinstance(loss, _native.Loss):
            return loss
        value = loss.sum.detach().double().cpu()
        if not loss.sum.requires_grad:
            return value, loss.weight, [torch.zeros_like(tensor) for tensor in self._trained]
        scaled = loss.sum * (scale / (self.weight or 1.0))
        if self._by_backward:
            gradients = self._by_accumulation(scaled)
        else:
            try:
                gradients = torch.autograd.grad(scaled, self._trained, allow_unused=True)
            except RuntimeError as error:
                if "use_reentrant" not in str(error):
                    raise
                self._by_backward = True
                return self._differentiated(place, scale, undo)
        factor = 1 / scale if undo else 1.0
        return value, loss.weight, [torch.zeros_like(tensor) if gradient is None else gradient.detach().to_dense() * factor
                                    for tensor, gradient in zip(self._trained, gradients)]

    def _by_accumulation(self, loss: torch.Tensor) -> list[torch.Tensor | None]:
        """Computes gradients by `.grad`, without the hooks that report them (optimizers that step within backward)."""
        with contextlib.ExitStack() as open_:
            for tensor in {id(each): each for each in (*self._model.parameters(), *self._trained)}.values():
                open_.callback(setattr, tensor, "grad", tensor.grad)
                tensor.grad = None
                hooks = getattr(tensor, "_post_accumulate_grad_hooks", None)
                if hooks:
                    open_.callback(hooks.update, dict(hooks))
                    hooks.clear()
            loss.backward()
            return [tensor.grad for tensor in self._trained]

    def _loss_of(self, micro: MicroBatch) -> Any:
        failures = micro.state.restore() + micro.generators.restore()
        if failures:
            raise NotJudged(f"what a micro-batch began with could not be put back for its second run: {failures[0]}",
                            "a loss_fn that leaves it alone")
        first = micro.first
        if first is None:
            return self._loss_fn(without_ranks(self._model), micro.batch)
        for part, training in first.modes:
            part.training = training
        with first.rounding.restored(), self._as_called(micro):
            return self._loss_fn(without_ranks(self._model), micro.batch)

    def _as_called(self, micro: MicroBatch) -> contextlib.ExitStack:
        """While open, restores generators at each call of the model to their state at that call of the loop.

        Before the call, a loop may draw what loss_fn does not (augmentation), and loss_fn may draw what the loop drew (noise, times).
        """
        open_ = contextlib.ExitStack()
        parts = {id(part) for part in self._model.modules()}
        whole = {id(self._model), id(without_ranks(self._model))}
        calls = iter(micro.calls)
        awaits_part = [micro.first is not None and not micro.calls]

        def called(part: nn.Module, args: tuple, kwargs: dict) -> None:
            moment = next(calls, None)
            if moment is not None:
                moment.generators.restore()
                self._compare_inputs(moment.inputs, args, kwargs)

        def part_called(part: nn.Module, _: tuple) -> None:
            if awaits_part[0] and id(part) in parts and id(part) not in whole:
                awaits_part[0] = False
                micro.first.generators.restore()

        open_.callback(without_ranks(self._model).register_forward_pre_hook(Hook(called), with_kwargs=True).remove)
        open_.callback(modules.register_module_forward_pre_hook(Hook(part_called)).remove)
        return open_

    def _compare_inputs(self, expected: Any, args: tuple, kwargs: dict) -> None:
        received = micro_batch_of(without_ranks(self._model), args, kwargs)
        name = _other(expected, received)
        if name is not None:
            self.other_inputs = self.other_inputs or f"loss_fn calls the model with another {name} than the loop did"


def _other(expected: Any, received: Any) -> str | None:
    """Returns the name of the first tensor that both have and that differs. A loop may give a model more than its loss needs (labels), or less."""
    if torch.is_tensor(expected) and torch.is_tensor(received):
        if expected.is_nested or received.is_nested:
            return _other_parts(expected, received)
        is_same = expected.shape == received.shape and torch.equal(expected.to(received), received.detach())
        return None if is_same else "input"
    if isinstance(expected, Mapping) and isinstance(received, Mapping):
        return next((str(name) for name in expected if name in received and _other(expected[name], received[name])), None)
    if isinstance(expected, Mapping) and torch.is_tensor(received) and expected:
        return _other(next(iter(expected.values())), received)
    if torch.is_tensor(expected) and isinstance(received, Mapping) and received:
        return _other(expected, next(iter(received.values())))
    return None


def _other_parts(expected: torch.Tensor, received: torch.Tensor) -> str | None:
    """Compares nested tensors by their parts; torch cannot compare them whole."""
    parts = [list(tensor.unbind()) for tensor in (expected, received)]
    return "input" if len(parts[0]) != len(parts[1]) or any(_other(a, b) for a, b in zip(*parts)) else None


def _distance(some: list[torch.Tensor], others: list[torch.Tensor]) -> float:
    """Returns the relative difference of the tensor that differs most. A tensor that nearly vanishes is compared with a part of the usual size."""
    elements = sum(b.numel() for b in others)
    usual = (sum(norm(b) ** 2 for b in others) / max(elements, 1)) ** 0.5
    return max(norm(a - b) / max(norm(b), VANISHING * usual * b.numel() ** 0.5, 1e-300) for a, b in zip(some, others))
