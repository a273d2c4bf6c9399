"""Random generators: torch's of all devices, Python's and numpy's."""

import random
import sys

import torch


class Generators:
    """The state of the default generators as of now, those of accelerators where they are in use."""

    def __init__(self) -> None:
        self._cpu = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else None
        self._mps = torch.mps.get_rng_state() if torch.backends.mps.is_available() else None
        self._python = random.getstate()
        # Who has not imported numpy draws nothing from it.
        self._numpy = sys.modules["numpy"].random.get_state() if "numpy" in sys.modules else None

    def restore(self) -> None:
        torch.set_rng_state(self._cpu)
        if self._cuda is not None:
            torch.cuda.set_rng_state_all(self._cuda)
        if self._mps is not None:
            torch.mps.set_rng_state(self._mps)
        random.setstate(self._python)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)


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
