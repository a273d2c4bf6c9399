"""Finds the loss that a Trainer's step is meant to be the mean of, by running the trainer's own loss."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from accrue import _native, transformers
from accrue.batches import batch_size, batch_slice, copied, with_items
from accrue.copies import Account, Copies
from accrue.tensors import IGNORED
from accrue.untouched import untouched

# Two means of the same terms differ by rounding alone.
OF_ROUNDING = 1e-4

LossFn = Callable[[nn.Module, Any], _native.Loss]


def loss_of_trainer(trainer: Any, model: nn.Module, micro_batches: list[Any], copies: Copies) -> LossFn | str:
    """Returns the loss function, which returns a sum with its weight; or a text that explains why none is known.

    It is the cross entropy of labels if the trainer's loss of each micro-batch equals that. Otherwise it is the trainer's own loss, which is run on
    parts of a micro-batch to show that it is a mean over samples (or pairs) or over labels.
    """
    with untouched((trainer, model), everything=True, account=Account(copies)), torch.no_grad():
        model.eval()  # losses are comparable only without dropout
        try:
            own = [_own(trainer, model, micro) for micro in micro_batches]
        except Exception as error:
            return f"{type(trainer).__name__}'s own loss cannot be asked for ({type(error).__name__}: {error})"
        if _all_agree(own, [_of_labels(model, micro) for micro in micro_batches]):
            return transformers.loss
        for weigh, cuts in ((_samples, _rows), (_labels, _rows), (_pairs, _halves)):
            if _is_mean(trainer, model, micro_batches, own, weigh, cuts):
                return lambda net, micro: _as_sum(_own_with_graph(trainer, net, micro), weigh(micro))
    return f"the loss of {type(trainer).__name__} is not shown to be a mean over samples or labels"


def _own(trainer: Any, model: nn.Module, micro: Any) -> float:
    return float(_own_with_graph(trainer, model, micro))


def _own_with_graph(trainer: Any, model: nn.Module, micro: Any) -> torch.Tensor:
    """Calls the class's method, because audit has replaced the object's. Passes a copy, because trainers remove labels."""
    return type(trainer).compute_loss(trainer, model, copied(micro))


def _as_sum(mean: torch.Tensor, weight: int) -> _native.Loss:
    return _native.Loss(mean * weight, weight)


def _of_labels(model: nn.Module, micro: Any) -> float | None:
    try:
        return float(transformers.loss(model, micro).mean)
    except Exception:  # a model of another kind may raise anything
        return None


def _all_agree(some: list[float], others: list[float | None]) -> bool:
    return all(b is not None and abs(a - b) <= OF_ROUNDING * max(abs(a), abs(b), 1e-12) for a, b in zip(some, others))


def _samples(micro: Any) -> int:
    return batch_size(micro)


def _pairs(micro: Any) -> int:
    return batch_size(micro) // 2


def _labels(micro: Any) -> int:
    """Returns the number of labels that count. In a language model no position predicts the first label, so it does not count."""
    if not isinstance(micro, Mapping) or not torch.is_tensor(micro.get("labels")):
        return 0
    labels = micro["labels"]
    return int((labels[:, 1:] if labels.dim() == 2 else labels).ne(IGNORED).sum())


def _rows(micro: Any) -> list[Any]:
    return [batch_slice(micro, place, place + 1) for place in range(batch_size(micro))]


def _halves(micro: Mapping) -> list[Any]:
    """Splits a batch whose first half are chosen samples and whose second half rejected ones, as preference trainers lay it out."""
    half = batch_size(micro) // 2
    return [with_items(micro, {name: torch.cat([value[place:place + 1], value[half + place:half + place + 1]])
                               if torch.is_tensor(value) and value.dim() else value for name, value in micro.items()}) for place in range(half)]


def _is_mean(trainer: Any, model: nn.Module, micro_batches: list[Any], own: list[float], weigh: Callable[[Any], int],
             cuts: Callable[[Any], list[Any]]) -> bool:
    """Returns whether each micro-batch's loss is the weighted mean of its parts' losses, and at least one micro-batch has several parts."""
    tells = False
    try:
        for micro, whole in zip(micro_batches, own):
            parts = cuts(micro)
            weights = [weigh(part) for part in parts]
            if sum(weights) == 0 or sum(weights) != weigh(micro):
                return False
            losses = [_own(trainer, model, part) if weight else 0.0 for part, weight in zip(parts, weights)]
            mean = sum(loss * weight for loss, weight in zip(losses, weights)) / sum(weights)
            if abs(mean - whole) > OF_ROUNDING * max(abs(whole), 1e-12):
                return False
            tells = tells or len(parts) > 1
    except Exception:  # the loss does not accept such parts
        return False
    return tells
