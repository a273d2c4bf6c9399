"""Gaussian noise as whole numbers of units: a normal draw that is rounded, with no bits below the unit."""

from __future__ import annotations

import numpy

from accrue.privacy.randomness import Randomness

# Numbers that are drawn at once: 4 MiB of each array.
PART = 2**19


def _normal(count: int, randomness: Randomness) -> numpy.ndarray:
    """Box and Muller's transform, `count` even. The radius is of 128 bits, so it ends at 13.3 standard deviations and not at 8.6, as with 53."""
    pairs = count // 2
    high, low, turn = numpy.frombuffer(randomness.bytes(pairs * 24), dtype="<u8").reshape(3, pairs).astype(numpy.float64)
    uniform = numpy.minimum(high * 2.0**-64 + (low + 0.5) * 2.0**-128, 1.0)
    radius, angle = numpy.sqrt(-2 * numpy.log(uniform)), turn * (2 * numpy.pi * 2.0**-64)
    return numpy.concatenate([radius * numpy.cos(angle), radius * numpy.sin(angle)])


def rounded_gaussian(count: int, deviation: float, randomness: Randomness) -> numpy.ndarray:
    """Returns `count` independent normal numbers of mean 0, each rounded to a whole number, as int64.

    Added to a sum of whole numbers, they are that sum with Gaussian noise, rounded once: rounding is applied to what is private already, so the
    guarantee is that of the Gaussian mechanism. The 53 bits of a draw are to reach below 1: `deviation` is at most about 2^40.
    """
    if deviation == 0:
        return numpy.zeros(count, dtype=numpy.int64)
    noise = numpy.empty(count, dtype=numpy.int64)
    for begin in range(0, count, PART):
        size = min(PART, count - begin)
        noise[begin:begin + size] = numpy.rint(_normal(size + size % 2, randomness)[:size] * deviation)
    return noise
