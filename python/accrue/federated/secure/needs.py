"""The units that clients need for a fixed-point sum, as counters that can be added: how many clients need which unit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accrue.errors import RunError, UsageError
from accrue.federated.units import STEP

_WORD_BITS = 64


class NeededUnits:
    """For each parameter one counter for each unit that a client may need: the stated one, and the multiples of 8 above it.

    Several counters share a word. Each has as many bits as the number of clients needs, so a sum never carries into the next.

    Args:
        stated: the exponents of the units with which all begin.
        clients: how many are added at most.
        most: the largest exponent that a client may need.
    """

    def __init__(self, stated: Sequence[int], clients: int, most: int):
        self._bits = max(clients, 1).bit_length()
        self._choices = [[unit, *range((unit // STEP + 1) * STEP, most + 1, STEP)] for unit in stated]
        in_a_word = _WORD_BITS // self._bits
        self._words = [-(-len(choices) // in_a_word) for choices in self._choices]
        self._places = [[(i // in_a_word, i % in_a_word * self._bits) for i in range(len(choices))] for choices in self._choices]

    @property
    def words(self) -> int:
        return sum(self._words)

    def words_of(self, needed: Sequence[int]) -> np.ndarray:
        """Returns a client's counters: a one for the unit that it needs of each parameter.

        Raises:
            UsageError: a unit is not among those that a client may need.
        """
        result = []
        for i, (unit, choices) in enumerate(zip(needed, self._choices, strict=True)):
            if unit not in choices:
                # The server reads this, and is told no client's need.
                raise UsageError("agree on units", "one of the exponents that a client may need", "another one", "a smaller learning rate")
            word, shift = self._places[i][choices.index(unit)]
            result += [1 << shift if each == word else 0 for each in range(self._words[i])]
        return np.array(result, np.uint64)

    def largest(self, total: np.ndarray, clients: int) -> tuple[int, ...]:
        """Returns for each parameter the largest unit that one of the added clients needs.

        Raises:
            RunError: the counters are not those of so many clients.
        """
        units, first, mask = [], 0, (1 << self._bits) - 1
        for i, choices in enumerate(self._choices):
            counts = [int(total[first + word]) >> shift & mask for word, shift in self._places[i]]
            first += self._words[i]
            if sum(counts) != clients:
                raise RunError("agree on units", f"counters of {clients} clients for parameter {i}", f"a sum of {sum(counts)}",
                               "leaving out clients that may not follow the protocol")
            units.append(max(unit for unit, count in zip(choices, counts) if count > 0))
        return tuple(units)
