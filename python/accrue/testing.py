"""For test suites: one assertion that a training loop accumulates rightly."""

from collections.abc import Callable
from typing import Any

from accrue.report import Report
from accrue.verify import LossFn, verify, verify_loop


def assert_accumulates(model: Any, batch: Any, loss_fn: LossFn, loop: Callable[[Any, list], Any] | None = None, *,
                       micro_batch: int = 0, seed: int = 1) -> Report:
    """Fails, with the whole report as its message, where `loop` does not leave the batch's mean gradient in `.grad`, and where rounding
    may change so much of it (bf16 parameters) that nothing is proved: then run it in fp32.

    Without `loop` the loss function alone is looked at: whether its micro-batches add up to the batch. Returns the report.

        def test_training_step_accumulates():
            accrue.testing.assert_accumulates(model, batch, loss_fn, my_loop, micro_batch=4)
    """
    if loop is None:
        sizes = [micro_batch] if micro_batch else []
        report = verify(model, batch, loss_fn, micro_batches=sizes, seed=seed)
    else:
        report = verify_loop(model, batch, loss_fn, loop, micro_batch=micro_batch, seed=seed)
    assert report.equal and report.conclusive, f"\n{report}"
    return report
