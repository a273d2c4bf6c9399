"""Federated rounds with differential privacy for each client: accrue's wheel with the extras `federated` and `private`.

    mode = accrue.privacy.clients.PrivateClients(LocalRounds(5), Privacy(unit="client", clip=0.5, delta=1e-4, epsilon=8.0))
    app = accrue.federated.server_app("server.toml", clients=1000, mode=mode)
"""

from __future__ import annotations

import dataclasses
import logging
import os
from typing import Any

import torch

from accrue.errors import RefusedError, RunError, UsageError
from accrue.federated import messages
from accrue.federated.enclosing import EnclosingMode
from accrue.federated.modes import Mode
from accrue.federated.rounds import Collected, Round
from accrue.federated.work import Task
from accrue.options import check_options
from accrue.privacy.clipping import ClippedSum
from accrue.privacy.ledger import Ledger
from accrue.privacy.meeting import met_terms
from accrue.privacy.randomness import Randomness, SystemRandomness
from accrue.privacy.sampling import poisson_sample
from accrue.privacy.spending import Spending
from accrue.privacy.terms import Privacy
from accrue.windows import Sums

OPERATION = "private clients"
LOG = logging.getLogger("accrue.federated")


def _expect_floating_point(dtype: torch.dtype | None) -> None:
    if dtype == torch.int64:
        raise UsageError(f"precision.accumulate of {OPERATION}", '"fp32" or "fp64"', '"fixed"',
                         'accumulate = "fp32" in [precision]: private sums are in whole numbers already')


class PrivateClients(EnclosingMode):
    """Rounds of another mode, in which no client counts for more than its terms allow.

    A client divides its sums by their weight (the mean gradient of an exact window, or minus the change of local rounds) and clips them to the norm
    `clip` over all parameters. The server asks each client with probability `rate`, clips again, adds up in whole numbers, adds Gaussian noise once,
    and divides by rate * clients, also if some did not answer. So clients count alike, whatever their number of loss terms.

    The server sees each client's clipped sums before the noise: it has to be trusted with them. Losses, and who counted, are not private.

    Server and clients state the same terms. The server keeps the account, and refuses a run that cannot keep them.

    Args:
        mode: what a round is: ExactWindow() or LocalRounds(...).
        privacy: the terms, with unit="client".
        rate: the probability with which a client is in a round. Below 1 it lessens what a round spends, if who was asked stays secret.
        ledger: on the server: a file, or a Ledger, that has the rounds of all runs with these clients.
        randomness: for tests: where the choice of clients and the noise come from.

    Raises:
        UsageError: an option is of the wrong type, or out of range.
    """

    def __init__(self, mode: Mode, privacy: Privacy, *, rate: float = 1.0, ledger: Ledger | str | os.PathLike[str] | None = None,
                 randomness: Randomness | None = None):
        super().__init__("PrivateClients", mode)
        if not isinstance(privacy, Privacy) or privacy.unit != "client":
            raise UsageError(OPERATION, 'terms of the unit "client"', privacy.unit if isinstance(privacy, Privacy) else f"a value of type {type(privacy).__name__}",
                             'Privacy(unit="client", clip=0.5, delta=1e-4, epsilon=8.0)')
        check_options(OPERATION, {"rate": rate}, rate=float)
        if not 0 < rate <= 1:
            raise UsageError(OPERATION, "a probability above 0 and at most 1 as rate", str(rate), "rate=1.0")
        self._terms, self._rate = privacy, float(rate)
        self._ledger, self._randomness = ledger, SystemRandomness() if randomness is None else randomness
        self._begun: tuple[Privacy, float, Spending] | None = None

    @property
    def epsilon(self) -> float:
        """On the server: what has been spent, at the delta of the terms."""
        return 0.0 if self._begun is None else self._begun[-1].epsilon

    def close(self) -> None:
        """On the server: lets another process have the ledger."""
        if self._begun is not None:
            self._begun[-1].close()

    def stated(self) -> dict[str, Any]:
        return {"name": "private clients", "privacy": dataclasses.asdict(self._terms), "rate": self._rate, "mode": self.enclosed.stated()}

    def sums(self, task: Task) -> Sums:
        _expect_floating_point(messages.sum_dtype_of(task.work.keys()))
        try:
            sums = super().sums(task)
        except RunError as error:  # its data may be the cause, which an answer would reveal
            LOG.warning("this client counts as nothing in window %s: %s", task.facts["window"], error)
            return Sums(0.0, 0.0, 0, 0, 0, {}, {})
        clipped = ClippedSum(task.parameters(), self._terms.clip)
        if clipped.add(sums.gradients, sums.weight) is None:
            return Sums(0.0, 0.0, sums.tokens, sums.micro_batches, sums.quarantined, {}, {})
        gradients = {name: value.to(sums.gradients[name].dtype) for name, value in clipped.total().items() if name in sums.gradients}
        return Sums(sums.loss_sum / sums.weight, 1.0, sums.tokens, sums.micro_batches, sums.quarantined, gradients, dict.fromkeys(gradients, 1))

    def collect(self, round_: Round) -> Collected:
        if self._begun is None or round_.window == 0:
            self._begun = self._begin(round_)
        terms, noise, spending = self._begun
        if terms.epsilon is not None and (after := spending.epsilon_after(self._rate, noise)) > terms.epsilon:
            raise RefusedError("take a private round", f"at most epsilon {terms.epsilon:g}", f"{after:.4g} after it", "the parameters as they are")
        chosen = [list(round_.clients)[index] for index in poisson_sample(len(round_.clients), self._rate, self._randomness)]
        sums = self._ask(round_, {name: () for name in chosen})
        round_.expect_quorum({*sums, *round_.clients} - (set(chosen) - set(sums)))
        clipped = ClippedSum(round_.expected.parameters, terms.clip)
        for each in sums.values():
            clipped.add(each.gradients, 1.0)
        spending.spend(self._rate, noise)
        noisy = clipped.with_noise(noise, self._randomness)
        gradients = {name: value.to(messages.dtype_of_sum(round_.expected.parameters[name], round_.expected.dtype)) for name, value in noisy.items()}
        expected = self._rate * len(round_.clients)
        counted = [each for each in sums.values() if each.weight > 0]
        loss = sum(each.loss_sum for each in counted) / max(len(counted), 1)
        return Collected(Sums(loss * expected, expected, sum(each.tokens for each in counted), max(len(counted), 1),
                              sum(each.quarantined for each in sums.values()), gradients, dict.fromkeys(gradients, 1)), dict.fromkeys(sums))

    def _begin(self, round_: Round) -> tuple[Privacy, float, Spending]:
        """Returns the terms, their noise, and the account. Raises UsageError if the run cannot keep them."""
        _expect_floating_point(round_.expected.dtype)
        left = round_.rounds - round_.window
        terms = met_terms(OPERATION, self._terms, units=len(round_.clients), rate=self._rate, steps=left)
        noise = terms.stated_noise()
        spending = Spending(terms.delta, self._ledger) if self._begun is None else self._begun[-1]
        after = spending.epsilon_after(self._rate, noise, left)
        if terms.epsilon is not None and after > terms.epsilon:
            if self._begun is None:
                spending.close()
            raise UsageError(OPERATION, f"at most epsilon {terms.epsilon:g} with what the ledger has", f"{after:.4g} after {left} rounds",
                             "fewer rounds, more noise, or a larger epsilon")
        return terms, noise, spending
