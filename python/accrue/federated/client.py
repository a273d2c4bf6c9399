"""The side that has data."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from accrue.errors import Error as AccrueError
from accrue.federated import messages
from accrue.federated.exact_window import ExactWindow
from accrue.federated.modes import Mode, expect_mode
from accrue.federated.work import Task, Work
from accrue.options import check_options, path_of, words_of

# After messages, which says what to install.
from flwr.app import Context, Error, Message
from flwr.clientapp import ClientApp

# Flower's codes of errors begin at 0; those of apps have no range of their own.
FAILED = 1000

OPERATION = "client_app"

Overrides = Iterable[str] | Callable[[Context], Iterable[str]]


def _name_of(name: str | None, context: Context) -> str:
    if name is not None:
        return name
    for key in ("name", "partition-id"):
        if key in context.node_config:
            return str(context.node_config[key])
    return str(context.node_id)


class _Works:
    """The work that messages to one app have needed, by the overrides. Simulated clients share a process."""

    def __init__(self, config: str, overrides: list[str] | Callable[[Context], Iterable[str]]):
        self._config = config
        self._overrides = overrides
        self._made: dict[tuple[str, ...], Work] = {}

    def work(self, context: Context) -> Work:
        overrides = tuple(words_of(OPERATION, "overrides", self._overrides(context)) if callable(self._overrides) else self._overrides)
        if overrides not in self._made:
            self._made[overrides] = Work(self._config, overrides)
        return self._made[overrides]


def _describe(work: Work, name: str, mode: Mode) -> Any:
    worker = work.worker()
    shape = worker.shape
    return messages.describe(messages.Description(name, mode.stated(), worker.samples, shape.vocab, list(shape.image), list(shape.classes), work.keys(),
                                                  worker.frozen_digest))


def client_app(config: str | os.PathLike[str], *, mode: Mode | None = None, overrides: Overrides = (), name: str | None = None) -> ClientApp:
    """Returns a Flower ClientApp that runs windows on this machine's data, by a config as `accrue train` has it.

    Data never leave: a reply has sums of gradients, of losses and of their terms. Before the first round it has the number of samples, the
    vocabulary or classes, and the keys of model, loss and precision.

    Args:
        config: a config file on this machine. Its data.train are the client's samples, in order (data.order = "sequential"). The memory budget
            and batch.micro are the client's own; for the bits of one process all clients state the same batch.micro.
        mode: what a round is, as the server states it; requests of another mode are refused. Without it: ExactWindow().
        overrides: keys that differ, as on the command line, or a function that returns them for a Flower Context: simulated clients have their
            `partition-id` in context.node_config.
        name: what the server calls this client, unique and the same in each round. Without it: `name` or `partition-id` of Flower's node config,
            or the node's id.

    Raises:
        UsageError: an option is of the wrong type, the mode is none, or it lacks what a client needs.
    """
    agreed = expect_mode(OPERATION, ExactWindow() if mode is None else mode)
    agreed.expect_client()
    if name is not None:
        check_options(OPERATION, {"name": name}, name=str)
    works = _Works(path_of(OPERATION, "config", config), overrides if callable(overrides) else words_of(OPERATION, "overrides", overrides))
    app = ClientApp()

    def answer(message: Message, make: Callable[[], Any]) -> Message:
        try:
            return Message(make(), reply_to=message)
        except (AccrueError, messages.Refused) as error:
            return Message(Error(FAILED, str(error)), reply_to=message)

    def task_of(message: Message, context: Context) -> Task:
        facts = messages.facts_of(message.content)
        if facts.get("mode") != agreed.stated():
            raise messages.Refused(f"a request of the mode {facts.get('mode')}, where {agreed.stated()} is agreed: mode=... of client_app")
        return Task(works.work(context), _name_of(name, context), context, message.content, facts)

    @app.query()
    def describe(message: Message, context: Context) -> Message:
        return answer(message, lambda: _describe(works.work(context), _name_of(name, context), agreed))

    @app.train()
    def run(message: Message, context: Context) -> Message:
        return answer(message, lambda: agreed.answer(task_of(message, context)))

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        return answer(message, lambda: agreed.answer_evaluation(task_of(message, context)))

    return app
