"""Batches, and how they are cut into micro-batches.

A batch is one of these:

- a tensor [B, ...],
- a dict, list or (named) tuple of tensors with B rows each (what a DataLoader yields, `BatchEncoding` of transformers),
- a list of B samples of any kind except tensors.

To use your own batch type, register how it is measured and cut:

    @accrue.batch_size.register
    def _(batch: Graphs): return len(batch.graphs)
    @accrue.batch_slice.register
    def _(batch: Graphs, begin, end): return Graphs(batch.graphs[begin:end])
"""

import copy
import dataclasses
import functools
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import torch

from accrue.errors import UsageError


def _no_batch(batch: Any, received: str) -> UsageError:
    return UsageError("batch", "a tensor, a dict, list or tuple of tensors with a row for each sample, or a list of samples",
                      received, "accrue.batch_size.register and accrue.batch_slice.register for a type of your own")


def _rows(tensors: list[torch.Tensor]) -> int | None:
    """Returns the number of rows that all tensors have; None if the numbers differ, or a tensor has no dimension."""
    sizes = {tensor.size(0) if tensor.dim() else -1 for tensor in tensors}
    return sizes.pop() if len(sizes) == 1 and -1 not in sizes else None


@functools.singledispatch
def batch_size(batch: Any) -> int:
    """Returns the number of samples in a batch. Raises UsageError for an unknown type, or if the numbers of rows differ."""
    raise _no_batch(batch, f"a value of type {type(batch).__name__}")


@functools.singledispatch
def batch_slice(batch: Any, begin: int, end: int) -> Any:
    """Returns samples [begin, end) of a batch, as a view if possible. Raises UsageError for an unknown type."""
    raise _no_batch(batch, f"a value of type {type(batch).__name__}")


@batch_size.register
def _(batch: torch.Tensor) -> int:
    if batch.dim() == 0:
        raise _no_batch(batch, "a tensor without dimensions")
    return batch.size(0)


@batch_slice.register
def _(batch: torch.Tensor, begin: int, end: int) -> torch.Tensor:
    return _rows_of(batch, begin, end)


def _rows_of(tensor: torch.Tensor, begin: int, end: int) -> torch.Tensor:
    if not tensor.is_nested:
        return tensor[begin:end]
    return torch.nested.as_nested_tensor(list(tensor.unbind()[begin:end]), layout=tensor.layout)  # torch cannot slice nested tensors


@batch_size.register
def _(batch: Mapping) -> int:
    tensors = {name: value for name, value in batch.items() if torch.is_tensor(value) and value.dim()}
    rows = _rows(list(tensors.values()))
    if rows is None:
        shapes = ", ".join(f"{name} {list(value.shape)}" for name, value in tensors.items())
        raise _no_batch(batch, f"tensors with different numbers of rows: {shapes}" if tensors else "a dict without tensors")
    return rows


@batch_slice.register
def _(batch: Mapping, begin: int, end: int) -> Mapping:
    rows = batch_size(batch)

    def cut(value: Any) -> Any:
        if torch.is_tensor(value):
            return _rows_of(value, begin, end) if value.dim() else value
        return value[begin:end] if isinstance(value, (list, tuple)) and len(value) == rows else value

    return mapped(batch, cut)


def like(batch: list | tuple, items: list) -> list | tuple:
    """Returns the items as a list or tuple of the batch's type."""
    return type(batch)(*items) if hasattr(batch, "_fields") else type(batch)(items)


def mapped(batch: Any, function: Callable[[Any], Any]) -> Any:
    """Returns a batch of the same type (mapping, list, tuple, named tuple or dataclass) with `function` applied to each element.

    Other values are returned as they are.
    """
    if isinstance(batch, Mapping):
        return with_items(batch, {name: function(value) for name, value in batch.items()})
    if isinstance(batch, (list, tuple)):
        return like(batch, [function(value) for value in batch])
    if dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        made = copy.copy(batch)
        for each in dataclasses.fields(batch):
            if hasattr(batch, each.name):
                object.__setattr__(made, each.name, function(getattr(batch, each.name)))  # also of a frozen one
        return made
    return batch


def with_items(batch: Mapping, items: dict) -> Mapping:
    """Returns a mapping of the batch's type with `items` in place of its own.

    Its other attributes are kept (for example the encodings of transformers' BatchEncoding).
    """
    if type(batch) is dict:
        return items
    if not isinstance(batch, MutableMapping):
        return type(batch)(items)
    made = copy.copy(batch)
    for name, value in items.items():
        made[name] = value
    return made


def copied(value: Any, take: Callable[[torch.device, int, str], None] | None = None) -> Any:
    """Returns a copy of a batch with its own tensors, because loops may write to the same tensors again.

    Args:
        take: called with (device, bytes, description) before each copy.
    """
    if not torch.is_tensor(value):
        return mapped(value, lambda item: copied(item, take))
    if take is not None:
        take(value.device, value.numel() * value.element_size(), f"a micro-batch's tensor {list(value.shape)}")
    return value.detach().clone()


def _are_columns(batch: list | tuple) -> bool:
    return len(batch) > 0 and all(torch.is_tensor(item) for item in batch) and _rows(list(batch)) is not None


def _size_of_sequence(batch: list | tuple) -> int:
    if _are_columns(batch):
        return batch[0].size(0)
    if isinstance(batch, tuple):
        raise _no_batch(batch, "a tuple whose elements are not all tensors of as many rows")
    return len(batch)


def _slice_of_sequence(batch: list | tuple, begin: int, end: int) -> list | tuple:
    if _are_columns(batch):
        return like(batch, [_rows_of(item, begin, end) for item in batch])
    return batch[begin:end]


batch_size.register(list, _size_of_sequence)
batch_size.register(tuple, _size_of_sequence)
batch_slice.register(list, _slice_of_sequence)
batch_slice.register(tuple, _slice_of_sequence)


def micro_batches(batch: Any, size: int) -> list:
    """Returns the batch in micro-batches of `size` samples; the last one has the remaining samples."""
    samples = batch_size(batch)
    return [batch_slice(batch, begin, min(begin + size, samples)) for begin in range(0, samples, size)]


def in_double(value: Any) -> Any:
    """Returns the batch with its floating-point tensors in fp64."""
    if torch.is_tensor(value):
        return value.double() if value.is_floating_point() else value
    return mapped(value, in_double)


def has_tensors_alone(batch: Any) -> bool:
    """Returns whether in_double() converts all floating-point numbers of the batch."""
    if isinstance(batch, Mapping):
        return all(has_tensors_alone(value) for value in batch.values())
    if isinstance(batch, (list, tuple)):
        return all(has_tensors_alone(value) for value in batch)
    return torch.is_tensor(batch) or not isinstance(batch, float)
