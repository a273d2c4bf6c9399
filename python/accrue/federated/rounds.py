"""A round: who is asked, who counts, and the step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from accrue.errors import RunError, UsageError
from accrue.federated import messages
from accrue.federated.evaluation import Evaluation
from accrue.federated.exchange import Exchange
from accrue.federated.members import Client, Members
from accrue.windows import SumStepper, Sums

# After messages, which says what to install.
from flwr.app import MessageType, RecordDict

Read = TypeVar("Read")


@dataclasses.dataclass(frozen=True)
class Terms:
    """Until when a round waits: for all clients; for `grace` seconds once `quorum` of them have answered; for `timeout` seconds at most."""

    quorum: int
    grace: float
    timeout: float


@dataclasses.dataclass(frozen=True)
class RoundReport:
    """One round: an optimizer step, and who counted in it.

    - `window`: the round's index from 0. `step`: the optimizer steps so far. `stepped`: False if no loss term counted.
    - `loss`, `grad_norm`, `lr`: as in metrics.jsonl, over the samples that counted.
    - `weights`: the loss terms of each client that counted, by name; None if the mode hides them from the server.
    - `absent`: the clients that were not there, or not in time, by name with the reason.
    - `refused`: the clients whose sums were not taken, by name with the reason.
    - `evaluation`: of the parameters after the step, if one was due.
    """

    window: int
    step: int
    stepped: bool
    loss: float | None
    grad_norm: float | None
    lr: float | None
    weights: Mapping[str, float | None]
    absent: Mapping[str, str]
    refused: Mapping[str, str]
    evaluation: Evaluation | None = None

    def __str__(self) -> str:
        counted = ", ".join(name if weight is None else f"{name} with weight {weight:g}" for name, weight in self.weights.items())
        loss = "no loss" if self.loss is None else f"loss {self.loss:.6g}"
        parts = [f"step {self.step}: {loss}; counted {counted}"]
        parts += [f"absent {name}: {reason}" for name, reason in self.absent.items()]
        parts += [f"refused {name}: {reason}" for name, reason in self.refused.items()]
        parts += [] if self.evaluation is None else [str(self.evaluation)]
        return "; ".join(parts)


@dataclasses.dataclass(frozen=True)
class Collected:
    """What a round came to: the sums of all that counted, and by name the loss terms of each, or None if the mode hides them."""

    sums: Sums
    weights: Mapping[str, float | None]


class Round:
    """One optimizer step: asks clients, notes who does not count and why, and steps with what a mode makes of the answers.

    - `window`: the round's index from 0. `rounds`: how many the run has.
    - `clients`: those of the run, by name, in the order of their samples. `samples`: of all clients together.
    - `expected`: the parameters that clients receive, and what their sums have to fit.
    - `absent`, `refused`: the clients that did not answer, and those whose answer was not taken, by name with the reason.
    """

    def __init__(self, stepper: SumStepper, members: Members, exchange: Exchange, terms: Terms, expected: messages.Expected):
        self._stepper, self._members, self._exchange, self._terms = stepper, members, exchange, terms
        self.absent: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self.window, self.rounds = stepper.window, stepper.total_steps
        self.clients: Mapping[str, Client] = members.clients
        self.samples = sum(client.samples for client in members.clients.values())
        self.expected = expected

    def ask(self, names: Iterable[str], content: Callable[[Client], RecordDict], kind: str = MessageType.TRAIN) -> dict[str, RecordDict]:
        """Sends each of these clients its content, and returns the answers by name, in the order of `clients`.

        Waits as the terms have it. Clients that are not there, or do not answer in time, are noted as absent, and those that answer with an error as
        refused.
        """
        names = list(names)
        nodes, terms = self._members.nodes(self._terms.timeout), self._terms
        here = [name for name in names if name in nodes]
        self.absent.update({name: "not connected" for name in names if name not in nodes})
        since_quorum: list[float] = []

        def is_over(answers: int, seconds: float) -> bool:
            if answers >= min(terms.quorum, len(here)) and not since_quorum:
                since_quorum.append(seconds)
            return seconds >= terms.timeout or (bool(since_quorum) and seconds - since_quorum[0] >= terms.grace)

        contents = {name: content(self.clients[name]) for name in here}
        answers = self._exchange.ask(contents, nodes, kind, str(self.window), is_over)
        self.refused.update(answers.failed)
        self.absent.update({name: answers.lost.get(name, "no answer in time") for name in here if name not in answers.contents and name not in answers.failed})
        return {name: answers.contents[name] for name in self.clients if name in answers.contents}

    def connected(self) -> list[str]:
        """Returns the clients that are there now."""
        nodes = self._members.nodes(self._terms.timeout)
        return [name for name in self.clients if name in nodes]

    def refuse(self, name: str, reason: str) -> None:
        """Notes that a client's answer is not taken."""
        self.refused[name] = reason

    def accepted(self, answers: Mapping[str, RecordDict], read: Callable[[str, RecordDict], Read]) -> dict[str, Read]:
        """Returns what `read` makes of each answer, by name. Clients whose answer it refuses are noted with the reason."""
        results = {}
        for name, content in answers.items():
            try:
                results[name] = read(name, content)
            except (messages.Refused, UsageError) as reason:
                self.refuse(name, str(reason))
        return results

    def has_quorum(self, counted: Collection[str]) -> bool:
        return len(counted) >= self._terms.quorum

    def expect_quorum(self, counted: Iterable[str]) -> None:
        """Raises RunError if these are fewer clients than the quorum."""
        names = list(counted)
        if not self.has_quorum(names):
            raise RunError(f"federated window {self.window}", f"sums of {self._terms.quorum} clients",
                           f"those of {len(names)}: " + "; ".join(f"{name}: {reason}" for name, reason in {**self.absent, **self.refused}.items()),
                           "a smaller quorum, or a longer timeout")

    def step(self, collected: Collected) -> RoundReport:
        """Takes the step."""
        report = self._stepper.step(collected.sums)
        # A client whose sums were taken counts, even if it did not answer later.
        absent, refused = ({name: reason for name, reason in noted.items() if name not in collected.weights} for noted in (self.absent, self.refused))
        return RoundReport(self.window, report.step, report.stepped, report.loss, report.grad_norm, report.lr, collected.weights, absent, refused)
