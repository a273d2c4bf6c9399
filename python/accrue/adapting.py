"""The batch that follows the noise of its gradients, in a loop of one's own."""

import dataclasses
from typing import Any

from accrue import _native
from accrue.errors import UsageError
from accrue.options import check_options


@dataclasses.dataclass(frozen=True)
class NextBatch:
    """What a BatchController has decided for the windows to come."""
    batch: int  # in the unit that the controller was made with
    lr_factor: float  # times the learning rate of the schedule
    beta2: float | None  # the second moment's decay, where one was stated
    reason: str  # a sentence; empty where the batch stays


class BatchController:
    """Decides about the batch by what an Accumulator measured, as `accrue train` does (adapt.batch).

        acc = accrue.Accumulator(model, batch=accrue.Samples(32), measure_noise=True)
        controller = accrue.BatchController("critical", batch=32, most=1024, quantum=8, lr_rule="sqrt")
        ...
        report = acc.step(optimizer)
        ahead = controller.step(report)
        acc.set_batch(accrue.Samples(ahead.batch))

    rule       noise-scale (up and down, to the noise scale), norm-test (up, while noise outweighs the gradient), critical (doubles
               while the noise scale is at least twice the batch)
    batch      the one that the run begins with, in samples or tokens: what learning rate and beta2 are meant for
    least, most, quantum   between which it stays, and of what it is a whole multiple
    one_pass   what one pass takes, for the reasons: up to it nothing is accumulated
    lr_rule    none, linear, sqrt, adascale: what lr_factor follows, and beta2, whose half-life in samples or tokens stays
    windows    measured windows before it changes anything
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
        _native.rate_factor(lr_rule, batch, batch, None)  # refuses a rule that there is not
        self._rule, self._base, self._lr_rule, self._beta2 = rule, batch, lr_rule, beta2
        self._bounds = {"least": least, "most": most, "quantum": quantum, "one_pass": one_pass, "windows_wanted": windows}
        self._state: dict[str, Any] = {"batch": batch, "measured": 0, "units": 0.0, "weight": 0.0, "variance": None}

    @property
    def batch(self) -> int:
        return self._state["batch"]

    def step(self, report: _native.StepReport, size: float | None = None) -> NextBatch:
        """Takes in a step. `size` is what it held in the batch's unit, where the loss's weight does not count that."""
        state = self._state
        noise = None
        if report.stepped and report.gradient_variance is not None:
            # The average moves where a window showed noise.
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
