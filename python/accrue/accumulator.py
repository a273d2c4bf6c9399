"""Gradient accumulation for your own training loop."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from accrue import _native
from accrue.batches import micro_batches as micro_batches_of
from accrue.errors import UsageError
from accrue.models import Named, batch_norm_finder, named_parameters
from accrue.optimizers import require_steps_by_itself
from accrue.options import check_count, check_function, check_group, check_options, numbers_of, whole_numbers
from accrue.ranks import ranks_of
from accrue.sharded import ShardedWindow, is_sharded
from accrue.verify import LossFn

Size = _native.Tokens | _native.Samples | None


class Accumulator:
    """Exact gradient accumulation: call `backward()` once per micro-batch and `step()` once per batch.

        acc = accrue.Accumulator(model, batch=accrue.Tokens(524_288), clip_norm=1.0)
        for micro in loader:
            acc.backward(loss_fn(model, micro))       # accrue.Loss(sum, weight)
            if acc.full():
                acc.step(optimizer)                   # mean gradient, clipping, one optimizer step
        acc.finish(optimizer)                         # a short last window, weighted correctly

    A window is the set of micro-batches of one optimizer step. Their gradients are summed in slots that `.grad` shows. `step()` divides
    the sums once, by the total weight. While a window is open, `zero_grad()` and `step()` by other code are refused with a UsageError.
    Parameters that are frozen at construction are left out.

    Args:
        model: a `torch.nn.Module` (DistributedDataParallel and torch.compile wrappers are unwrapped), or its `parameters()` or
            `named_parameters()`.
        batch: the effective batch size of one optimizer step over all ranks, as `accrue.Tokens(n)` or `accrue.Samples(n)`; `full()`
            compares with it. A micro-batch counts by the size that `backward()` was given. Without one, it counts by its loss's
            weight if the batch is in tokens.
        micro_batches: the number of this rank's micro-batches in a window (gradient accumulation steps), instead of `batch`. Without
            either, you decide when to call `step()`, and `full()` is refused.
        accumulate: the precision of the sums: "fp32", "fp64", "bf16", "bf16-kahan", "bf16-stochastic", or "fixed" (the same bits for
            any order).
        clip_norm: the largest global norm of the mean gradient. 0: no clipping.
        check_finite: computes the norm of the mean gradient. If it is not finite, the micro-batches that caused this are found by
            `replay` and quarantined; without `replay` the window is dropped.
        watch_parameters: refuses a window in which parameters were changed between micro-batches. Set it to False for a model whose
            `forward()` writes its own weights (a constraint through `.data`, an embedding with max_norm). A `step()` by other code
            within a window is then not noticed.
        max_quarantined: how many micro-batches of a window, over all ranks, may be quarantined (left out because their loss or
            gradient is not finite). One more raises a RunError.
        split_out_of_memory: if a micro-batch with `sample_ids` runs out of memory, `replay` runs it once more, then in halves.
        replay: `replay(MicroRef) -> Loss`, which runs the forward pass of a committed micro-batch again. With it, a micro-batch that
            fails half-way (out of memory, a gradient that is not finite) costs a replay and not the window.
        measure_noise: measures the gradient noise scale from the first micro-batch of each window, at the cost of one more pass over
            the sums. The report then has `noise_scale`, its interval and `gradient_variance`, which a BatchController uses. With
            `group`, each rank's first micro-batch counts, and all ranks see the same figures.
        on_event: called with an `accrue.Event` (name, reason, step) for everything else that happens, for example a quarantined
            micro-batch.
        group: the ranks that share each window, from `accrue.join()`. Gradients are all-reduced once per step. A
            DistributedDataParallel joins by itself, and no longer reduces in each backward pass. Parameters that `fully_shard()`
            (FSDP2) sharded are still reduced in each backward pass; the window sums over micro-batches and divides once. For them,
            only `batch`, `micro_batches`, `clip_norm`, `max_quarantined` and `on_event` are supported.

    Raises:
        UsageError: an option has the wrong type, options contradict each other, the model has nothing to train, or a parameter
            belongs to an open window.
    """

    def __init__(self, model: Any, *, batch: Size = None, micro_batches: int | None = None, accumulate: str = "fp32",
                 clip_norm: float = 0.0, check_finite: bool = True, watch_parameters: bool = True, max_quarantined: int = 16,
                 split_out_of_memory: bool = True, measure_noise: bool = False, replay: Callable[[_native.MicroRef], _native.Loss] | None = None,
                 on_event: Callable[[_native.Event], Any] | None = None, group: _native.Group | None = None):
        check_group("Accumulator", group, _native.Group)
        check_count("Accumulator", "micro_batches", micro_batches)
        options = {"batch": batch, "micro_batches": micro_batches or 0, "accumulate": accumulate, "clip_norm": clip_norm,
                   "check_finite": check_finite, "watch_parameters": watch_parameters, "max_quarantined": max_quarantined, "split_out_of_memory": split_out_of_memory, "measure_noise": measure_noise,
                   "replay": replay, "on_event": on_event}
        check_options("Accumulator", options, accumulate=str, clip_norm=float, check_finite=bool, watch_parameters=bool,
                      max_quarantined=int, split_out_of_memory=bool, measure_noise=bool)
        self._has_size = batch is not None or micro_batches is not None
        named = named_parameters(model, "Accumulator", watch_parameters)
        options["group"] = ranks_of(model, group, "Accumulator")
        if is_sharded(named):
            self._native = ShardedWindow(model, named, **options)
        else:
            self._native = _native.Accumulator(named, batch_norms=batch_norm_finder(model), **options)

    def backward(self, loss: _native.Loss | Sequence[_native.Loss], size: Size = None, sample_ids: Sequence[int] = ()) -> None:
        """Differentiates `loss.sum` and adds the gradient to the window; opens a window if none is open.

        A micro-batch whose loss is not finite is quarantined, and the window continues.

        Args:
            loss: the micro-batch's `Loss`, or a sequence of them in a window that `expect()` opened.
            size: `Tokens(n)` or `Samples(n)`: how much of the batch this micro-batch is, if the loss's weight is not in the batch's unit.
                If the batch is in samples, `size` or `sample_ids` is required.
            sample_ids: the ids of the micro-batch's samples, one whole number each.

        Raises:
            UsageError: the size is missing or in the other unit, or other code changed parameters or sums in the window, which loses it.
            RunError: more than `max_quarantined` micro-batches were quarantined.
            RefusedError: memory ran out, and not even one sample fits.
        """
        self._native.backward(loss, size, whole_numbers("backward", "sample_ids", sample_ids))

    def expect(self, totals: Sequence[float], coefficients: Sequence[float] = ()) -> None:
        """Opens a window of several losses, each of which is a mean over its own terms: the total is the sum of c_i * S_i / W_i.

        Args:
            totals: the total weight W_i of each loss over the window, counted from the labels. Each rank passes its own.
            coefficients: the factor c_i of each loss. Empty: 1 for each.

        Raises:
            UsageError: a window is open, or a value is not a finite number or depends on parameters.
        """
        weights = numbers_of("expect", "totals", totals)
        self._native.expect(weights, numbers_of("expect", "coefficients", coefficients) or [1.0] * len(weights))

    def set_batch(self, batch: Size) -> None:
        """Sets the effective batch size of the following windows, in the unit in which it was stated at construction.

        Raises:
            UsageError: a window is open, or the unit is another one.
        """
        self._native.set_batch(batch)

    def full(self) -> bool:
        """Returns whether the window holds its batch. True also if the window was lost; `step()` then reports it.

        Raises:
            UsageError: no size of a window is stated: neither `batch` nor `micro_batches` at construction, nor a size to `share()`.
        """
        if not self._has_size:
            raise UsageError("full", "an Accumulator with the size of its windows", "one without batch and micro_batches",
                             "Accumulator(model, batch=accrue.Samples(256)), or step() without asking full()")
        return self._native.full()

    @property
    def has_size(self) -> bool:
        """Whether the size of a window is stated, so that `full()` can compare with it."""
        return self._has_size

    @property
    def pending(self) -> bool:
        """Whether a window is open."""
        return self._native.pending()

    @property
    def weight(self) -> float:
        """The total weight (number of loss terms) of the micro-batches in the open window."""
        return self._native.weight()

    def step(self, optimizer: torch.optim.Optimizer) -> _native.StepReport:
        """Closes the window: mean gradient, clipping, and one step of `optimizer`.

        Returns:
            The `StepReport`. Its `stepped` is False if the window was dropped or its total weight is 0; nothing was changed then.

        Raises:
            UsageError: no window is open, the optimizer needs a closure (LBFGS, SAM), is a GradScaler, or accumulates or scales losses
                by itself (Accelerate), or other code changed the window.
        """
        require_steps_by_itself(optimizer, "Accumulator.step")
        return self._native.step(optimizer)

    def finish(self, optimizer: torch.optim.Optimizer) -> _native.StepReport:
        """Does `step()` for a short last window. If no window is open, it returns a report with `stepped` False.

        With several ranks it returns when all ranks have called it. Until then, this rank takes part in the steps of the others.
        """
        require_steps_by_itself(optimizer, "Accumulator.finish")
        return self._native.finish(optimizer)

    def share(self, size: Size = None) -> tuple[int, int]:
        """Returns this rank's part [begin, end) of the next window's batch, in samples (or tokens), from the ranks' speeds measured so far.

        Args:
            size: the batch over all ranks, as `Samples(n)` or `Tokens(n)`. None: the accumulator's `batch`.

        Raises:
            UsageError: a window is open, or no size is known.
        """
        share = self._native.share(size)
        self._has_size = True
        return share

    def next_is_last(self) -> None:
        """Announces that the next `backward()` is this rank's last of the window, so that its gradients can be reduced meanwhile."""
        self._native.next_is_last()

    def discard(self) -> None:
        """Drops the open window, if there is one."""
        self._native.discard()

    @contextlib.contextmanager
    def window(self) -> Iterator["Accumulator"]:
        """Returns a context manager for one window. If the block ends without `step()`, normally or by an exception, the window is dropped.

            with acc.window() as window:
                for micro in micro_batches:
                    window.backward(loss_fn(model, micro))
                window.step(optimizer)

        Raises:
            UsageError: a window is open already.
        """
        if self.pending:
            raise UsageError("window", "a closed window", "an open one, and windows do not nest",
                             "step() or discard() before it")
        try:
            yield self
        finally:
            self.discard()


class AccumulatingOptimizer:
    """An optimizer that steps only when its window is full, so that the rest of a loop stays as it is. Made by `accumulating()`.

        optimizer = accrue.accumulating(model, torch.optim.AdamW(model.parameters()), micro_batches=8)
        for micro in loader:
            optimizer.backward(loss_fn(model, micro))   # accrue.Loss(sum, weight)
            optimizer.step()                            # a StepReport if it stepped, otherwise None
        optimizer.finish()

    `backward()` and `finish()` are those of Accumulator. `zero_grad()` does nothing, because windows begin empty. `param_groups`, `state`,
    `state_dict()` and `load_state_dict()` are those of the wrapped optimizer. Step a learning-rate schedule only after a step that was taken.

    Args:
        accumulator: the Accumulator of the optimizer's parameters, with a `batch` or `micro_batches`.
        optimizer: the `torch.optim.Optimizer` that takes the steps.

    Raises:
        UsageError: the accumulator has neither, so that no window would ever be full.
    """

    def __init__(self, accumulator: Accumulator, optimizer: torch.optim.Optimizer):
        if not accumulator.has_size:
            raise UsageError("accumulating", "the size of a window", "neither micro_batches nor batch",
                             "accumulating(model, optimizer, micro_batches=8), or batch=accrue.Samples(256)")
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


def accumulating(model: Any, optimizer: torch.optim.Optimizer, micro_batches: int | None = None, **options) -> AccumulatingOptimizer:
    """Wraps `optimizer` so that it steps once per window.

    Args:
        model: the model, as for Accumulator.
        optimizer: a `torch.optim.Optimizer` of the model's parameters.
        micro_batches: the number of micro-batches in a window. None: `batch=` in `options` is the size of a window.
        options: further options of Accumulator.

    Raises:
        UsageError: neither `micro_batches` nor `batch=` is stated, or as for Accumulator.
    """
    return AccumulatingOptimizer(Accumulator(model, micro_batches=micro_batches, **options), optimizer)


class _Take:
    """Takes the mean gradient in place of an optimizer step."""

    def __init__(self, named: Named):
        self.param_groups = [{"params": [tensor for _, tensor in named]}]
        self.gradients: dict[str, torch.Tensor] = {}
        self._named = named

    def step(self) -> None:
        self.gradients.update({name: tensor.grad.clone() for name, tensor in self._named if tensor.grad is not None})


def accumulate(model: Any, batch: Any, loss_fn: LossFn, micro_batch: int, **options) -> tuple[dict[str, torch.Tensor], float]:
    """Returns the mean gradient of a batch, computed in micro-batches. `.grad` is left as it was.

    Args:
        model: the model, as for Accumulator.
        batch: the whole batch (see accrue.batches).
        loss_fn: `loss_fn(model, micro_batch)` returns `accrue.Loss(sum, weight)`.
        micro_batch: samples in a micro-batch; the last one may have fewer.
        options: further options of Accumulator.

    Returns:
        The gradient of each parameter by its name, of the parameter's shape, without parameters that no loss reached; and the total weight.

    Raises:
        UsageError: an argument has the wrong type, or as for Accumulator.
    """
    check_count("accumulate", "micro_batch", micro_batch, required=True)
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
