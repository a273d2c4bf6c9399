"""Sums of clipped gradients, in whole numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import torch

from accrue.privacy.noise import rounded_gaussian
from accrue.privacy.randomness import Randomness

# A clip is 2^32 to 2^33 units. A sum of 2^29 gradients fits in 64 bits; noise of 2^7 clips has 2^40 units, below which a normal draw still has bits.
BITS_OF_A_CLIP = 32
MOST_GRADIENTS, MOST_NOISE = 2**29, 2.0**7
# The rounding of norms and products in double precision, with room.
MARGIN = 2.0**-40
# Elements of a sum that are converted at once.
PART = 2**18


class ClippedSum:
    """The sum of gradients, each scaled down to a norm of at most `clip` over all parameters.

    A gradient is rounded towards zero to whole numbers of a unit, which does not lengthen it: one gradient more or less changes the sum by at
    most `clip`, exactly. Sums have the same bits in any order.

    Args:
        like: tensors with the names and shapes of all trained parameters.
        clip: the largest norm of a gradient.
    """

    def __init__(self, like: Mapping[str, torch.Tensor], clip: float):
        self._limit = clip * (1 - MARGIN)
        self._unit = math.ldexp(1.0, math.frexp(clip)[1] - 1 - BITS_OF_A_CLIP)
        self._clip = clip
        self._sums = {name: torch.zeros(value.shape, dtype=torch.int64, device=value.device) for name, value in like.items()}

    def add(self, gradients: Mapping[str, torch.Tensor], weight: float) -> float | None:
        """Adds `gradients` / `weight`, clipped; parameters without a gradient have 0. Returns the norm before clipping.

        Returns None, and adds nothing, if the norm is not finite or the weight is not positive.
        """
        if not (weight > 0 and math.isfinite(weight)):
            return None
        doubles = {name: gradient.double() / weight for name, gradient in gradients.items()}
        norm = math.sqrt(sum(float(each.square().sum()) for each in doubles.values()))
        if not math.isfinite(norm):
            return None
        factor = min(1.0, self._limit / norm) if norm > 0 else 1.0
        for name, each in doubles.items():
            self._sums[name] += (each * (factor / self._unit)).trunc().to(torch.int64)
        return norm

    def total(self) -> dict[str, torch.Tensor]:
        """Returns the sum, in double precision."""
        return {name: each.double() * self._unit for name, each in self._sums.items()}

    def add_sum(self, name: str, gradients: torch.Tensor) -> None:
        """Adds a sum of gradients of one parameter that are clipped already, rounded towards zero."""
        sums, values = self._sums[name].view(-1), gradients.reshape(-1)
        for begin in range(0, values.numel(), PART):
            # The unit is a power of two: division by it is exact.
            sums[begin:begin + PART] += (values[begin:begin + PART] / self._unit).to(torch.int64)

    def with_noise(self, noise: float, randomness: Randomness) -> dict[str, torch.Tensor]:
        """Returns the sum with Gaussian noise of standard deviation `noise` * clip in each element, in double precision."""
        return {name: self._noisy(each, noise, randomness) for name, each in self._sums.items()}

    def taken_with_noise(self, noise: float, randomness: Randomness) -> Iterator[tuple[str, torch.Tensor]]:
        """As with_noise(), one parameter after the other, each of which is forgotten."""
        for name in list(self._sums):
            yield name, self._noisy(self._sums.pop(name), noise, randomness)

    def _noisy(self, sums: torch.Tensor, noise: float, randomness: Randomness) -> torch.Tensor:
        drawn = torch.from_numpy(rounded_gaussian(sums.numel(), noise * self._clip / self._unit, randomness)).reshape(sums.shape)
        return (sums + drawn.to(sums.device)).double() * self._unit
