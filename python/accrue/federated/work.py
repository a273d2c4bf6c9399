"""What a client works with: its config's data and model, and the request that it answers."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from accrue import _native
from accrue.federated import messages
from accrue.federated.validation import Validation
from accrue.windows import SumStepper, WindowWorker

# After messages, which says what to install.
from flwr.app import Context, RecordDict


class Work:
    """The parts of a run that a client makes of its config, each when it is needed first. They are kept for later messages."""

    def __init__(self, config: str | os.PathLike[str], overrides: Sequence[str]):
        self.config, self.overrides = os.fspath(config), tuple(overrides)
        self._worker: WindowWorker | None = None
        self._validation: Validation | None = None
        self._steppers: dict[int, tuple[SumStepper, dict[str, Any]]] = {}
        self._keys: dict[str, str] | None = None

    def worker(self) -> WindowWorker:
        """The worker of data.train."""
        if self._worker is None:
            self._worker = WindowWorker(self.config, self.overrides)
        return self._worker

    def validation(self) -> Validation:
        """Evaluates data.val."""
        if self._validation is None:
            self._validation = Validation(self.config, self.overrides, self.worker())
        return self._validation

    def stepper(self, total_steps: int, steps: int) -> SumStepper:
        """The config's optimizer in a new state, with a model of its own, after so many steps of a run of `total_steps`.

        run.steps of the config is not used.
        """
        if total_steps not in self._steppers:
            made = self._new_stepper(total_steps)
            self._steppers[total_steps] = (made, made.state_dict())
        stepper, state = self._steppers[total_steps]
        stepper.load_state_dict({**state, "steps": steps, "windows": steps})
        return stepper

    def initial_parameters(self) -> dict[str, torch.Tensor]:
        """The values with which a run of the config begins."""
        return self._new_stepper(1).parameters()

    def _new_stepper(self, total_steps: int) -> SumStepper:
        return SumStepper(self.config, self.worker().shape, [*self.overrides, f"run.steps={total_steps}"])

    def sum_dtype(self) -> torch.dtype | None:
        """The dtype of sums; None: that of the parameters, at least fp32."""
        return messages.sum_dtype_of(self.keys())

    def keys(self) -> dict[str, str]:
        """The keys on which sums depend, if they differ from the defaults."""
        if self._keys is None:
            self._keys = dict(_native.keys_of_sums(self.config, list(self.overrides)))
        return self._keys


@dataclasses.dataclass(frozen=True)
class Task:
    """A message to a client, and what it has to answer it: `name` is the client's, `context` Flower's, which lasts for a run."""

    work: Work
    name: str
    context: Context
    content: RecordDict
    facts: Mapping[str, Any]

    def parameters(self) -> dict[str, torch.Tensor]:
        """The parameters in the message."""
        return messages.tensors_of(self.content, messages.PARAMETERS)

    def worker(self) -> WindowWorker:
        """The worker of data.train, whose draws are those of all clients' samples."""
        worker = self.work.worker()
        worker.take_place(self.facts["first"], self.facts["total"])
        return worker
