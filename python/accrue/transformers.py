"""The losses of transformers' models as sums: what a Trainer's step is meant to be the mean of."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from accrue import _native
from accrue.errors import UsageError
from accrue.models import unwrapped
from accrue.tensors import IGNORED

# Inputs that trainers pass for the model's own loss.
OF_LOSSES = ("labels", "shift_labels", "num_items_in_batch")


def _predicts_next(model: nn.Module) -> bool:
    """Returns whether labels must be shifted, decided by the model's class as in transformers."""
    name = type(unwrapped(model)).__name__
    return "CausalLM" in name or "LMHead" in name or getattr(unwrapped(model), "loss_type", None) == "ForCausalLM"


def _has_label_sets(model: nn.Module, logits: torch.Tensor, labels: torch.Tensor) -> bool:
    """Returns whether each sample has a set of labels, as transformers decides it: by the config, or by floating-point labels for several classes."""
    config = getattr(unwrapped(model), "config", None)
    stated = getattr(config, "problem_type", None) == "multi_label_classification"
    return labels.shape == logits.shape and logits.shape[-1] > 1 and (stated or labels.is_floating_point())


def _require_decoder_only(model: nn.Module, micro: Mapping[str, Any]) -> None:
    config = getattr(unwrapped(model), "config", None)
    if getattr(config, "is_encoder_decoder", False) and micro.get("decoder_input_ids") is None:
        raise UsageError("transformers loss", "decoder_input_ids beside labels", "an encoder-decoder model without them",
                         "loss_fn= for its own loss")


def loss(model: nn.Module, micro: Mapping[str, Any]) -> _native.Loss:
    """Returns the summed loss of `micro["labels"]`, and the number of labels that count.

    It is the cross entropy for language models (labels are shifted for causal ones) and for classifiers of tokens, sequences or images, the binary
    cross entropy for sets of labels, and the squared error for one output per sample.

    Args:
        model: a model of transformers whose outputs have `logits`.
        micro: the micro-batch, a dict of tensors with `labels` or `shift_labels`.

    Returns:
        A Loss.

    Raises:
        UsageError: there are no labels (a trainer that smooths labels removes them), the model returns no logits, their shapes differ, or it is
            an encoder-decoder without decoder_input_ids. Use your own `loss_fn` in these cases.
    """
    shifted = micro.get("shift_labels") if isinstance(micro, Mapping) else None
    if not isinstance(micro, Mapping) or (micro.get("labels") is None and shifted is None):
        raise UsageError("transformers loss", "a micro-batch with labels", "none", "loss_fn= for a model with a loss of its own")
    _require_decoder_only(model, micro)
    # Only tensors are data; other inputs configure the trainer's loss.
    outputs = model(**{name: value for name, value in micro.items() if torch.is_tensor(value) and name not in OF_LOSSES})
    logits, labels = getattr(outputs, "logits", None), micro["labels"] if shifted is None else shifted
    if logits is None:
        raise UsageError("transformers loss", "outputs with logits", type(outputs).__name__, "loss_fn= for a model with a loss of its own")
    if _has_label_sets(model, logits, labels):
        return _native.Loss(nn.functional.binary_cross_entropy_with_logits(logits.float(), labels.float(), reduction="sum"), labels.numel())
    if not labels.is_floating_point():
        if _predicts_next(model) and shifted is None:
            logits, labels = logits[:, :-1], labels[:, 1:]
        if logits.shape[:-1] != labels.shape:
            raise UsageError("transformers loss", f"a label for each of the logits, {list(logits.shape[:-1])}", f"labels of shape {list(labels.shape)}",
                             "loss_fn= for a model with a loss of its own (CTC, segmentation, detection)")
        classes, flat = logits.flatten(0, -2).float(), labels.flatten()
        return _native.Loss(nn.functional.cross_entropy(classes, flat, ignore_index=IGNORED, reduction="sum"), (flat != IGNORED).sum())
    if logits.float().squeeze(-1).shape != labels.shape:
        raise UsageError("transformers loss", f"a label for each output, {list(logits.squeeze(-1).shape)}", f"labels of shape {list(labels.shape)}",
                         "loss_fn= for a model with a loss of its own")
    return _native.Loss((logits.float().squeeze(-1) - labels).square().sum(), labels.numel())
