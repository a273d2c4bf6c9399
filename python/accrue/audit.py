"""One window of somebody else's trainer, watched."""

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from accrue import transformers
from accrue.errors import UsageError
from accrue.models import modes
from accrue.report import Report
from accrue.tensors import IGNORED, kept, put_back
from accrue.verify import LossFn
from accrue.watch import Watch


def audit(trainer: Any, loss_fn: LossFn | None = None, *, model: Any = None, loader: Any = None) -> Report:
    """Runs one window of a trainer and proves that it takes the step of its whole batch, or names what is wrong.

        print(accrue.audit(trainer))                                      # transformers.Trainer, TRL's
        print(accrue.audit(trainer, loss_fn, model=module, loader=loader))  # Lightning's Trainer

    `loss_fn(model, micro_batch)` returns `accrue.Loss(sum, weight)`; without it, that of transformers' models
    (accrue.transformers.loss), for trainers of these. The trainer begins its training and is stopped behind its first optimizer
    step; the model's parameters and buffers are put back.

    Raises UsageError where the trainer is of neither kind, or its window has fewer than 2 micro-batches.
    """
    kinds = {base.__module__.split(".")[0] for base in type(trainer).__mro__}
    if "transformers" in kinds:
        return _audit_transformers(trainer, loss_fn or transformers.loss)
    if kinds & {"lightning", "pytorch_lightning"}:
        return _audit_lightning(trainer, loss_fn, model, loader)
    raise UsageError("audit", "a Trainer of transformers, TRL or Lightning", type(trainer).__name__,
                     "accrue.watch(model, optimizer, loss_fn) around one window of a loop of one's own, Accelerate's among them")


class _Window:
    """A Watch that callbacks begin and end."""

    def __init__(self, loss_fn: LossFn):
        self._loss_fn = loss_fn
        self.watch: Watch | None = None
        self.report: Report | None = None

    def begin(self, model: nn.Module, optimizer: Any) -> None:
        if self.watch is None:
            self.watch = Watch(model, _plain(optimizer), self._loss_fn)
            self.watch.__enter__()

    def end(self) -> None:
        if self.watch is not None and self.report is None:
            self.watch.__exit__(None, None, None)
            self.report = self.watch.report

    def leave(self) -> None:
        """Takes hooks and watched functions away, also where an exception ended the window."""
        if self.watch is not None and self.report is None:
            self.watch.stop()

    def result(self) -> Report:
        if self.report is None:
            raise UsageError("audit", "a trainer that takes an optimizer step", "none", "more data, or fewer accumulation steps")
        return self.report


def _plain(optimizer: Any) -> torch.optim.Optimizer:
    """The torch optimizer that Accelerate's and Lightning's wrap."""
    while not isinstance(optimizer, torch.optim.Optimizer) or type(optimizer).__name__ == "AcceleratedOptimizer":
        optimizer = optimizer.optimizer
    return optimizer


@contextlib.contextmanager
def _put_back(model: nn.Module):
    before = kept(model)
    restore_modes = modes(model)
    try:
        yield
    finally:
        put_back(before)
        for tensor in model.parameters():
            tensor.grad = None
        restore_modes()


def _audit_transformers(trainer: Any, loss_fn: LossFn) -> Report:
    from transformers import TrainerCallback

    window = _Window(loss_fn)

    class OneWindow(TrainerCallback):
        def on_step_begin(self, args, state, control, model=None, optimizer=None, **others):
            window.begin(model, optimizer)

        def on_step_end(self, args, state, control, **others):
            window.end()
            control.should_training_stop = True
            control.should_save = control.should_evaluate = control.should_log = False
            return control

    callback = OneWindow()
    before = (trainer.optimizer, trainer.lr_scheduler, trainer.state)  # what train() makes anew
    trainer.add_callback(callback)
    try:
        with _put_back(trainer.model):
            trainer.train()
    finally:
        window.leave()
        trainer.remove_callback(callback)
        trainer.optimizer, trainer.lr_scheduler, trainer.state = before
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
    callbacks = _lightning_callbacks(trainer)
    window = _Window(loss_fn)

    class OneWindow(callbacks):
        def on_train_batch_start(self, trainer, module, batch, batch_idx):
            window.begin(module, trainer.optimizers[0])
            window.watch.tell(batch)

        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            if trainer.global_step > 0:
                window.end()
                trainer.should_stop = True

    callback = OneWindow()
    trainer.callbacks.append(callback)
    try:
        with _put_back(model):
            trainer.fit(model, loader)
    finally:
        window.leave()
        trainer.callbacks.remove(callback)
    return window.result()


def _lightning_callbacks(trainer: Any) -> type:
    if any(base.__module__.startswith("pytorch_lightning") for base in type(trainer).__mro__):
        from pytorch_lightning.callbacks import Callback
    else:
        from lightning.pytorch.callbacks import Callback
    return Callback
