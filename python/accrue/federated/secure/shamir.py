"""Shamir's shares of a secret (Communications of the ACM 22, 1979): values of a polynomial over a prime field, whose constant term is the secret."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

# The least prime above 2^256, so that any 32 bytes are a secret.
PRIME = 2**256 + 297
SHARE_BYTES = 33


def split(secret: int, threshold: int, points: Sequence[int], draw: Callable[[], int], prime: int = PRIME) -> dict[int, int]:
    """Returns a share for each point (distinct, 1 to prime - 1). Any `threshold` of them determine the secret, and fewer fit every secret alike.

    `draw` returns uniform elements of the field.
    """
    coefficients = [secret, *(draw() for _ in range(threshold - 1))]
    shares = {}
    for point in points:
        value = 0
        for coefficient in reversed(coefficients):
            value = (value * point + coefficient) % prime
        shares[point] = value
    return shares


def combine(shares: Mapping[int, int], prime: int = PRIME) -> int:
    """Returns the secret of `threshold` shares, by Lagrange's interpolation at zero."""
    secret = 0
    for point, share in shares.items():
        above, below = 1, 1
        for other in shares:
            if other != point:
                above, below = above * other % prime, below * (other - point) % prime
        secret = (secret + share * above * pow(below, -1, prime)) % prime
    return secret
