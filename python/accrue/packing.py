"""Checks whether documents that are packed into one row see each other."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from accrue.batches import with_items
from accrue.generators import Generators
from accrue.tensors import IGNORED

# The relative change of a loss by rounding if other columns of the row change.
MOST_ROUNDING = 1e-4


def _boundary(batch: Any) -> tuple[int, int] | None:
    """Returns row and column of the first document that begins inside a row, where position_ids restart at 0."""
    if not isinstance(batch, Mapping) or not all(torch.is_tensor(batch.get(name)) for name in ("input_ids", "labels", "position_ids")):
        return None
    positions = batch["position_ids"]
    if any(tensor.is_nested or tensor.dim() != 2 or tensor.shape != positions.shape for tensor in (positions, batch["input_ids"], batch["labels"])):
        return None  # labels of samples, not of tokens, do not show which tokens a loss has seen
    begins_anew = (positions[:, 1:] == 0) & (positions[:, :1] == 0)
    if torch.is_tensor(batch.get("attention_mask")) and batch["attention_mask"].shape == positions.shape:
        begins_anew &= batch["attention_mask"][:, :-1] != 0  # the document after padding on the left is not a second one
    starts = begins_anew.nonzero()
    return (int(starts[0, 0]), int(starts[0, 1]) + 1) if len(starts) else None


def _with(batch: Mapping, **tensors: torch.Tensor) -> Mapping:
    return with_items(batch, dict(batch) | tensors)


def leaks(model: nn.Module, loss_fn, batches: list[Any]) -> str:
    """Returns how a document of the first packed row reaches the next one; "" if it does not, or no row is packed.

    Rows are packed if `position_ids` restart inside them (as transformers' collators write them).
    """
    for batch in batches:
        place = _boundary(batch)
        if place:
            return _leak_at(model, loss_fn, batch, *place)
    return ""


def _leak_at(model: nn.Module, loss_fn, batch: Mapping, row: int, column: int) -> str:
    generators = Generators()

    def loss(**tensors: torch.Tensor):
        generators.restore()
        with torch.no_grad():
            return loss_fn(model, _with(batch, **tensors))

    crossing = torch.full_like(batch["labels"], IGNORED)
    crossing[row, column] = batch["input_ids"][row, column]
    try:
        if float(batch["labels"][row, column]) != IGNORED and loss(labels=crossing).weight > 0:
            return f"the first token of a document (row {row}, column {column}) is predicted from the document before it"
        labels = torch.full_like(batch["labels"], IGNORED)
        labels[row, column + 1:] = batch["labels"][row, column + 1:]
        other = batch["input_ids"].clone()
        other[row, :column] = other[row, :column].flip(0).add(1) % max(2, int(other.max()))
        first, second = loss(labels=labels), loss(labels=labels, input_ids=other)
    finally:
        generators.restore()
    change = abs(float(first.sum) - float(second.sum)) / max(abs(float(first.sum)), 1e-30)
    if change <= MOST_ROUNDING:
        return ""
    return f"other tokens in a document change the loss of the next one in its row (row {row}, column {column}) by {change:.2g}"
