"""Modes that enclose another one: they collect its sums in their own way, to hide them from the server or to make them private."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from accrue.errors import UsageError
from accrue.federated.members import Client
from accrue.federated.modes import Mode, expect_mode
from accrue.federated.rounds import Round
from accrue.federated.work import Task
from accrue.windows import Sums


class EnclosingMode(Mode):
    """A mode whose clients do what an enclosed one states. A subclass changes what is sent, or how it is collected.

    Args:
        operation: the name of the mode, for errors.
        enclosed: what a round is. It encloses no other mode, whose way to collect would be left out.

    Raises:
        UsageError: it is no mode, or encloses another one.
    """

    def __init__(self, operation: str, enclosed: Any):
        if isinstance(expect_mode(operation, enclosed), EnclosingMode):
            raise UsageError(operation, "ExactWindow or LocalRounds as mode", f"{type(enclosed).__name__}, which encloses a mode itself",
                             "one of the two: in this version sums are either hidden from the server or private")
        self.enclosed: Mode = enclosed

    def facts(self, round_: Round, client: Client) -> dict[str, Any]:
        return self.enclosed.facts(round_, client)

    def sums(self, task: Task) -> Sums:
        return self.enclosed.sums(task)

    def shared(self, parameters: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return self.enclosed.shared(parameters)

    def expect_client(self) -> None:
        self.enclosed.expect_client()

    def parameters(self, task: Task) -> dict[str, torch.Tensor]:
        return self.enclosed.parameters(task)

    def expect_clients(self, clients: int, quorum: int) -> None:
        self.enclosed.expect_clients(clients, quorum)

    def expect_server(self, keys: Mapping[str, str], clients: int, quorum: int) -> None:
        self.enclosed.expect_server(keys, clients, quorum)
