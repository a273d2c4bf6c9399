"""Checks one window of an existing trainer, and restores everything afterwards."""

import copy
import dataclasses
import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

from accrue.copies import Account, Copies, check_copies
from accrue.errors import NotJudged, UsageError
from accrue.report import Report, as_left, not_judged, unjudged
from accrue.tensors import IGNORED
from accrue.trainer_loss import loss_of_trainer
from accrue.untouched import untouched
from accrue.verify import LossFn
from accrue.watch import Watch

# Arguments of transformers' Trainer that disable everything but its steps.
SILENT = {"save_strategy": "no", "eval_strategy": "no", "logging_strategy": "no", "save_total_limit": None, "load_best_model_at_end": False,
          "push_to_hub": False, "report_to": []}
# Callbacks of Lightning that write files.
WRITING = {"Checkpoint", "SaveConfigCallback"}


def audit(trainer: Any, loss_fn: LossFn | None = None, *, model: Any = None, loader: Any = None, copies: Copies | None = None) -> Report:
    """Runs one window of a trainer, and proves that it takes the step of its whole batch, or names what is wrong.

        print(accrue.audit(trainer))                                      # transformers.Trainer, TRL's
        print(accrue.audit(trainer, loss_fn, model=module, loader=loader))  # Lightning's Trainer

    The trainer begins its training and is stopped after its first optimizer step. Then the trainer is restored, with its model, optimizer,
    schedule, counters, callbacks and random generators: it trains as if it had not been audited. Its loggers, checkpoints, reports and
    evaluation are disabled in the window, so an audit writes no file (your own callbacks may).

    Args:
        trainer: a Trainer of transformers, TRL or Lightning.
        loss_fn: `loss_fn(model, micro_batch)` returns `accrue.Loss(sum, weight)`. None, for transformers and TRL: the cross entropy of
            transformers' models (accrue.transformers.loss) if the trainer computes that, otherwise the trainer's own loss if it is shown
            to be a mean over samples or labels. If neither holds, the window is not judged. Required for Lightning.
        model: the LightningModule, for Lightning only.
        loader: the DataLoader, for Lightning only.
        copies: limits what is copied to restore it. None: `accrue.Copies()`.

    Returns:
        A Report.

    Raises:
        UsageError: the trainer is of another kind, takes no optimizer step, has fewer than 2 micro-batches in its window, or reads its data
            from an iterator, which the audit would use up.
    """
    limits = check_copies("audit", copies)
    kinds = {base.__module__.split(".")[0] for base in type(trainer).__mro__}
    if "transformers" in kinds:
        return _audited(lambda: _audit_transformers(trainer, loss_fn, limits))
    if kinds & {"lightning", "pytorch_lightning"}:
        return _audited(lambda: _audit_lightning(trainer, loss_fn, model, loader, limits))
    raise UsageError("audit", "a Trainer of transformers, TRL or Lightning", type(trainer).__name__,
                     "accrue.watch(model, optimizer, loss_fn) around one window of your own loop, Accelerate's among them")


def _audited(run: Callable[[], Report]) -> Report:
    try:
        return run()
    except NotJudged as why:
        return unjudged(why)


def _require_renewable(data: Any) -> None:
    if isinstance(data, Iterator):
        raise UsageError("audit", "data that can be read again", f"an iterator of type {type(data).__name__}, which audit would use up",
                         "a DataLoader, or a Dataset")


class _Window:
    """A Watch that callbacks begin and end."""

    def __init__(self, loss_fn: LossFn | None, copies: Copies, trainer: Any = None):
        self._loss_fn = loss_fn
        self._copies = copies
        self._trainer = trainer
        self.watch: Watch | None = None
        self.report: Report | None = None

    def begin(self, model: nn.Module, optimizer: Any) -> None:
        if self.watch is None:
            self.watch = Watch(model, optimizer, self._loss_fn, copies=self._copies)
            self.watch.__enter__()

    def tell(self, batch: Any) -> None:
        if self.watch is not None and self.report is None:
            self.watch.tell(batch)

    def end(self) -> None:
        if self.watch is None or self.report is not None:
            return
        self.watch.stop()
        if self._loss_fn is None and self.watch.seen_micro_batches:
            found = loss_of_trainer(self._trainer, self.watch.model, self.watch.seen_micro_batches, self._copies)
            if isinstance(found, str):
                self.report = not_judged(found, "loss_fn=, which returns accrue.Loss(sum, weight)")
                return
            self.watch.judge_by(found)
        self.watch.__exit__(None, None, None)
        self.report = self.watch.report

    def leave(self) -> None:
        """Removes hooks and replaced functions, also after an exception."""
        if self.watch is not None:
            self.watch.stop()

    def result(self) -> Report:
        if self.report is None:
            raise UsageError("audit", "a trainer that takes an optimizer step", "none", "more data, or fewer accumulation steps")
        return self.report


def _nothing(*_: Any, **__: Any) -> None:
    """Replaces a trainer's methods that write."""


def _silence_transformers(trainer: Any) -> None:
    """Disables reports, checkpoints and evaluation of the trainer. Called within untouched()."""
    handler = trainer.callback_handler
    handler.callbacks = [each for each in handler.callbacks if not any(base.__module__.startswith("transformers.integrations")
                                                                       for base in type(each).__mro__)]
    trainer.args = copy.copy(trainer.args)
    for name, value in SILENT.items():
        if hasattr(trainer.args, name):
            setattr(trainer.args, name, value)
    trainer.log = trainer.save_model = trainer._save_checkpoint = _nothing


def _audit_transformers(trainer: Any, loss_fn: LossFn | None, copies: Copies) -> Report:
    from transformers import TrainerCallback

    _require_renewable(trainer.train_dataset)
    window = _Window(loss_fn, copies, trainer)

    class OneWindow(TrainerCallback):
        def on_step_begin(self, args, state, control, model=None, optimizer=None, **others):
            window.begin(model, optimizer)

        def on_step_end(self, args, state, control, **others):
            window.end()
            control.should_training_stop = True
            control.should_save = control.should_evaluate = control.should_log = False
            return control

    compute_loss = trainer.compute_loss

    def told(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Announces the trainer's inputs as the micro-batch, because a trainer may call its model several times for one loss."""
        if torch.is_grad_enabled():
            window.tell(inputs)
        return compute_loss(model, inputs, *args, **kwargs)

    with untouched((trainer,), everything=True, account=Account(copies)) as failures:
        try:
            _silence_transformers(trainer)
            trainer.add_callback(OneWindow())
            if loss_fn is None:
                trainer.compute_loss = told
            trainer.train()
        finally:
            window.leave()
    return as_left(_with_first_labels(window.result(), window.watch.seen_micro_batches), failures)


def _with_first_labels(report: Report, micro_batches: list) -> Report:
    """Adds evidence if the factor is that of counting each sequence's first label, which no position predicts."""
    labels = [micro["labels"] for micro in micro_batches if isinstance(micro, Mapping) and torch.is_tensor(micro.get("labels"))]
    if report.factor is None or not labels or any(each.dim() != 2 for each in labels):
        return report
    counted = sum(int((each != IGNORED).sum()) for each in labels)
    if any("shift_labels" in micro for micro in micro_batches):
        return report
    predicted = sum(int((each[:, 1:] != IGNORED).sum()) for each in labels)
    if counted == 0 or abs(report.factor * counted / max(predicted, 1) - 1) > 1e-3:
        return report
    told = (f"num_items_in_batch is {counted} and counts each sequence's first label, which no position predicts: {predicted} are in "
            "the loss. Labels whose first is -100 are counted rightly")
    return dataclasses.replace(report, evidence=[*report.evidence, told])


def _silence_lightning(trainer: Any) -> None:
    """Disables logging, checkpoints, profiling and evaluation of the trainer. Called within untouched()."""
    package = _package_of_lightning(trainer)
    trainer.callbacks = [each for each in trainer.callbacks if not any(
        base.__name__ in WRITING and base.__module__.startswith(package) for base in type(each).__mro__)]
    if trainer.loggers:
        trainer.loggers = [importlib.import_module(f"{package}.loggers.logger").DummyLogger()]
    trainer.profiler = importlib.import_module(f"{package}.profilers").PassThroughProfiler()
    trainer.save_checkpoint = _nothing
    trainer.num_sanity_val_steps = trainer.limit_val_batches = 0


def _audit_lightning(trainer: Any, loss_fn: LossFn | None, model: Any, loader: Any, copies: Copies) -> Report:
    if loss_fn is None or model is None or loader is None:
        raise UsageError("audit", "loss_fn, model= and loader= beside Lightning's Trainer", "not all of them",
                         "accrue.audit(trainer, loss_fn, model=module, loader=loader)")
    _require_renewable(loader)
    callback = importlib.import_module(f"{_package_of_lightning(trainer)}.callbacks").Callback
    window = _Window(loss_fn, copies)
    steps_before = trainer.global_step

    class OneWindow(callback):
        def on_train_batch_start(self, trainer, module, batch, batch_idx):
            window.begin(module, trainer.optimizers[0])
            window.tell(batch)

        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            if trainer.global_step > steps_before:
                window.end()
                trainer.should_stop = True

    with untouched((trainer, model, loader), everything=True, account=Account(copies)) as failures:
        try:
            _silence_lightning(trainer)
            trainer.callbacks.append(OneWindow())
            trainer.fit(model, loader)
        finally:
            window.leave()
    return as_left(window.result(), failures)


def _package_of_lightning(trainer: Any) -> str:
    return "pytorch_lightning" if any(base.__module__.startswith("pytorch_lightning") for base in type(trainer).__mro__) else "lightning.pytorch"
