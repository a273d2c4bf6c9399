"""The server's side of one attempt: the exchanges of a protocol that sums one or more vectors at once."""

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
from accrue.federated.secure.aggregator import Aggregator, TooFewClients
from accrue.federated.secure.session import Session

# After messages, which says what to install.
from flwr.app import RecordDict

# Makes the content of a request: of a client and facts.
Request = Callable[[Client, Mapping[str, Any]], RecordDict]
# Sends contents to clients by name, and returns the answers.
Ask = Callable[[Iterable[str], Callable[[Client], RecordDict]], Mapping[str, RecordDict]]
Facts = Mapping[str, Any]
Take = Callable[[str, RecordDict, Facts], None]


class Keys:
    """Keys and shares of all members for one attempt, before anything is masked with them.

    Args:
        window, nonce, number, threshold: of the sessions.
        labels: the sums.
    """

    def __init__(self, window: int, nonce: str, number: int, threshold: int, labels: Iterable[str]):
        self.about = {"nonce": nonce, "window": window, "attempt": number}
        self.aggregators = {label: Aggregator(Session(nonce, window, number, label, threshold)) for label in labels}
        self._routed: dict[str, dict[str, dict[str, bytes]]] = {}

    @property
    def members(self) -> set[str]:
        """Those who sent keys and shares, once shares are closed."""
        return set().union(*self._routed.values())

    def request(self) -> dict[str, Any]:
        """Returns what asks a client for its keys."""
        return {**self.about, "phase": wire.KEYS}

    def close_keys(self) -> dict[str, Any]:
        """Returns what asks a client that sent keys for its shares. Raises TooFewClients."""
        members = {label: aggregator.close_keys() for label, aggregator in self.aggregators.items()}
        return {**self.about, "phase": wire.SHARES,
                wire.EACH: {label: {name: wire.keys_as_facts(each) for name, each in table.items()} for label, table in members.items()}}

    def close_shares(self) -> None:
        """Raises TooFewClients."""
        self._routed = {label: aggregator.close_sealed() for label, aggregator in self.aggregators.items()}

    def sealed_for(self, name: str) -> dict[str, dict[str, str]]:
        return {label: wire.sealed_as_facts(table[name]) for label, table in self._routed.items()}

    def take_keys(self, name: str, facts: Facts) -> None:
        keys = {label: wire.keys_of(wire.table_of(facts, wire.EACH).get(label)) for label in self.aggregators}
        for label, aggregator in self.aggregators.items():
            aggregator.expect_keys(name, keys[label])
        for label, aggregator in self.aggregators.items():
            aggregator.take_keys(name, keys[label])

    def take_shares(self, name: str, facts: Facts) -> None:
        sealed = {label: wire.sealed_of(wire.table_of(facts, wire.EACH), label) for label in self.aggregators}
        for label, aggregator in self.aggregators.items():
            aggregator.expect_sealed(name, sealed[label])
        for label, aggregator in self.aggregators.items():
            aggregator.take_sealed(name, sealed[label])


class NextKeys:
    """Keys for the next round, whose requests and answers travel with messages of this one. A client whose part is missing or does not fit is left out.

    If too few are left, there are none (`ready()` is None), and the next round begins with exchanges of its own.
    """

    def __init__(self, keys: Keys):
        self._keys, self._request, self._take, self._is_whole = keys, keys.request(), keys.take_keys, False
        self._taken: set[str] = set()  # those whose part of the present phase was taken
        self._asked: set[str] | None = None

    def request(self, name: str) -> dict[str, Any]:
        """Returns the facts that a request to a client carries; none after both phases, or if it sent no keys."""
        return {wire.NEXT: self._request} if self._request and (self._asked is None or name in self._asked) else {}

    def take(self, name: str, facts: Facts) -> None:
        """Takes what came along with an answer of this round."""
        answer = facts.get(wire.NEXT)
        if not self._request or not isinstance(answer, dict) or any(answer.get(key) != self._request[key] for key in (*self._keys.about, "phase")):
            return
        try:
            self._take(name, answer)
            self._taken.add(name)
        except (messages.Refused, UsageError):
            return  # the client has no keys for the next round, which then asks it for new ones

    def close(self) -> None:
        """Ends a phase, after an exchange of this round."""
        if not self._request:
            return
        self._asked, self._taken = self._taken, set()
        try:
            if self._request["phase"] == wire.KEYS:
                self._request, self._take = self._keys.close_keys(), self._keys.take_shares
            else:
                self._request = {}
                self._keys.close_shares()
                self._is_whole = True
        except TooFewClients:
            self._request = {}

    def ready(self) -> Keys | None:
        return self._keys if self._is_whole else None


class Attempt:
    """Asks clients for keys, shares and masked words, and then for the shares that unmask one sum after the other. A sum may stay masked.

    Args:
        round_: the round.
        keys: those of this attempt, which may have been exchanged before.
        lengths: the number of words of each sum, by label.
        ask: how messages are sent.
        message: makes a request of a phase in which clients only have to answer.
        work: makes the request of masked words.
        following: keys of the next round, which are exchanged on the way.
    """

    def __init__(self, round_: Round, keys: Keys, lengths: Mapping[str, int], ask: Ask, message: Request, work: Request,
                 following: NextKeys | None = None):
        self._round, self._keys, self._lengths, self._following = round_, keys, dict(lengths), following
        for label, words in self._lengths.items():
            keys.aggregators[label].expect_words(words)
        self._ask, self._message, self._work = ask, message, work
        self._left: list[str] = []

    def prepare(self, names: Iterable[str]) -> None:
        """Exchanges keys and shares with these clients.

        Raises:
            RunError: fewer clients than the threshold are left.
        """
        here = self._exchange(names, self._message, self._keys.request(), lambda name, _, facts: self._keys.take_keys(name, facts))
        self._exchange(here, self._message, self._keys.close_keys(), lambda name, _, facts: self._keys.take_shares(name, facts))
        self._keys.close_shares()

    def mask(self) -> list[str]:
        """Takes masked words of the members. Returns those whose words are in the sums.

        Raises:
            RunError: fewer clients than the threshold are left.
        """
        def work(client: Client, facts: Facts) -> RecordDict:
            return self._work(client, {**facts, "clients": len(self._round.clients), wire.EACH: self._keys.sealed_for(client.name)})

        members = [name for name in self._round.clients if name in self._keys.members]
        self._left = self._exchange(members, work, {**self._keys.about, "phase": wire.MASKED}, self._take_masked)
        for aggregator in self._keys.aggregators.values():
            aggregator.close_masked()
        return list(self._left)

    def total(self, label: str) -> np.ndarray:
        """Returns one of the sums without masks.

        Raises:
            RunError: fewer clients than the threshold are left.
        """
        aggregator = self._keys.aggregators[label]
        request = {**self._keys.about, "phase": wire.REVEAL, "label": label, "survivors": aggregator.close_masked()}
        self._left = self._exchange(self._left, self._message, request,
                                    lambda name, _, facts: aggregator.take_revealed(name, wire.revealed_of(facts)))
        return aggregator.total()

    def _exchange(self, names: Iterable[str], request: Request, stated: Facts, take: Take) -> list[str]:
        """Asks these clients, and returns those whose answers were taken."""
        following = self._following if stated["phase"] in (wire.MASKED, wire.REVEAL) else None

        def take_answer(name: str, content: RecordDict) -> None:
            facts = messages.facts_of(content)
            if any(facts.get(key) != stated[key] for key in (*self._keys.about, "phase")):
                raise messages.Refused("an answer to another request: a replay")
            take(name, content, facts)
            if following is not None:
                following.take(name, facts)

        def content(client: Client) -> RecordDict:
            return request(client, stated if following is None else {**stated, **following.request(client.name)})

        answered = list(self._round.accepted(self._ask(names, content), take_answer))
        if following is not None:
            following.close()
        return answered

    def _take_masked(self, name: str, content: RecordDict, facts: Facts) -> None:
        arrays, lengths = messages.arrays_of(content, "accrue.masked"), self._lengths
        if set(arrays) != set(lengths):
            raise messages.Refused(f"words of {', '.join(sorted(arrays)) or 'nothing'}, where {', '.join(lengths)} are expected")
        words = {label: messages.tensor_of(label, arrays[label], torch.int64, torch.Size([count])) for label, count in lengths.items()}
        for label, aggregator in self._keys.aggregators.items():
            aggregator.take_masked(name, words[label].numpy().view(np.uint64))
