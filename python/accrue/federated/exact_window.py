"""Exact windows: all clients run their samples of a window with the same parameters, and one optimizer takes the step."""

from __future__ import annotations

from typing import Any

from accrue.federated.members import Client
from accrue.federated.modes import Mode
from accrue.federated.rounds import Round
from accrue.federated.shares import draws
from accrue.federated.work import Task
from accrue.windows import Sums


class ExactWindow(Mode):
    """A round is one optimizer step over samples of all clients. Clients send sums of gradients, and have no optimizer.

    With `precision.accumulate = "fixed"` the parameters have the bits of one process with all data.
    """

    def stated(self) -> dict[str, Any]:
        return {"name": "exact window"}

    def facts(self, round_: Round, client: Client) -> dict[str, Any]:
        return {"first": client.first, "total": round_.samples, "draws": draws(round_.window, client.share, client.first, client.samples, round_.samples)}

    def sums(self, task: Task) -> Sums:
        worker, facts = task.worker(), task.facts
        worker.load(task.parameters())
        return worker.run(facts["window"], [tuple(each) for each in facts["draws"]], facts["units"])
