"""Which clients a run has, and at which nodes they are."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from typing import Any

from accrue.errors import RunError, UsageError
from accrue.federated import messages
from accrue.federated.exchange import Exchange
from accrue.federated.shares import shares

# After messages, which says what to install.
from flwr.app import MessageType

LOG = logging.getLogger("accrue.federated")


@dataclasses.dataclass(frozen=True)
class Client:
    """A client of a run: its samples are [first, first + samples) of all, of which each window takes the next `share`."""

    name: str
    first: int
    samples: int
    share: int


class Members:
    """The clients of a run, and at which nodes they are at present. One that comes back by its name is the same client."""

    def __init__(self, exchange: Exchange, mode: Mapping[str, Any], keys: Mapping[str, str]):
        self._exchange, self._mode, self._keys = exchange, mode, dict(keys)
        self._described: dict[int, messages.Description | None] = {}
        self._refused: dict[int, str] = {}
        self.clients: dict[str, Client] = {}

    def gather(self, wanted: int, timeout: float) -> list[messages.Description]:
        """Waits for so many clients, and returns them in order of their names, which is the order of their samples."""
        begin = self._exchange.now()
        while True:
            self._meet(timeout)
            found = self._here()
            if len(found) >= wanted:
                return [found[name][1] for name in sorted(found)]
            if self._exchange.now() - begin >= timeout:
                refused = "".join(f"; refused {reason}" for reason in self._refused.values())
                raise RunError("start federated rounds", f"{wanted} clients",
                               f"{len(found)} ({', '.join(sorted(found)) or 'none'}) in {timeout:g} seconds{refused}",
                               "the configs of those that were refused" if refused else "starting the others, or a longer timeout")
            self._exchange.pause()

    def divide(self, described: list[messages.Description], samples: int) -> None:
        first = 0
        for each, share in zip(described, shares(samples, [each.samples for each in described])):
            self.clients[each.name] = Client(each.name, first, each.samples, share)
            first += each.samples

    def nodes(self, timeout: float) -> dict[str, int]:
        """Returns the nodes of the clients that are there."""
        self._meet(timeout)
        return {name: node for name, (node, _) in self._here().items() if name in self.clients}

    def _here(self) -> dict[str, tuple[int, messages.Description]]:
        present = set(self._exchange.nodes())
        return {each.name: (node, each) for node, each in self._described.items() if each is not None and node in present}

    def _meet(self, timeout: float) -> None:
        """Asks nodes that are new what they are."""
        present = self._exchange.nodes()
        for node in set(self._refused) - set(present):  # an authenticated node has the same number when it comes back, perhaps with another config
            del self._refused[node], self._described[node]
        new = {str(node): node for node in present if node not in self._described}
        answers = self._exchange.ask({name: messages.pack({}) for name in new}, new, MessageType.QUERY, "describe", lambda _, seconds: seconds >= timeout)
        for name, reason in answers.failed.items():
            self._leave_out(new[name], f"node {name}", reason)
        for name, content in answers.contents.items():
            try:
                self._admit(new[name], messages.description_of(content))
            except (messages.Refused, UsageError) as refused:
                self._leave_out(new[name], f"node {name}", str(refused))

    def _leave_out(self, node: int, who: str, reason: str) -> None:
        self._described[node], self._refused[node] = None, f"{who}: {reason}"
        LOG.warning("refused %s: %s", who, reason)

    def _admit(self, node: int, described: messages.Description) -> None:
        name = described.name
        messages.expect_same(name, "the mode", self._mode, described.mode, "the same mode=... in server_app and client_app")
        for key in sorted({*self._keys, *described.keys}):
            messages.expect_same(name, key, self._keys.get(key, "the default"), described.keys.get(key, "the default"))
        if name in self._here():
            raise messages.Refused(f"the name {name}, which another client has that is there: name=... in client_app")
        if self.clients and name not in self.clients:
            raise messages.Refused(f"{name}, which is not among the clients that this run began with: {', '.join(self.clients)}")
        if self.clients and described.samples != self.clients[name].samples:
            raise messages.Refused(f"{name} with {described.samples} samples; it began with {self.clients[name].samples}")
        self._described[node] = described
