"""A proof about a training loop as it stands: one window of it is recorded and compared with what its batch asks for."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn

from accrue import _native
from accrue.devices import report_over_ranks, world
from accrue.errors import UsageError
from accrue.models import named_buffers, named_parameters, without_ranks
from accrue.packing import leaks
from accrue.report import Report
from accrue.tensors import kept, put_back
from accrue.verify import LossFn
from accrue.watching import MicroBatch, Recorder, Seen

# What is found in how a window ran explains its gradient, so that what the gradient looks like says no more.
EXPLAINS_GRADIENT = {"stepped-mid-window", "decay-per-micro-batch", "zeroed-mid-window", "clip-per-micro-batch"}


class Watch:
    """Records one window, from a `with` statement's begin to its end; see watch()."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, loss_fn: LossFn, *, usual_micro_batches: int = 0,
                 noise_draws: int = 1, seed: int = 1):
        self._model = model
        self._loss_fn = loss_fn
        self._named = _stepped(named_parameters(model, "watch"), optimizer)
        self._recorder = Recorder(model, optimizer, self._named)
        self._usual = usual_micro_batches
        self._draws, self._seed = noise_draws, seed
        self._report: Report | None = None

    def micro_batches(self, loader: Iterable) -> Iterator:
        """Hands on `loader`'s micro-batches, each as loss_fn is to get it: for models that are not called with all of one."""
        for batch in loader:
            self.tell(batch)
            yield batch

    def tell(self, batch: Any) -> None:
        """This micro-batch comes next, as loss_fn is to get it."""
        self._recorder.tell(batch)

    @property
    def report(self) -> Report:
        """The verdict, once the window is over."""
        if self._report is None:
            raise UsageError("watch", "a window that is over", "none yet", "asking for the report behind the with statement")
        return self._report

    @property
    def seen_micro_batches(self) -> list:
        """The window's micro-batches, as loss_fn got them."""
        return [micro.batch for micro in self._recorder.seen.micro_batches]

    def __enter__(self) -> "Watch":
        self._recorder.start()
        return self

    def stop(self) -> None:
        """Ends the recording, without a verdict."""
        self._recorder.stop()

    def __exit__(self, kind, error, trace) -> None:
        self.stop()
        if kind is None:
            self._report = self._judge(self._recorder.seen)

    def _judge(self, seen: Seen) -> Report:
        if len(seen.micro_batches) < 2:
            raise UsageError("watch", "a window of at least 2 micro-batches", f"{len(seen.micro_batches)} forward passes with a gradient",
                             "a with statement around all micro-batches of one optimizer step")
        self._require_calls(seen)
        behind = kept(self._model)
        try:
            put_back(self._recorder.kept)
            return self._explained(seen, self._gradient_report(seen))
        finally:
            put_back(behind)

    def _require_calls(self, seen: Seen) -> None:
        """Calls of the model are micro-batches only where each has a backward pass."""
        if self._recorder.is_told or seen.backwards in (0, 1, len(seen.micro_batches)):
            return
        raise UsageError("watch", "one call of the model for each micro-batch", f"{len(seen.micro_batches)} calls and {seen.backwards} backward passes",
                         "for micro in w.micro_batches(window), or w.tell(micro), which say what a micro-batch is")

    def _gradient_report(self, seen: Seen) -> Report:
        """The gradient that the window left, beside its micro-batches' own: each is a sample of the window."""
        if world() > 1:
            losses = [lambda micro=micro: self._loss_of([micro]) for micro in seen.micro_batches]
            left = [torch.zeros_like(tensor) if gradient is None else gradient
                    for tensor, gradient in zip(self._recorder.trained, seen.gradients)]
            return report_over_ranks(losses, self._named, left)
        described = _native.Described(
            parameters=self._named, buffers=named_buffers(self._model), batch_norms=None, evaluate=None,
            samples=len(seen.micro_batches), loss=lambda begin, end: self._loss_of(seen.micro_batches[begin:end]), loss_in_double=None)

        def leave(_: int) -> None:
            for tensor, gradient in zip(self._recorder.trained, seen.gradients):
                tensor.grad = None if gradient is None else gradient.clone()

        return Report.of(_native.verify_loop(described, leave, micro_batch=1, noise_draws=self._draws, seed=self._seed))

    def _loss_of(self, micro_batches: list[MicroBatch]) -> _native.Loss:
        losses = []
        for micro in micro_batches:
            micro.generators.restore()
            with micro.rounding.restored():
                losses.append(self._loss_fn(without_ranks(self._model), micro.batch))
            if not isinstance(losses[-1], _native.Loss):
                return losses[-1]  # whose type is refused where it arrives
        return _native.Loss(sum(loss.sum for loss in losses), sum(loss.weight for loss in losses))

    def _explained(self, seen: Seen, left: Report) -> Report:
        found = causes_of(seen)
        if self._is_short(seen, left):
            found["last-window"] = f"{len(seen.micro_batches)} micro-batches were divided by the {self._usual} of other windows"
        if leaked := leaks(without_ranks(self._model), self._loss_fn, [micro.batch for micro in seen.micro_batches]):
            found["packing-leak"] = leaked
        if not found:
            return left
        others = [] if EXPLAINS_GRADIENT & found.keys() else [cause for cause in left.causes if cause not in IMPLIED_BY.get(next(iter(found)), ())]
        told = _native.describe_causes([*found, *others], left.max_relative_error, left.bound)
        evidence = [*found.values(), *(left.evidence if others else [])]
        return Report.of(told, evidence=evidence, reference=left.reference, ruled_out=left.ruled_out if others else [],
                         left_out=left.left_out, parameters=[vars(error) for error in left.parameters])

    def _is_short(self, seen: Seen, left: Report) -> bool:
        count = len(seen.micro_batches)
        return count < self._usual and left.factor is not None and abs(left.factor * self._usual / count - 1) < 1e-3


IMPLIED_BY = {"last-window": ("normalization", "weighting", "zeroed-mid-window", "unknown")}


def causes_of(seen: Seen) -> dict[str, str]:
    """What was seen to be wrong in how a window ran: causes, each with its evidence."""
    found: dict[str, str] = {}
    of = f"of {seen.backwards}"
    if seen.changed:
        backward, name, how = seen.changed
        if how == "decayed":
            found["decay-per-micro-batch"] = f"parameter {name} had shrunk, in proportion to itself, when backward {backward + 1} {of} began"
        else:
            found["stepped-mid-window"] = f"parameter {name} had changed when backward {backward + 1} {of} began"
    elif early := [count for count in seen.steps if count < seen.backwards]:
        found["stepped-mid-window"] = f"the optimizer stepped behind backward {early[0]} {of}"
    elif len(seen.steps) > 1:
        found["stepped-mid-window"] = f"the optimizer took {len(seen.steps)} steps with the gradient of one window"
    if seen.zeroed and not found:
        found["zeroed-mid-window"] = f"the sum in .grad of {seen.zeroed[1]} was gone when backward {seen.zeroed[0] + 1} {of} began"
    if clipped := [count for count in seen.clips if count < seen.backwards]:
        found["clip-per-micro-batch"] = f"gradients were clipped behind backward {clipped[0]} {of}, and not only behind the last"
    elif seen.shrunk and not found:
        found["clip-per-micro-batch"] = f"the sum in .grad of {seen.shrunk[1]} was scaled down when backward {seen.shrunk[0] + 1} {of} began"
    if changes := [backward for backward, rates in sorted(seen.rates.items()) if rates != seen.rates[0]]:
        found["schedule-per-micro-batch"] = f"the learning rate had changed when backward {changes[0] + 1} {of} began"
    elif seen.scheduler_steps > max(1, len(seen.steps)):
        found["schedule-per-micro-batch"] = f"the schedule took {seen.scheduler_steps} steps in a window of {len(seen.steps)} optimizer steps"
    if seen.carried_over:
        found["last-window"] = f"the window began with what an earlier one left in .grad, of {seen.carried_over}"
    elif not seen.steps and not found:
        found["last-window"] = f"the gradients of {seen.backwards} micro-batches are left, and no optimizer step used them"
    return found


def _stepped(named: list[tuple[str, torch.Tensor]], optimizer: torch.optim.Optimizer) -> list[tuple[str, torch.Tensor]]:
    """The trained parameters that the optimizer holds: of a GAN or an encoder with an optimizer of its own the others are not its."""
    if isinstance(optimizer, torch.optim.LBFGS):
        raise UsageError("watch", "an optimizer that takes one gradient for each step", "LBFGS, which runs its closure several times",
                         "accrue.verify_loop of the closure")
    held = {id(tensor) for group in optimizer.param_groups for tensor in group["params"]}
    stepped = [(name, tensor) for name, tensor in named if tensor.requires_grad and id(tensor) in held]
    if not stepped:
        raise UsageError("watch", "the optimizer of the model's parameters", "one that holds none of them",
                         "making the optimizer from model.parameters(), behind what replaces them (.to(), FSDP)")
    return stepped


def watch(model: nn.Module, optimizer: torch.optim.Optimizer, loss_fn: LossFn, **options) -> Watch:
    """Proves that one window of a training loop, as it stands, takes the step of its whole batch, or names what is wrong.

        with accrue.watch(model, optimizer, loss_fn) as w:
            for micro in window: ...             # your loop: forward, backward, and the optimizer's step at the end
        print(w.report)

    `loss_fn(model, micro_batch)` returns `accrue.Loss(sum, weight)`: what the window is to be the mean of. A micro-batch is what
    the model was called with (a dict of its named arguments, or its only argument), or what `w.micro_batches(loader)` handed on.
    The window is run anew from its start, with the same random draws, to know each micro-batch's gradient; parameters, buffers,
    `.grad` and the optimizer are then what your loop left. It takes about four windows' time.

    With torch.distributed set up, all ranks watch the same window, and its gradient is compared with that of the mean over all ranks.

    usual_micro_batches   how many micro-batches other windows have: tells a short last window that was divided by them

    Raises UsageError where fewer than 2 forward passes with a gradient were seen, or the optimizer holds other parameters.
    """
    return Watch(model, optimizer, loss_fn, **options)
