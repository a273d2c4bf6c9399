"""Optimizer steps on batches that are larger than fits in memory at once, and plans for your own loop."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch

from accrue import _native
from accrue.batches import batch_size, batch_slice, mapped
from accrue.errors import UsageError
from accrue.models import batch_norm_finder, named_buffers, named_parameters
from accrue.optimizers import require_steps_by_itself
from accrue.options import check_count, check_function, check_group, check_options
from accrue.ranks import ranks_of
from accrue.sharded import is_sharded
from accrue.verify import LossFn


class Stepper:
    """Steps on whole batches, one after another. Each batch runs in micro-batches that fit the memory.

        stepper = accrue.Stepper(model, optimizer, clip_norm=1.0)
        for batch in loader:
            stepper.step(batch, loss_fn)

    A micro-batch that runs out of memory is undone and run once more, then in halves, and the step is completed with the same batch.

    Args:
        model: a `torch.nn.Module`, or its parameters. Parameters that fully_shard() sharded are refused.
        optimizer: a `torch.optim.Optimizer` of its parameters.
        clip_norm: the largest global norm of the mean gradient. 0: no clipping.
        micro_batch: the largest number of samples in a micro-batch. None: measured at the first step.
        accelerate: runs the model's operations in accrue's kernels during a step, with dropout masks that depend on the samples and not
            on the split.
        watch_parameters: as for Accumulator. Set it to False if the model's `forward()` writes its own weights.
        on_event: called with an `accrue.Event` for "micro_batch", "out_of_memory", "quarantined" and others, each with its reason.
        group: the ranks that take each step together, from `accrue.join()`. Each rank passes its own samples.

    Raises:
        UsageError: an option has the wrong type, the model has nothing to train, or the optimizer cannot take a window's gradient.
    """

    def __init__(self, model: Any, optimizer: torch.optim.Optimizer, *, clip_norm: float = 0.0, micro_batch: int | None = None,
                 accelerate: bool = False, watch_parameters: bool = True, on_event: Callable[[_native.Event], Any] | None = None,
                 group: _native.Group | None = None):
        check_count("step", "micro_batch", micro_batch)
        options = {"clip_norm": clip_norm, "micro_batch": micro_batch or 0, "accelerate": accelerate, "watch_parameters": watch_parameters}
        check_options("step", options, clip_norm=float, accelerate=bool, watch_parameters=bool)
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
        """Takes one optimizer step with the gradient of the mean loss of `batch`.

        Args:
            batch: the samples of the step (see accrue.batches); with `group`, this rank's.
            loss_fn: `loss_fn(model, micro_batch)` returns `accrue.Loss(sum, weight)`.

        Returns:
            The StepReport. Its `retries` counts how often memory ran out.

        Raises:
            UsageError: loss_fn is no function or returns no Loss, or the optimizer cannot take a window's gradient.
            RefusedError: not even one sample fits the memory.
        """
        check_function("step", "loss_fn", loss_fn)
        require_steps_by_itself(self._optimizer, "step")
        return self._native.step(batch_size(batch), lambda begin, end: loss_fn(self._model, batch_slice(batch, begin, end)))

    def share(self, samples: int) -> tuple[int, int]:
        """Returns this rank's part [begin, end), in samples, of the next batch, which has `samples` samples over all ranks."""
        check_options("share", {"samples": samples}, samples=int)
        return self._native.share(samples)


def step(model: Any, optimizer: torch.optim.Optimizer, batch: Any, loss_fn: LossFn, **options) -> _native.StepReport:
    """Takes one optimizer step on a batch of any size, with a Stepper that is made for this step.

        accrue.step(model, optimizer, batch, lambda model, micro: accrue.Loss(sum, weight))

    Args:
        model, optimizer, options: as for Stepper.
        batch, loss_fn: as for Stepper.step().

    Returns:
        The StepReport.

    Raises:
        UsageError, RefusedError: as for Stepper and Stepper.step().
    """
    return Stepper(model, optimizer, **options).step(batch, loss_fn)


def accumulated(model: Any, optimizer: torch.optim.Optimizer, **options) -> Callable[[LossFn], Callable[[Any], _native.StepReport]]:
    """Returns a decorator that turns a loss function into a training step.

        @accrue.accumulated(model, optimizer, clip_norm=1.0)
        def train_step(model, micro): return accrue.Loss(sum, weight)

        for batch in loader:
            report = train_step(batch)

    Args:
        model, optimizer, options: as for Stepper.
    """
    stepper = Stepper(model, optimizer, **options)

    def decorate(loss_fn: LossFn) -> Callable[[Any], _native.StepReport]:
        @functools.wraps(loss_fn)
        def train_step(batch: Any) -> _native.StepReport:
            return stepper.step(batch, loss_fn)

        return train_step

    return decorate


def _repeated(batch: Any, samples: int) -> Any:
    """Returns `samples` samples of a batch of tensors, which is repeated if it has fewer."""
    rows = torch.arange(samples) % batch_size(batch)
    if torch.is_tensor(batch):
        return batch[rows.to(batch.device)]
    return mapped(batch, lambda value: _repeated(value, samples) if torch.is_tensor(value) and value.dim() else value)


def _can_repeat(batch: Any) -> bool:
    values = list(batch.values()) if isinstance(batch, Mapping) else list(batch) if isinstance(batch, (list, tuple)) else [batch]
    return all(torch.is_tensor(value) for value in values)


def plan(model: Any, batch: Any, loss_fn: LossFn, *, budget: str = "", batch_samples: int = 0, reserve_bytes: int = 0,
         progress: Callable[[str], Any] | None = None) -> _native.Plan:
    """Finds the fastest micro-batch size that stays within the memory, by trials with `batch`.

        plan = accrue.plan(model, batch, loss_fn, budget="6GiB")
        plan.micro_batch, plan.reason, plan.alternatives

    Parameters, buffers, `.grad` and random generators are restored afterwards.

    Args:
        model: a `torch.nn.Module`, or its parameters.
        batch: samples for the trials, which should be the longest ones. A batch of tensors is repeated if a trial needs more samples than it
            has; for other batches, no trial has more.
        loss_fn: `loss_fn(model, micro_batch)` returns `accrue.Loss(sum, weight)`.
        budget: "6GiB", "auto" (what the cgroup or the system has free), or "none". Empty: the budget of install_allocator(), or, if there is
            none, about half of the free memory.
        batch_samples: the effective batch size in samples. 0: the number of samples in `batch`.
        reserve_bytes: bytes that the optimizer will hold and does not hold yet: for Adam before its first step, twice the parameters.
        progress: called with a line of text for each trial.

    Returns:
        A Plan.

    Raises:
        UsageError: the batch is empty, loss_fn changes a parameter, or its losses are not sums.
        RefusedError: not even one sample fits.
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
