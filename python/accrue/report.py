"""What a proof came to."""

import json
from dataclasses import dataclass, field

from accrue import _native
from accrue.errors import NotJudged


@dataclass(frozen=True)
class ParameterError:
    """One parameter's error and the bound of rounding, both relative to the norm of its true gradient."""

    name: str
    relative_error: float
    bound: float


@dataclass(frozen=True)
class Report:
    """A verdict. `cause` is one of the words of `accrue verify --json` ("none" where `equal`), `causes` has all that were found."""

    equal: bool
    cause: str
    causes: list[str]
    factor: float | None  # of a loop's gradient that is so many times the true one
    conclusion: str
    advice: str
    evidence: list[str]
    ruled_out: list[str]
    left_out: list[str]
    reference: str
    smallest_fault: list[dict]  # what verify() would have noticed: kind, and how small, relative
    max_relative_error: float
    bound: float
    conclusive: bool
    parameters: list[ParameterError] = field(repr=False)
    judged: bool = True  # False: `conclusion` begins with "Not judged" and says why

    @staticmethod
    def of(fields: dict, **changed) -> "Report":
        known = fields | changed
        parameters = [ParameterError(**error) for error in known.pop("parameters")]
        return Report(parameters=parameters, **known)

    def to_dict(self) -> dict:
        return vars(self) | {"parameters": [vars(error) for error in self.parameters]}

    def to_json(self) -> str:
        """One JSON object, with the names of `accrue verify --json`."""
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
    """No verdict: neither equal to be relied on (`conclusive` is False) nor a difference. `instead`: what would make it one."""
    fields = _native.describe_causes([], 0.0, 0.0) | {"conclusive": False, "judged": False}
    return Report.of(fields, conclusion=f"Not judged: {reason}.", advice=instead, left_out=[reason])


def as_left(report: Report, failures: list[str]) -> Report:
    """The report, or none if what the check ran over could not be put back: `failures` has what, and why."""
    if not failures:
        return report
    more = f", and {len(failures) - 1} more" if len(failures) > 1 else ""
    return not_judged(f"the check could not put back {failures[0]}{more}", "starting again from a checkpoint, and a loss_fn that leaves it alone")


def unjudged(why: NotJudged) -> Report:
    return not_judged(why.reason, why.instead)
