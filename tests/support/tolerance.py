"""Comparisons with a reference, as tests/support/tolerance.h has them."""

# How far a projection may lie from 1: tolerances of bf16 are some percent of the largest element, and a gradient of
# which all is a few percent too large would pass; roundings of both signs nearly cancel in the projection.
PROJECTION_LIMIT = 0.01

# Of language models by their precision, relative to the reference's largest element. Losses in fp32: the promise of 1e-5.
# Gradients: 16 times the unit roundoff times the square root of the summed terms (bf16: 4 times).
SUMMED_TERMS = 600  # about
LOSS_BOUND = {"fp32": 1e-5, "fp64": 1e-12, "bf16": 4 * 2.0**-9}
GRADIENT_BOUND = {
    "fp32": 16 * 2.0**-24 * SUMMED_TERMS**0.5,
    "fp64": 1e-12,
    "bf16": 4 * 2.0**-9 * SUMMED_TERMS**0.5,
}


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
