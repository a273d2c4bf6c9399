"""Limits for what a check may copy and walk over, and an account of what it has taken."""

import math
from dataclasses import dataclass

import torch

from accrue.errors import NotJudged, UsageError
from accrue.memory import bytes_at_hand
from accrue.options import check_options

# Copies may take one part in SHARE of the available memory; the rest is for the passes that run again.
SHARE = 2


@dataclass(frozen=True)
class Copies:
    """How much watch, verify, verify_loop and audit may copy of what the model and loss_fn reach, to restore it.

    A check that needs more is not judged. Its reason has the number that it exceeded.

    Args:
        most_bytes: bytes on all devices together. None: on each device, half of the memory that is free when the check begins.
        most_objects: the number of objects that each walk over them may visit (200,000 take about half a second).

    Raises:
        UsageError: a limit is no whole number.
    """

    most_bytes: int | None = None
    most_objects: int = 200_000

    def __post_init__(self) -> None:
        if self.most_bytes is not None:
            check_options("Copies", {"most_bytes": self.most_bytes}, most_bytes=int)
        check_options("Copies", {"most_objects": self.most_objects}, most_objects=int)


def check_copies(operation: str, copies: Copies | None) -> Copies:
    """Returns the given limits, or the default ones. Raises UsageError for another type."""
    if copies is not None and not isinstance(copies, Copies):
        raise UsageError(operation, "accrue.Copies as copies", f"a value of type {type(copies).__name__}", "copies=accrue.Copies(most_bytes=2**30)")
    return copies or Copies()


class Account:
    """Counts the bytes that one check copies on each device, and enforces its limits."""

    def __init__(self, limits: Copies):
        self._limits = limits
        self._taken: dict[torch.device, int] = {}
        self._free: dict[torch.device, float] = {}

    def take(self, device: torch.device, size: int, what: str) -> None:
        """Counts `size` bytes before they are copied. Raises NotJudged if they do not fit."""
        stated = self._limits.most_bytes
        if stated is None and device not in self._free:
            free = bytes_at_hand(device)
            self._free[device] = math.inf if free is None else free / SHARE
        taken = self._taken.get(device, 0) + size
        total = taken if stated is None else sum(self._taken.values()) + size
        limit = self._free[device] if stated is None else stated
        if total > limit:
            meant = f"half of what is free on {device}" if stated is None else "most_bytes"
            raise NotJudged(f"copies of what the model and loss_fn reach take {_in_words(total)} with {what}, beyond the "
                            f"{_in_words(limit)} of {meant}", f"copies=accrue.Copies(most_bytes={2 * total}), or a loss_fn that reaches less")
        self._taken[device] = taken

    def require_objects(self, count: int) -> None:
        most = self._limits.most_objects
        if count > most:
            raise NotJudged(f"the model and loss_fn reach more than the {most} objects of most_objects",
                            f"copies=accrue.Copies(most_objects={10 * most}), or a loss_fn that reaches less")


def _in_words(size: float) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.4g} {name}"
    return f"{int(size)} bytes"
