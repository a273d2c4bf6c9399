"""The losses of the clients' own validation data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """What the clients' own data.val came to.

    - `loss`: over the loss terms of all clients that answered; None if there are none.
    - `losses`: the loss of each client that answered and has loss terms, by name. `weights`: its loss terms. A mode may hide them.
    - `missing`: the clients without one, by name with the reason.
    """

    loss: float | None
    losses: Mapping[str, float]
    weights: Mapping[str, float]
    missing: Mapping[str, str]

    def __str__(self) -> str:
        parts = ["no evaluation" if self.loss is None else f"evaluation {self.loss:.6g}"]
        parts += [f"{name} {loss:.6g} with weight {self.weights[name]:g}" for name, loss in self.losses.items()]
        return ", ".join([*parts, *(f"none of {name}: {reason}" for name, reason in self.missing.items())])
