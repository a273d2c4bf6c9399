"""Recognises what a loop's own code did to a gradient between the last backward pass and the optimizer's step, from values alone.

Loops clip, clamp, mask, centre, penalise and disturb gradients in their own code. A change counts as one of these only if the transformation,
applied to what the backward passes left, gives what the optimizer got. A constant factor and a dropped gradient are not among them.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from accrue.tensors import norm

Tensors = list[torch.Tensor]

# The relative rounding error of one operation on a gradient.
OF_ROUNDING = {torch.float64: 1e-7, torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 2e-3}
# The relative rounding error of a factor, which is measured over many elements: this, or a fifth of the error of one operation.
OF_FACTOR = 1e-4
# The number of digits of a threshold that people write. In 16 bits a norm rounds so much that only one digit is significant.
DIGITS, DIGITS_OF_16_BITS = 2, 1
OF_ROUND_NUMBER, OF_ROUND_NUMBER_IN_16_BITS = 1e-5, 2e-4
# Added to a norm before division; and added to a parameter's norm if gradients are clipped by it.
EPSILONS = (0.0, 1e-6)
FLOORS = (0.0, 1e-3, 1e-6)
# The correlation of independent numbers is below this number of standard deviations.
DEVIATIONS = 4.5
# Of larger matrices, a part of this size shows the structure of the whole.
LOOKED_AT = 256


@dataclass(frozen=True)
class Change:
    """A change of a gradient.

    kind        "none"; "own": a transformation meant by the user; "scaled": by a factor that is not a clipping; "dropped": gradients of all
                or some parameters are gone; "unknown"
    text        the change in words, as the end of "the gradient was ..."
    shows_size  whether the result depends on the size of the original: the result of clipping to a norm does not
    """

    kind: str
    text: str = ""
    shows_size: bool = True


NONE = Change("none")


@dataclass(frozen=True)
class Background:
    """The data that a change is compared with.

    named       the trained parameters, as they were when the window began
    known       factors that are mistakes, with their names
    directions  returns gradients that noise must be independent of: those of the micro-batches
    """

    named: Sequence[tuple[str, torch.Tensor]]
    known: Mapping[float, str]
    directions: Callable[[], list[Tensors]]


class _Part:
    """One parameter's gradient, before and after. Tensors are converted to fp64 only when they are read."""

    def __init__(self, name: str, parameter: torch.Tensor, before: torch.Tensor, after: torch.Tensor):
        self.name, self.tolerance = name, OF_ROUNDING.get(before.dtype, 1e-5)
        self.of_factor = max(OF_FACTOR, self.tolerance / 5)
        self._parameter, self._before, self._after = parameter.detach(), before, after
        self.size, self.size_after = norm(before), norm(after)
        self.factor = float((self.after * self.before).sum()) / self.size ** 2 if self.size > 0 else 0.0
        self.is_scaled = norm(self.after - self.factor * self.before) <= self.tolerance * max(self.size_after, 1e-300)
        self.is_same = norm(self.after - self.before) <= self.tolerance * self.size

    @property
    def parameter(self) -> torch.Tensor:
        return self._parameter.double()

    @property
    def before(self) -> torch.Tensor:
        return self._before.double()

    @property
    def after(self) -> torch.Tensor:
        return self._after.double()

    def alike(self, expected: torch.Tensor) -> torch.Tensor:
        """Returns which elements are as expected, relative to the largest element."""
        return (self.after - expected).abs() <= self.tolerance * self.before.abs().max().clamp_min(1e-300)

    def shows_size(self) -> torch.Tensor:
        """Returns which elements would differ if `before` were a multiple or a part of itself: not those that are 0 or nearly 0."""
        return self.after.abs() > 2 * self.tolerance * self.before.abs().max().clamp_min(1e-300)

    def rows(self) -> "list[_Part]":
        """Returns the gradient of each output, as unitwise clipping uses them."""
        if self._before.dim() < 2:
            return [self]
        return [_Part(f"{self.name}[{place}]", *tensors) for place, tensors in enumerate(zip(self._parameter, self._before, self._after))]


def change_of(before: Tensors, after: Tensors, background: Background, is_clipped: bool = False) -> Change:
    """Returns the change that turned the gradients `before` into `after`.

    `is_clipped`: torch had already clipped `before`, so that a round norm is weaker evidence.
    """
    parts = [_Part(name, parameter, a, b) for (name, parameter), a, b in zip(background.named, before, after)]
    parts = [part for part in parts if part.size > 0 or part.size_after > 0]
    changed = [part for part in parts if not part.is_same]
    if not changed:
        return NONE
    gone = [part for part in parts if part.size > 0 and part.size_after == 0]
    if gone:
        return Change("dropped", "cleared" if len(gone) == len(parts) else f"cleared in {_names(gone)}")
    if all(part.is_scaled for part in changed):
        return _of_factors(parts, changed, background.known, is_clipped)
    for recognised in (_penalised, _clamped, _masked, _centred, _clipped_by_rows, _signed):
        if found := recognised(parts, changed):
            return found
    return _disturbed(parts, changed, background) or Change("unknown", f"changed in {_names(changed)} by code of the loop's own")


def _names(parts: list[_Part]) -> str:
    names = [part.name for part in parts]
    return " and ".join(names) if len(names) < 3 else f"{names[0]}, {names[1]} and {len(names) - 2} more"


def is_round(value: float, digits: int = DIGITS, tolerance: float = OF_ROUND_NUMBER) -> bool:
    """Returns whether a person would write this number: it has few digits."""
    if not math.isfinite(value) or value <= 0:
        return False
    return abs(float(f"{value:.{digits - 1}e}") / value - 1) <= tolerance


def _is_round(parts: list[_Part], value: float) -> bool:
    if any(part.tolerance > 1e-3 for part in parts):
        return is_round(value, DIGITS_OF_16_BITS, OF_ROUND_NUMBER_IN_16_BITS)
    return is_round(value)


def _is_plain(factor: float) -> bool:
    """Returns whether a gradient was multiplied or divided by a constant of few digits."""
    return is_round(abs(factor)) or is_round(1 / abs(factor))


def _clusters(changed: list[_Part]) -> list[list[_Part]]:
    clusters: list[list[_Part]] = []
    for part in sorted(changed, key=lambda each: each.factor):
        near = clusters and abs(part.factor - clusters[-1][0].factor) <= part.of_factor * abs(part.factor)
        clusters[-1].append(part) if near else clusters.append([part])
    return clusters


def _is_clipped_to_round_norm(parts: list[_Part]) -> bool:
    """Returns whether the parts together were clipped by the 2-norm or the largest element."""
    before, after = math.hypot(*(part.size for part in parts)), math.hypot(*(part.size_after for part in parts))
    largest_before, largest = (max(float(of(part).abs().max()) for part in parts) for of in (lambda p: p.before, lambda p: p.after))
    return any(_is_round(parts, b * (a + epsilon) / a) for a, b in ((before, after), (largest_before, largest)) for epsilon in EPSILONS)


def _of_factors(parts: list[_Part], changed: list[_Part], known: Mapping[float, str], is_clipped: bool) -> Change:
    """Judges a change in which each gradient is a multiple of what it was."""
    clusters = _clusters(changed)
    is_all = len(changed) == len(parts)
    whose = "" if is_all else f" in {_names(changed)}"
    for cluster in clusters:
        factor = cluster[0].factor
        for value, name in known.items():
            if abs(factor / value - 1) <= cluster[0].of_factor:
                return Change("scaled", f"multiplied by {factor:.4g}, {name}" + ("" if is_all else f", in {_names(cluster)}"))
    if is_all and len(clusters) == 1:
        return _of_one_factor(parts, clusters[0][0].factor, is_clipped)
    shows_size = not is_all
    if all(_is_clipped_to_round_norm(cluster) for cluster in clusters) and all(part.factor > 0 for part in changed):
        return Change("own", f"clipped{whose}, by norms of their own", shows_size)
    if _is_clipped_by_parameters(parts, changed):
        return Change("own", f"clipped{whose}, by the norms of parameters", shows_size)
    return Change("unknown", f"multiplied by factors from {changed[0].factor:.4g} on{whose}, which are no known clipping's")


def _of_one_factor(parts: list[_Part], factor: float, is_clipped: bool) -> Change:
    is_to_norm = factor > 0 and _is_clipped_to_round_norm(parts)
    text = f"multiplied by {factor:.4g}"
    if is_to_norm and not is_clipped:
        return Change("own", "clipped to a norm", False)
    if factor > 1 or factor < 0 or (_is_plain(factor) and not is_to_norm):
        return Change("scaled", text)
    return Change("unknown", text + (", behind a clipping" if is_clipped else ", which is no known clipping's"), False)


def _is_clipped_by_parameters(parts: list[_Part], changed: list[_Part]) -> bool:
    """Recognises adaptive clipping: a clipped gradient has a norm in proportion to its parameter's, the others have less."""
    if any(not 0 < part.factor < 1 for part in changed):
        return False
    for floor in FLOORS:
        for allowed in (lambda part, floor=floor: norm(part.parameter) + floor, lambda part, floor=floor: max(norm(part.parameter), floor)):
            if any(allowed(part) == 0 for part in changed):
                continue
            ratios = [part.size_after / allowed(part) for part in changed]
            ratio = ratios[0]
            is_one = max(ratios) - min(ratios) <= changed[0].of_factor * ratio
            if is_one and (len(ratios) > 2 or _is_round(changed, ratio)) and all(
                    part.size <= ratio * allowed(part) * (1 + 1e-3) for part in parts if part.is_same):
                return True
    return False


def _clipped_by_rows(parts: list[_Part], changed: list[_Part]) -> Change | None:
    rows = [row for part in parts for row in part.rows() if row.size > 0 or row.size_after > 0]
    some = [row for row in rows if not row.is_same]
    if not all(row.is_scaled and 0 < row.factor < 1 for row in some):
        return None
    if _is_clipped_by_parameters(rows, some) or all(_is_clipped_to_round_norm([row]) for row in some):
        return Change("own", f"clipped output by output in {_names(changed)}", len(some) < len(rows))
    return None


def _penalised(parts: list[_Part], changed: list[_Part]) -> Change | None:
    """Recognises a penalty that is added once, whose gradient is a multiple of the parameter."""
    squares = sum(norm(part.parameter) ** 2 for part in changed)
    if squares == 0:
        return None
    factor = sum(float(((part.after - part.before) * part.parameter).sum()) for part in changed) / squares
    is_all = all(norm(part.after - part.before - factor * part.parameter) <= part.tolerance * (part.size + part.size_after) for part in changed)
    elements = sum(part.before.numel() for part in changed)
    return Change("own", f"penalised by {factor:.4g} times the parameter in {_names(changed)}") if is_all and factor > 0 and elements > 3 else None


def _is_clamp(part: _Part, low: float, high: float) -> bool:
    return bool(part.alike(part.before.clamp(low, high)).all())


def _clamped(parts: list[_Part], changed: list[_Part]) -> Change | None:
    low, high = min(float(part.after.min()) for part in changed), max(float(part.after.max()) for part in changed)
    within = any(bool(((part.after > low) & (part.after < high) & part.shows_size()).any()) for part in parts)
    if low < high and all(_is_clamp(part, low, high) for part in parts):
        return Change("own", f"clamped to [{low:.4g}, {high:.4g}]", within)
    unlike = [part for part in changed if not (_is_clamp(part, float(part.after.min()), float(part.after.max()))
                                               and float(part.alike(part.before).double().mean()) >= 0.5)]
    return None if unlike else Change("own", f"clamped in {_names(changed)}, each by bounds of its own")


def _masked(parts: list[_Part], changed: list[_Part]) -> Change | None:
    """Recognises a mask: in each changed parameter some elements are 0, and the others are unchanged."""
    is_mask = all(bool(((part.after == 0) | part.alike(part.before)).all()) for part in changed)
    return Change("own", f"masked in {_names(changed)}") if is_mask else None


def _centred(parts: list[_Part], changed: list[_Part]) -> Change | None:
    def mean(part: _Part) -> torch.Tensor:
        return part.before.mean(dim=list(range(1, part.before.dim())), keepdim=True)

    is_centred = all(part.before.dim() > 1 and bool(part.alike(part.before - mean(part)).all()) for part in changed)
    return Change("own", f"centred in {_names(changed)}") if is_centred else None


def _signed(parts: list[_Part], changed: list[_Part]) -> Change | None:
    return Change("own", "replaced by its sign", False) if all(bool((part.after == part.before.sign()).all()) for part in parts) else None


def _disturbed(parts: list[_Part], changed: list[_Part], background: Background) -> Change | None:
    """Recognises noise: of one size in all elements, without structure, independent of the gradient, of micro-batches and of parameters."""
    noise = [part.after - part.before for part in parts]
    count = sum(each.numel() for each in noise)
    deviation = math.hypot(*map(norm, noise)) / count ** 0.5
    if len(changed) < len(parts) or count < 24 or any(not _is_of_size(each, deviation) for each in noise):
        return None
    if sum(int((each == 0).sum()) for each in noise) > 0.01 * count or not _is_unstructured(noise, deviation):
        return None
    size = math.hypot(*(part.size for part in parts))
    least = 1 - max([value for value in background.known if value < 1], default=0.5)
    if DEVIATIONS * deviation > least / 2 * size:
        return None  # so much noise that a division would not show
    names = {name for name, _ in background.named} & {part.name for part in parts}
    others = [[tensor.double() for (name, _), tensor in zip(background.named, each) if name in names] for each in background.directions()]
    for direction in ([part.before for part in parts], [part.parameter for part in parts], *others):
        length = math.hypot(*map(norm, direction))
        along = sum(float((a * b).sum()) for a, b in zip(noise, direction))
        if abs(along) > DEVIATIONS * deviation * length:
            return None
    if any(abs(float((each * part.before).sum())) > DEVIATIONS * deviation * part.size for each, part in zip(noise, parts)):
        return None  # a gradient is also dropped or scaled, where noise does not hide it
    hidden = [part for part in parts if part.size <= DEVIATIONS * deviation]
    told = f", which hides {_names(hidden)}" if hidden else ""
    return Change("own", f"disturbed by noise of deviation {deviation:.2g}{told}")


def _is_of_size(noise: torch.Tensor, deviation: float) -> bool:
    """Tests the sum of squares, whose third root is nearly normal (Wilson and Hilferty)."""
    spread = 2 / (9 * noise.numel())
    return abs((float(noise.square().mean()) / deviation ** 2) ** (1 / 3) - (1 - spread)) <= DEVIATIONS * spread ** 0.5


def _is_unstructured(noise: list[torch.Tensor], deviation: float) -> bool:
    """Returns whether no matrix has a dominant direction, as gradients of few samples have."""
    for each in noise:
        matrix = (each.flatten(1) if each.dim() > 1 else each[None])[:LOOKED_AT, :LOOKED_AT]
        if min(matrix.shape) < 4:
            continue
        first, second = torch.linalg.svdvals(matrix)[:2].tolist()
        if first > deviation * (matrix.shape[0] ** 0.5 + matrix.shape[1] ** 0.5 + 3) or second < 0.2 * first:
            return False
    return True
