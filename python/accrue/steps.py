"""Optimizer steps on batches larger than memory holds at once, and plans for loops of your own."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch

from accrue import _native
from accrue.batches import batch_size, batch_slice, mapped
from accrue.errors import UsageError
from accrue.models import batch_norm_finder, named_buffers, named_parameters
from accrue.optimizers import require_steps_by_itself
from accrue.options import check_function, check_group, check_options
from accrue.ranks import ranks_of
from accrue.sharded import is_sharded
from accrue.verify import LossFn


class Stepper:
    """Steps on whole batches, one after another, each in micro-batches that fit the memory.

        stepper = accrue.Stepper(model, optimizer, clip_norm=1.0)
        for batch in loader:
            stepper.step(batch, loss_fn)

    micro_batch   samples, at most; 0: measured at the first step
    accelerate    accrue's kernels do the model's operations while a step runs, and dropout's masks follow the samples
    watch_parameters  as of an Accumulator: False where the model's forward() writes its own weights
    on_event      told of "micro_batch", "out_of_memory", "quarantined", ..., each with its reason
    group         accrue.join(): the ranks that take each step together, each with its own samples

    A micro-batch that runs out of memory is undone and run once more, then in halves, and the same batch is finished.
    """

    def __init__(self, model: Any, optimizer: torch.optim.Optimizer, *, clip_norm: float = 0.0, micro_batch: int = 0,
                 accelerate: bool = False, watch_parameters: bool = True, on_event: Callable[[_native.Event], Any] | None = None,
                 group: _native.Group | None = None):
        options = {"clip_norm": clip_norm, "micro_batch": micro_batch, "accelerate": accelerate, "watch_parameters": watch_parameters}
        check_options("step", options, clip_norm=float, micro_batch=int, accelerate=bool, watch_parameters=bool)
        check_group("step", group, _native.Group)
        self._model = model
        named = named_parameters(model, "step", watch_parameters)
        if is_sharded(named):
            raise UsageError("step", "a module whose parameters are whole", "one that fully_shard() divided", "accrue.Accumulator(model)")
        require_steps_by_itself(optimizer, "step")
        group = ranks_of(model, group, "step")
        self._optimizer = optimizer
        self._native = _native.Stepper(
            named, [tensor for _, tensor in named_buffers(model)], batch_norm_finder(model), optimizer,
            **options, on_event=on_event, group=group)

    def step(self, batch: Any, loss_fn: LossFn) -> _native.StepReport:
        """One step by the mean loss of `batch`; `loss_fn(model, micro_batch)` returns `accrue.Loss(sum, weight)`."""
        check_function("step", "loss_fn", loss_fn)
        require_steps_by_itself(self._optimizer, "step")
        return self._native.step(batch_size(batch), lambda begin, end: loss_fn(self._model, batch_slice(batch, begin, end)))

    def share(self, samples: int) -> tuple[int, int]:
        """This rank's samples [begin, end) of the next batch, which has `samples` over all ranks."""
        check_options("share", {"samples": samples}, samples=int)
        return self._native.share(samples)


def step(model: Any, optimizer: torch.optim.Optimizer, batch: Any, loss_fn: LossFn, **options) -> _native.StepReport:
    """One step of a Stepper that is made for it (options are Stepper's): the batch is what the optimisation wants.

        accrue.step(model, optimizer, batch, lambda model, micro: accrue.Loss(sum, weight))
    """
    return Stepper(model, optimizer, **options).step(batch, loss_fn)


def accumulated(model: Any, optimizer: torch.optim.Optimizer, **options) -> Callable[[LossFn], Callable[[Any], _native.StepReport]]:
    """Makes a loss function a training step.

        @accrue.accumulated(model, optimizer, clip_norm=1.0)
        def train_step(model, micro): return accrue.Loss(sum, weight)

        for batch in loader:
            report = train_step(batch)
    """
    stepper = Stepper(model, optimizer, **options)

    def decorate(loss_fn: LossFn) -> Callable[[Any], _native.StepReport]:
        @functools.wraps(loss_fn)
        def train_step(batch: Any) -> _native.StepReport:
            return stepper.step(batch, loss_fn)

        return train_step

    return decorate


def _repeated(batch: Any, samples: int) -> Any:
    """The first samples of a batch of tensors, which begins anew where it has no more."""
    rows = torch.arange(samples) % batch_size(batch)
    if torch.is_tensor(batch):
        return batch[rows.to(batch.device)]
    return mapped(batch, lambda value: _repeated(value, samples) if torch.is_tensor(value) and value.dim() else value)


def _can_repeat(batch: Any) -> bool:
    values = list(batch.values()) if isinstance(batch, Mapping) else list(batch) if isinstance(batch, (list, tuple)) else [batch]
    return all(torch.is_tensor(value) for value in values)


def plan(model: Any, batch: Any, loss_fn: LossFn, *, budget: str = "", batch_samples: int = 0, reserve_bytes: int = 0,
         progress: Callable[[str], Any] | None = None) -> _native.Plan:
    """How large micro-batches may be: the fastest size that stays within the memory, by trials of `batch`.

        plan = accrue.plan(model, batch, loss_fn, budget="6GiB")
        plan.micro_batch, plan.reason, plan.alternatives

    budget          "6GiB", "auto" (what the cgroup or the system has free), "none"
    batch_samples   samples of one optimizer step; 0: those of `batch`
    reserve_bytes   what an optimizer will hold and does not yet: of Adam before its first step twice the parameters

    `batch` should have the longest samples there are; one of tensors is repeated where larger micro-batches are tried than it
    has samples. Parameters, buffers, `.grad` and generators are put back. RefusedError says that not even one sample fits.
    """
    check_options("plan", {"budget": budget, "batch_samples": batch_samples, "reserve_bytes": reserve_bytes}, budget=str, batch_samples=int,
                  reserve_bytes=int)
    check_function("plan", "loss_fn", loss_fn)
    repeats = _can_repeat(batch)

    def run(begin: int, end: int) -> _native.Loss:
        if repeats and end > batch_size(batch):
            return loss_fn(model, _repeated(batch, end))
        return loss_fn(model, batch_slice(batch, begin, end))

    return _native.plan(named_parameters(model, "plan"), [tensor for _, tensor in named_buffers(model)], batch_norm_finder(model), run,
                        batch_size(batch), repeats=repeats, budget=budget, batch_samples=batch_samples,
                        reserve_bytes=reserve_bytes, progress=progress)
