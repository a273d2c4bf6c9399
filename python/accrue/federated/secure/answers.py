"""What a client answers in each phase, and what it keeps in between."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from accrue.errors import UsageError
from accrue.federated import messages
from accrue.federated.secure import wire
from accrue.federated.secure.keys import Entropy
from accrue.federated.secure.participant import Participant
from accrue.federated.secure.session import Session
from accrue.federated.work import Task

# After messages, which says what to install.
from flwr.app import ConfigRecord, Context, RecordDict

RECORD = "accrue.secure."


class Kept:
    """A client's own state of a run, in Flower's context. It stays on the client's node.

    It holds the secrets of the attempt that is under way, and those of the next round's first attempt, whose keys and shares come with it.
    """

    def __init__(self, context: Context, record: str):
        self._records, self._record = context.state, record
        state = json.loads(self._records[record]["json"]) if record in self._records else {}
        # Runs of a series share a context, and each begins with round 0.
        self._state: dict[str, Any] = state if state.get("run") == context.run_id else {"run": context.run_id}

    def begin(self, nonce: str, window: int, attempt: int, participants: Mapping[str, Participant]) -> None:
        """Replaces what was kept.

        Raises:
            UsageError: the attempt is none after the last one, or the round's sums were unmasked already. So nothing begins twice, and a server that
                asks for several attempts sees one sum of a round at most.
        """
        prepared = self._state.get("next", {})
        last, unmasked = max(self._state.get("attempt", [-1, -1]), [prepared.get("window", -1), 0]), self._state.get("unmasked", -1)
        is_of_this_round = prepared and [window, attempt] > self._state["attempt"] and window == self._state["attempt"][0]
        if ([window, attempt] <= last and not is_of_this_round) or window <= unmasked:
            raise UsageError(f"secure sum of round {window}",
                             f"an attempt after number {last[1]} of round {last[0]}, and a round after {unmasked}, the last one unmasked",
                             f"attempt {attempt} of round {window}: a replay", "a new run")
        self._state = {"run": self._state["run"], "nonce": nonce, "attempt": [window, attempt], "unmasked": unmasked,
                       **({"next": prepared} if is_of_this_round else {})}
        self.keep(participants)

    def begin_next(self, nonce: str, window: int, participants: Mapping[str, Participant]) -> None:
        """Keeps the first attempt of the round after the one that is under way. Raises UsageError if it was begun before, or is another round's."""
        if window != self._state["attempt"][0] + 1 or "next" in self._state:
            raise UsageError(f"secure sum of round {window}", f"keys for round {self._state['attempt'][0] + 1}, once", "another request: a replay", "a new run")
        self._state["next"] = {"nonce": nonce, "window": window}
        self.keep_next(participants)

    def next_participants(self, nonce: str, window: int) -> dict[str, Participant]:
        """Returns the state machines of the next round's first attempt. Raises UsageError if it was not begun."""
        prepared = self._state.get("next", {})
        if (prepared.get("nonce"), prepared.get("window")) != (nonce, window):
            raise self._not_under_way(window)
        return {label: Participant.of_state(state) for label, state in prepared["participants"].items()}

    def keep_next(self, participants: Mapping[str, Participant]) -> None:
        self._state["next"]["participants"] = {label: participant.state() for label, participant in participants.items()}
        self._write()

    def participants(self, nonce: str, window: int, attempt: int) -> dict[str, Participant]:
        """Returns the state machines of this attempt. Raises UsageError if it is neither under way nor the one that was prepared."""
        prepared = self._state.get("next", {})
        if prepared and (prepared["nonce"], prepared["window"], 0) == (nonce, window, attempt):
            self._state = {"run": self._state["run"], "nonce": nonce, "attempt": [window, 0], "unmasked": self._state["unmasked"],
                           "participants": prepared["participants"]}
        if (self._state.get("nonce"), self._state.get("attempt")) != (nonce, [window, attempt]) or not self._state["participants"]:
            raise self._not_under_way(window)
        return {label: Participant.of_state(state) for label, state in self._state["participants"].items()}

    def keep(self, participants: Mapping[str, Participant]) -> None:
        self._state["participants"] = {label: participant.state() for label, participant in participants.items()}
        self._write()

    def end(self, window: int) -> None:
        """Forgets the attempt's secrets: the shares that unmask the round's sums are with the server."""
        self._state.update(unmasked=window, participants={})
        self._write()

    @staticmethod
    def _not_under_way(window: int) -> UsageError:
        return UsageError(f"secure sum of round {window}", "the attempt that is under way", "another one: a replay, or a client that lost its state",
                          "a new attempt")

    def _write(self) -> None:
        self._records[self._record] = ConfigRecord({"json": json.dumps(self._state)})


class Answers:
    """A client's side of each attempt.

    Args:
        threshold: as the client itself states it; the server has no say in it.
        labels: the sums of an attempt, in the order in which they are unmasked.
        words: does the work of a request, and returns the words for each label.
        entropy: returns random bytes.
    """

    def __init__(self, threshold: int, labels: Sequence[str], words: Callable[[Task], Mapping[str, np.ndarray]], entropy: Entropy):
        self._threshold, self._labels, self._words, self._entropy = threshold, tuple(labels), words, entropy

    def answer(self, task: Task) -> RecordDict:
        """Returns the content of a reply. Raises UsageError or Refused if the request is not one that may come next."""
        answers = {wire.KEYS: self._keys, wire.SHARES: self._shares, wire.MASKED: self._masked, wire.REVEAL: self._reveal}
        phase, nonce, window, attempt = (task.facts.get(name) for name in ("phase", "nonce", "window", "attempt"))
        if phase not in answers or not isinstance(nonce, str) or not isinstance(window, int) or not isinstance(attempt, int):
            raise messages.Refused("a request that is of no phase of a secure sum")
        facts, tensors = answers[phase](task, nonce, window, attempt)
        return messages.pack({"phase": phase, "nonce": nonce, "window": window, "attempt": attempt, **facts, **self._of_next(task)}, **tensors)

    def _of_next(self, task: Task) -> dict[str, Any]:
        """Returns what is sent along for the next round, if the request asks for its keys or shares."""
        if wire.NEXT not in task.facts:
            return {}
        kept, asked = self._kept(task), wire.table_of(task.facts, wire.NEXT)
        phase, nonce, window = (asked.get(name) for name in ("phase", "nonce", "window"))
        if not isinstance(nonce, str) or not isinstance(window, int) or phase not in (wire.KEYS, wire.SHARES):
            raise messages.Refused("a request for the next round that is of no phase before its masked words")
        if phase == wire.KEYS:
            participants = self._new_participants(task, nonce, window, 0)
            kept.begin_next(nonce, window, participants)
            each = self._public_keys(participants)
        else:
            participants = kept.next_participants(nonce, window)
            each = self._sealed(participants, asked)
            kept.keep_next(participants)
        return {wire.NEXT: {"phase": phase, "nonce": nonce, "window": window, "attempt": 0, wire.EACH: each}}

    def _keys(self, task: Task, nonce: str, window: int, attempt: int) -> tuple[dict[str, Any], dict[str, Any]]:
        participants = self._new_participants(task, nonce, window, attempt)
        self._kept(task).begin(nonce, window, attempt, participants)
        return {wire.EACH: self._public_keys(participants)}, {}

    def _shares(self, task: Task, nonce: str, window: int, attempt: int) -> tuple[dict[str, Any], dict[str, Any]]:
        kept = self._kept(task)
        participants = kept.participants(nonce, window, attempt)
        sealed = self._sealed(participants, task.facts)
        kept.keep(participants)
        return {wire.EACH: sealed}, {}

    def _new_participants(self, task: Task, nonce: str, window: int, attempt: int) -> dict[str, Participant]:
        return {label: Participant.begin(Session(nonce, window, attempt, label, self._threshold), task.name, self._entropy) for label in self._labels}

    @staticmethod
    def _public_keys(participants: Mapping[str, Participant]) -> dict[str, list[str]]:
        return {label: wire.keys_as_facts(participant.public_keys) for label, participant in participants.items()}

    def _sealed(self, participants: Mapping[str, Participant], facts: Mapping[str, Any]) -> dict[str, dict[str, str]]:
        tables, sealed = wire.table_of(facts, wire.EACH), {}
        for label, participant in participants.items():
            members = {name: wire.keys_of(keys) for name, keys in wire.table_of(tables, label).items()}
            sealed[label] = wire.sealed_as_facts(participant.share(members, self._entropy))
        return sealed

    def _masked(self, task: Task, nonce: str, window: int, attempt: int) -> tuple[dict[str, Any], dict[str, Any]]:
        kept = self._kept(task)
        participants, tables = kept.participants(nonce, window, attempt), wire.table_of(task.facts, wire.EACH)
        words = self._words(task)
        masked = {label: torch.from_numpy(participant.mask(words[label], wire.sealed_of(tables, label)).view(np.int64))
                  for label, participant in participants.items()}
        kept.keep(participants)
        return {}, {"masked": masked}

    def _reveal(self, task: Task, nonce: str, window: int, attempt: int) -> tuple[dict[str, Any], dict[str, Any]]:
        kept = self._kept(task)
        participants, label, survivors = kept.participants(nonce, window, attempt), task.facts.get("label"), task.facts.get("survivors")
        if label not in participants or not isinstance(survivors, list) or not all(isinstance(name, str) for name in survivors):
            raise messages.Refused("a request that names no sum, or no clients in it")
        revealed = participants[label].reveal(survivors)
        if label == self._labels[-1]:
            kept.end(window)
        else:
            kept.keep(participants)
        return wire.revealed_as_facts(revealed), {}

    def _kept(self, task: Task) -> Kept:
        return Kept(task.context, RECORD + self._labels[-1])
