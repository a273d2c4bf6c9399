"""What a sum is called, and how many clients it needs."""

from __future__ import annotations

import dataclasses
import json

from accrue.errors import UsageError

# Enters each derivation: another version has other masks.
PROTOCOL = "accrue secure sums 1"
# Of a run. With two, each client could always subtract its own part of the sum.
LEAST_CLIENTS = 3


def least_threshold(clients: int) -> int:
    """Returns the least threshold for so many clients: more than half.

    A server that told some clients that one is lost and the others that it is not would need `threshold` answers of each kind.
    """
    return clients // 2 + 1


@dataclasses.dataclass(frozen=True)
class Session:
    """One sum. No two have the same name, and its name enters each derivation of a key.

    - `nonce`: a random text that the server draws for each round. `round`: the round's index. `attempt`: how often it began before.
    - `label`: which of the sums of an attempt.
    - `threshold`: how many clients have to stay to the end. Fewer shares than this tell nothing.
    """

    nonce: str
    round: int
    attempt: int
    label: str
    threshold: int

    def __str__(self) -> str:
        return f"secure sum of round {self.round}"

    def context(self, purpose: str, *parts: str) -> bytes:
        """Returns the name of one use of a key in this session."""
        return json.dumps([PROTOCOL, *dataclasses.astuple(self), purpose, *parts]).encode()


def check_run(operation: str, clients: int, threshold: int) -> None:
    """Raises UsageError if sums of a run with so many clients would not hide their addends."""
    if clients < LEAST_CLIENTS:
        raise UsageError(operation, f"at least {LEAST_CLIENTS} clients", str(clients), "more clients, or rounds without secure sums")
    if not least_threshold(clients) <= threshold <= clients:
        raise UsageError(operation, f"a threshold of {least_threshold(clients)} to {clients} for {clients} clients", str(threshold),
                         f"threshold={least_threshold(clients)} or more")


def check_members(operation: str, members: int, threshold: int) -> None:
    """Raises UsageError if so many clients are too few for the threshold, or so many that it is no majority."""
    if members < threshold:
        raise UsageError(operation, f"at least {threshold} clients, the threshold", str(members), "waiting for more clients")
    if threshold < least_threshold(members):
        raise UsageError(operation, f"a threshold of more than half of {members} clients", str(threshold), f"threshold={least_threshold(members)} or more")
