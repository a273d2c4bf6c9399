"""The loss of a client's data.val, by a worker whose training data they are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from accrue.errors import UsageError
from accrue.windows import Sums, WindowWorker

try:
    import tomllib
except ImportError:  # before Python 3.11; Flower requires it there
    import tomli as tomllib

# What training has and an evaluation has not.
IN_TRAINING_ALONE = {"model.dropout": "0", "lora.dropout": "0", "loss.label_smoothing": "0", "loss.z_loss": "0"}


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat = {}
    for key, value in table.items():
        flat.update(_flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value})
    return flat


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def stated_keys(config: str, overrides: Iterable[str]) -> dict[str, Any]:
    """Returns the keys that a config file and its overrides state, with their values."""
    with open(config, "rb") as file:
        stated = _flat(tomllib.load(file))
    for override in overrides:
        key, _, text = override.partition("=")
        value = _value(text)
        stated.update(_flat({key: value}))
    return stated


def _refuse(expected: str, received: str, suggestion: str) -> UsageError:
    return UsageError("evaluation of a federated client", expected, received, suggestion)


def _expect_possible(stated: Mapping[str, Any]) -> None:
    """A worker runs its samples as training does, so what an evaluation does otherwise has to be a key that can be changed."""
    augmented = sorted(key for key in stated if key.startswith("data.augment"))
    if augmented:
        raise _refuse("images as they are", f"{augmented[0]}, which changes them at random", "evaluate_every left out, or a config without data.augment")
    if stated.get("model.kind") == "torchscript" or str(stated.get("model.from", "")).endswith(".pt"):
        raise _refuse("a model of accrue's own", "a TorchScript module, whose layers would be as in training", "evaluate_every left out")


class Validation:
    """Runs data.val, or what data.val_fraction holds out, forward and backward, and keeps the losses alone.

    It is a second worker: another copy of the model and its gradients, in the same memory budget.

    Raises:
        UsageError: there are no such data, or the config has what a worker only does as in training.
    """

    def __init__(self, config: str, overrides: Iterable[str], train: WindowWorker):
        stated = stated_keys(config, overrides)
        _expect_possible(stated)
        files, first = self._files(stated, train)
        changed = [f"{key}={value}" for key, value in IN_TRAINING_ALONE.items() if key in stated]
        if "precision.accumulate" in stated:
            changed.append("precision.accumulate=fp32")
        self._worker = WindowWorker(config, [*overrides, *files, *changed, f"batch.micro={train.micro_batch}"])
        self._draws = (first, self._worker.samples)
        if self._worker.shape != train.shape:
            raise _refuse("data.val with the vocabulary, images and classes of data.train", "others", "the same tokenizer, and folders of the same classes")

    @staticmethod
    def _files(stated: Mapping[str, Any], train: WindowWorker) -> tuple[list[str], int]:
        """Returns overrides that make the validation data those of a worker, and the first of its samples that counts."""
        if stated.get("data.val"):
            return [f"data.train={json.dumps(stated['data.val'])}"], 0
        if not stated.get("data.val_fraction"):
            raise _refuse("data.val in the client's config", "neither data.val nor data.val_fraction", 'val = ["/data/valid/*.jsonl"] in [data]')
        files = stated.get("data.train")
        if not isinstance(files, list) or any(isinstance(file, dict) for file in files):
            raise _refuse("data.train as a list of patterns beside data.val_fraction", json.dumps(files), "data.val instead of data.val_fraction")
        return ["data.val_fraction=0", f"data.val={json.dumps(files)}"], train.samples

    def run(self, parameters: Mapping[str, torch.Tensor]) -> Sums:
        """Returns losses and counts, without gradients."""
        self._worker.load(parameters)
        sums = self._worker.run(0, [self._draws])
        return Sums(sums.loss_sum, sums.weight, sums.tokens, sums.micro_batches, sums.quarantined, {}, {})
