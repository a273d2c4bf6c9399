"""Whether two systems that were given the same training did the same training.

Compared are the loss and the gradient norm (before clipping) of each step, and after the last one the norm of the
parameters and of what was added to them, all relative to the reference. The bounds are roundings, with u the unit
roundoff of what the products are computed in and L layers of about 4 products each:

fp32, u = 6e-8: a sum of n = 768 to 3072 products errs by about u sqrt(n) = 2e-6 to 3e-6, and 2 x 4 L = 96 of them in a
  row (there and back, L = 12) by sqrt(96) times that: 3e-5 of the single values. Norms and mean losses average over
  thousands of them and over micro-batches. An AdamW update divides by |gradient| + eps and keeps a relative error as it
  is, as long as eps (1e-5) is above the gradients' own rounding error; the few steps of a run add theirs. Bound: 1e-4.
bf16, u = 2e-3: operands are rounded to u, their products added in fp32: u sqrt(96) = 2e-2 of the single values. Where
  these errors are independent a norm errs by their square only, 4e-4, and a mean over N tokens by 1 / sqrt(N) of them;
  where they are not, by up to 2e-2. The residual stream, norms, losses and parameters are fp32. Bound, in between: 1e-2.

What lies outside, on random tokens: gradients not divided by K (their norm off by a factor of K), half the micro-batches
(by a factor of up to 1.4), other samples (losses off by 1e-3, gradient norms by 1e-2 and more). In bf16 the last is near
the bound; the same programs are compared in fp32, where it is far beyond.
"""
import math
import sys

BOUNDS = {"fp32": 1e-4, "bf16": 1e-2}
COMPARED = ("losses", "grad_norms", "parameter_norm", "update_norm")


def as_list(value) -> list[float]:
    return value if isinstance(value, list) else [value]


def relative_error(measured, reference) -> float:
    """The largest of all entries; infinite where they cannot be compared."""
    ours, theirs = as_list(measured), as_list(reference)
    if len(ours) != len(theirs) or not all(math.isfinite(x) for x in ours + theirs):
        return math.inf
    return max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))


def relative_errors(measured: dict, reference: dict, compared: tuple[str, ...] = COMPARED) -> dict[str, float]:
    return {what: relative_error(measured[what], reference[what]) for what in compared}


def agrees(errors: dict[str, float], precision: str) -> bool:
    return all(error <= BOUNDS[precision] for error in errors.values())

def expect_same_losses(name: str, losses: dict[str, list[float]], bound: float) -> None:
    """Of the first two steps of loops on the same data: later ones grow apart by what the optimizer makes of rounding."""
    for loop, found in losses.items():
        for mine, plain in zip(found[:2], losses["plain"][:2]):
            if abs(mine - plain) > bound * abs(plain):
                sys.exit(f"error: {name}: expected the losses of the plain loop, {losses['plain'][:2]}, received {found[:2]} of {loop}")
