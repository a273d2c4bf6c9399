"""The side that has data."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from accrue import _native
from accrue.errors import Error as AccrueError
from accrue.federated import messages
from accrue.windows import WindowWorker

# After messages, which says what to install.
from flwr.app import Context, Error, Message
from flwr.clientapp import ClientApp

# Flower's codes of errors begin at 0; those of apps have no range of their own.
FAILED = 1000

Overrides = Iterable[str] | Callable[[Context], Iterable[str]]


def _name_of(name: str | None, context: Context) -> str:
    if name is not None:
        return name
    for key in ("name", "partition-id"):
        if key in context.node_config:
            return str(context.node_config[key])
    return str(context.node_id)


class _Workers:
    """The workers that messages to one app have needed, by what they were made of. Simulated clients share a process."""

    def __init__(self, config: str | os.PathLike[str], overrides: Overrides):
        self._config = os.fspath(config)
        self._overrides = overrides
        self._made: dict[tuple[str, ...], WindowWorker] = {}

    def overrides(self, context: Context) -> list[str]:
        return list(self._overrides(context) if callable(self._overrides) else self._overrides)

    def worker(self, context: Context) -> WindowWorker:
        overrides = tuple(self.overrides(context))
        if overrides not in self._made:
            self._made[overrides] = WindowWorker(self._config, overrides)
        return self._made[overrides]

    def keys(self, context: Context) -> dict[str, str]:
        return dict(_native.keys_of_sums(self._config, self.overrides(context)))


def _run_window(worker: WindowWorker, message: Message) -> Any:
    facts: Mapping[str, Any] = messages.facts_of(message.content)
    worker.take_place(facts["first"], facts["total"])
    worker.load(messages.tensors_of(message.content, messages.PARAMETERS))
    return messages.pack_sums(worker.run(facts["window"], [tuple(each) for each in facts["draws"]], facts["units"]))


def client_app(config: str | os.PathLike[str], *, overrides: Overrides = (), name: str | None = None) -> ClientApp:
    """Returns a Flower ClientApp that runs windows on this machine's data, by a config as `accrue train` has it.

    Data never leave: a reply has sums of gradients, of losses and of their terms. Before the first round it has the number of samples, the
    vocabulary or classes, and the keys of model, loss and precision.

    Args:
        config: a config file on this machine. Its data.train are the client's samples, in order (data.order = "sequential"). The memory budget
            and batch.micro are the client's own; for the bits of one process all clients state the same batch.micro.
        overrides: keys that differ, as on the command line, or a function that returns them for a Flower Context: simulated clients have their
            `partition-id` in context.node_config.
        name: what the server calls this client, unique and the same in each round. Without it: `name` or `partition-id` of Flower's node config,
            or the node's id.
    """
    workers = _Workers(config, overrides)
    app = ClientApp()

    def answer(message: Message, make: Callable[[], Any]) -> Message:
        try:
            return Message(make(), reply_to=message)
        except (AccrueError, messages.Refused) as error:
            return Message(Error(FAILED, str(error)), reply_to=message)

    @app.query()
    def describe(message: Message, context: Context) -> Message:
        def described() -> Any:
            worker = workers.worker(context)
            shape = worker.shape
            return messages.describe(messages.Description(_name_of(name, context), worker.samples, shape.vocab, list(shape.image), list(shape.classes),
                                                          workers.keys(context), worker.frozen_digest))
        return answer(message, described)

    @app.train()
    def run(message: Message, context: Context) -> Message:
        return answer(message, lambda: _run_window(workers.worker(context), message))

    return app
