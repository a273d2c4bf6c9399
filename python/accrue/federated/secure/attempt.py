"""The server's side of one attempt: the exchanges of a protocol that sums one or more vectors at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch

from accrue.federated import messages
from accrue.federated.members import Client
from accrue.federated.rounds import Round
from accrue.federated.secure import wire
from accrue.federated.secure.aggregator import Aggregator
from accrue.federated.secure.session import Session

# After messages, which says what to install.
from flwr.app import RecordDict

# Makes the content of a request: of a client and facts.
Request = Callable[[Client, Mapping[str, Any]], RecordDict]
# Sends contents to clients by name, and returns the answers.
Ask = Callable[[Iterable[str], Callable[[Client], RecordDict]], Mapping[str, RecordDict]]


class Attempt:
    """Asks clients for keys, shares and masked words, and then for the shares that unmask one sum after the other. A sum may stay masked.

    Args:
        round_: the round.
        nonce, number, threshold: of the sessions.
        lengths: the number of words of each sum, by label.
        ask: how messages are sent.
        message: makes a request of a phase in which clients only have to answer.
        work: makes the request of masked words.
    """

    def __init__(self, round_: Round, nonce: str, number: int, threshold: int, lengths: Mapping[str, int], ask: Ask, message: Request, work: Request):
        self._round, self._facts, self._lengths = round_, {"nonce": nonce, "attempt": number}, dict(lengths)
        self._ask, self._message, self._work = ask, message, work
        self._aggregators = {label: Aggregator(Session(nonce, round_.window, number, label, threshold), words) for label, words in self._lengths.items()}
        self._left: list[str] = []

    def mask(self, names: Iterable[str]) -> list[str]:
        """Takes masked words of these clients. Returns those whose words are in the sums.

        Raises:
            RunError: fewer clients than the threshold are left.
        """
        here = self._exchange(names, wire.KEYS, self._message, {}, self._take_keys)
        members = {label: aggregator.close_keys() for label, aggregator in self._aggregators.items()}
        keys = {label: {name: wire.keys_as_facts(each) for name, each in table.items()} for label, table in members.items()}
        here = self._exchange(here, wire.SHARES, self._message, {wire.EACH: keys}, self._take_sealed)
        routed = {label: aggregator.close_sealed() for label, aggregator in self._aggregators.items()}

        def work(client: Client, facts: Mapping[str, Any]) -> RecordDict:
            sealed = {label: wire.sealed_as_facts(table[client.name]) for label, table in routed.items()}
            return self._work(client, {**facts, "clients": len(self._round.clients), wire.EACH: sealed})

        self._left = self._exchange(here, wire.MASKED, work, {}, self._take_masked)
        for aggregator in self._aggregators.values():
            aggregator.close_masked()
        return list(self._left)

    def total(self, label: str) -> np.ndarray:
        """Returns one of the sums without masks.

        Raises:
            RunError: fewer clients than the threshold are left.
        """
        aggregator = self._aggregators[label]
        survivors = aggregator.close_masked()
        self._left = self._exchange(self._left, wire.REVEAL, self._message, {"label": label, "survivors": survivors},
                                    lambda name, content, facts: aggregator.take_revealed(name, wire.revealed_of(facts)))
        return aggregator.total()

    def _exchange(self, names: Iterable[str], phase: str, request: Request, stated: Mapping[str, Any],
                  take: Callable[[str, RecordDict, Mapping[str, Any]], None]) -> list[str]:
        """Asks these clients, and returns those whose answers were taken."""
        about = {**self._facts, "phase": phase}

        def take_answer(name: str, content: RecordDict) -> None:
            facts = messages.facts_of(content)
            if any(facts.get(key) != value for key, value in {**about, "window": self._round.window}.items()):
                raise messages.Refused("an answer to another request: a replay")
            take(name, content, facts)

        return list(self._round.accepted(self._ask(names, lambda client: request(client, {**stated, **about})), take_answer))

    def _take_keys(self, name: str, content: RecordDict, facts: Mapping[str, Any]) -> None:
        keys = {label: wire.keys_of(wire.table_of(facts, wire.EACH).get(label)) for label in self._aggregators}
        for label, aggregator in self._aggregators.items():
            aggregator.expect_keys(name, keys[label])
        for label, aggregator in self._aggregators.items():
            aggregator.take_keys(name, keys[label])

    def _take_sealed(self, name: str, content: RecordDict, facts: Mapping[str, Any]) -> None:
        sealed = {label: wire.sealed_of(wire.table_of(facts, wire.EACH), label) for label in self._aggregators}
        for label, aggregator in self._aggregators.items():
            aggregator.expect_sealed(name, sealed[label])
        for label, aggregator in self._aggregators.items():
            aggregator.take_sealed(name, sealed[label])

    def _take_masked(self, name: str, content: RecordDict, facts: Mapping[str, Any]) -> None:
        arrays = messages.arrays_of(content, "accrue.masked")
        if set(arrays) != set(self._lengths):
            raise messages.Refused(f"words of {', '.join(sorted(arrays)) or 'nothing'}, where {', '.join(self._lengths)} are expected")
        words = {label: messages.tensor_of(label, arrays[label], torch.int64, torch.Size([count])) for label, count in self._lengths.items()}
        for label, aggregator in self._aggregators.items():
            aggregator.take_masked(name, words[label].numpy().view(np.uint64))
