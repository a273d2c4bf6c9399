"""What a process spends, and what is written down of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from accrue.privacy.accountant import Accountant
from accrue.privacy.ledger import Ledger


class Spending:
    """The account of a process, and the ledger that it shares with other runs on the same data.

    Args:
        delta: the probability with which the guarantee may fail.
        ledger: a Ledger, or the path of one; None: nothing is written.
    """

    def __init__(self, delta: float, ledger: Ledger | str | os.PathLike[str] | None):
        self._process = os.urandom(16).hex()
        self._accountant = Accountant(delta)
        self._ledger = ledger if isinstance(ledger, Ledger) or ledger is None else Ledger(ledger)
        self._read = 0  # lines of the ledger

    @property
    def epsilon(self) -> float:
        """What has been spent by this process and by all that it knows."""
        self._catch_up()
        return self._accountant.epsilon

    def epsilon_after(self, rate: float, noise: float, count: int = 1) -> float:
        """What will be spent after `count` more steps."""
        self._catch_up()
        return self._accountant.epsilon_after(rate, noise, count)

    def spend(self, rate: float, noise: float) -> None:
        """Counts a step of this process, and returns when it is on the disk. Call it before the step's noise is drawn.

        Raises:
            RunError: it could not be written. The step must not be taken then.
        """
        self._note(self._process, rate, noise, 1)
        self._accountant.spend(self._process, rate, noise)

    def state_dict(self) -> dict[str, Any]:
        """The history, for torch.save or as JSON."""
        self._catch_up()
        return self._accountant.state_dict()

    def merge(self, state: Mapping[str, Any]) -> None:
        """Adds the steps of a history that were not known."""
        self._catch_up()
        for process, steps in self._accountant.unknown_in(state):
            self._note(process, *steps)
            self._accountant.spend(process, *steps)

    def close(self) -> None:
        """Lets another process have the ledger."""
        if self._ledger is not None:
            self._ledger.close()

    def _note(self, process: str, rate: float, noise: float, count: int) -> None:
        self._catch_up()
        if self._ledger is not None:
            self._ledger.append(process, rate, noise, count)
            self._read += 1

    def _catch_up(self) -> None:
        """Counts what others wrote since: those of earlier runs, and of this process with the same Ledger."""
        lines = [] if self._ledger is None else self._ledger.lines[self._read:]
        self._read += len(lines)
        for process, *steps in lines:
            self._accountant.spend(process, *steps)
