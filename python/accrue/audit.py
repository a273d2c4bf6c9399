"""One window of somebody else's trainer, watched, and everything put back."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from accrue.errors import UsageError
from accrue.report import Report, not_judged
from accrue.tensors import IGNORED
from accrue.trainer_loss import loss_of_trainer
from accrue.untouched import untouched
from accrue.verify import LossFn
from accrue.watch import Watch


def audit(trainer: Any, loss_fn: LossFn | None = None, *, model: Any = None, loader: Any = None) -> Report:
    """Runs one window of a trainer and proves that it takes the step of its whole batch, or names what is wrong.

        print(accrue.audit(trainer))                                      # transformers.Trainer, TRL's
        print(accrue.audit(trainer, loss_fn, model=module, loader=loader))  # Lightning's Trainer

    `loss_fn(model, micro_batch)` returns `accrue.Loss(sum, weight)`; without it the loss is the cross entropy of transformers' models
    (accrue.transformers.loss) where it is what the trainer computes, else the trainer's own, where that is shown to be a mean over samples
    or labels; else it is not judged. The trainer begins its training and is stopped behind its first optimizer step. Then it is what it
    was, with its model, optimizer, schedule, counters, callbacks and random generators: it trains as if nothing had been.

    Raises UsageError where the trainer is of neither kind, its window has fewer than 2 micro-batches, or its data are an iterator, which
    would be used up.
    """
    kinds = {base.__module__.split(".")[0] for base in type(trainer).__mro__}
    if "transformers" in kinds:
        return _audit_transformers(trainer, loss_fn)
    if kinds & {"lightning", "pytorch_lightning"}:
        return _audit_lightning(trainer, loss_fn, model, loader)
    raise UsageError("audit", "a Trainer of transformers, TRL or Lightning", type(trainer).__name__,
                     "accrue.watch(model, optimizer, loss_fn) around one window of a loop of one's own, Accelerate's among them")


def _require_renewable(data: Any) -> None:
    if isinstance(data, Iterator):
        raise UsageError("audit", "data that can be read anew", f"an iterator of type {type(data).__name__}, which audit would use up",
                         "a DataLoader, or a Dataset")


class _Window:
    """A Watch that callbacks begin and end."""

    def __init__(self, loss_fn: LossFn | None, trainer: Any = None):
        self._loss_fn = loss_fn
        self._trainer = trainer
        self.watch: Watch | None = None
        self.report: Report | None = None

    def begin(self, model: nn.Module, optimizer: Any) -> None:
        if self.watch is None:
            self.watch = Watch(model, optimizer, self._loss_fn)
            self.watch.__enter__()

    def tell(self, batch: Any) -> None:
        if self.watch is not None and self.report is None:
            self.watch.tell(batch)

    def end(self) -> None:
        if self.watch is None or self.report is not None:
            return
        self.watch.stop()
        if self._loss_fn is None and self.watch.seen_micro_batches:
            found = loss_of_trainer(self._trainer, self.watch.model, self.watch.seen_micro_batches)
            if isinstance(found, str):
                self.report = not_judged(found, "loss_fn=, which returns accrue.Loss(sum, weight)")
                return
            self.watch.judge_by(found)
        self.watch.__exit__(None, None, None)
        self.report = self.watch.report

    def leave(self) -> None:
        """Takes hooks and watched functions away, also where an exception ended the window."""
        if self.watch is not None:
            self.watch.stop()

    def result(self) -> Report:
        if self.report is None:
            raise UsageError("audit", "a trainer that takes an optimizer step", "none", "more data, or fewer accumulation steps")
        return self.report


def _audit_transformers(trainer: Any, loss_fn: LossFn | None) -> Report:
    from transformers import TrainerCallback

    _require_renewable(trainer.train_dataset)
    window = _Window(loss_fn, trainer)

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
        """What the trainer computes its loss of is the micro-batch: its model may be called several times for it."""
        if torch.is_grad_enabled():
            window.tell(inputs)
        return compute_loss(model, inputs, *args, **kwargs)

    with untouched((trainer,), everything=True):
        try:
            trainer.add_callback(OneWindow())
            if loss_fn is None:
                trainer.compute_loss = told
            trainer.train()
        finally:
            window.leave()
    return _with_first_labels(window.result(), window.watch.seen_micro_batches)


def _with_first_labels(report: Report, micro_batches: list) -> Report:
    """Says where the factor is that of counting each sequence's first label, which no position predicts."""
    labels = [micro["labels"] for micro in micro_batches if isinstance(micro, dict) and torch.is_tensor(micro.get("labels"))]
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


def _audit_lightning(trainer: Any, loss_fn: LossFn | None, model: Any, loader: Any) -> Report:
    if loss_fn is None or model is None or loader is None:
        raise UsageError("audit", "loss_fn, model= and loader= beside Lightning's Trainer", "not all of them",
                         "accrue.audit(trainer, loss_fn, model=module, loader=loader)")
    _require_renewable(loader)
    callbacks = _lightning_callbacks(trainer)
    window = _Window(loss_fn)
    steps_before = trainer.global_step

    class OneWindow(callbacks):
        def on_train_batch_start(self, trainer, module, batch, batch_idx):
            window.begin(module, trainer.optimizers[0])
            window.tell(batch)

        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            if trainer.global_step > steps_before:
                window.end()
                trainer.should_stop = True

    with untouched((trainer, model, loader), everything=True):
        try:
            trainer.callbacks.append(OneWindow())
            trainer.fit(model, loader)
        finally:
            window.leave()
    return window.result()


def _lightning_callbacks(trainer: Any) -> type:
    if any(base.__module__.startswith("pytorch_lightning") for base in type(trainer).__mro__):
        from pytorch_lightning.callbacks import Callback
    else:
        from lightning.pytorch.callbacks import Callback
    return Callback
