"""Random generators: torch's of all devices, Python's and numpy's."""

import random
import sys
from collections.abc import Callable
from typing import Any

import torch


class Generators:
    """The state of the default generators as of now, those of accelerators where they are in use."""

    def __init__(self) -> None:
        self._kept: list[tuple[str, Any, Callable[[Any], None]]] = [("torch's generator", torch.get_rng_state(), torch.set_rng_state)]
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            self._kept.append(("CUDA's generators", torch.cuda.get_rng_state_all(), torch.cuda.set_rng_state_all))
        if torch.backends.mps.is_available():
            self._kept.append(("MPS's generator", torch.mps.get_rng_state(), torch.mps.set_rng_state))
        self._kept.append(("Python's generator", random.getstate(), random.setstate))
        if "numpy" in sys.modules:  # who has not imported numpy draws nothing from it
            numpy = sys.modules["numpy"].random
            self._kept.append(("numpy's generator", numpy.get_state(), numpy.set_state))

    def states(self) -> list[tuple[str, Any]]:
        """Each generator's name with its state."""
        return [(name, state) for name, state, _ in self._kept]

    def restore(self) -> list[str]:
        """Puts back each by itself; what could not be, with the reason."""
        failures = []
        for name, state, put_back in self._kept:
            try:
                put_back(state)
            except Exception as error:
                failures.append(f"{name}: {type(error).__name__}: {error}")
        return failures


def state_of(value):
    """The state of a generator object and what puts it back; None of other objects."""
    if isinstance(value, torch.Generator):
        return value.get_state(), value.set_state
    if isinstance(value, random.Random):
        return value.getstate(), value.setstate
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.random.RandomState):
        return value.get_state(), value.set_state
    if numpy is not None and isinstance(value, numpy.random.Generator):
        bits = value.bit_generator
        return bits.state, lambda state: setattr(bits, "state", state)
    return None
