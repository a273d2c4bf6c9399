"""A window's sums as words of 64 bits: gradients in agreed units, counts, and the exact digits of weight and loss."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from accrue.errors import RunError
from accrue.federated.secure.exact import DIGITS, digits_of, value_of
from accrue.windows import MOST_CONTRIBUTIONS, UNITS_OF_A_CONTRIBUTION, Sums


class SumLayout:
    """The places of Sums' parts in a vector of words. A parameter without gradient is zero, with 0 contributions.

    Args:
        shapes: of the trained parameters, by name, in order.
        units: the agreed exponents, one for each parameter.
    """

    def __init__(self, shapes: Mapping[str, torch.Size], units: Sequence[int]):
        self._shapes, self._units = dict(shapes), tuple(units)

    @property
    def words(self) -> int:
        return sum(math.prod(shape) for shape in self._shapes.values()) + len(self._shapes) + 2 * DIGITS + 3

    def words_of(self, operation: str, sums: Sums) -> np.ndarray:
        """Returns the words of one client's sums, which are in the agreed units."""
        gradients = [sums.gradients[name].reshape(-1).numpy() if name in sums.gradients else np.zeros(math.prod(shape), np.int64)
                     for name, shape in self._shapes.items()]
        counts = [sums.contributions.get(name, 0) for name in self._shapes]
        numbers = [sums.tokens, sums.micro_batches, sums.quarantined, *digits_of(operation, sums.weight), *digits_of(operation, sums.loss_sum)]
        return np.concatenate([*gradients, np.array(counts + numbers, np.int64)]).view(np.uint64)

    def sums_of(self, operation: str, words: np.ndarray) -> Sums:
        """Returns the sums that a sum of words stands for.

        Raises:
            RunError: they are none that honest clients add up to. Nobody can tell whose part is wrong.
        """
        signed = words.view(np.int64)
        gradients, first = {}, 0
        for name, shape in self._shapes.items():
            gradients[name] = torch.from_numpy(signed[first:first + math.prod(shape)].copy()).reshape(shape)
            first += math.prod(shape)
        contributions = dict(zip(self._shapes, map(int, signed[first:])))
        first += len(self._shapes)
        tokens, micro_batches, quarantined = map(int, signed[first:first + 3])
        for name, gradient in gradients.items():
            _expect_in_range(operation, name, gradient, contributions[name])
        try:
            weight = value_of(operation, signed[first + 3:first + 3 + DIGITS])
            loss_sum = value_of(operation, signed[first + 3 + DIGITS:])
        except RunError as error:
            raise _out_of_range(operation, error.expected, error.received) from None
        for name, value in (("weight", weight), ("tokens", tokens), ("micro_batches", micro_batches), ("quarantined", quarantined)):
            if value < 0:
                raise _out_of_range(operation, f"{name} of at least 0", str(value))
        used = {name: gradient for name, gradient in gradients.items() if contributions[name] > 0 and weight > 0}
        return Sums(loss_sum, weight, tokens, micro_batches, quarantined, used, {name: contributions[name] for name in used}, self._units)


def _out_of_range(operation: str, expected: str, received: str) -> RunError:
    return RunError(operation, expected, f"{received}: a client's part is wrong, and the sum does not tell whose",
                    "a round without secure sums, which refuses such a client by name")


def _expect_in_range(operation: str, name: str, gradient: torch.Tensor, contributions: int) -> None:
    if not 0 <= contributions <= MOST_CONTRIBUTIONS:
        raise _out_of_range(operation, f"0 to {MOST_CONTRIBUTIONS} contributions to {name}", f"{contributions} (fewer samples in a window make fewer, if all parts are right)")
    most = contributions * UNITS_OF_A_CONTRIBUTION
    if gradient.numel() > 0 and (int(gradient.max()) > most or int(gradient.min()) < -most):
        raise _out_of_range(operation, f"at most {most} units in {name}, as {contributions} contributions can have", "more")
