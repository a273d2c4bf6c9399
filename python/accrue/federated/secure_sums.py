"""Secure sums: a mode that hides each client's sums of another mode from the server."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch

from accrue.errors import RunError, UsageError
from accrue.federated import messages
from accrue.federated.exact_window import ExactWindow
from accrue.federated.members import Client
from accrue.federated.modes import Mode, expect_mode
from accrue.federated.rounds import Collected, Round
from accrue.federated.secure.answers import Answers
from accrue.federated.secure.attempt import Attempt
from accrue.federated.secure.keys import Entropy
from accrue.federated.secure.session import check_run
from accrue.federated.work import Task
from accrue.options import check_count
from accrue.windows import Sums

# After messages, which says what to install.
from flwr.app import RecordDict

# Units only grow from one attempt to the next, so a round needs a second attempt rarely and a third one if a client comes back in between.
MOST_ATTEMPTS = 8
NONCE_BYTES = 16
# A sum over one client is its own.
LEAST_THRESHOLD = 2


class SecureSums(Mode):
    """The server learns the sum over all clients that count in a round, and no client's part of it (docs/guide/federated.md, "Secure sums").

    The parameters have the same bits as without masks. Clients whose config states `precision.accumulate = "fixed"` are required.

        mode = accrue.federated.SecureSums(threshold=3)     # the same for client_app and server_app

    Args:
        threshold: how many clients have to stay until a round's end: more than half of all. So many, with the server, could find out another
            one's sums.
        mode: what a round is. Without it: ExactWindow().
        entropy: for tests: returns random bytes.

    Raises:
        UsageError: an option is of the wrong type, or the threshold is 1.
    """

    def __init__(self, threshold: int, mode: Mode | None = None, *, entropy: Entropy = os.urandom):
        check_count("SecureSums", "threshold", threshold, required=True)
        if threshold < LEAST_THRESHOLD:
            raise UsageError("SecureSums", f"a threshold of at least {LEAST_THRESHOLD}", str(threshold), "more than half of the number of clients")
        self._mode = expect_mode("SecureSums", ExactWindow() if mode is None else mode)
        self._threshold, self._entropy = int(threshold), entropy
        self._answers = Answers(self._threshold, self._mode.sums, entropy)

    def stated(self) -> dict[str, Any]:
        return {"name": "secure sums", "threshold": self._threshold, "of": self._mode.stated()}

    def facts(self, round_: Round, client: Client) -> dict[str, Any]:
        return self._mode.facts(round_, client)

    def sums(self, task: Task) -> Sums:
        return self._mode.sums(task)

    def shared(self, parameters: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return self._mode.shared(parameters)

    def answer(self, task: Task) -> RecordDict:
        return self._answers.answer(task)

    def expect_server(self, keys: Mapping[str, str], clients: int, quorum: int) -> None:
        accumulate = keys.get("precision.accumulate", "fp32").strip('"')
        if accumulate != "fixed":
            raise UsageError("secure sums", 'precision.accumulate = "fixed"', f'"{accumulate}"', 'accumulate = "fixed" in [precision] of all configs')
        check_run("secure sums", clients, self._threshold)
        if quorum < self._threshold:
            raise UsageError("secure sums", f"a quorum of at least the threshold, {self._threshold}", str(quorum), f"quorum={self._threshold}")

    def collect(self, round_: Round) -> Collected:
        names, units, nonce = list(round_.clients), round_.expected.units, self._entropy(NONCE_BYTES).hex()
        for number in range(MOST_ATTEMPTS):
            attempt = self._attempt(round_, nonce, number, units)
            needed = attempt.needed(names)
            if needed == units:
                return Collected(attempt.sums(), {name: None for name in round_.clients if name in attempt.survivors})
            names, units = attempt.survivors, needed
        raise RunError(f"secure sum of round {round_.window}", f"units that all need after {MOST_ATTEMPTS} attempts", "larger ones each time",
                       "a smaller learning rate")

    def _attempt(self, round_: Round, nonce: str, number: int, units: tuple[int, ...]) -> Attempt:
        def message(client: Client, facts: Mapping[str, Any]) -> RecordDict:
            return self.message(round_, facts)

        def work(client: Client, facts: Mapping[str, Any]) -> RecordDict:
            return self.message(round_, {"units": list(units), **self.facts(round_, client), **facts}, parameters=round_.expected.parameters)

        return Attempt(round_, nonce, number, self._threshold, units, message, work)
