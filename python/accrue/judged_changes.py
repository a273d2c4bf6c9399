"""The verdict on a window whose gradient the loop's own code changed between the last backward pass and the step."""

import dataclasses
from collections.abc import Callable

import torch

from accrue import _native
from accrue.own_changes import NONE, Background, Change, Tensors, change_of
from accrue.replaying import Replay
from accrue.report import Report, not_judged
from accrue.watching import Recorder

# How near a factor must be to a number to count as that number. A measured factor has the rounding of two windows in it.
OF_ROUNDING, OF_MEASURED = 1e-4, 1e-2
# The cause of a change that is a mistake; and the order in which one of several changes decides.
CAUSE_OF = {"scaled": "normalization", "dropped": "zeroed-mid-window"}
WORST_FIRST = ("scaled", "dropped", "unknown", "own")

Gradients = list[torch.Tensor | None]


def as_meant(of_sums: Report, made: Change) -> Report:
    return Report.of(of_sums.to_dict(), evidence=[
        f"the sum of the backward passes is the window's; before the step it was {made.text}, by the loop's own code, which is taken as meant"])


class OwnChanges:
    """Judges what the loop's own code did to `.grad`.

    A change is taken as meant if it is one of the known transformations (own_changes.py), and the sum after the last backward pass is right.
    """

    def __init__(self, recorder: Recorder, replay: Replay, compared: Callable[[Gradients], Report]):
        """`compared` returns the report on gradients other than the window's."""
        self._recorder, self._seen, self._replay, self._compared = recorder, recorder.seen, replay, compared

    def verdict(self, left: Report) -> Report:
        """Returns the verdict. `left` is the report on the gradients that the step began with, as they would be without torch's clipping."""
        seen = self._seen
        if seen.sums is None:
            return left
        if left.equal:
            return self._as_changed(self.of(None), left, left)
        made = self.of(seen.sums)
        of_sums = self._compared(seen.sums)
        if of_sums.equal:
            return self._as_changed(made, of_sums, left)
        if made.kind == "none":
            return left
        if made.kind == "unknown" and seen.zeroed and seen.arrived is not None:
            return self._kept_elsewhere(left)
        if of_sums.factor is None:
            return left if made.kind == "scaled" or not made.shows_size else of_sums
        return self._of_multiple(left, of_sums, made)

    def _of_multiple(self, left: Report, of_sums: Report, made: Change) -> Report:
        """Judges a sum that is a multiple of the right one: the loop divides it after the last backward pass, or never."""
        if made.kind == "own" and made.shows_size:
            return of_sums
        # A measured factor has rounding in it. Most loops divide by the number of micro-batches or by their weight.
        usual = (self._replay.weight, len(self._seen.micro_batches))
        divisor = next((known for known in usual if known and abs(of_sums.factor / known - 1) < OF_MEASURED), of_sums.factor)
        divided = [tensor / divisor for tensor in self._recorder.whole(self._seen.sums)]
        made_of_divided = self.of(divided)
        if made.kind == "scaled" or made_of_divided.kind in ("none", "scaled") or (left.factor is not None and left.factor >= 1):
            return left
        if made_of_divided.kind == "dropped" or (made_of_divided.kind == "own" and made_of_divided.shows_size):
            return self._as_changed(made_of_divided, self._compared(divided), left)
        return not_judged(f"the sum behind the last backward pass is {of_sums.factor:.4g} times the window's gradient, and the loop's own code "
                          "changed it before the step: whether that division is in it cannot be told",
                          "dividing losses before backward(), or clipping by torch.nn.utils")

    def _kept_elsewhere(self, left: Report) -> Report:
        """Judges a loop that takes each gradient out of `.grad` and brings the sum back."""
        of_all = self._compared(self._seen.arrived)
        if not of_all.equal:
            return left
        made = self.of(self._seen.arrived)
        if made.kind == "unknown":
            return not_judged("sums are kept outside .grad, and the loop's own code changes them before the step: whether all of the window is in "
                              "them cannot be told", "adding up in .grad, or clipping by torch.nn.utils")
        return self._as_changed(made, of_all, left)

    def of(self, sums: Gradients | None) -> Change:
        """Returns what was done to `sums` besides torch's clipping, which was recorded. None: only what was done after the clipping."""
        count, weight = len(self._seen.micro_batches), self._replay.weight
        names = {1 / count: "1 / the number of micro-batches", count: "the number of micro-batches"}
        if weight > 0:
            names |= {1 / weight: "1 / the window's weight", weight: "the window's weight"}
        known = {factor: name for factor, name in names.items() if abs(factor - 1) > OF_ROUNDING}
        named = [(name, before) for (name, _), before in zip(self._recorder.named, self._recorder.before)]
        background = Background(named, known, lambda: [self._replay.gradients(place) for place in range(count)])
        changes = [change_of(before, after, background, is_clipped=place > 0)
                   for place, (before, after) in enumerate(self._between(None if sums is None else self._recorder.whole(sums)))]
        made = [change for change in changes if change.kind != "none"]
        return min(made, key=lambda change: WORST_FIRST.index(change.kind), default=NONE)

    def _between(self, sums: Tensors | None) -> list[tuple[Tensors, Tensors]]:
        """Returns pairs of gradients that differ by what the loop's own code did: before torch's first clipping, between clippings, and after the last."""
        seen, stepped = self._seen, self._recorder.whole(self._seen.gradients)
        most = max((len(clippings) for clippings in seen.clippings.values()), default=0)
        pairs: list[tuple[Tensors, Tensors]] = [([], []) for _ in range(most + 1)]
        for place, last in enumerate(stepped):
            clippings = seen.clippings.get(place, [])
            begin = sums[place] if sums is not None else clippings[0].before if clippings else last
            line = [begin, *(each for clipping in clippings for each in (clipping.before, clipping.behind)), last]
            between = list(zip(line[::2], line[1::2]))
            idle = [(last, last)] * (most + 1 - len(between))
            for (before, after), (a, b) in zip(pairs, [*between[:-1], *idle, between[-1]]):
                before.append(a)
                after.append(b)
        return pairs

    def _as_changed(self, made: Change, of_sums: Report, left: Report) -> Report:
        """Returns the verdict if the sum that the loop's own code changed is right."""
        if made.kind == "none":
            return left
        if made.kind == "own":
            return as_meant(of_sums, made)
        if made.kind == "unknown":
            return not_judged(f"the gradient was changed between the last backward pass and the step by the loop's own code: it was {made.text}",
                              "clipping by torch.nn.utils, or a window without that code")
        evidence = f"between the last backward pass and the step the gradient was {made.text}"
        if made.kind == "scaled" and left.factor is not None:
            return dataclasses.replace(left, evidence=[*left.evidence, evidence])
        told = _native.describe_causes([CAUSE_OF[made.kind]], left.max_relative_error, left.bound)
        return Report.of(told, evidence=[evidence], reference=left.reference, parameters=[vars(error) for error in left.parameters])
