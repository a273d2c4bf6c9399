"""Doubles as words whose sum is exact: the digits of a fixed-point number that holds every finite double."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from accrue.errors import RunError, UsageError

# A word holds a digit of 40 bits, so 2^16 addends stay far below 2^63.
DIGIT_BITS = 40
# The least positive double is 2^-1074, and all are below 2^1024.
_LEAST_EXPONENT = 1074
DIGITS = -(-(_LEAST_EXPONENT + 1024) // DIGIT_BITS)


def digits_of(operation: str, value: float) -> list[int]:
    """Returns DIGITS numbers of at most DIGIT_BITS bits, all with the value's sign. Raises UsageError if it is not finite."""
    if not math.isfinite(value):
        raise UsageError(operation, "a finite number", str(value), "a smaller learning rate")
    numerator, denominator = abs(value).as_integer_ratio()
    whole = numerator * (2**_LEAST_EXPONENT // denominator)
    sign = -1 if value < 0 else 1
    return [sign * (whole >> (DIGIT_BITS * i) & (2**DIGIT_BITS - 1)) for i in range(DIGITS)]


def value_of(operation: str, digits: Sequence[int]) -> float:
    """Returns the number that sums of digits stand for, rounded once. Raises RunError if it is not finite."""
    whole = sum(int(digit) << (DIGIT_BITS * i) for i, digit in enumerate(digits))
    try:
        return float(Fraction(whole, 2**_LEAST_EXPONENT))
    except OverflowError:
        raise RunError(operation, "a sum within the range of doubles", "a larger one", "a smaller learning rate") from None
