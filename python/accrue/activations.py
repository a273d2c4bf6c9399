"""GELU in its tanh form, as transformers writes it out of six operators, as the one operator that torch has."""

import contextlib
import functools
from collections.abc import Iterator

from torch import nn

# Classes of transformers whose forward is x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), by name: transformers need not be there.
TANH_GELUS = ("NewGELUActivation", "FastGELUActivation", "PytorchGELUTanh", "GELUTanh")


@contextlib.contextmanager
def as_one_operator(model: nn.Module) -> Iterator[int]:
    """Has such activations of a model be torch's operator until the end of the `with`; yields how many there are."""
    changed = [module for module in model.modules() if type(module).__name__ in TANH_GELUS and "forward" not in vars(module)]
    for module in changed:
        module.forward = functools.partial(nn.functional.gelu, approximate="tanh")
    try:
        yield len(changed)
    finally:
        for module in changed:
            vars(module).pop("forward", None)
