"""accrue's kernels in a model that knows nothing of accrue."""

from collections.abc import Sequence
from typing import Any

from accrue import _native
from accrue.models import named_parameters


class Accelerated:
    """While it is active, accrue does operations of a model on the CPU as it does those of its own layers.

    Products with the model's weights, embeddings, layer norms, GELU (tanh) and attention without a mask run in accrue's kernels;
    in an Accumulator or Stepper their gradients are added to the sums inside the product. The model is not changed, and its
    results are torch's up to rounding. It works on the thread that made it.
    """

    def __init__(self, model: Any, seed: int | None = None):
        self._parameters = named_parameters(model, "accelerate")
        self._seed = seed
        self._native: _native.Accelerated | None = _native.Accelerated(self._parameters, seed)

    def begin(self, sample_ids: Sequence[int], window: int = 0) -> None:
        """The next forward pass has these samples, in order: dropout's masks follow them, however a batch is split."""
        if self._native is not None:
            self._native.begin(list(sample_ids), window)

    @property
    def calls(self) -> dict[str, int]:
        """How many operations accrue has done, by kind."""
        return self._native.calls() if self._native is not None else {}

    def close(self) -> None:
        """Ends it; the model's operations are torch's again."""
        self._native = None

    def __enter__(self) -> "Accelerated":
        return self

    def __exit__(self, *_) -> None:
        self.close()


def accelerate(model: Any, seed: int | None = None) -> Accelerated:
    """Has accrue's kernels do the operations of `model` until close(), or the end of a `with`.

        with accrue.accelerate(model):
            for micro in loader: acc.backward(loss_fn(model, micro)); ...

    seed   keys dropout's masks; None: torch's default generator draws it
    """
    return Accelerated(model, seed)
