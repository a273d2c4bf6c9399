"""The report of a proof."""

import json
from dataclasses import dataclass, field

from accrue import _native
from accrue.errors import NotJudged


@dataclass(frozen=True)
class ParameterError:
    """One parameter's error and its rounding bound, both relative to the norm of its true gradient."""

    name: str
    relative_error: float
    bound: float


@dataclass(frozen=True)
class Report:
    """The verdict of a proof. `print(report)` shows it as text.

    `equal` is True if the gradient is that of the whole batch. `cause` is one of the words of `accrue verify --json` ("none" if `equal`), and
    `causes` has all causes that were found. `max_relative_error` and `bound` are relative to the norm of the true gradient. `conclusive` is False
    if rounding may hide a fault, so that nothing is proved.
    """

    equal: bool
    cause: str
    causes: list[str]
    factor: float | None  # set if the loop's gradient is a multiple of the true one
    conclusion: str
    advice: str
    evidence: list[str]
    ruled_out: list[str]
    left_out: list[str]
    reference: str
    smallest_fault: list[dict]  # the smallest fault of each kind that this run would have noticed, relative
    max_relative_error: float
    bound: float
    conclusive: bool
    parameters: list[ParameterError] = field(repr=False)
    judged: bool = True  # False: `conclusion` begins with "Not judged" and has the reason

    @staticmethod
    def of(fields: dict, **changed) -> "Report":
        known = fields | changed
        parameters = [ParameterError(**error) for error in known.pop("parameters")]
        return Report(parameters=parameters, **known)

    def to_dict(self) -> dict:
        return vars(self) | {"parameters": [vars(error) for error in self.parameters]}

    def to_json(self) -> str:
        """Returns the report as one JSON object, with the names of `accrue verify --json`."""
        return json.dumps(self.to_dict())

    def __str__(self) -> str:
        lines = [self.conclusion]
        lines += [f"  - {text}" for text in self.evidence]
        if self.advice:
            lines.append(f"What to do: {self.advice}.")
        if self.ruled_out:
            lines.append("Ruled out:")
            lines += [f"  - {text}" for text in self.ruled_out]
        if self.left_out:
            lines.append("Not looked into:")
            lines += [f"  - {text}" for text in self.left_out]
        return "\n".join(lines)


def not_judged(reason: str, instead: str = "") -> Report:
    """Returns a report without a verdict: `conclusive` and `judged` are False.

    Args:
        reason: why there is no verdict.
        instead: what to do to get one.
    """
    fields = _native.describe_causes([], 0.0, 0.0) | {"conclusive": False, "judged": False}
    return Report.of(fields, conclusion=f"Not judged: {reason}.", advice=instead, left_out=[reason])


def as_left(report: Report, failures: list[str]) -> Report:
    """Returns the report, or a report without a verdict if the check could not restore everything.

    Args:
        failures: what could not be restored, each with the reason.
    """
    if not failures:
        return report
    more = f", and {len(failures) - 1} more" if len(failures) > 1 else ""
    return not_judged(f"the check could not put back {failures[0]}{more}", "starting again from a checkpoint, and a loss_fn that leaves it alone")


def unjudged(why: NotJudged) -> Report:
    return not_judged(why.reason, why.instead)
