"""What is reported about private steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Unprotected:
    """What was measured of a window without noise. It is not covered by the guarantee: keep it where the data are.

    - `loss`: the mean of the samples' mean losses; None if there was none.
    - `samples`: how many samples the window had. `clipped`: how many of them had a gradient longer than the clip.
    - `norm`: the median norm of the samples' gradients before clipping; None if there was none.
    - `left_out`: how many samples had no loss term, or no finite gradient. They counted as 0.
    """

    loss: float | None
    samples: int
    clipped: int
    norm: float | None
    left_out: int


def measured(samples: int, losses: Sequence[float], norms: Sequence[float], clip: float) -> Unprotected:
    """Returns the measurements of a window, from the losses and norms of the samples that counted."""
    middle = sorted(norms)[len(norms) // 2] if norms else None
    return Unprotected(sum(losses) / len(losses) if losses else None, samples, sum(norm > clip for norm in norms), middle, samples - len(norms))


@dataclasses.dataclass(frozen=True)
class PrivateReport:
    """One private step.

    - `step`: the optimizer steps so far. `lr`: as in metrics.jsonl.
    - `epsilon`: what has been spent, at the delta of the terms.
    - `grad_norm`: the norm of the noisy mean gradient.
    - `unprotected`: what is not covered by the guarantee. Everything else may be shown.
    """

    step: int
    epsilon: float
    grad_norm: float | None
    lr: float | None
    unprotected: Unprotected
