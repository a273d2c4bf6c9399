"""For test suites: an assertion that a training loop accumulates gradients correctly."""

from collections.abc import Callable
from typing import Any

from accrue.options import check_count
from accrue.report import Report
from accrue.verify import LossFn, verify, verify_loop


def assert_accumulates(model: Any, batch: Any, loss_fn: LossFn, loop: Callable[[Any, list], Any] | None = None, *,
                       micro_batch: int | None = None, seed: int = 1) -> Report:
    """Asserts that `loop` leaves the gradient of the batch's mean loss in `.grad`.

        def test_training_step_accumulates():
            accrue.testing.assert_accumulates(model, batch, loss_fn, my_loop, micro_batch=4)

    Args:
        model, batch, loss_fn: as for accrue.verify_loop().
        loop: `loop(model, micro_batches)`. None: only loss_fn is checked, that its micro-batches add up to the batch (accrue.verify()).
        micro_batch: samples in a micro-batch. None: as for accrue.verify_loop() or accrue.verify().
        seed: the seed of torch's generator in each pass.

    Returns:
        The Report.

    Raises:
        AssertionError: the gradient differs, or rounding may change so much of it (bf16 parameters) that nothing is proved; in that case run
            the test in fp32. The message is the whole report.
        UsageError: as for accrue.verify_loop().
    """
    if loop is None:
        check_count("assert_accumulates", "micro_batch", micro_batch)
        sizes = [] if micro_batch is None else [micro_batch]
        report = verify(model, batch, loss_fn, micro_batches=sizes, seed=seed)
    else:
        report = verify_loop(model, batch, loss_fn, loop, micro_batch=micro_batch, seed=seed)
    assert report.equal and report.conclusive, f"\n{report}"
    return report
