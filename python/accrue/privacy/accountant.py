"""How much of the privacy is spent: by Google's dp-accounting, Rényi divergences of the Gaussian mechanism on Poisson samples."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy

from accrue.errors import UsageError
from accrue.privacy.clipping import MOST_NOISE

try:
    import dp_accounting
    from dp_accounting import rdp
except ImportError as error:
    raise ImportError(f"accrue.privacy: expected dp-accounting, received none ({error}); try pip install 'dp-accounting>=0.6'") from error

# Steps of one process: the rate, the noise, and how many.
Steps = tuple[float, float, int]
# Orders of the divergence. The library's own also has some below 2, which do not converge at high rates and only matter above epsilon 20.
ORDERS = (*(order / 10 for order in range(20, 40)), *(order / 4 for order in range(16, 44)), *range(11, 65), 72, 80, 96, 128, 192, 256, 512, 1024)


@functools.lru_cache(maxsize=256)
def _divergence_of_a_step(rate: float, noise: float) -> numpy.ndarray:
    accountant = rdp.RdpAccountant(ORDERS)
    accountant.compose(dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise)))
    return numpy.asarray(accountant.rdp)


def epsilon_of(steps: Iterable[Steps], delta: float) -> float:
    """Returns the epsilon of these steps together: neighbors differ by one sample, which one has and the other does not."""
    divergences = [count * _divergence_of_a_step(rate, noise) for rate, noise, count in steps if count > 0 and rate > 0]
    if not divergences:
        return 0.0
    total = sum(divergences[1:], divergences[0])
    # An order whose divergence could not be computed bounds nothing; the library takes it for 0.
    total = numpy.where(total >= 0, total, numpy.inf)
    return float(rdp.compute_epsilon(ORDERS, total, delta)[0]) if bool(numpy.isfinite(total).any()) else math.inf


def noise_for(epsilon: float, delta: float, rate: float, steps: int, most: float = MOST_NOISE) -> float | None:
    """Returns the least noise, rounded up to three digits, with which `steps` steps at this rate spend at most `epsilon`.

    None if `most` is too little.
    """
    def spent(noise: float) -> float:
        return epsilon_of([(rate, noise, steps)], delta)

    least, enough = 0.0, min(1.0, most)
    while spent(enough) > epsilon:
        if enough == most:
            return None
        least, enough = enough, min(2 * enough, most)
    while enough - least > 2e-3 * enough:
        middle = (least + enough) / 2
        least, enough = (least, middle) if spent(middle) <= epsilon else (middle, enough)
    digits = 2 - math.floor(math.log10(enough))
    return round(math.ceil(enough * 10**digits) / 10**digits, digits)


class Accountant:
    """The steps that were taken on the same data, by the process that took them.

    A process only ever adds to its own steps. So two histories are merged by the longer one of each process: a checkpoint that is loaded twice, or
    an old one, never takes steps back, and never counts them twice.

    Args:
        delta: the probability with which the guarantee may fail.
    """

    def __init__(self, delta: float):
        self._delta = delta
        self._spent: dict[str, list[Steps]] = {}

    @property
    def epsilon(self) -> float:
        """What all steps so far have spent."""
        return epsilon_of(self._steps(), self._delta)

    @property
    def steps(self) -> int:
        """The number of steps so far."""
        return sum(count for _, _, count in self._steps())

    def epsilon_after(self, rate: float, noise: float, count: int = 1) -> float:
        """What will be spent after `count` more steps."""
        return epsilon_of([*self._steps(), (rate, noise, count)], self._delta)

    def spend(self, process: str, rate: float, noise: float, count: int = 1) -> None:
        """Adds steps of a process."""
        steps = self._spent.setdefault(process, [])
        if steps and steps[-1][:2] == (rate, noise):
            count += steps.pop()[2]
        steps.append((rate, noise, count))

    def state_dict(self) -> dict[str, list[list[float]]]:
        """The history, for torch.save or as JSON."""
        return {process: [list(each) for each in steps] for process, steps in self._spent.items()}

    def merge(self, state: Mapping[str, Any]) -> list[tuple[str, Steps]]:
        """Adds a history, and returns the steps that were not known. Raises UsageError as unknown_in()."""
        new = self.unknown_in(state)
        for process, each in new:
            self.spend(process, *each)
        return new

    def unknown_in(self, state: Mapping[str, Any]) -> list[tuple[str, Steps]]:
        """Returns the steps of a history that are not known.

        Raises:
            UsageError: it is no history.
        """
        theirs = {str(process): [checked_steps(each) for each in steps] for process, steps in state.items()}
        return [(process, each) for process, steps in theirs.items() for each in _behind(_count(self._spent.get(process, [])), steps)]

    def _steps(self) -> list[Steps]:
        totals: dict[tuple[float, float], int] = {}
        for steps in self._spent.values():
            for rate, noise, count in steps:
                totals[rate, noise] = totals.get((rate, noise), 0) + count
        return [(rate, noise, count) for (rate, noise), count in totals.items()]


def _count(steps: Iterable[Steps]) -> int:
    return sum(count for _, _, count in steps)


def _behind(known: int, steps: Iterable[Steps]) -> Iterator[Steps]:
    """The steps after the first `known`."""
    for rate, noise, count in steps:
        skipped = min(known, count)
        known -= skipped
        if count > skipped:
            yield rate, noise, count - skipped


def checked_steps(each: Any) -> Steps:
    """Returns a rate, a noise and a count that were read. Raises UsageError for anything else."""
    try:
        rate, noise, count = each
        if 0 <= rate <= 1 and noise >= 0 and int(count) == count and count >= 0:
            return float(rate), float(noise), int(count)
    except (TypeError, ValueError):
        pass
    raise UsageError("load a history of private steps", "a rate, a noise and a count", repr(each), "the history as it was saved")
