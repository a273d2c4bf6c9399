"""What loss a Trainer's step is to be the mean of, found by asking the trainer itself."""

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
    """The loss as a sum with its weight; or why none is known.

    Cross entropy of labels where the trainer's loss of a micro-batch is that; else the trainer's own, which is asked for parts of a
    micro-batch: it is a mean over samples (or pairs), or over labels, where theirs say so.
    """
    with untouched((trainer, model), everything=True, account=Account(copies)), torch.no_grad():
        model.eval()  # without dropout's draws losses are comparable
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
    """By the class, since audit has put itself before the object's method. A copy: trainers take labels out."""
    return type(trainer).compute_loss(trainer, model, copied(micro))


def _as_sum(mean: torch.Tensor, weight: int) -> _native.Loss:
    return _native.Loss(mean * weight, weight)


def _of_labels(model: nn.Module, micro: Any) -> float | None:
    try:
        return float(transformers.loss(model, micro).mean)
    except Exception:  # a model of another kind, whatever it says
        return None


def _all_agree(some: list[float], others: list[float | None]) -> bool:
    return all(b is not None and abs(a - b) <= OF_ROUNDING * max(abs(a), abs(b), 1e-12) for a, b in zip(some, others))


def _samples(micro: Any) -> int:
    return batch_size(micro)


def _pairs(micro: Any) -> int:
    return batch_size(micro) // 2


def _labels(micro: Any) -> int:
    """How many labels count; of language models the first is none that a position predicts, wherever it counts."""
    if not isinstance(micro, Mapping) or not torch.is_tensor(micro.get("labels")):
        return 0
    labels = micro["labels"]
    return int((labels[:, 1:] if labels.dim() == 2 else labels).ne(IGNORED).sum())


def _rows(micro: Any) -> list[Any]:
    return [batch_slice(micro, place, place + 1) for place in range(batch_size(micro))]


def _halves(micro: Mapping) -> list[Any]:
    """Chosen samples in the first half, rejected ones in the second, as preference trainers lay them out."""
    half = batch_size(micro) // 2
    return [with_items(micro, {name: torch.cat([value[place:place + 1], value[half + place:half + place + 1]])
                               if torch.is_tensor(value) and value.dim() else value for name, value in micro.items()}) for place in range(half)]


def _is_mean(trainer: Any, model: nn.Module, micro_batches: list[Any], own: list[float], weigh: Callable[[Any], int],
             cuts: Callable[[Any], list[Any]]) -> bool:
    """Whether each micro-batch's loss is the mean of its parts', by their weights, and some micro-batch has parts that tell."""
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
    except Exception:  # a loss that takes no such parts
        return False
    return tells
