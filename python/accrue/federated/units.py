"""Real values as whole numbers of units of 2^s, by the rules of fixed-point sums (docs/numerics.md, "Fixed point")."""

from __future__ import annotations

import math

import torch

from accrue.windows import UNITS_OF_A_CONTRIBUTION

CONTRIBUTION_BITS = UNITS_OF_A_CONTRIBUTION.bit_length() - 1
# If a contribution does not fit, s is what it needs, rounded up to a multiple of this.
STEP = 8


def unit_for(largest: float) -> int:
    """Returns the exponent of the units in which a contribution with this largest magnitude fits."""
    least = math.frexp(largest)[1] - CONTRIBUTION_BITS
    return -(-least // STEP) * STEP


def coded(values: torch.Tensor, unit: int) -> tuple[torch.Tensor, int]:
    """Returns fp64 values as int64 units of 2^unit, or of larger ones if they need them, and the exponent. Ties are rounded to even.

    The values are finite.
    """
    largest = float(values.abs().max()) if values.numel() > 0 else 0.0
    if largest >= math.ldexp(1.0, unit + CONTRIBUTION_BITS):
        unit = unit_for(largest)
    return values.mul(math.ldexp(1.0, -unit)).round().to(torch.int64), unit


def recoded(units: torch.Tensor, unit: int, larger: int) -> torch.Tensor:
    """Returns a number of units of 2^unit in units of 2^larger."""
    return units if larger == unit else units.to(torch.float64).mul(math.ldexp(1.0, unit - larger)).round().to(torch.int64)
