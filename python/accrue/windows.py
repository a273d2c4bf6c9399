"""Windows of a config's run in two parts: a WindowWorker has data and returns sums, a SumStepper has the optimizer and takes them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from accrue import _native
from accrue._native import DataShape, StepReport
from accrue.errors import UsageError

# A fixed-point contribution has less than 2^46 units, and a window at most 2^16 of them (docs/numerics.md, "Fixed point").
UNITS_OF_A_CONTRIBUTION, MOST_CONTRIBUTIONS = 2**46, 2**16


@dataclasses.dataclass(frozen=True)
class Sums:
    """The contributions of micro-batches to a window. Sums of its parts add up (`+`) to those of the whole.

    - `loss_sum`, `weight`: the sum of the loss terms, and their number. The weight is 0 if nothing counted.
    - `tokens`, `micro_batches`, `quarantined`: counts. Quarantined micro-batches had no finite loss or gradient, and are in no other field.
    - `gradients`: by parameter, the sum of the gradients of the loss terms; parameters that were not used are missing. With
      `precision.accumulate = "fixed"` it is an int64 tensor of units of 2^s, whose addition is exact in any order.
    - `contributions`: by parameter, how many gradients were added.
    - `units`: the exponents s, for each trained parameter in order; empty in other precisions.
    """

    loss_sum: float
    weight: float
    tokens: int
    micro_batches: int
    quarantined: int
    gradients: Mapping[str, torch.Tensor]
    contributions: Mapping[str, int]
    units: tuple[int, ...] = ()

    def __add__(self, other: Sums) -> Sums:
        """Adds the sums of other micro-batches of the same window.

        Raises:
            UsageError: the units differ, or a parameter has too many contributions for a fixed-point sum.
        """
        if not isinstance(other, Sums):
            return NotImplemented
        if self.units != other.units:
            raise UsageError("add sums", "sums in equal units", "units that differ",
                             "running the window again with the larger of both units for each parameter")
        contributions = _added(self.contributions, other.contributions)
        if self.units and max(contributions.values(), default=0) > MOST_CONTRIBUTIONS:
            raise UsageError("add sums", f"at most {MOST_CONTRIBUTIONS} contributions to a fixed-point sum", str(max(contributions.values())),
                             "larger micro-batches, or fewer samples in a window")
        return Sums(self.loss_sum + other.loss_sum, self.weight + other.weight, self.tokens + other.tokens,
                    self.micro_batches + other.micro_batches, self.quarantined + other.quarantined,
                    _added(self.gradients, other.gradients), contributions, self.units)


def _added(mine: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    return {name: mine[name] + others[name] if name in mine and name in others else mine.get(name, others.get(name)) for name in {**mine, **others}}


def _stated(config: str | os.PathLike[str], overrides: Iterable[str]) -> tuple[str, list[str]]:
    if isinstance(overrides, str):
        raise UsageError("overrides", "a list of texts", "one text", f'overrides=["{overrides}"]')
    return os.fspath(config), list(overrides)


class _TrainedModel:
    """The parameters of a native WindowWorker or SumStepper."""

    _native: Any

    @property
    def frozen_digest(self) -> str:
        """A digest of the parameters that are not trained, which load() does not touch; empty if all are trained."""
        return self._native.frozen_digest()

    def parameters(self) -> dict[str, torch.Tensor]:
        """Returns copies of the trained parameters by name, on the CPU."""
        return dict(self._native.parameters())

    def load(self, parameters: Mapping[str, torch.Tensor]) -> None:
        """Takes the values of all trained parameters.

        Raises:
            UsageError: one is missing, unknown, not finite, or of another shape or dtype; nothing is changed then.
        """
        self._native.load(list(parameters.items()))


class WindowWorker(_TrainedModel):
    """A config's model and data without an optimizer: parameters and samples go in, sums come out.

    It keeps nothing between windows but the parameters, so any other worker with the same data can replace it. Data, model, memory budget and
    micro-batch are what `accrue train` makes of the config. A config with another state is refused by name: batch normalisation, fp16, a batch
    that changes, several losses, `memory.offload`, `dist`.

        worker = accrue.WindowWorker("train.toml")
        worker.load(parameters)
        sums = worker.run(0, [(0, 8)])

    Args:
        config: a config file (docs/guide/config.md).
        overrides: keys that differ, as on the command line: "optim.lr=1e-3".

    Raises:
        UsageError: the config does not fit its data or its model, or cannot be run in such parts.
    """

    def __init__(self, config: str | os.PathLike[str], overrides: Iterable[str] = ()):
        self._native = _native.WindowWorker(*_stated(config, overrides))

    @property
    def samples(self) -> int:
        """The number of samples in data.train."""
        return self._native.samples()

    @property
    def micro_batch(self) -> int:
        """The samples of a micro-batch: batch.micro, or what the memory budget allows."""
        return self._native.micro_batch()

    @property
    def shape(self) -> DataShape:
        """The part of the model's shape that the data determine, for a SumStepper."""
        return self._native.shape()

    def take_place(self, first: int, total: int) -> None:
        """Makes the data samples [first, first + samples) of `total`, whose order is that of all processes' data one after the other.

        The draws of run() then count those of all data, so random masks are those of one process with all of them.

        Raises:
            UsageError: data.order is not "sequential", or there is no such place.
        """
        self._native.take_place(first, total)

    def run(self, window: int, draws: Sequence[tuple[int, int]], units: Sequence[int] = ()) -> Sums:
        """Runs micro-batches of window `window` (which keys random masks), and returns their sums.

        Args:
            window: the window's index in the run, from 0.
            draws: ranges (begin, end) of draws, in order: epoch * samples + position in data.order. Each is split into micro-batches.
            units: SumStepper.units of this window; empty: those of a new run. Only used by fixed-point sums, whose units may come out larger, if a
                contribution needs it.

        Raises:
            UsageError: a range is empty or has samples of another process.
            RunError: more micro-batches than batch.max_quarantined have no finite loss.
        """
        sums = self._native.run(window, [tuple(each) for each in draws], list(units))
        gradients = dict(sums.gradients)
        return Sums(sums.loss_sum, sums.weight, sums.tokens, sums.micro_batches, sums.quarantined, gradients,
                    dict(zip(gradients, sums.contributions)), tuple(sums.units))


class SumStepper(_TrainedModel):
    """A config's model and optimizer without data: it steps with the sums of windows that workers ran.

    With `precision.accumulate = "fixed"` its parameters have the bits of one process that runs the same micro-batches. `run.steps` has to be
    stated, since no data tell the length of an epoch.

        stepper = accrue.SumStepper("train.toml", worker.shape)
        report = stepper.step(sums)
        worker.load(stepper.parameters())

    Args:
        config: a config file. Its section data is not used.
        shape: WindowWorker.shape of a process that has the data.
        overrides: keys that differ: "optim.lr=1e-3".

    Raises:
        UsageError: the config cannot be run in such parts, or its length is not stated in steps.
    """

    def __init__(self, config: str | os.PathLike[str], shape: DataShape, overrides: Iterable[str] = ()):
        self._native = _native.SumStepper(*_stated(config, overrides), shape)

    @property
    def steps(self) -> int:
        """The optimizer steps taken."""
        return self._native.steps()

    @property
    def total_steps(self) -> int:
        """run.steps, the horizon of the schedule."""
        return self._native.total_steps()

    @property
    def batch_samples(self) -> int:
        """batch.samples, the samples of a window. Raises UsageError if the batch is stated in tokens."""
        return self._native.batch_samples()

    @property
    def window(self) -> int:
        """The index of the next window: the windows closed so far."""
        return self._native.windows()

    @property
    def units(self) -> tuple[int, ...]:
        """The units of fixed-point sums with which the next window begins, to be passed to WindowWorker.run; else empty."""
        return tuple(self._native.units())

    def step(self, sums: Sums) -> StepReport:
        """Takes one optimizer step with the sums of a whole window. Sums of weight 0 change nothing: `report.stepped` is False.

        Raises:
            UsageError: the sums do not fit the parameters.
            RunError: the sums are not finite. Nothing is changed in either case.
        """
        return self._native.step(_native.WindowSums(
            loss_sum=sums.loss_sum, weight=sums.weight, tokens=sums.tokens, micro_batches=sums.micro_batches, quarantined=sums.quarantined,
            gradients=list(sums.gradients.items()), contributions=[sums.contributions[name] for name in sums.gradients], units=list(sums.units)))

    def state_dict(self) -> dict[str, Any]:
        """Returns all state besides the parameters (the optimizer's, counts, units), for torch.save."""
        optimizer, steps, windows, units = self._native.state()
        return {"optimizer": dict(optimizer), "steps": steps, "windows": windows, "units": list(units)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from state_dict(), with the same bits if the parameters are loaded, too.

        Raises:
            UsageError: the state is of another config; nothing is changed then.
        """
        self._native.load_state(list(state["optimizer"].items()), state["steps"], state["windows"], list(state["units"]))
