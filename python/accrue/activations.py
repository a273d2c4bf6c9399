"""Replaces the tanh form of GELU, which transformers computes with six operators, by torch's single operator."""

import contextlib
import functools
from collections.abc import Iterator

from torch import nn

# Classes of transformers whose forward is x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), by name, so that transformers need not be installed.
TANH_GELUS = ("NewGELUActivation", "FastGELUActivation", "PytorchGELUTanh", "GELUTanh")


@contextlib.contextmanager
def as_one_operator(model: nn.Module) -> Iterator[int]:
    """Runs such activations of a model as torch's operator until the end of the `with` statement; yields how many there are."""
    changed = [module for module in model.modules() if type(module).__name__ in TANH_GELUS and "forward" not in vars(module)]
    for module in changed:
        module.forward = functools.partial(nn.functional.gelu, approximate="tanh")
    try:
        yield len(changed)
    finally:
        for module in changed:
            vars(module).pop("forward", None)
