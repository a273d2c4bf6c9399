"""The terms of a private run, as a user states them."""

from __future__ import annotations

import dataclasses
import math

from accrue.errors import UsageError
from accrue.options import check_options
from accrue.privacy.clipping import MOST_NOISE

OPERATION = "Privacy"
UNITS = ("sample", "client")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Privacy:
    """What is protected, and how strongly.

    - `clip`: the largest norm that the gradient of one sample, or of one client, may have in a sum.
    - `delta`: the probability with which the guarantee may fail; below 1 / number of samples or clients.
    - `noise`: the standard deviation of the noise in multiples of `clip`. None: the least that keeps `epsilon` in the run's steps.
    - `epsilon`: what may be spent in all. Training stops before a step that would exceed it. None: no limit.
    - `unit`: "sample": the trained model is almost as likely if any one of the samples counts as zero. "client": if all samples of any one client
      of federated rounds do (accrue.privacy.clients). Numbers of samples and clients are public.

    Raises:
        UsageError: an option is of the wrong type or out of range, or neither noise nor epsilon is stated.
    """

    clip: float
    delta: float
    noise: float | None = None
    epsilon: float | None = None
    unit: str = "sample"

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise UsageError(OPERATION, 'the unit "sample" or "client"', repr(self.unit), 'unit="sample"')
        if self.noise is None and self.epsilon is None:
            raise UsageError(OPERATION, "noise or epsilon", "neither", "epsilon=8.0, which noise is then computed for")
        for name in ("clip", "delta", "noise", "epsilon"):
            value = getattr(self, name)
            if value is not None or name in ("clip", "delta"):
                check_options(OPERATION, {name: value}, **{name: float})
                object.__setattr__(self, name, float(value))
        self._expect("clip", "a finite number above 0", math.isfinite(self.clip) and self.clip > 0, "clip=1.0")
        self._expect("delta", "a probability above 0 and below 1", 0 < self.delta < 1, "delta=1e-6")
        self._expect("noise", f"a number from 0 to {MOST_NOISE:g}", self.noise is None or 0 <= self.noise <= MOST_NOISE, "noise=1.0")
        self._expect("epsilon", "a finite number above 0", self.epsilon is None or (math.isfinite(self.epsilon) and self.epsilon > 0), "epsilon=8.0")

    def stated_noise(self) -> float:
        """Returns the noise of terms that have one."""
        if self.noise is None:
            raise UsageError(OPERATION, "terms with a noise", "noise=None", "noise=1.0")
        return self.noise

    def _expect(self, name: str, expected: str, is_sound: bool, suggestion: str) -> None:
        if not is_sound:
            raise UsageError(OPERATION, f"{expected} as {name}", str(getattr(self, name)), suggestion)
