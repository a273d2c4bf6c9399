"""Random generators: torch's on all devices, Python's and numpy's."""

import random
import sys
from collections.abc import Callable
from typing import Any

import torch


class Generators:
    """The current state of the default generators; of accelerators only if they are in use."""

    def __init__(self) -> None:
        self._kept: list[tuple[str, Any, Callable[[Any], None]]] = [("torch's generator", torch.get_rng_state(), torch.set_rng_state)]
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            self._kept.append(("CUDA's generators", torch.cuda.get_rng_state_all(), torch.cuda.set_rng_state_all))
        if torch.backends.mps.is_available():
            self._kept.append(("MPS's generator", torch.mps.get_rng_state(), torch.mps.set_rng_state))
        self._kept.append(("Python's generator", random.getstate(), random.setstate))
        if "numpy" in sys.modules:  # a program that has not imported numpy draws nothing from it
            numpy = sys.modules["numpy"].random
            self._kept.append(("numpy's generator", numpy.get_state(), numpy.set_state))

    def states(self) -> list[tuple[str, Any]]:
        """Returns each generator's name with its state."""
        return [(name, state) for name, state, _ in self._kept]

    def restore(self) -> list[str]:
        """Restores each generator. Returns those that could not be restored, with the reason."""
        failures = []
        for name, state, put_back in self._kept:
            try:
                put_back(state)
            except Exception as error:
                failures.append(f"{name}: {type(error).__name__}: {error}")
        return failures


def state_of(value):
    """Returns the state of a generator object and the function that restores it; None for other objects."""
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
