"""The side that has the optimizer."""

from __future__ import annotations

import dataclasses
import functools
import logging
import operator
import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from accrue import _native
from accrue._native import DataShape
from accrue.errors import RunError, UsageError
from accrue.federated import messages
from accrue.federated.shares import draws, shares
from accrue.options import check_count, check_options
from accrue.windows import SumStepper, Sums

# After messages, which says what to install.
from flwr.app import Context, Message, MessageType, RecordDict
from flwr.serverapp import Grid, ServerApp

LOG = logging.getLogger("accrue.federated")
# How often replies are asked for, in seconds.
PAUSE = 0.2


@dataclasses.dataclass(frozen=True)
class Client:
    """A client of a run: its samples are [first, first + samples) of all, of which each window takes the next `share`."""

    name: str
    first: int
    samples: int
    share: int


@dataclasses.dataclass(frozen=True)
class RoundReport:
    """One round: an optimizer step, and who counted in it.

    - `window`: the round's index from 0. `step`: the optimizer steps so far. `stepped`: False if no loss term counted.
    - `loss`, `grad_norm`, `lr`: as in metrics.jsonl, over the samples that counted.
    - `weights`: the loss terms of each client that counted, by name.
    - `absent`: the clients that were not there, or not in time, by name with the reason.
    - `refused`: the clients whose sums were not taken, by name with the reason.
    """

    window: int
    step: int
    stepped: bool
    loss: float | None
    grad_norm: float | None
    lr: float | None
    weights: Mapping[str, float]
    absent: Mapping[str, str]
    refused: Mapping[str, str]

    def __str__(self) -> str:
        counted = ", ".join(f"{name} with weight {weight:g}" for name, weight in self.weights.items())
        loss = "no loss" if self.loss is None else f"loss {self.loss:.6g}"
        parts = [f"step {self.step}: {loss}; counted {counted}"]
        parts += [f"absent {name}: {reason}" for name, reason in self.absent.items()]
        parts += [f"refused {name}: {reason}" for name, reason in self.refused.items()]
        return "; ".join(parts)


class SystemTime:
    """The time that a round waits for. Tests have another."""

    def now(self) -> float:
        return time.monotonic()

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclasses.dataclass(frozen=True)
class Terms:
    """Until when a round waits: for all clients; for `grace` seconds once `quorum` of them have answered; for `timeout` seconds at most."""

    quorum: int
    grace: float
    timeout: float


@dataclasses.dataclass
class Answers:
    """What came back, by the client's name."""

    contents: dict[str, RecordDict] = dataclasses.field(default_factory=dict)
    failed: dict[str, str] = dataclasses.field(default_factory=dict)


class Exchange:
    """Sends each client its message and collects the answers, by Flower's grid."""

    def __init__(self, grid: Grid, clock: SystemTime):
        self._grid, self._clock = grid, clock

    def nodes(self) -> list[int]:
        return sorted(self._grid.get_node_ids())

    def now(self) -> float:
        return self._clock.now()

    def pause(self) -> None:
        self._clock.pause(PAUSE)

    def ask(self, contents: Mapping[str, RecordDict], nodes: Mapping[str, int], kind: str, group: str, is_over: Callable[[int, float], bool]) -> Answers:
        """Returns when all have answered, or when `is_over(answers, seconds)`."""
        sent = {name: Message(content, dst_node_id=nodes[name], message_type=kind, group_id=group) for name, content in contents.items()}
        ids = list(self._grid.push_messages(list(sent.values())))
        waiting, by_node = set(ids), {nodes[name]: name for name in sent}
        answers, begin = Answers(), self._clock.now()
        while waiting:
            for reply in self._grid.pull_messages(list(waiting)):
                waiting.discard(reply.metadata.reply_to_message_id)
                name = by_node.get(reply.metadata.src_node_id)
                if name is None:
                    continue
                if reply.has_error():
                    answers.failed[name] = reply.error.reason or f"error {reply.error.code} of Flower"
                else:
                    answers.contents[name] = reply.content
            if not waiting or is_over(len(answers.contents), self._clock.now() - begin):
                break
            self.pause()
        return answers


class Members:
    """The clients of a run, and at which nodes they are at present. One that comes back by its name is the same client."""

    def __init__(self, exchange: Exchange, keys: Mapping[str, str]):
        self._exchange, self._keys = exchange, dict(keys)
        self._described: dict[int, messages.Description | None] = {}
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
                raise RunError("start federated rounds", f"{wanted} clients", f"{len(found)} ({', '.join(sorted(found)) or 'none'}) in {timeout:g} seconds",
                               "starting the others, or a longer timeout")
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
        new = {str(node): node for node in self._exchange.nodes() if node not in self._described}
        answers = self._exchange.ask({name: messages.pack({}) for name in new}, new, MessageType.QUERY, "describe", lambda _, seconds: seconds >= timeout)
        for name, reason in answers.failed.items():
            self._leave_out(new[name], f"node {name}", reason)
        for name, content in answers.contents.items():
            try:
                self._admit(new[name], messages.description_of(content))
            except (messages.Refused, UsageError) as refused:
                self._leave_out(new[name], f"node {name}", str(refused))

    def _leave_out(self, node: int, who: str, reason: str) -> None:
        self._described[node] = None
        LOG.warning("refused %s: %s", who, reason)

    def _admit(self, node: int, described: messages.Description) -> None:
        name = described.name
        for key in sorted({*self._keys, *described.keys}):
            messages.expect_same(name, key, self._keys.get(key, "the default"), described.keys.get(key, "the default"))
        if name in self._here():
            raise messages.Refused(f"the name {name}, which another client has that is there: name=... in client_app")
        if self.clients and name not in self.clients:
            raise messages.Refused(f"{name}, which is not among the clients that this run began with: {', '.join(self.clients)}")
        if self.clients and described.samples != self.clients[name].samples:
            raise messages.Refused(f"{name} with {described.samples} samples; it began with {self.clients[name].samples}")
        self._described[node] = described


class Round:
    """One exact window: all clients run their samples of it with the same parameters, and one optimizer takes the step."""

    def __init__(self, stepper: SumStepper, members: Members, exchange: Exchange, terms: Terms, sum_dtype: torch.dtype | None):
        self._stepper, self._members, self._exchange, self._terms = stepper, members, exchange, terms
        self._expected = messages.Expected(stepper.parameters(), stepper.units, sum_dtype)
        self._absent: dict[str, str] = {}
        self._refused: dict[str, str] = {}

    def run(self) -> RoundReport:
        """Takes the step. Raises RunError if fewer clients than the quorum counted in time."""
        window = self._stepper.window
        sums = self._in_equal_units(self._ask({name: self._expected.units for name in self._members.clients}))
        if len(sums) < self._terms.quorum:
            raise RunError(f"federated window {window}", f"sums of {self._terms.quorum} clients",
                           f"those of {len(sums)}: " + "; ".join(f"{name}: {reason}" for name, reason in {**self._absent, **self._refused}.items()),
                           "a smaller quorum, or a longer timeout")
        counted = [name for name in self._members.clients if name in sums]
        report = self._stepper.step(functools.reduce(operator.add, (sums[name] for name in counted)))
        return RoundReport(window, report.step, report.stepped, report.loss, report.grad_norm, report.lr, {name: sums[name].weight for name in counted},
                           self._absent, self._refused)

    def _ask(self, units: Mapping[str, tuple[int, ...]]) -> dict[str, Sums]:
        """Asks these clients for their sums in these units, and notes those that do not count."""
        nodes, terms = self._members.nodes(self._terms.timeout), self._terms
        here = [name for name in units if name in nodes]
        self._absent.update({name: "not connected" for name in units if name not in nodes})
        total = sum(client.samples for client in self._members.clients.values())
        contents = {}
        for name in here:
            client = self._members.clients[name]
            contents[name] = messages.pack({"window": self._stepper.window, "first": client.first, "total": total, "units": list(units[name]),
                                            "draws": draws(self._stepper.window, client.share, client.first, client.samples, total)},
                                           parameters=self._expected.parameters)
        since_quorum: list[float] = []

        def is_over(answers: int, seconds: float) -> bool:
            if answers >= min(terms.quorum, len(here)) and not since_quorum:
                since_quorum.append(seconds)
            return seconds >= terms.timeout or (bool(since_quorum) and seconds - since_quorum[0] >= terms.grace)

        answers = self._exchange.ask(contents, nodes, MessageType.TRAIN, str(self._stepper.window), is_over)
        self._refused.update(answers.failed)
        self._absent.update({name: "no answer in time" for name in here if name not in answers.contents and name not in answers.failed})
        sums = {}
        for name, content in answers.contents.items():
            try:
                sums[name] = messages.sums_of(content, dataclasses.replace(self._expected, units=units[name]))
            except messages.Refused as reason:
                self._refused[name] = str(reason)
        return sums

    def _in_equal_units(self, sums: dict[str, Sums]) -> dict[str, Sums]:
        """Runs windows again until all sums are in the units that the clients which count need, as one process would have them."""
        needs = {name: each.units for name, each in sums.items()}
        while True:
            wanted = tuple(map(max, *(needs[name] for name in sums))) if len(sums) > 1 else next((needs[name] for name in sums), ())
            others = {name: wanted for name, each in sums.items() if each.units != wanted}
            if not others:
                return sums
            again = self._ask(others)
            for name, each in again.items():
                if each.units != wanted:
                    self._refused[name] = "sums in other units than it was asked for"
            sums = {name: again.get(name, each) for name, each in sums.items() if name not in others or (name in again and name not in self._refused)}


def server_app(config: str | os.PathLike[str], *, clients: int, quorum: int | None = None, grace: float = 30.0, timeout: float = 600.0,
               overrides: Iterable[str] = (), on_round: Callable[[RoundReport], Any] | None = None,
               on_end: Callable[[SumStepper], Any] | None = None, clock: SystemTime | None = None) -> ServerApp:
    """Returns a Flower ServerApp whose rounds are optimizer steps over all clients' samples (exact windows).

    Clients are weighted by their loss terms. What a client sends is refused, with its name, if it is not finite, oversized or does not fit the
    parameters; the round then goes on without it.

    Args:
        config: a config file on the server, with the same keys of model, loss and precision as the clients'. `run.steps` is the number of
            rounds and `batch.samples` the samples of a window over all clients, shared in proportion to their data. Its section data is not used
            except for data.order = "sequential".
        clients: how many clients the run begins with. Their names, in order, determine the order of all samples.
        quorum: how many have to count in a round; all of them if it is not stated.
        grace: how many seconds a round waits for the others once the quorum has answered.
        timeout: how many seconds a round, or the start, waits in all.
        overrides: keys that differ, as on the command line.
        on_round: called with each RoundReport. Reports are also logged ("accrue.federated", level INFO).
        on_end: called with the SumStepper after the last round: `torch.save(stepper.parameters(), ...)`.
        clock: for tests: what the rounds wait by.

    Raises:
        UsageError: an option is of the wrong type, or the quorum is larger than the number of clients.
    """
    check_count("server_app", "clients", clients, required=True)
    check_count("server_app", "quorum", quorum)
    check_options("server_app", {"grace": grace, "timeout": timeout}, grace=float, timeout=float)
    if quorum is not None and quorum > clients:
        raise UsageError("server_app", f"a quorum of at most the {clients} clients", str(quorum), f"quorum={clients}")
    overrides = list(overrides)
    terms = Terms(clients if quorum is None else quorum, float(grace), float(timeout))
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        keys = dict(_native.keys_of_sums(os.fspath(config), overrides))
        exchange = Exchange(grid, clock or SystemTime())
        members = Members(exchange, keys)
        described = members.gather(clients, terms.timeout)
        model = described[0]
        stepper = SumStepper(config, DataShape(vocab=model.vocab, image=model.image, classes=model.classes), overrides)
        for each in described:
            for what, mine, theirs in (("vocabulary", model.vocab, each.vocab), ("image", model.image, each.image), ("classes", model.classes, each.classes),
                                       ("frozen parameters", stepper.frozen_digest, each.frozen)):
                messages.expect_same(each.name, what, mine, theirs)
        members.divide(described, stepper.batch_samples)
        sum_dtype = {"fixed": torch.int64, "fp64": torch.float64}.get(keys.get("precision.accumulate", "fp32").strip('"'))
        while stepper.window < stepper.total_steps:
            report = Round(stepper, members, exchange, terms, sum_dtype).run()
            LOG.info("%s", report)
            if on_round is not None:
                on_round(report)
        if on_end is not None:
            on_end(stepper)

    return app
