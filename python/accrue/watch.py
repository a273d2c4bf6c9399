"""Proof of one window of a training loop as it stands: the window is recorded, and its gradient compared with that of its whole batch."""

import contextlib
import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import nn

from accrue import _native
from accrue.copies import Copies, check_copies
from accrue.devices import first_of_ranks, on_all_ranks, report_over_ranks, world
from accrue.errors import NotJudged, UsageError
from accrue.judged_changes import OF_MEASURED, Gradients, OwnChanges, as_meant
from accrue.models import named_buffers, named_parameters, without_ranks
from accrue.own_changes import NONE
from accrue.packing import leaks
from accrue.replaying import Replay
from accrue.report import Report, as_left, not_judged, unjudged
from accrue.untouched import require_restorable, untouched
from accrue.verify import LossFn
from accrue.watching import Recorder, Seen, plain_optimizer, unrecorded

# Causes seen in how a window ran that explain its gradient: causes derived from the gradient itself then add nothing.
EXPLAINS_GRADIENT = {"stepped-mid-window", "decay-per-micro-batch", "zeroed-mid-window", "clip-per-micro-batch"}
# Causes that are no fault if the gradient is right: a loop may keep its sums elsewhere, and scale them as they grow.
HARMLESS_WHERE_RIGHT = {"zeroed-mid-window", "clip-per-micro-batch"}


class Watch:
    """Records one window, from the begin of a `with` statement to its end; made by watch().

    Args:
        model, optimizer, loss_fn, usual_micro_batches, copies: as for watch().
        noise_draws: the number of passes that measure rounding.
        seed: the seed of torch's generator in each pass.
    """

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, loss_fn: LossFn, *, usual_micro_batches: int = 0,
                 noise_draws: int = 1, seed: int = 1, copies: Copies | None = None):
        self._model = model
        self._loss_fn = loss_fn
        with on_all_ranks("watch"):
            require_restorable(model, "watch")
            plain = plain_optimizer(optimizer)
            if plain is None:
                raise UsageError("watch", "an optimizer of torch.optim, or what holds one", f"a value of type {type(optimizer).__name__}",
                                 "accrue.verify_loop of the loop's gradients")
            self._named = _stepped(named_parameters(model, "watch"), plain)
        self._recorder = Recorder(model, plain, self._named, (model, loss_fn), check_copies("watch", copies))
        self._usual = usual_micro_batches
        self._draws, self._seed = noise_draws, seed
        self._report: Report | None = None

    def micro_batches(self, loader: Iterable) -> Iterator:
        """Yields the micro-batches of `loader`, and records each as what loss_fn gets.

        Needed if the model is not called with everything that loss_fn needs.
        """
        for batch in loader:
            self.tell(batch)
            yield batch

    def tell(self, batch: Any) -> None:
        """Announces `batch` as the next micro-batch, in the form that loss_fn takes."""
        self._recorder.tell(batch)

    @property
    def report(self) -> Report:
        """The Report of the window. Raises UsageError before the window is over."""
        if self._report is None:
            raise UsageError("watch", "a window that is over", "none yet", "asking for the report behind the with statement")
        return self._report

    @property
    def model(self) -> nn.Module:
        return self._model

    def judge_by(self, loss_fn: LossFn) -> None:
        """Judges the window by this loss function. For losses that are known only after the window."""
        self._loss_fn = loss_fn

    @property
    def seen_micro_batches(self) -> list:
        """The window's micro-batches, in the form that loss_fn takes."""
        return [micro.batch for micro in self._recorder.seen.micro_batches]

    def __enter__(self) -> "Watch":
        self._recorder.start()
        return self

    def stop(self) -> None:
        """Ends the recording without a verdict."""
        self._recorder.stop()

    def __exit__(self, kind, error, trace) -> None:
        self.stop()
        try:
            if kind is None:
                self._report = self._judge(self._recorder.seen)
        finally:
            self._recorder.release()

    def _judge(self, seen: Seen) -> Report:
        if failure := first_of_ranks((seen.failure, seen.instead) if seen.failure else None):
            rank, (reason, instead) = failure
            return not_judged(f"the window could not be recorded: {reason}" + (f", on rank {rank}" if world() > 1 else ""), instead)
        if broken := first_of_ranks(self._broken_by(seen)):
            told = _native.describe_causes(["stepped-mid-window"], 1.0, 0.0)
            return Report.of(told, evidence=[broken[1], "after that gradients were not finite, so nothing was compared"])
        with on_all_ranks("watch"):
            self._require_window(seen)
        states = [micro.state for micro in seen.micro_batches]
        if used_up := first_of_ranks(min(set().union(*(state.used_up for state in states)), default=None)):
            return not_judged(f"the model or loss_fn reads a {used_up[1]}, which a second run of a micro-batch would use up",
                              "a list or a function of the step in its place")
        # Also what the model and the loss reached in the window but no longer reach: micro-batches run again with it.
        roots = itertools.chain((self._model, self._loss_fn), *(state.owned() for state in states))
        failures: list[str] = []
        try:
            with contextlib.ExitStack() as open_:
                # If one rank has no memory for copies, no rank makes them.
                with on_all_ranks("watch"):
                    failures = open_.enter_context(untouched(roots, everything=True, account=self._recorder.account, earlier=states[-1]))
                open_.enter_context(unrecorded())
                # Compiled code runs eagerly: hooks would cause a recompilation for each micro-batch.
                open_.enter_context(torch.compiler.set_stance("force_eager"))
                with torch.no_grad():
                    for tensor, before in zip(self._recorder.trained, self._recorder.before):
                        tensor.requires_grad_(True)
                        tensor.data.copy_(before)
                open_.enter_context(self._hooked(seen))
                report = self._explained(seen, _with_known_factor(self._gradient_report(seen), len(seen.micro_batches)))
        except NotJudged as why:
            report = unjudged(why)
        return as_left(report, failures)

    @contextlib.contextmanager
    def _hooked(self, seen: Seen) -> Iterator[None]:
        """Puts back hooks on parameters that ran in the window and that the loop has removed since."""
        with contextlib.ExitStack() as open_:
            for place, hooks in seen.hooks.items():
                tensor = self._recorder.trained[place]
                for hook in [hook for hook in hooks if hook not in (tensor._backward_hooks or {}).values()]:
                    open_.callback(tensor.register_hook(hook).remove)
            yield

    def _broken_by(self, seen: Seen) -> str | None:
        """Returns the evidence of a step in the middle of the window, if gradients after it are not finite: with a loss scale such a step may diverge."""
        is_finite = all(bool(torch.isfinite(gradient).all()) for gradient in seen.gradients or [] if gradient is not None)
        return causes_of(seen).get("stepped-mid-window") if seen.skipped or not is_finite else None

    def _require_window(self, seen: Seen) -> None:
        if seen.sparse:
            raise UsageError("watch", "dense gradients", f"a sparse one, of {seen.sparse}", "turning off the embedding's 'sparse' option")
        if seen.skipped:
            raise UsageError("watch", "a window with a step", "one whose step GradScaler skipped, since gradients were not finite",
                             "watching a later window, when the scale has come down")
        for (name, _), gradient in zip(self._named, seen.gradients or []):
            if gradient is not None and not bool(torch.isfinite(gradient).all()):
                raise UsageError("watch", "finite gradients", f"one that is not, of {name}", "looking at the loop's loss")
        if len(seen.micro_batches) < 2:
            raise UsageError("watch", "a window of at least 2 micro-batches", f"{len(seen.micro_batches)} forward passes with a gradient",
                             "a with statement around all micro-batches of one optimizer step")
        # Calls of the model are micro-batches only if each has its own backward pass.
        if not self._recorder.is_told and seen.backwards not in (0, 1, len(seen.micro_batches)):
            raise UsageError("watch", "one call of the model for each micro-batch",
                             f"{len(seen.micro_batches)} calls and {seen.backwards} backward passes",
                             "for micro in w.micro_batches(window), or w.tell(micro), which say what a micro-batch is")

    def _gradient_report(self, seen: Seen) -> Report:
        """Compares the gradient that the window left with its micro-batches' gradients; each micro-batch counts as a sample of the window."""
        with on_all_ranks("watch"):
            replay = Replay(self._model, self._loss_fn, self._recorder)
        places = range(len(seen.micro_batches))
        if world() > 1:
            return self._over_ranks(replay, seen, [lambda place=place: replay.loss(place, place + 1) for place in places])
        left = self._compared(replay, seen.unclipped())
        has_hooks = any(tensor._backward_hooks for tensor in self._recorder.trained)
        if crooked := [place for place in (places if has_hooks else places[:1]) if not replay.is_linear(place)]:
            if not replay.repeats(crooked[0]):
                return not_judged("loss_fn gives another gradient when it is run again: it draws or reads what could not be put back")
            told = _native.describe_causes(["clip-per-micro-batch"], left.max_relative_error, left.bound)
            return Report.of(told, reference=left.reference, evidence=[
                f"half the loss of micro-batch {crooked[0] + 1} does not give half its gradient: a hook clips, clamps or normalises what each "
                "backward pass gives"])
        if not left.equal or seen.clippings:
            left = self._own_changes(replay).verdict(left)
        if not left.equal and replay.other_inputs:
            return not_judged(f"{replay.other_inputs}: what the loop drew or changed before the call is not known to loss_fn",
                              "w.micro_batches(loader) or w.tell(micro), and a loss_fn that draws as the loop does")
        return left

    def _over_ranks(self, replay: Replay, seen: Seen, losses: list) -> Report:
        """Compares the window's gradient over ranks. A loop may average over ranks in its own code, so only changes that are recognised as meant by
        the user are undone.
        """
        with on_all_ranks("watch"):
            made = self._own_changes(replay).of(seen.sums) if seen.sums is not None else NONE
        report = report_over_ranks(losses, self._named, self._recorder.whole(seen.sums if made.kind == "own" else seen.unclipped()))
        return as_meant(report, made) if report.equal and made.kind == "own" else report

    def _own_changes(self, replay: Replay) -> OwnChanges:
        return OwnChanges(self._recorder, replay, lambda gradients: self._compared(replay, gradients))

    def _compared(self, replay: Replay, gradients: Gradients) -> Report:
        described = _native.Described(
            parameters=self._named, buffers=named_buffers(self._model), batch_norms=None, evaluate=None,
            samples=len(self._recorder.seen.micro_batches), loss=replay.loss, loss_in_double=None)

        def leave(_: int) -> None:
            for tensor, gradient in zip(self._recorder.trained, gradients):
                tensor.grad = None if gradient is None else gradient.clone().to(tensor.dtype)

        return Report.of(_native.verify_loop(described, leave, micro_batch=1, noise_draws=self._draws, seed=self._seed))

    def _explained(self, seen: Seen, left: Report) -> Report:
        found = causes_of(seen)
        if left.equal or not left.judged:
            found = {cause: text for cause, text in found.items() if cause not in HARMLESS_WHERE_RIGHT}
        if seen.thawed or not (left.equal or found):
            found |= _of_frozen(seen)
        if self._is_short(seen, left):
            found["last-window"] = f"{len(seen.micro_batches)} micro-batches were divided by the {self._usual} of other windows"
        if leaked := leaks(without_ranks(self._model), self._loss_fn, [micro.batch for micro in seen.micro_batches]):
            found["packing-leak"] = leaked
        if not found:
            return left
        others = [] if EXPLAINS_GRADIENT & found.keys() else [cause for cause in left.causes if cause not in IMPLIED_BY.get(next(iter(found)), ())]
        told = _native.describe_causes(list(dict.fromkeys([*found, *others])), left.max_relative_error, left.bound)
        evidence = [*found.values(), *(left.evidence if others else [])]
        return Report.of(told, evidence=evidence, reference=left.reference, ruled_out=left.ruled_out if others else [],
                         left_out=left.left_out, parameters=[vars(error) for error in left.parameters])

    def _is_short(self, seen: Seen, left: Report) -> bool:
        count = len(seen.micro_batches)
        return count < self._usual and left.factor is not None and abs(left.factor * self._usual / count - 1) < 1e-3


def _with_known_factor(left: Report, count: int) -> Report:
    """Names the cause "scaled-twice" if the measured factor is 1 / the number of micro-batches within the bound.

    In 16 bits a factor is known only up to the bound.
    """
    if left.cause != "normalization" or left.factor is None or abs(left.factor * count - 1) > min(2 * left.bound, OF_MEASURED):
        return left
    causes = ["scaled-twice", *(cause for cause in left.causes if cause != "normalization")]
    told = _native.describe_causes(causes, left.max_relative_error, left.bound)
    return dataclasses.replace(left, causes=causes, cause=told["cause"], conclusion=told["conclusion"], advice=told["advice"])


IMPLIED_BY = {"last-window": ("normalization", "weighting", "zeroed-mid-window", "unknown")}


def _of_frozen(seen: Seen) -> dict[str, str]:
    """Returns the evidence for parameters that required a gradient only in a part of the window."""
    count = len(seen.micro_batches)
    if seen.frozen:
        return {"weighting": f"parameter {seen.frozen[1]} was frozen from micro-batch {seen.frozen[0] + 1} of {count} on"}
    if seen.thawed:
        return {"weighting": f"parameter {seen.thawed[1]} was frozen before micro-batch {seen.thawed[0] + 1} of {count}"}
    return {}


def causes_of(seen: Seen) -> dict[str, str]:
    """Returns the causes that were seen in how the window ran, each with its evidence."""
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
    elif moves := [backward for backward, positions in sorted(seen.positions.items()) if positions != seen.positions[0]]:
        # The number of a schedule's steps after the optimizer's step does not matter: Accelerate's takes one for each rank.
        found["schedule-per-micro-batch"] = f"the schedule had taken a step when backward {moves[0] + 1} {of} began"
    if seen.carried_over:
        found["last-window"] = f"the window began with what an earlier one left in .grad, of {seen.carried_over}"
    elif not seen.steps and not found:
        found["last-window"] = f"the gradients of {seen.backwards} micro-batches are left, and no optimizer step used them"
    return found


def _stepped(named: list[tuple[str, torch.Tensor]], optimizer: torch.optim.Optimizer) -> list[tuple[str, torch.Tensor]]:
    """Returns the trained parameters that the optimizer holds. In a GAN, other parameters belong to the other network's optimizer."""
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

    A micro-batch is what the model was called with (a dict of its named arguments, or its only argument), or what `w.micro_batches(loader)`
    yielded. To get its gradient, each micro-batch is run again with everything it read restored: parameters, buffers, modes, random draws, and
    what loss_fn reads besides the model (another network, a moving average, a temperature). This takes about the time of six windows.
    Afterwards everything is as your loop left it.

    If torch.distributed is set up, all ranks must watch the same window. Its gradient is compared with that of the mean over all ranks.

    Args:
        model: the `torch.nn.Module` that the loop calls.
        optimizer: the optimizer that the loop steps, of torch.optim or a wrapper around one.
        loss_fn: `loss_fn(model, micro_batch)` returns `accrue.Loss(sum, weight)`: what the window is meant to be the mean of.
        usual_micro_batches: the number of micro-batches in other windows. Detects a short last window that was divided by that number.
        noise_draws: the number of passes that measure rounding. 1 by default.
        seed: the seed of torch's generator in each pass. 1 by default.
        copies: `accrue.Copies`, which limits what is copied of the model and of what loss_fn reaches. By default half of the free memory
            on each device. A window that needs more is not judged.

    Returns:
        A Watch for a `with` statement. Its `report` has the verdict after the statement.

    Raises:
        UsageError: fewer than 2 forward passes with a gradient were seen, the optimizer holds other parameters or is LBFGS, or the window
            cannot be judged because GradScaler skipped its step, or gradients are sparse or not finite.
    """
    return Watch(model, optimizer, loss_fn, **options)
