"""Buffers that a forward pass replaces by other tensors, for the prover, which knows buffers as tensors."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from accrue.models import unwrapped


class BufferReplaced(Exception):
    """A pass replaced a buffer for the first time: what ran before this was known has to run again."""


class HeldBuffers:
    """Keeps the same tensors as a model's buffers over all passes, with the values that each pass left.

    A buffer that is known to be replaced has a stand-in during a pass. Then the values that the pass left can be written to the original tensor,
    which no graph has saved.
    """

    def __init__(self, model: Any):
        self._parts = list(unwrapped(model).modules()) if isinstance(model, nn.Module) else []
        self._replaced: set[tuple[int, str]] = set()

    @contextlib.contextmanager
    def during(self) -> Iterator[None]:
        """Surrounds one pass. At its end, raises BufferReplaced if a buffer was replaced for the first time."""
        held = [dict(part._buffers) for part in self._parts]
        for place, name in self._replaced:
            if torch.is_tensor(held[place].get(name)):
                self._parts[place]._buffers[name] = held[place][name].clone()
        known = len(self._replaced)
        try:
            yield
        finally:
            for place, (part, buffers) in enumerate(zip(self._parts, held)):
                self._hold(place, part, buffers)
        if len(self._replaced) > known:
            raise BufferReplaced

    def _hold(self, place: int, part: nn.Module, buffers: dict[str, Any]) -> None:
        left = dict(part._buffers)
        if len(left) == len(buffers) and all(left.get(name) is tensor for name, tensor in buffers.items()):
            return
        part._buffers.clear()
        part._buffers.update(buffers)
        for name, tensor in buffers.items():
            now = left.get(name)
            if now is tensor:
                continue
            if (place, name) in self._replaced and torch.is_tensor(tensor) and torch.is_tensor(now) and now.shape == tensor.shape:
                tensor.data.copy_(now.detach())
            self._replaced.add((place, name))
