"""The batch size that follows the gradient noise scale, in your own loop."""

import dataclasses
from typing import Any

from accrue import _native
from accrue.errors import UsageError
from accrue.options import check_options


@dataclasses.dataclass(frozen=True)
class NextBatch:
    """A BatchController's decision for the following windows."""
    batch: int  # in the unit that the controller was made with
    lr_factor: float  # factor for the schedule's learning rate
    beta2: float | None  # the second moment's decay; None if none was given
    reason: str  # a sentence; empty if the batch stays


class BatchController:
    """Chooses the effective batch size from the gradient noise that an Accumulator measured, as `accrue train` does (adapt.batch).

        acc = accrue.Accumulator(model, batch=accrue.Samples(32), measure_noise=True)
        controller = accrue.BatchController("critical", batch=32, most=1024, quantum=8, lr_rule="sqrt")
        ...
        report = acc.step(optimizer)
        ahead = controller.step(report)
        acc.set_batch(accrue.Samples(ahead.batch))

    The property `batch` is the batch size in force. Save `state_dict()` in your checkpoints, and pass it to `load_state_dict()`.

    Args:
        rule: "noise-scale" (grows and shrinks to the noise scale), "norm-test" (grows while noise outweighs the gradient), or "critical"
            (doubles while the noise scale is at least twice the batch).
        batch: the batch size at the start of the run, in samples or tokens, for which learning rate and beta2 were chosen.
        least, most: the bounds of the batch size.
        quantum: the batch size stays a multiple of this.
        one_pass: the batch size that one forward and backward pass can take. Up to it nothing is accumulated; it appears in reasons.
        lr_rule: "none", "linear", "sqrt" or "adascale": how the learning rate scales with the batch size (`lr_factor`). Unless it is "none",
            beta2 is changed so that its half-life in samples or tokens stays the same.
        beta2: the decay of the optimizer's second moment. None: not adapted.
        windows: the number of measured windows before the batch size changes.

    Raises:
        UsageError: a rule is unknown, or `batch` is no multiple of `quantum` or outside its bounds.
    """

    def __init__(self, rule: str, *, batch: int, most: int, least: int = 1, quantum: int = 1, one_pass: int = 1, lr_rule: str = "none",
                 beta2: float | None = None, windows: int = 20):
        if rule not in ("noise-scale", "norm-test", "critical"):
            raise UsageError("BatchController", "a rule that goes by measured noise: noise-scale, norm-test or critical", repr(rule),
                             "\"critical\"; of the learning rate's schedule, its own code")
        numbers = {"batch": batch, "most": most, "least": least, "quantum": quantum, "one_pass": one_pass, "windows": windows, "lr_rule": lr_rule}
        check_options("BatchController", numbers, batch=int, most=int, least=int, quantum=int, one_pass=int, windows=int, lr_rule=str)
        if quantum < 1 or batch % quantum != 0:
            raise UsageError("BatchController", f"a batch that is a whole multiple of quantum, {quantum}", str(batch), "a quantum that divides it")
        if not least <= batch <= most:
            raise UsageError("BatchController", f"a batch between least and most, {least} and {most}", str(batch), "wider bounds")
        _native.rate_factor(lr_rule, batch, batch, None)  # refuses an unknown rule
        self._rule, self._base, self._lr_rule, self._beta2 = rule, batch, lr_rule, beta2
        self._bounds = {"least": least, "most": most, "quantum": quantum, "one_pass": one_pass, "windows_wanted": windows}
        self._state: dict[str, Any] = {"batch": batch, "measured": 0, "units": 0.0, "weight": 0.0, "variance": None}

    @property
    def batch(self) -> int:
        return self._state["batch"]

    def step(self, report: _native.StepReport, size: float | None = None) -> NextBatch:
        """Takes in the report of a step, and returns the NextBatch.

        Args:
            report: the StepReport of an Accumulator with `measure_noise`.
            size: the size of the step in the batch's unit. None: the weight of the loss, if that is the unit.
        """
        state = self._state
        noise = None
        if report.stepped and report.gradient_variance is not None:
            # The average changes only if a window showed noise.
            state["measured"] += report.gradient_variance != state["variance"]
            state["variance"] = report.gradient_variance
            state["units"] += report.weight if size is None else size
            state["weight"] += report.weight
            noise = _native.NoiseScale(report.noise_scale, report.noise_scale_low or 0.0, report.noise_scale_high,
                                       report.gradient_variance).in_units(state["units"] / state["weight"])
        decision = _native.decide_batch(self._rule, batch=state["batch"], base_batch=self._base, noise=noise,
                                        windows_measured=state["measured"], rate_left=None, **self._bounds)
        if decision.batch != state["batch"]:
            state["batch"], state["measured"] = round(decision.batch), 0
        beta2 = None if self._beta2 is None else _native.beta2_at(self._beta2, self._lr_rule, self.batch, self._base)
        return NextBatch(self.batch, _native.rate_factor(self._lr_rule, self.batch, self._base, noise), beta2, decision.reason)

    def state_dict(self) -> dict[str, Any]:
        return dict(self._state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if set(state) != set(self._state):
            raise UsageError("BatchController.load_state_dict", f"the keys {sorted(self._state)}", str(sorted(state)),
                             "what state_dict() gave")
        self._state = dict(state)
