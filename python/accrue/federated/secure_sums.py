"""Secure sums: a mode that hides each client's sums of another mode from the server."""

from __future__ import annotations

import dataclasses
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
from accrue.federated.secure.attempt import Attempt, Keys, NextKeys
from accrue.federated.secure.keys import Entropy
from accrue.federated.secure.session import check_run
from accrue.federated.secure.window import SUMS, UNITS, WindowWords
from accrue.federated.secure.words import SumLayout
from accrue.federated.work import Task
from accrue.options import check_callback, check_count

# After messages, which says what to install.
from flwr.app import MessageType, RecordDict

# Clients only become fewer from one attempt to the next, so the second one has units that all need, if clients compute the same again.
MOST_ATTEMPTS = 8
NONCE_BYTES = 16
# A sum over one client is its own.
LEAST_THRESHOLD = 2
EVALUATION = "evaluation"


@dataclasses.dataclass(frozen=True)
class _Prepared:
    """Keys for a round of the run that has these clients."""

    clients: Mapping[str, Client]
    window: int
    keys: Keys


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
        check_callback("SecureSums", "entropy", entropy)
        super().__init__("SecureSums", ExactWindow() if mode is None else mode)
        self._threshold, self._entropy = int(threshold), entropy
        self._prepared: _Prepared | None = None

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

    def expect_clients(self, clients: int, quorum: int) -> None:
        check_run("secure sums", clients, self._threshold)
        if quorum < self._threshold:
            raise UsageError("secure sums", f"a quorum of at least the threshold, {self._threshold}", str(quorum), f"quorum={self._threshold}")
        super().expect_clients(clients, quorum)

    def expect_server(self, keys: Mapping[str, str], clients: int, quorum: int) -> None:
        accumulate = keys.get("precision.accumulate", "fp32").strip('"')
        if accumulate != "fixed":
            raise UsageError("secure sums", 'precision.accumulate = "fixed"', f'"{accumulate}"', 'accumulate = "fixed" in [precision] of all configs')
        super().expect_server(keys, clients, quorum)

    def collect(self, round_: Round) -> Collected:
        """Asks all clients, and returns the sum of those that count.

        If some need larger units than the stated ones, their sums stay masked, and those that are left begin again in these units with new keys.
        Keys and shares of the next round come with the messages of this one. They are used if each client that is there then has sent some.
        """
        names, units = list(round_.clients), round_.expected.units
        shapes = {name: value.shape for name, value in round_.expected.parameters.items()}
        prepared = self._taken_keys(round_)
        following = NextKeys(self._new_keys(round_.window + 1, 0, WindowWords.LABELS)) if round_.window + 1 < round_.rounds else None
        # The first attempt's number is that of the keys which were sent before, even if they are not used.
        for number in range(0 if round_.window == 0 or prepared is not None else 1, MOST_ATTEMPTS):
            words = WindowWords(shapes, units, len(round_.clients))
            keys = self._new_keys(round_.window, number, WindowWords.LABELS) if prepared is None else prepared
            attempt = self._attempt(round_, keys, words.lengths, MessageType.TRAIN, functools.partial(self._work, round_, units), following)
            if prepared is None:
                attempt.prepare(names)
            prepared = None
            names = attempt.mask()
            round_.expect_quorum(names)
            needed = words.needed(attempt.total(UNITS), len(names))
            if needed == units:
                total = words.sums_of(_operation(round_.window), attempt.total(SUMS))
                self._prepare(round_, following)
                return Collected(total, {name: None for name in round_.clients if name in names})
            units = needed
        raise RunError(_operation(round_.window), f"units that all need after {MOST_ATTEMPTS} attempts", "larger ones each time", "a smaller learning rate")

    def evaluate(self, round_: Round) -> Evaluation:
        """Asks all clients for the losses of their own validation data. The server learns their sum, or none if fewer than the quorum answer."""
        layout = SumLayout({}, ())
        attempt = self._attempt(round_, self._new_keys(round_.window, 0, [EVALUATION]), {EVALUATION: layout.words}, MessageType.EVALUATE,
                                functools.partial(self._evaluation, round_))
        try:
            attempt.prepare(round_.clients)
            names = attempt.mask()
            sums = layout.sums_of("secure evaluation", attempt.total(EVALUATION)) if round_.has_quorum(names) else None
        except TooFewClients:
            sums = None
        if sums is None:
            return Evaluation(None, {}, {}, {**round_.absent, **round_.refused})
        missing = {name: reason for name, reason in {**round_.absent, **round_.refused}.items() if name not in names}
        return Evaluation(sums.loss_sum / sums.weight if sums.weight > 0 else None, {}, {}, missing)

    def _taken_keys(self, round_: Round) -> Keys | None:
        """Returns the keys that were prepared for this round, if all clients that are there have sent some. They are taken once."""
        prepared, self._prepared = self._prepared, None
        if prepared is None or prepared.clients is not round_.clients or prepared.window != round_.window:
            return None
        return prepared.keys if set(round_.connected()) <= prepared.keys.members else None

    def _prepare(self, round_: Round, following: NextKeys | None) -> None:
        keys = None if following is None else following.ready()
        self._prepared = None if keys is None else _Prepared(round_.clients, round_.window + 1, keys)

    def _new_keys(self, window: int, number: int, labels: Iterable[str]) -> Keys:
        return Keys(window, self._entropy(NONCE_BYTES).hex(), number, self._threshold, labels)

    def _attempt(self, round_: Round, keys: Keys, lengths: Mapping[str, int], kind: str, work: Any, following: NextKeys | None = None) -> Attempt:
        def ask(names: Iterable[str], content: Any) -> dict[str, RecordDict]:
            return round_.ask(names, content, kind)

        return Attempt(round_, keys, lengths, ask, lambda _, facts: self.message(round_, facts), work, following)

    def _work(self, round_: Round, units: tuple[int, ...], client: Client, facts: Mapping[str, Any]) -> RecordDict:
        return self.message(round_, {"units": list(units), **self.facts(round_, client), **facts}, parameters=round_.expected.parameters)

    def _evaluation(self, round_: Round, client: Client, facts: Mapping[str, Any]) -> RecordDict:
        return self.message(round_, facts, parameters=round_.expected.parameters)


def _operation(window: int) -> str:
    return f"secure sum of round {window}"
