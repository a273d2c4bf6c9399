"""A Python loop in which no sample counts for more than its terms allow."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

from accrue.errors import RefusedError, UsageError
from accrue.options import check_count
from accrue.privacy.clipping import MOST_GRADIENTS
from accrue.privacy.gradients import ClippedGradients
from accrue.privacy.ledger import Ledger
from accrue.privacy.meeting import met_terms, reason_to_end
from accrue.privacy.randomness import Randomness, SystemRandomness
from accrue.privacy.reports import PrivateReport
from accrue.privacy.sampling import poisson_sample
from accrue.privacy.spending import Spending
from accrue.privacy.terms import Privacy

OPERATION = "a private loop"


class PrivateLoop:
    """Trains a torch model in your own loop with differential privacy for each sample.

    A window has each of `samples` samples with probability `expected` / `samples`, independently of the others. The gradient of each sample's mean
    loss is clipped (ClippedGradients); the sum gets Gaussian noise and is divided by `expected`, whatever the window has. An empty window is a step
    of noise.

        loop = PrivateLoop(model, loss_fn, Privacy(clip=1.0, delta=1e-6, epsilon=8.0), samples=len(data), expected=256, steps=1000)
        for window in loop:
            for begin in range(0, len(window), 16):
                loop.add(batch_of(data, window[begin:begin + 16]))
            report = loop.step(optimizer)

    A window's share of epsilon is spent when the loop yields it, before it is known what it has. Which samples it has, and how many, is not to be
    published.

    Args:
        model, loss_fn: as for ClippedGradients.
        privacy: the terms.
        samples: the number of samples in the data.
        expected: the expected number of samples in a window, by which its sum is divided.
        steps: the number of steps, for which noise is computed unless it is stated.
        ledger: a file, or a Ledger, that has the steps of all runs on these data.
        randomness: for tests: where samples and noise come from.

    Raises:
        UsageError: the model cannot be run with privacy, or the terms cannot be met in these steps; the error has the noise that would meet them.
    """

    def __init__(self, model: nn.Module, loss_fn: Callable[[Any, Any], Any], privacy: Privacy, *, samples: int, expected: int, steps: int,
                 ledger: Ledger | str | os.PathLike[str] | None = None, randomness: Randomness | None = None):
        if not isinstance(privacy, Privacy) or privacy.unit != "sample":
            raise UsageError(OPERATION, 'terms of the unit "sample"', privacy.unit if isinstance(privacy, Privacy) else f"a value of type {type(privacy).__name__}",
                             "Privacy(clip=1.0, delta=1e-6, epsilon=8.0)")
        for name, count in (("samples", samples), ("expected", expected), ("steps", steps)):
            check_count(OPERATION, name, count, required=True)
        if expected > min(samples, MOST_GRADIENTS):
            raise UsageError(OPERATION, f"at most the {samples} samples as expected", str(expected), f"expected={max(samples // 100, 1)}")
        self._gradients = ClippedGradients(model, loss_fn, clip=privacy.clip)
        self._samples, self._expected, self._total = samples, expected, steps
        self._randomness = SystemRandomness() if randomness is None else randomness
        self._terms = met_terms(OPERATION, privacy, units=samples, rate=self.rate, steps=steps)
        self._spending = Spending(privacy.delta, ledger)
        self._steps = 0
        self._window: list[int] | None = None

    @property
    def privacy(self) -> Privacy:
        """The terms, with the noise that is used."""
        return self._terms

    @property
    def rate(self) -> float:
        """The probability with which a sample is in a window."""
        return self._expected / self._samples

    @property
    def epsilon(self) -> float:
        """What has been spent on these data, at the delta of the terms: by this run and by all that the ledger knows."""
        return self._spending.epsilon

    @property
    def steps(self) -> int:
        """The optimizer steps so far."""
        return self._steps

    @property
    def end(self) -> str | None:
        """Why there is no further window; None if there is one."""
        return reason_to_end(self._terms, self._spending, rate=self.rate, steps=self._steps, total=self._total)

    def __iter__(self) -> Iterator[list[int]]:
        """Yields windows, the numbers of their samples in order, until `steps`, or until another one would exceed epsilon."""
        while self.end is None:
            yield self.window()

    def window(self) -> list[int]:
        """Returns the numbers of the next window's samples, in order. A window before it that was not stepped with is given up, and stays spent.

        Raises:
            RefusedError: the steps are over, or the step would exceed epsilon; nothing is changed then.
        """
        if self.end is not None:
            raise RefusedError("take a private step", "a step that the terms allow", self.end, "the parameters as they are, or a larger epsilon")
        # Before anything is drawn, so that no window is ever seen that was not written down.
        self._spending.spend(self.rate, self._terms.stated_noise())
        self._gradients.forget()
        self._window = poisson_sample(self._samples, self.rate, self._randomness)
        return list(self._window)

    def add(self, micro_batch: Any) -> None:
        """Adds the clipped gradients of some of the window's samples. A sample counts as 0 without a loss term, or without a finite gradient.

        Raises:
            UsageError: the model or its losses cannot be run with privacy; nothing was added.
        """
        self._expect_window("add a micro-batch")
        self._gradients.add(micro_batch)

    def step(self, optimizer: torch.optim.Optimizer) -> PrivateReport:
        """Takes an optimizer step with the noisy mean gradient of the window, and leaves `.grad` of the trained parameters as None.

        Raises:
            UsageError: not all of the window's samples were added, or others, or the optimizer has parameters of another model; nothing is changed.
        """
        window = self._expect_window("step")
        if self._gradients.samples != len(window):
            raise UsageError(OPERATION, f"the {len(window)} samples of the window", f"{self._gradients.samples} losses",
                             "a loss for each sample of the window, once")
        trained = self._gradients.parameters
        known = {id(parameter) for parameter in trained.values()}
        groups = optimizer.param_groups
        if any(id(parameter) not in known and parameter.requires_grad for group in groups for parameter in group["params"]):
            raise UsageError(OPERATION, "an optimizer of the model's parameters", "one that trains others, too, whose gradients have no noise",
                             "one optimizer for model.parameters()")
        unprotected = self._gradients.unprotected
        self._window = None
        squares = 0.0
        for name, noisy in self._gradients.take(self._terms.stated_noise(), self._randomness):
            parameter = trained[name]
            parameter.grad = noisy.div_(self._expected).to(parameter.dtype)
            squares += float(noisy.square().sum())
        optimizer.step()
        for parameter in trained.values():
            parameter.grad = None
        self._steps += 1
        return PrivateReport(self._steps, self.epsilon, squares**0.5, float(groups[0]["lr"]), unprotected)

    def close(self) -> None:
        """Lets another process have the ledger. No window can be taken afterwards."""
        self._spending.close()

    def state_dict(self) -> dict[str, Any]:
        """Returns steps, the history of what was spent, and the state of the randomness, for torch.save. Model and optimizer have their own."""
        return {"steps": self._steps, "spent": self._spending.state_dict(), "randomness": self._randomness.state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from state_dict(). Steps that this loop or its ledger knows stay counted, also if the state is older."""
        self._spending.merge(state["spent"])
        self._randomness.load_state(state["randomness"])
        self._steps, self._window = int(state["steps"]), None

    def _expect_window(self, what: str) -> list[int]:
        if self._window is None:
            raise UsageError(OPERATION, f"a window before {what}", "none", "for window in loop")
        return self._window
