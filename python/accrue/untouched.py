"""Runs checks on the user's training objects, and leaves them as they were."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from accrue.copies import Account
from accrue.errors import UsageError
from accrue.generators import Generators
from accrue.models import unwrapped
from accrue.sharded import is_sharded
from accrue.state import State


def require_restorable(model: Any, operation: str) -> None:
    """Raises UsageError, before anything runs, for a model whose state cannot be restored. The error names the parameter or buffer."""
    if not isinstance(model, torch.nn.Module):
        return
    named = [*unwrapped(model).named_parameters(), *unwrapped(model).named_buffers()]
    for name, tensor in named:
        if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
            raise UsageError(operation, "parameters and buffers that can be put back", f"{name}, which the first forward pass makes",
                             "one forward pass before")
        if tensor.is_meta:
            raise UsageError(operation, "parameters and buffers that can be put back", f"{name}, which is on the meta device",
                             "a model with its values (to_empty() and loading them)")
        if tensor.is_inference():
            raise UsageError(operation, "parameters and buffers that can be put back", f"{name}, which was made in inference mode",
                             "making the model outside torch.inference_mode()")
        if is_sharded([(name, tensor)]):
            raise UsageError(operation, "a model that is whole on each rank", f"{name}, which fully_shard() divides over ranks",
                             "the whole model on one rank, or in DistributedDataParallel")


@contextlib.contextmanager
def ordinary_modes() -> Iterator[None]:
    """Enables gradients, and clears the cache of autocast before and after, so that no copies of weights are carried over."""
    grad = torch.is_grad_enabled()
    torch.clear_autocast_cache()
    try:
        with torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        torch.clear_autocast_cache()
        torch.set_grad_enabled(grad)


@contextlib.contextmanager
def untouched(roots: Iterable[Any], *, everything: bool = False, account: Account | None = None,
              earlier: State | None = None) -> Iterator[list[str]]:
    """Restores what `roots` reach at the end of the `with` statement, also after an exception.

    This covers tensors and their `.grad`, modes, hooks, optimizers, schedules, scalers and generators.

    Args:
        everything: also restores what functions and plain containers hold.
        account, earlier: as for State.

    Yields:
        A list. After the `with` statement it has what could not be restored, with the reason.

    Raises:
        NotJudged: as for State, before anything runs.
    """
    state, generators = State(roots, everything=everything, account=account, earlier=earlier), Generators()
    failures: list[str] = []
    try:
        with ordinary_modes():
            yield failures
    finally:
        failures += state.restore()
        failures += generators.restore()
