"""A config's run in which no sample counts for more than its terms allow."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from accrue import _native
from accrue.errors import RefusedError, RunError, UsageError
from accrue.privacy.clipping import MOST_GRADIENTS, ClippedSum
from accrue.privacy.ledger import Ledger
from accrue.privacy.meeting import met_terms, reason_to_end
from accrue.privacy.randomness import Randomness, SystemRandomness
from accrue.privacy.reports import PrivateReport, Unprotected, measured
from accrue.privacy.sampling import poisson_sample
from accrue.privacy.spending import Spending
from accrue.privacy.terms import Privacy
from accrue.windows import SumStepper, Sums, WindowWorker

OPERATION = "private training"
# Of the worker: a sample is a window of its own, and one without a finite loss counts as 0. An error would reveal it.
OF_ONE_SAMPLE = ("batch.micro=1", "batch.max_quarantined=1")


def _refuse(key: str, expected: str, received: str, suggestion: str) -> None:
    raise UsageError(f"{key} of {OPERATION}", expected, received, suggestion)


def _expect_fitting(keys: Mapping[str, str]) -> None:
    order, accumulate = keys.get("data.order", '"shuffle"'), keys.get("precision.accumulate", '"fp32"')
    if order != '"sequential"':
        _refuse("data.order", '"sequential"', order, 'order = "sequential" in [data]: each window draws its samples at random, whatever their order')
    if "data.packing" in keys:
        _refuse("data.packing", "a sample in each row", "several samples in a row", "packing = false in [data]")
    if accumulate == '"fixed"':
        _refuse("precision.accumulate", '"fp32" or "fp64"', accumulate, 'accumulate = "fp32" in [precision]: private sums are in whole numbers already')


class PrivateTrainer:
    """Trains a config's model with differential privacy for each sample.

    A window has each sample of data.train with the same probability, batch.samples / samples, independently of the others. The gradient of each
    sample's mean loss is clipped to the norm `clip`; the sum gets Gaussian noise and is divided by batch.samples, whatever the window has. A window
    without samples is a step of noise. Model, optimizer and schedule are those of `accrue train`; run.steps and batch.samples have to be stated, and
    micro-batches have one sample, whatever batch.micro is.

    Refused by name: batch normalisation, data.train with weights (a sample would be drawn more often than others), packing, losses of pairs, and
    all that a WindowWorker refuses. optim.clip clips the noisy gradient, which weakens nothing.

        trainer = accrue.privacy.PrivateTrainer("train.toml", accrue.privacy.Privacy(clip=1.0, delta=1e-6, epsilon=8.0))
        for report in trainer:
            print(report.step, report.epsilon)

    Args:
        config: a config file (docs/guide/config.md).
        privacy: the terms.
        overrides: keys that differ, as on the command line: "optim.lr=1e-3".
        ledger: a file, or a Ledger, that has the steps of all runs on these data; without it, steps that were taken after the checkpoint from which
            a run resumes are not counted.
        randomness: for tests: where samples and noise come from.

    Raises:
        UsageError: the config cannot be run with privacy, or the terms cannot be met in its steps; the error has the noise that would meet them.
    """

    def __init__(self, config: str | os.PathLike[str], privacy: Privacy, *, overrides: Iterable[str] = (),
                 ledger: Ledger | str | os.PathLike[str] | None = None, randomness: Randomness | None = None):
        if not isinstance(privacy, Privacy):
            raise UsageError(OPERATION, "the terms, a Privacy", f"a value of type {type(privacy).__name__}", "Privacy(clip=1.0, delta=1e-6, epsilon=8.0)")
        if privacy.unit != "sample":
            raise UsageError(OPERATION, 'terms of the unit "sample"', f'"{privacy.unit}"', "accrue.privacy.clients.PrivateClients for federated clients")
        if isinstance(overrides, str):
            raise UsageError("overrides", "a list of texts", "one text", f'overrides=["{overrides}"]')
        overrides = list(overrides)
        keys = dict(_native.keys_of_sums(os.fspath(config), overrides))
        _expect_fitting(keys)
        self._worker = WindowWorker(config, [*overrides, *OF_ONE_SAMPLE])
        self._worker.take_place(0, self._worker.samples)  # refuses data in which a sample occurs more often than others
        self._stepper = SumStepper(config, self._worker.shape, overrides)
        self._dtype = torch.float64 if keys.get("precision.accumulate") == '"fp64"' else torch.float32
        self._randomness = SystemRandomness() if randomness is None else randomness
        samples, expected = self._worker.samples, self._stepper.batch_samples
        if expected > min(samples, MOST_GRADIENTS):
            _refuse("batch.samples", f"at most the {samples} samples of data.train", str(expected), f"samples = {max(samples // 100, 1)} in [batch]")
        self._terms = met_terms(OPERATION, privacy, units=samples, rate=self.rate, steps=self._stepper.total_steps)
        self._noise = self._terms.stated_noise()
        self._spending = Spending(privacy.delta, ledger)

    @property
    def privacy(self) -> Privacy:
        """The terms, with the noise that is used."""
        return self._terms

    @property
    def rate(self) -> float:
        """The probability with which a sample is in a window."""
        return self._stepper.batch_samples / self._worker.samples

    @property
    def epsilon(self) -> float:
        """What has been spent on these data, at the delta of the terms: by this run and by all that the ledger knows."""
        return self._spending.epsilon

    @property
    def steps(self) -> int:
        """The optimizer steps of this model."""
        return self._stepper.steps

    @property
    def end(self) -> str | None:
        """Why there is no further step; None if there is one."""
        return reason_to_end(self._terms, self._spending, rate=self.rate, steps=self._stepper.steps, total=self._stepper.total_steps)

    def parameters(self) -> dict[str, torch.Tensor]:
        """Returns copies of the trained parameters by name, on the CPU."""
        return self._stepper.parameters()

    def __iter__(self) -> Iterator[PrivateReport]:
        """Takes steps until run.steps, or until another would exceed epsilon."""
        while self.end is None:
            yield self.step()

    def step(self) -> PrivateReport:
        """Takes one step.

        Raises:
            RefusedError: the steps are over, or the step would exceed epsilon; nothing is changed then.
        """
        if self.end is not None:
            raise RefusedError("take a private step", "a step that the terms allow", self.end, "the parameters as they are, or a larger epsilon")
        # Before anything is drawn: a step that is written down and not taken costs some epsilon, one that is taken and not written the guarantee.
        # A window that fails, which its samples may decide, is spent, too.
        self._spending.spend(self.rate, self._noise)
        sums, unprotected = self._run_window()
        gradients = {name: each.to(self._dtype) for name, each in sums.with_noise(self._noise, self._randomness).items()}
        report = self._stepper.step(Sums(0.0, float(self._stepper.batch_samples), 0, 1, 0, gradients, dict.fromkeys(gradients, 1), ()))
        return PrivateReport(report.step, self.epsilon, report.grad_norm, report.lr, unprotected)

    def close(self) -> None:
        """Lets another process have the ledger. No step can be taken afterwards."""
        self._spending.close()

    def state_dict(self) -> dict[str, Any]:
        """Returns all state, for torch.save: parameters, the optimizer's, the history of what was spent, and that of the randomness."""
        return {"parameters": self.parameters(), "stepper": self._stepper.state_dict(), "spent": self._spending.state_dict(),
                "randomness": self._randomness.state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues from state_dict(). Steps that this trainer or its ledger knows stay counted, also if the state is older.

        Raises:
            UsageError: the state is of another config.
        """
        self._spending.merge(state["spent"])
        self._randomness.load_state(state["randomness"])
        self._stepper.load(state["parameters"])
        self._stepper.load_state_dict(state["stepper"])

    def _run_window(self) -> tuple[ClippedSum, Unprotected]:
        chosen = poisson_sample(self._worker.samples, self.rate, self._randomness)
        parameters = self._stepper.parameters()
        self._worker.load(parameters)
        clipped_sum = ClippedSum(parameters, self._terms.clip)
        losses, norms = [], []
        for sample in chosen:
            try:
                sums = self._worker.run(self._stepper.window, [(sample, sample + 1)])
            except RunError:  # it counts as left out: an error would reveal it
                continue
            norm = clipped_sum.add(sums.gradients, sums.weight)
            if norm is not None:
                norms.append(norm)
                losses.append(sums.loss_sum / sums.weight)
        return clipped_sum, measured(len(chosen), losses, norms, self._terms.clip)
