"""What clients and server tell each other, as records of Flower."""

from __future__ import annotations

import dataclasses
import io
import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from accrue.errors import UsageError
from accrue.windows import MOST_CONTRIBUTIONS, UNITS_OF_A_CONTRIBUTION, Sums

try:
    from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
except ImportError as error:
    raise ImportError(f"accrue.federated: expected Flower (flwr 1.42 or later), received none ({error}); try pip install 'flwr>=1.42' 'cryptography>=43'") from error

# Both sides state it: another version has other messages.
PROTOCOL = 2
FACTS, PARAMETERS, GRADIENTS = "accrue.facts", "accrue.parameters", "accrue.gradients"
# Of the format in which Flower has an array, besides its values.
MOST_HEADER_BYTES = 4096
# The exponent of a unit of fixed-point sums that no finite fp32 gradient needs.
MOST_UNIT = 88
# More than any count or number of samples.
MOST_SAMPLES = 2**62


class Refused(Exception):
    """Why what a client sent is not counted."""


@dataclasses.dataclass(frozen=True)
class Description:
    """What a client states before the first round. Its data are described by their number alone."""

    name: str
    mode: dict[str, Any]
    samples: int
    vocab: int
    image: list[int]
    classes: list[str]
    keys: dict[str, str]
    frozen: str


def pack(facts: Mapping[str, Any], **tensors: Mapping[str, torch.Tensor]) -> RecordDict:
    """Returns a message's content: facts as JSON, which keeps all bits of a number, and named tensors."""
    records: dict[str, Any] = {FACTS: ConfigRecord({"json": json.dumps({"protocol": PROTOCOL, **facts})})}
    for record, named in tensors.items():
        records["accrue." + record] = ArrayRecord({name: Array(tensor) for name, tensor in named.items()})
    return RecordDict(records)


def facts_of(content: RecordDict) -> dict[str, Any]:
    """Returns the facts of a message. Raises Refused if it is not one of this protocol."""
    try:
        facts = json.loads(content[FACTS]["json"])
        protocol = facts["protocol"]
    except (KeyError, TypeError, ValueError, RecursionError):
        raise Refused("a message without accrue's facts, as of a ClientApp that is not accrue's") from None
    if protocol != PROTOCOL:
        raise Refused(f"messages of version {protocol}; the server has version {PROTOCOL}")
    return facts


def arrays_of(content: RecordDict, record: str) -> Mapping[str, Array]:
    """Returns the arrays of a record; none if it is missing. Raises Refused if it is a record of something else."""
    arrays = content[record] if record in content else ArrayRecord()
    if not isinstance(arrays, ArrayRecord):
        raise Refused(f"a {type(arrays).__name__} as {record}, where arrays are expected")
    return arrays


def tensors_of(content: RecordDict, record: str) -> dict[str, torch.Tensor]:
    """Returns tensors of a message that comes from a side that is trusted."""
    return {name: torch.from_numpy(array.numpy().copy()) for name, array in content[record].items()} if record in content else {}


_KINDS = {"name": str, "mode": dict, "samples": int, "vocab": int, "image": list, "classes": list, "keys": dict, "frozen": str}


def describe(description: Description) -> RecordDict:
    return pack(dataclasses.asdict(description))


def description_of(content: RecordDict) -> Description:
    facts = facts_of(content)
    try:
        described = Description(**{field.name: facts[field.name] for field in dataclasses.fields(Description)})
        is_sound = all(isinstance(getattr(described, name), kind) for name, kind in _KINDS.items()) and 1 <= described.samples <= MOST_SAMPLES
    except KeyError as missing:
        raise Refused(f"a description without {missing}") from None
    if not is_sound:
        raise Refused(f"a description of {_short(described.samples)} samples by the name {_short(described.name)}, or with other parts that do not fit")
    return described


def pack_sums(sums: Sums) -> RecordDict:
    return pack({"loss_sum": sums.loss_sum, "weight": sums.weight, "tokens": sums.tokens, "micro_batches": sums.micro_batches,
                 "quarantined": sums.quarantined, "contributions": dict(sums.contributions), "units": list(sums.units)}, gradients=sums.gradients)


@dataclasses.dataclass(frozen=True)
class Expected:
    """What sums have to fit."""

    parameters: Mapping[str, torch.Tensor]
    units: tuple[int, ...]
    dtype: torch.dtype | None  # of sums; None: that of the parameters, at least fp32


def _short(value: Any) -> str:
    text = repr(value) if not isinstance(value, int) or abs(value) <= MOST_SAMPLES else "a huge number"
    return text if len(text) <= 100 else text[:100] + "..."


def _number(facts: Mapping[str, Any], name: str, kind: type = float) -> Any:
    value = facts.get(name)
    is_number = isinstance(value, float) and math.isfinite(value) or isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MOST_SAMPLES
    if not is_number or (kind is int and (int(value) != value or value < 0)):
        raise Refused(f"{name} {_short(value)}, where a {'finite number' if kind is float else 'count'} is expected")
    return kind(value)


def sum_dtype_of(keys: Mapping[str, str]) -> torch.dtype | None:
    """Returns the dtype of sums by the keys that differ from the defaults; None: that of the parameters, at least fp32."""
    return {"fixed": torch.int64, "fp64": torch.float64}.get(keys.get("precision.accumulate", "fp32").strip('"'))


def dtype_of_sum(like: torch.Tensor, stated: torch.dtype | None) -> torch.dtype:
    """Returns the dtype of a parameter's sum."""
    return stated or (torch.float64 if like.dtype == torch.float64 else torch.float32)


def tensor_of(name: str, array: Any, dtype: torch.dtype, shape: torch.Size) -> torch.Tensor:
    """Returns a tensor of a message. Raises Refused unless it has this dtype and shape. Both are compared before it is read."""
    most = shape.numel() * dtype.itemsize + MOST_HEADER_BYTES
    if len(array.data) > most:
        raise Refused(f"{len(array.data)} bytes for {name}, where at most {most} are expected: oversized")
    try:
        stream = io.BytesIO(array.data)
        np.lib.format.read_magic(stream)
        stated, _, kind = np.lib.format.read_array_header_1_0(stream)
        sent = torch.from_numpy(np.empty(0, kind)).dtype
    except Exception as error:  # a message may be anything
        raise Refused(f"{name}, which cannot be read: {error}") from None
    if sent != dtype or stated != tuple(shape):
        raise Refused(f"{name} as {sent} {list(stated)}, where {dtype} {list(shape)} is expected")
    try:
        return torch.from_numpy(array.numpy().copy())
    except Exception as error:
        raise Refused(f"{name}, which cannot be read: {error}") from None


def _gradient(name: str, array: Any, expected: Expected) -> torch.Tensor:
    like = expected.parameters[name]
    return tensor_of(name, array, dtype_of_sum(like, expected.dtype), like.shape)


def _expect_in_range(name: str, gradient: torch.Tensor, contributions: int) -> None:
    if not 1 <= contributions <= MOST_CONTRIBUTIONS:
        raise Refused(f"{contributions} contributions to {name}, where 1 to {MOST_CONTRIBUTIONS} are expected")
    if gradient.dtype != torch.int64:
        if not bool(torch.isfinite(gradient).all()):
            raise Refused(f"{name} with values that are not finite")
        return
    most = contributions * UNITS_OF_A_CONTRIBUTION
    if gradient.numel() > 0 and (int(gradient.max()) > most or int(gradient.min()) < -most):
        raise Refused(f"{name} with more than {most} units, which {contributions} contributions cannot have: oversized")


def sums_of(content: RecordDict, expected: Expected) -> Sums:
    """Returns the sums that a client sent. Raises Refused unless they are finite and fit."""
    facts = facts_of(content)
    weight, loss_sum = _number(facts, "weight"), _number(facts, "loss_sum")
    if weight < 0:
        raise Refused(f"weight {weight}, where at least 0 is expected")
    units = facts.get("units")
    if not isinstance(units, list) or len(units) != len(expected.units) or not all(
            isinstance(unit, int) and least <= unit <= max(MOST_UNIT, least) for unit, least in zip(units, expected.units)):
        raise Refused("units that are not those of the window, or larger ones that a gradient may need")
    arrays = arrays_of(content, GRADIENTS)
    unknown = sorted(set(arrays) - set(expected.parameters))
    if unknown:
        raise Refused(f"{unknown[0]}, which is no parameter that is trained")
    if weight == 0 and arrays:
        raise Refused("gradients without a loss term")
    contributions = facts.get("contributions")
    if not isinstance(contributions, dict) or set(contributions) != set(arrays):
        raise Refused("counts of contributions for other parameters than there are sums of")
    gradients = {}
    for name in (name for name in expected.parameters if name in arrays):
        gradients[name] = _gradient(name, arrays[name], expected)
        _expect_in_range(name, gradients[name], _number(contributions, name, int))
    return Sums(loss_sum, weight, _number(facts, "tokens", int), _number(facts, "micro_batches", int), _number(facts, "quarantined", int), gradients,
                {name: int(contributions[name]) for name in gradients}, tuple(units))


def expect_same(name: str, what: str, mine: Any, theirs: Any, suggestion: str = "the same value in the configs of server and clients") -> None:
    """Raises UsageError if a client has something else than the server."""
    if mine != theirs:
        raise UsageError(f"{what} of client {name}", repr(mine), repr(theirs), suggestion)
