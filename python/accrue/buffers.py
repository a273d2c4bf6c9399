"""Buffers that a forward pass replaces, for a prover that knows a model's buffers as tensors."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from accrue.models import unwrapped


class BufferReplaced(Exception):
    """A pass put another tensor in a buffer's place, for the first time: what ran before this was known is to be run again."""


class HeldBuffers:
    """Has a model hold the same tensors as buffers behind each pass, with what the pass left in them.

    A buffer that is known to be replaced has a stand-in during a pass: what the pass leaves can then be written to the tensor itself, which no
    graph has seen.
    """

    def __init__(self, model: Any):
        self._parts = list(unwrapped(model).modules()) if isinstance(model, nn.Module) else []
        self._replaced: set[tuple[int, str]] = set()

    @contextlib.contextmanager
    def during(self) -> Iterator[None]:
        """One pass. Raises BufferReplaced when it is over."""
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
