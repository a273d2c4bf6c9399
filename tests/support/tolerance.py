"""Comparisons with a reference, as tests/support/tolerance.h has them."""

# How far a projection may lie from 1: tolerances of bf16 are some percent of the largest element, and a gradient of
# which all is a few percent too large would pass; roundings of both signs nearly cancel in the projection.
PROJECTION_LIMIT = 0.01


def relative_error(actual, expected, floor=0.0):
    """To the largest element of the expected, or to `floor` if that is larger."""
    actual, expected = actual.double(), expected.double()
    scale = max(expected.abs().max().item(), floor)
    return (actual - expected).abs().max().item() / (scale if scale > 0 else 1)


def projection_error(actual, expected, floor=0.0):
    """How far <actual, expected> / <expected, expected> lies from 1; of an expected that is nearly 0, to elements of `floor`."""
    actual, expected = actual.double(), expected.double()
    square = max(expected.square().sum().item(), floor**2 * expected.numel())
    return abs(((actual - expected) * expected).sum().item()) / (square if square > 0 else 1)
