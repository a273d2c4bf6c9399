"""What the modes of federated rounds have in common: each is one class, in a file of its own, that server and clients state alike."""

from __future__ import annotations

import abc
import dataclasses
import functools
import operator
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from accrue.errors import UsageError
from accrue.federated import messages
from accrue.federated.evaluation import Evaluation
from accrue.federated.members import Client
from accrue.federated.rounds import Collected, Round
from accrue.federated.work import Task
from accrue.windows import Sums

# After messages, which says what to install.
from flwr.app import MessageType, RecordDict


class Mode(abc.ABC):
    """What a round is: what a client is asked, what it answers, and how the answers become the sums of one optimizer step.

    The server calls collect() and evaluate(), a client answer() and answer_evaluation().
    """

    @abc.abstractmethod
    def stated(self) -> dict[str, Any]:
        """Returns the mode's name and settings, as JSON. A client refuses a request of a mode that is not its own."""

    @abc.abstractmethod
    def facts(self, round_: Round, client: Client) -> dict[str, Any]:
        """Returns the facts that the server sends this client besides parameters and units."""

    @abc.abstractmethod
    def sums(self, task: Task) -> Sums:
        """Returns the sums of a client's samples, in the units that were asked for, or larger ones that they need."""

    def shared(self, parameters: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Returns the trained parameters that clients receive and send sums of."""
        return dict(parameters)

    # The client's side.

    def expect_client(self) -> None:
        """Raises UsageError if a client cannot take part with these settings."""

    def parameters(self, task: Task) -> dict[str, torch.Tensor]:
        """Returns all trained parameters of a client for a message with the shared ones."""
        return task.parameters()

    def answer(self, task: Task) -> RecordDict:
        """Returns the content of a reply."""
        return messages.pack_sums(self.sums(task))

    def answer_evaluation(self, task: Task) -> RecordDict:
        """Returns the content of a reply with the losses of the client's own validation data."""
        return messages.pack_sums(task.work.validation().run(self.parameters(task)))

    # The server's side.

    def expect_clients(self, clients: int, quorum: int) -> None:
        """Raises UsageError if so many clients, or this quorum of them, do not suit the mode. Called when the app is made."""

    def expect_server(self, keys: Mapping[str, str], clients: int, quorum: int) -> None:
        """Raises UsageError if the server's config (its keys that differ from the defaults), clients and quorum do not suit the mode."""

    def message(self, round_: Round, facts: Mapping[str, Any], **tensors: Mapping[str, torch.Tensor]) -> RecordDict:
        """Returns the content of any message of this mode to a client."""
        return messages.pack({"mode": self.stated(), "window": round_.window, **facts}, **tensors)

    def request(self, round_: Round, client: Client, units: Iterable[int]) -> RecordDict:
        """Returns the content of the message that asks a client for its sums."""
        return self.message(round_, {"units": list(units), **self.facts(round_, client)}, parameters=round_.expected.parameters)

    def sums_of(self, content: RecordDict, expected: messages.Expected) -> Sums:
        """Returns the sums in a reply. Raises Refused unless they are finite and fit."""
        return messages.sums_of(content, expected)

    def collect(self, round_: Round) -> Collected:
        """Asks all clients, and returns what those that count come to. Raises RunError if they are fewer than the quorum."""
        sums = self._in_equal_units(round_, self._ask(round_, {name: round_.expected.units for name in round_.clients}))
        round_.expect_quorum(sums)
        counted = {name: sums[name] for name in round_.clients if name in sums}
        return Collected(functools.reduce(operator.add, counted.values()), {name: each.weight for name, each in counted.items()})

    def evaluate(self, round_: Round) -> Evaluation:
        """Asks all clients for the losses of their own validation data. Those that do not answer are missing in it."""
        answers = round_.ask(round_.clients, lambda client: self.message(round_, {}, parameters=round_.expected.parameters), MessageType.EVALUATE)
        sums = round_.accepted(answers, lambda _, content: messages.sums_of(content, messages.Expected({}, (), None)))
        weight = sum(each.weight for each in sums.values())
        loss = sum(each.loss_sum for each in sums.values()) / weight if weight > 0 else None
        return Evaluation(loss, {name: each.loss_sum / each.weight for name, each in sums.items() if each.weight > 0},
                          {name: each.weight for name, each in sums.items()}, {**round_.absent, **round_.refused})

    def _ask(self, round_: Round, units: Mapping[str, tuple[int, ...]]) -> dict[str, Sums]:
        """Returns the sums of these clients, asked for in these units, without those that do not fit."""
        answers = round_.ask(units, lambda client: self.request(round_, client, units[client.name]))
        return round_.accepted(answers, lambda name, content: self.sums_of(content, dataclasses.replace(round_.expected, units=units[name])))

    def _in_equal_units(self, round_: Round, sums: dict[str, Sums]) -> dict[str, Sums]:
        """Asks again until all sums are in the units that the clients which count need, as one process would have them."""
        needs = {name: each.units for name, each in sums.items()}
        while True:
            wanted = tuple(map(max, *(needs[name] for name in sums))) if len(sums) > 1 else next((needs[name] for name in sums), ())
            others = {name: wanted for name, each in sums.items() if each.units != wanted}
            if not others:
                return sums
            again = self._ask(round_, others)
            for name in [name for name, each in again.items() if each.units != wanted]:
                round_.refuse(name, "sums in other units than it was asked for")
                del again[name]
            sums = {name: again.get(name, each) for name, each in sums.items() if name not in others or name in again}


def expect_mode(operation: str, mode: Any) -> Mode:
    """Raises UsageError for anything but a mode."""
    if not isinstance(mode, Mode):
        raise UsageError(operation, "a mode of rounds as mode", f"a value of type {getattr(mode, '__name__', type(mode).__name__)}",
                         "mode=accrue.federated.ExactWindow()")
    return mode
