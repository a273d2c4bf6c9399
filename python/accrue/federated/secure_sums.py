"""Secure sums: a mode that hides each client's sums of another mode from the server."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from accrue.errors import RunError, UsageError
from accrue.federated.enclosing import EnclosingMode
from accrue.federated.evaluation import Evaluation
from accrue.federated.exact_window import ExactWindow
from accrue.federated.members import Client
from accrue.federated.modes import Mode
from accrue.federated.rounds import Collected, Round
from accrue.federated.secure.aggregator import TooFewClients
from accrue.federated.secure.answers import Answers
from accrue.federated.secure.attempt import Attempt
from accrue.federated.secure.keys import Entropy
from accrue.federated.secure.session import check_run
from accrue.federated.secure.window import SUMS, UNITS, WindowWords
from accrue.federated.secure.words import SumLayout
from accrue.federated.work import Task
from accrue.options import check_count

# After messages, which says what to install.
from flwr.app import MessageType, RecordDict

# Clients only become fewer from one attempt to the next, so the second one has units that all need, if clients compute the same again.
MOST_ATTEMPTS = 8
NONCE_BYTES = 16
# A sum over one client is its own.
LEAST_THRESHOLD = 2
EVALUATION = "evaluation"


class SecureSums(EnclosingMode):
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
        super().__init__("SecureSums", ExactWindow() if mode is None else mode)
        self._threshold, self._entropy = int(threshold), entropy

    def stated(self) -> dict[str, Any]:
        return {"name": "secure sums", "threshold": self._threshold, "of": self.enclosed.stated()}

    # The client's side.

    def answer(self, task: Task) -> RecordDict:
        return Answers(self._threshold, WindowWords.LABELS, self._words, self._entropy).answer(task)

    def answer_evaluation(self, task: Task) -> RecordDict:
        return Answers(self._threshold, [EVALUATION], self._words_of_evaluation, self._entropy).answer(task)

    def _words(self, task: Task) -> dict[str, np.ndarray]:
        shapes = {name: value.shape for name, value in task.parameters().items()}
        return WindowWords(shapes, task.facts["units"], task.facts["clients"]).words_of(_operation(task.facts["window"]), self.sums(task))

    def _words_of_evaluation(self, task: Task) -> dict[str, np.ndarray]:
        return {EVALUATION: SumLayout({}, ()).words_of("secure evaluation", task.work.validation().run(self.parameters(task)))}

    # The server's side.

    def expect_server(self, keys: Mapping[str, str], clients: int, quorum: int) -> None:
        accumulate = keys.get("precision.accumulate", "fp32").strip('"')
        if accumulate != "fixed":
            raise UsageError("secure sums", 'precision.accumulate = "fixed"', f'"{accumulate}"', 'accumulate = "fixed" in [precision] of all configs')
        check_run("secure sums", clients, self._threshold)
        if quorum < self._threshold:
            raise UsageError("secure sums", f"a quorum of at least the threshold, {self._threshold}", str(quorum), f"quorum={self._threshold}")
        super().expect_server(keys, clients, quorum)

    def collect(self, round_: Round) -> Collected:
        """Asks all clients, and returns the sum of those that count.

        If some need larger units than the stated ones, their sums stay masked, and those that are left begin again in these units with new keys.
        """
        names, units, nonce = list(round_.clients), round_.expected.units, self._nonce()
        shapes = {name: value.shape for name, value in round_.expected.parameters.items()}
        for number in range(MOST_ATTEMPTS):
            words = WindowWords(shapes, units, len(round_.clients))
            attempt = self._attempt(round_, nonce, number, words.lengths, MessageType.TRAIN, functools.partial(self._work, round_, units))
            names = attempt.mask(names)
            round_.expect_quorum(names)
            needed = words.needed(attempt.total(UNITS), len(names))
            if needed == units:
                return Collected(words.sums_of(_operation(round_.window), attempt.total(SUMS)), {name: None for name in round_.clients if name in names})
            units = needed
        raise RunError(_operation(round_.window), f"units that all need after {MOST_ATTEMPTS} attempts", "larger ones each time", "a smaller learning rate")

    def evaluate(self, round_: Round) -> Evaluation:
        """Asks all clients for the losses of their own validation data. The server learns their sum, or none if fewer than the quorum answer."""
        layout = SumLayout({}, ())
        attempt = self._attempt(round_, self._nonce(), 0, {EVALUATION: layout.words}, MessageType.EVALUATE, functools.partial(self._evaluation, round_))
        try:
            names = attempt.mask(round_.clients)
            sums = layout.sums_of("secure evaluation", attempt.total(EVALUATION)) if round_.has_quorum(names) else None
        except TooFewClients:
            sums = None
        if sums is None:
            return Evaluation(None, {}, {}, {**round_.absent, **round_.refused})
        missing = {name: reason for name, reason in {**round_.absent, **round_.refused}.items() if name not in names}
        return Evaluation(sums.loss_sum / sums.weight if sums.weight > 0 else None, {}, {}, missing)

    def _attempt(self, round_: Round, nonce: str, number: int, lengths: Mapping[str, int], kind: str, work: Any) -> Attempt:
        def ask(names: Iterable[str], content: Any) -> dict[str, RecordDict]:
            return round_.ask(names, content, kind)

        return Attempt(round_, nonce, number, self._threshold, lengths, ask, lambda _, facts: self.message(round_, facts), work)

    def _work(self, round_: Round, units: tuple[int, ...], client: Client, facts: Mapping[str, Any]) -> RecordDict:
        return self.message(round_, {"units": list(units), **self.facts(round_, client), **facts}, parameters=round_.expected.parameters)

    def _evaluation(self, round_: Round, client: Client, facts: Mapping[str, Any]) -> RecordDict:
        return self.message(round_, facts, parameters=round_.expected.parameters)

    def _nonce(self) -> str:
        return self._entropy(NONCE_BYTES).hex()


def _operation(window: int) -> str:
    return f"secure sum of round {window}"
