"""Poisson sampling: which samples a window has."""

from __future__ import annotations

import fractions

import numpy

from accrue.privacy.randomness import Randomness

BITS = 64


def poisson_sample(samples: int, rate: float, randomness: Randomness) -> list[int]:
    """Returns each of `samples` numbers from 0 with probability `rate`, independently of the others, in order.

    The probability is a multiple of 2^-64, rounded down from `rate`: never more than what is accounted.
    """
    if rate >= 1:
        return list(range(samples))
    below = int(fractions.Fraction(rate) * 2**BITS)
    drawn = numpy.frombuffer(randomness.bytes(samples * BITS // 8), dtype="<u8")
    return numpy.flatnonzero(drawn < numpy.uint64(below)).tolist()
