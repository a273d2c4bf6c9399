"""Gradient accumulation for a loop of your own."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from accrue import _native
from accrue.batches import micro_batches as micro_batches_of
from accrue.errors import UsageError
from accrue.models import Named, batch_norm_finder, named_parameters
from accrue.optimizers import require_steps_by_itself
from accrue.options import check_function, check_group, check_options, numbers_of, whole_numbers
from accrue.ranks import ranks_of
from accrue.sharded import ShardedWindow, is_sharded
from accrue.verify import LossFn

Size = _native.Tokens | _native.Samples | None


class Accumulator:
    """backward() as often as memory wants, one step() per batch.

        acc = accrue.Accumulator(model, batch=accrue.Tokens(524_288), clip_norm=1.0)
        for micro in loader:
            acc.backward(loss_fn(model, micro))       # accrue.Loss(sum, weight)
            if acc.full():
                acc.step(optimizer)                   # mean gradient, clipping, one optimizer step
        acc.finish(optimizer)                         # a short last window, rightly weighted

    Gradients are added up in slots that `.grad` shows; the division by the total weight happens once, in step(). While a window
    is open, zero_grad() and step() by others are refused by name. Parameters that are frozen now are left out.

    model           a torch.nn.Module (DistributedDataParallel and torch.compile are looked through), its parameters() or
                    named_parameters()
    batch           accrue.Tokens(n) or accrue.Samples(n) of one optimizer step, over all ranks: what full() tells. A
                    micro-batch counts by what backward() was told; of a batch in tokens without that by its loss's weight
    micro_batches   how many of them make a window, in place of `batch`
    accumulate      the precision of sums: fp32, fp64, bf16, bf16-kahan, bf16-stochastic, fixed (same bits for any order)
    clip_norm       global norm of the mean gradient; 0: off
    watch_parameters  refuses a window in which parameters were changed between micro-batches. False for a model whose forward()
                    writes its own weights (a constraint through `.data`, an embedding with max_norm); a step() of somebody else within a
                    window then passes unseen
    replay          `replay(MicroRef) -> Loss` runs a committed micro-batch again, so that one that fails half-way (memory, a
                    gradient that is not finite) costs a replay and not the window
    measure_noise   measures the gradient's noise by the first micro-batch of each window, one more pass over the sums: noise_scale
                    and its neighbours in the report, which a BatchController decides by. With `group`, each rank's first
                    micro-batch counts, and all ranks see the same figures
    on_event        told of what happens besides (accrue.Event), with its reason
    group           accrue.join(): the ranks that share each window, with one reduction per step. A DistributedDataParallel joins
                    by itself, and no longer reduces in each backward. Parameters that fully_shard() (FSDP2) divided stay its own:
                    it reduces each backward, and the window adds up and divides once; of the options batch, micro_batches,
                    clip_norm, max_quarantined and on_event are for them
    """

    def __init__(self, model: Any, *, batch: Size = None, micro_batches: int = 0, accumulate: str = "fp32",
                 clip_norm: float = 0.0, check_finite: bool = True, watch_parameters: bool = True, max_quarantined: int = 16,
                 split_out_of_memory: bool = True, measure_noise: bool = False, replay: Callable[[_native.MicroRef], _native.Loss] | None = None,
                 on_event: Callable[[_native.Event], Any] | None = None, group: _native.Group | None = None):
        check_group("Accumulator", group, _native.Group)
        options = {"batch": batch, "micro_batches": micro_batches, "accumulate": accumulate, "clip_norm": clip_norm,
                   "check_finite": check_finite, "watch_parameters": watch_parameters, "max_quarantined": max_quarantined, "split_out_of_memory": split_out_of_memory, "measure_noise": measure_noise,
                   "replay": replay, "on_event": on_event}
        check_options("Accumulator", options, micro_batches=int, accumulate=str, clip_norm=float, check_finite=bool, watch_parameters=bool,
                      max_quarantined=int, split_out_of_memory=bool, measure_noise=bool)
        named = named_parameters(model, "Accumulator", watch_parameters)
        options["group"] = ranks_of(model, group, "Accumulator")
        if is_sharded(named):
            self._native = ShardedWindow(model, named, **options)
        else:
            self._native = _native.Accumulator(named, batch_norms=batch_norm_finder(model), **options)

    def backward(self, loss: _native.Loss | Sequence[_native.Loss], size: Size = None, sample_ids: Sequence[int] = ()) -> None:
        """Differentiates `loss.sum` and adds the gradient to the window.

        `size` says how much of the batch this micro-batch is, where the loss's weight is not in the batch's unit: of a batch in
        samples that, or `sample_ids`, is to be told. A micro-batch whose loss is not finite is quarantined, and the window goes on.
        Several losses want expect() first.
        """
        self._native.backward(loss, size, whole_numbers("backward", "sample_ids", sample_ids))

    def expect(self, totals: Sequence[float], coefficients: Sequence[float] = ()) -> None:
        """Opens a window of several losses with denominators of their own: their total weights over the window."""
        weights = numbers_of("expect", "totals", totals)
        self._native.expect(weights, numbers_of("expect", "coefficients", coefficients) or [1.0] * len(weights))

    def set_batch(self, batch: Size) -> None:
        """The batch of the windows to come, in the unit that it was stated in; between windows."""
        self._native.set_batch(batch)

    def full(self) -> bool:
        """Whether the window holds its batch (or was lost)."""
        return self._native.full()

    @property
    def pending(self) -> bool:
        """Whether a window is open."""
        return self._native.pending()

    @property
    def weight(self) -> float:
        """Terms in the losses of the open window."""
        return self._native.weight()

    def step(self, optimizer: torch.optim.Optimizer) -> _native.StepReport:
        """Closes the window: mean gradient, clipping, one step of `optimizer`."""
        require_steps_by_itself(optimizer, "Accumulator.step")
        return self._native.step(optimizer)

    def finish(self, optimizer: torch.optim.Optimizer) -> _native.StepReport:
        """step() for a short last window; `stepped` is False where nothing is pending."""
        require_steps_by_itself(optimizer, "Accumulator.finish")
        return self._native.finish(optimizer)

    def share(self, size: Size = None) -> tuple[int, int]:
        """This rank's samples (or tokens) [begin, end) of the window to come, by the ranks' speeds so far."""
        return self._native.share(size)

    def next_is_last(self) -> None:
        """Says that the next backward() is this rank's last of the window."""
        self._native.next_is_last()

    def discard(self) -> None:
        """Drops the open window, if any."""
        self._native.discard()

    @contextlib.contextmanager
    def window(self) -> Iterator["Accumulator"]:
        """A window as a scope: left without step(), by its end or an exception, it is dropped.

            with acc.window() as window:
                for micro in micro_batches:
                    window.backward(loss_fn(model, micro))
                window.step(optimizer)
        """
        if self.pending:
            raise UsageError("window", "a closed window", "an open one, and windows do not nest",
                             "step() or discard() before it")
        try:
            yield self
        finally:
            self.discard()


class AccumulatingOptimizer:
    """An optimizer that acts only when its window is full; the rest of a loop stays as it is.

        optimizer = accrue.accumulating(model, torch.optim.AdamW(model.parameters()), micro_batches=8)
        for micro in loader:
            optimizer.backward(loss_fn(model, micro))   # accrue.Loss(sum, weight)
            optimizer.step()                            # a StepReport where it acted, else None
        optimizer.finish()

    zero_grad() does nothing, as windows begin empty. A learning-rate schedule belongs behind a step that acted.
    """

    def __init__(self, accumulator: Accumulator, optimizer: torch.optim.Optimizer):
        self.accumulator = accumulator
        self.optimizer = optimizer

    def backward(self, loss: _native.Loss, size: Size = None, sample_ids: Sequence[int] = ()) -> None:
        self.accumulator.backward(loss, size, sample_ids)

    def step(self) -> _native.StepReport | None:
        return self.accumulator.step(self.optimizer) if self.accumulator.full() else None

    def finish(self) -> _native.StepReport:
        return self.accumulator.finish(self.optimizer)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Does nothing."""

    @property
    def param_groups(self) -> list[dict]:
        return self.optimizer.param_groups

    @property
    def state(self) -> dict:
        return self.optimizer.state

    def state_dict(self) -> dict:
        return self.optimizer.state_dict()

    def load_state_dict(self, state: dict) -> None:
        self.optimizer.load_state_dict(state)


def accumulating(model: Any, optimizer: torch.optim.Optimizer, micro_batches: int = 0, **options) -> AccumulatingOptimizer:
    """Wraps `optimizer` so that it acts once per window of `micro_batches`, or of `batch=` in `options` (of Accumulator)."""
    return AccumulatingOptimizer(Accumulator(model, micro_batches=micro_batches, **options), optimizer)


class _Take:
    """Takes the mean gradient in the place of a step."""

    def __init__(self, named: Named):
        self.param_groups = [{"params": [tensor for _, tensor in named]}]
        self.gradients: dict[str, torch.Tensor] = {}
        self._named = named

    def step(self) -> None:
        self.gradients.update({name: tensor.grad.clone() for name, tensor in self._named if tensor.grad is not None})


def accumulate(model: Any, batch: Any, loss_fn: LossFn, micro_batch: int, **options) -> tuple[dict[str, torch.Tensor], float]:
    """The mean gradient of a batch by parameter's name (of those that a loss reached), and its weight. `.grad` is as before."""
    check_options("accumulate", {"micro_batch": micro_batch}, micro_batch=int)
    check_function("accumulate", "loss_fn", loss_fn)
    named = [(name, tensor) for name, tensor in named_parameters(model, "accumulate") if tensor.requires_grad]
    kept = [(tensor, tensor.grad) for _, tensor in named]
    reduces = getattr(model, "require_backward_grad_sync", None)  # of a DistributedDataParallel
    take = _Take(named)
    accumulator = Accumulator(model, **options)
    try:
        for micro in micro_batches_of(batch, micro_batch):
            accumulator.backward(loss_fn(model, micro))
        return take.gradients, accumulator.step(take).weight
    finally:
        accumulator.discard()
        for tensor, grad in kept:
            tensor.grad = grad
        if reduces is not None:
            model.require_backward_grad_sync = reduces
