"""Whether terms can be kept in a run's steps."""

from __future__ import annotations

import dataclasses

from accrue.errors import UsageError
from accrue.privacy.accountant import epsilon_of, noise_for
from accrue.privacy.spending import Spending
from accrue.privacy.terms import Privacy


def met_terms(operation: str, terms: Privacy, *, units: int, rate: float, steps: int) -> Privacy:
    """Returns the terms with their noise, for `steps` steps that have each of `units` samples or clients with probability `rate`.

    Raises:
        UsageError: they cannot be kept; the error has the noise that would keep them.
    """
    if terms.delta * units >= 1:
        raise UsageError(operation, f"a delta below 1 / {units}, the number of {terms.unit}s", f"{terms.delta:g}", f"delta={0.1 / units:.1g}")
    if terms.epsilon is None:
        return terms
    spent = None if terms.noise is None else epsilon_of([(rate, terms.noise, steps)], terms.delta)
    if spent is not None and spent <= terms.epsilon:
        return terms
    noise = noise_for(terms.epsilon, terms.delta, rate, steps)
    if spent is None and noise is not None:
        return dataclasses.replace(terms, noise=noise)
    raise UsageError(operation, f"at most epsilon {terms.epsilon:g} after {steps} steps",
                     "more with any noise" if spent is None else f"{spent:.4g} with noise {terms.noise:g}",
                     "fewer steps, a lower rate, or a larger epsilon" if noise is None else f"noise={noise:g}, which spends it in {steps} steps")


def reason_to_end(terms: Privacy, spending: Spending, *, rate: float, steps: int, total: int) -> str | None:
    """Returns why there is no step after `steps` of `total` ones; None if there is one."""
    if steps >= total:
        return f"all {total} steps were taken"
    if terms.epsilon is None:
        return None
    after = spending.epsilon_after(rate, terms.stated_noise())
    return f"a further step would spend {after:.4g}, of {terms.epsilon:g}" if after > terms.epsilon else None
