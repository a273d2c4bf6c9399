"""The two vectors of an attempt at a window: which units clients need, and what they add up in the stated ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from accrue.errors import UsageError
from accrue.federated.messages import MOST_UNIT
from accrue.federated.secure.needs import NeededUnits
from accrue.federated.secure.words import SumLayout
from accrue.windows import Sums

UNITS, SUMS = "units", "sums"


class WindowWords:
    """Makes words of a client's sums, and sums of the words that all add up to.

    Args:
        shapes: of the parameters that clients send sums of, by name, in order.
        units: the stated exponents, of all trained parameters.
        clients: of the run.
    """

    LABELS = (UNITS, SUMS)

    def __init__(self, shapes: Mapping[str, torch.Size], units: Sequence[int], clients: int):
        self._units = tuple(units)
        self._needed, self._layout = NeededUnits(self._units, clients, MOST_UNIT), SumLayout(shapes, self._units)

    @property
    def lengths(self) -> dict[str, int]:
        return {UNITS: self._needed.words, SUMS: self._layout.words}

    def words_of(self, operation: str, sums: Sums) -> dict[str, np.ndarray]:
        """Raises UsageError if the sums are not in fixed point."""
        if not sums.units:
            raise UsageError(operation, 'sums in fixed point: precision.accumulate = "fixed"', "sums in another precision",
                             'accumulate = "fixed" in [precision]')
        # In other units the words cannot be added. The server asks again when it knows the largest need.
        added = self._layout.words_of(operation, sums) if tuple(sums.units) == self._units else np.zeros(self._layout.words, np.uint64)
        return {UNITS: self._needed.words_of(sums.units), SUMS: added}

    def needed(self, total: np.ndarray, clients: int) -> tuple[int, ...]:
        """Returns the largest units that one of these clients needs. Raises RunError if the total is not of so many."""
        return self._needed.largest(total, clients)

    def sums_of(self, operation: str, total: np.ndarray) -> Sums:
        """Returns the sums of all, if all were in the stated units. Raises RunError if they are out of range."""
        return self._layout.sums_of(operation, total)
