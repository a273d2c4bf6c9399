"""The server's side of one attempt at a round: five exchanges, of which the middle one has the clients' work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch

from accrue.errors import UsageError
from accrue.federated import messages
from accrue.federated.members import Client
from accrue.federated.rounds import Round
from accrue.federated.secure import wire
from accrue.federated.secure.aggregator import Aggregator
from accrue.federated.secure.needs import NeededUnits
from accrue.federated.secure.session import Session
from accrue.federated.secure.words import SumLayout
from accrue.windows import Sums

# After messages, which says what to install.
from flwr.app import RecordDict

# What makes a request: a client, facts, and the record of tensors that the phase has.
Request = Callable[[Client, Mapping[str, Any]], RecordDict]


class Attempt:
    """Asks clients for two sums at once: of the units that they need, and of their words in the stated units.

    The second sum is unmasked only if the first one says that all were in the stated units. Otherwise its masks stay, and the round begins
    again in larger units with new keys.

    Args:
        round_: the round.
        nonce, attempt, threshold: as in Session.
        units: the stated units.
        message: makes the content of a request.
        work: makes the content of the request that has the window's samples and parameters.
    """

    def __init__(self, round_: Round, nonce: str, attempt: int, threshold: int, units: tuple[int, ...], message: Request, work: Request):
        self._round, self._facts, self._units = round_, {"nonce": nonce, "attempt": attempt}, units
        self._message, self._work = message, work
        self._operation = f"secure sum of round {round_.window}"
        self._left: list[str] = []
        self._needed = NeededUnits(units, len(round_.clients), messages.MOST_UNIT)
        self._layout = SumLayout({name: value.shape for name, value in round_.expected.parameters.items()}, units)
        self._words = {wire.UNITS: self._needed.words, wire.SUMS: self._layout.words}
        self._aggregators = {label: Aggregator(Session(nonce, round_.window, attempt, label, threshold), words) for label, words in self._words.items()}

    @property
    def survivors(self) -> list[str]:
        """Those whose words are in the sum."""
        return self._aggregators[wire.SUMS].survivors

    def needed(self, names: Iterable[str]) -> tuple[int, ...]:
        """Asks these clients for keys, shares and masked words. Returns the largest units that one of them needs.

        Raises:
            RunError: fewer clients than the threshold or the quorum are left.
        """
        here = self._exchange(names, wire.KEYS, self._message, {}, self._take_keys)
        members = {label: aggregator.close_keys() for label, aggregator in self._aggregators.items()}
        tables = {label: {name: wire.keys_as_facts(keys) for name, keys in each.items()} for label, each in members.items()}
        here = self._exchange(here, wire.SHARES, self._message, {wire.EACH: tables}, self._take_sealed)
        routed = {label: aggregator.close_sealed() for label, aggregator in self._aggregators.items()}
        here = self._exchange([name for name in here if all(name in each for each in routed.values())], wire.MASKED, self._work,
                              lambda client: {"clients": len(self._round.clients),
                                              wire.EACH: {label: wire.sealed_as_facts(each[client.name]) for label, each in routed.items()}}, self._take_masked)
        self._round.expect_quorum(here)
        self._left = here
        return self._needed.largest(self._unmasked(wire.UNITS), len(self._aggregators[wire.UNITS].survivors))

    def sums(self) -> Sums:
        """Returns the sum of the survivors' sums, all of which are in the stated units.

        Raises:
            RunError: fewer clients than the threshold are left, or the sum is out of range.
        """
        return self._layout.sums_of(self._operation, self._unmasked(wire.SUMS))

    def _unmasked(self, label: str) -> np.ndarray:
        aggregator = self._aggregators[label]
        survivors = aggregator.close_masked()
        self._left = self._exchange(self._left, wire.REVEAL, self._message, {"label": label, "survivors": survivors},
                                    lambda name, content, facts: aggregator.take_revealed(name, wire.revealed_of(facts)))
        return aggregator.total()

    def _exchange(self, names: Iterable[str], phase: str, request: Request, facts_of: Callable[[Client], Mapping[str, Any]] | Mapping[str, Any],
                  take: Callable[[str, RecordDict, Mapping[str, Any]], None]) -> list[str]:
        """Asks these clients, and returns those whose answers were taken."""
        stated, taken = {**self._facts, "phase": phase}, []
        answers = self._round.ask(names, lambda client: request(client, {**stated, **(facts_of(client) if callable(facts_of) else facts_of)}))
        for name, content in answers.items():
            try:
                facts = messages.facts_of(content)
                if any(facts.get(key) != value for key, value in {**stated, "window": self._round.window}.items()):
                    raise messages.Refused("an answer to another request: a replay")
                take(name, content, facts)
                taken.append(name)
            except (messages.Refused, UsageError) as reason:
                self._round.refuse(name, str(reason))
        return taken

    def _take_keys(self, name: str, content: RecordDict, facts: Mapping[str, Any]) -> None:
        for label, aggregator in self._aggregators.items():
            aggregator.take_keys(name, wire.keys_of(wire.table_of(facts, wire.EACH).get(label)))

    def _take_sealed(self, name: str, content: RecordDict, facts: Mapping[str, Any]) -> None:
        for label, aggregator in self._aggregators.items():
            aggregator.take_sealed(name, wire.sealed_of(wire.table_of(facts, wire.EACH), label))

    def _take_masked(self, name: str, content: RecordDict, facts: Mapping[str, Any]) -> None:
        arrays = content["accrue.masked"] if "accrue.masked" in content else {}
        if set(arrays) != set(self._words):
            raise messages.Refused(f"words of {', '.join(sorted(arrays)) or 'nothing'}, where {', '.join(self._words)} are expected")
        words = {label: messages.tensor_of(label, arrays[label], torch.int64, torch.Size([count])) for label, count in self._words.items()}
        for label, aggregator in self._aggregators.items():
            aggregator.take_masked(name, words[label].numpy().view(np.uint64))
