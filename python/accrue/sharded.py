"""Windows of parameters that fully_shard() (FSDP2) sharded: sums are in `.grad`, and reduced in each backward pass."""

import math
import time
import warnings
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as distributed
from torch import nn

from accrue import _native
from accrue.errors import RunError, UsageError


def is_sharded(parameters: Sequence[tuple[str, torch.Tensor]]) -> bool:
    return any(type(tensor.detach()).__name__ == "DTensor" for _, tensor in parameters)


# Options of an Accumulator that these windows do not support, with their defaults.
UNUSED = {"accumulate": "fp32", "check_finite": True, "watch_parameters": True, "split_out_of_memory": True, "measure_noise": False, "replay": None, "group": None}
# The errors of backward(): what it expected, what it received, what to try.
REFUSALS = (
    ("accrue.Loss(sum, weight)", "something else", "one loss, as a sum and its weight"),
    ("a size in the unit of the batch", "the other unit", "stating both in tokens, or both in samples"),
    ("the samples of this micro-batch, as the batch is in samples", "a loss alone, whose weight may count tokens",
     "backward(loss, Samples(n)), or a batch in Tokens"),
)
DROPPED = "the window was dropped: "
CHANGED = "a changed parameter, as by step() of an optimizer: "
WRITTEN = "a gradient written by somebody else, as by clipping or a plain backward(): "
# How many parameters are compared by value between micro-batches, and how many elements of each.
LOOKED_AT, ELEMENTS = 16, 256


def _parameter_groups(part: nn.Module) -> list:
    """Returns a part's groups of parameters that are gathered together: torch 2.13 may have several, earlier versions have one or none."""
    state = part._get_fsdp_state()
    groups = getattr(state, "_fsdp_param_groups", None)
    return groups if groups is not None else [group for group in [state._fsdp_param_group] if group is not None]


def _norm(gradients: Sequence[torch.Tensor]) -> float:
    """Returns the norm over all gradients, which may lie on several meshes: those with tensor parallelism, and those without."""
    by_mesh: dict[Any, list[torch.Tensor]] = {}
    for gradient in gradients:
        by_mesh.setdefault(getattr(gradient, "device_mesh", None), []).append(gradient)
    norms = [nn.utils.get_total_norm(those) for those in by_mesh.values()]
    return math.hypot(*(float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm) for norm in norms))


class DataRanks:
    """The ranks that have their own samples: all mesh dimensions over which parameters are sharded and replicated, but none that divides the model
    itself (tensor parallelism).
    """

    def __init__(self, parts: Sequence[nn.Module], device: torch.device):
        meshes = [group.mesh_info for part in parts for group in _parameter_groups(part)]
        dimensions = [[(info.mesh, dim) for dim in (info.replicate_mesh_dim, info.shard_mesh_dim) if dim is not None] for info in meshes]
        sizes = {math.prod(mesh.size(dim) for mesh, dim in each) for each in dimensions}
        if len(sizes) != 1:
            raise UsageError("Accumulator", "a module whose parts are divided over the same ranks",
                             f"parts that are divided over {' and '.join(map(str, sorted(sizes)))} ranks", "one mesh for all of fully_shard()")
        self.world = sizes.pop()
        self.rank = 0
        for mesh, dim in dimensions[0]:
            self.rank = self.rank * mesh.size(dim) + mesh.get_local_rank(dim)
        self._groups = [mesh.get_group(dim) for mesh, dim in dimensions[0]]
        self._device = device

    def add_up(self, values: list[float]) -> list[float]:
        totals = torch.tensor(values, dtype=torch.float64, device=self._device)
        for group in self._groups:
            distributed.all_reduce(totals, group=group)
        return totals.tolist()


def _beginning(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the first elements of this rank's shard as bytes, because NaN differs from itself."""
    detached = tensor.detach()
    return getattr(detached, "_local_tensor", detached).flatten()[:ELEMENTS].view(torch.uint8)


class Marks:
    """The state of parameters and their sums after a backward pass, to detect changes by other code.

    It is known by version counters, which most writers increase, and for some parameters also by their first elements, because torch's clipping of
    DTensors does not increase the counter.
    """

    def __init__(self, named: Sequence[tuple[str, torch.Tensor]]):
        self._of = [(name, tensor, tensor._version, tensor.grad, None if tensor.grad is None else tensor.grad._version) for name, tensor in named]
        some = named[:: max(1, len(named) // LOOKED_AT)]
        self._values = [(name, tensor, _beginning(tensor).clone(), None if tensor.grad is None else _beginning(tensor.grad).clone())
                        for name, tensor in some]

    def disturbance(self) -> str:
        """Returns what other code changed since, or ""."""
        for name, tensor, version, grad, grad_version in self._of:
            if tensor._version != version:
                return CHANGED + f"'{name}'"
            if grad is not None and tensor.grad is None:
                return f"a gradient taken away, as by zero_grad(): '{name}'"
            if tensor.grad is not grad or (grad is not None and grad._version != grad_version):
                return WRITTEN + f"'{name}'"
        for name, tensor, values, gradients in self._values:
            if not torch.equal(_beginning(tensor), values):
                return CHANGED + f"'{name}'"
            if gradients is not None and not torch.equal(_beginning(tensor.grad), gradients):
                return WRITTEN + f"'{name}'"
        return ""


class ShardedWindow:
    """An Accumulator's implementation for DTensor parameters, with the interface of `_native.Accumulator`.

    fully_shard() reduce-scatters each backward's gradient, so that no rank holds more than its shard of the sums. accrue makes it sum over ranks
    instead of averaging, and divides once, by the weight of all ranks. Because each backward is a collective, a micro-batch whose loss is not
    finite on one rank is left out on all ranks.
    """

    def __init__(self, model: Any, parameters: Sequence[tuple[str, torch.Tensor]], *, batch: Any, micro_batches: int, clip_norm: float,
                 max_quarantined: int, on_event: Any, **others: Any):
        if not isinstance(model, nn.Module):
            raise UsageError("Accumulator", "the module that fully_shard() divided", "its parameters", "Accumulator(model)")
        stated = [name for name, default in UNUSED.items() if others.get(name, default) != default]
        if stated:
            raise UsageError("Accumulator", "batch, micro_batches, clip_norm, max_quarantined and on_event of a module that fully_shard() divided",
                             ", ".join(stated), "leaving them out")
        self._parts = [part for part in model.modules() if hasattr(part, "set_gradient_divide_factor")]
        for part in self._parts:
            part.set_gradient_divide_factor(1.0)
            part.set_force_sum_reduction_for_comms(True)  # Gloo has no sum that divides
        self._named = [(name, tensor) for name, tensor in parameters if tensor.requires_grad]
        self._trained = [tensor for _, tensor in self._named]
        self._ranks = DataRanks(self._parts, self._trained[0].device)
        self._batch, self._micro_batches, self._clip_norm = batch, micro_batches, clip_norm
        self._max_quarantined, self._on_event = max_quarantined, on_event
        self._steps = 0
        self._dropped_in_a_row = 0
        self._clear()

    def _clear(self) -> None:
        self._weight, self._loss, self._units, self._begin = 0.0, 0.0, 0.0, time.monotonic()
        self._count = self._quarantined = 0  # micro-batches of this rank that are counted, and that were left out
        self._marks: Marks | None = None  # after the last backward of the window

    def set_batch(self, batch: Any) -> None:
        if self.pending():
            raise UsageError("set_batch", "no open window", "one with micro-batches pending", "step() or finish() before it")
        if type(batch) is not type(self._batch):
            raise UsageError("set_batch", "a batch in the unit of the accumulator's", repr(batch), "the unit that it was made with")
        self._batch = batch

    def backward(self, loss: _native.Loss, size: Any, sample_ids: list[int]) -> None:
        refusal = self._refusal(loss, size, sample_ids)
        is_loss = isinstance(loss, _native.Loss)
        value = float(loss.sum.detach()) if is_loss else 0.0
        disturbance = self._disturbance()
        bad, flat, disturbed, *refused = self._ranks.add_up([not math.isfinite(value), is_loss and not loss.sum.requires_grad, disturbance != "",
                                                             *(refusal == place for place in range(len(REFUSALS)))])
        if any(refused):
            self._refuse(refused)
        units = self._units_of(loss, size, sample_ids)
        if not self.pending():
            self._forget()
        if disturbed:
            self._lose("backward", disturbance)
        if bad:
            return self._quarantine(value, int(bad))
        if flat:
            raise UsageError("Accumulator.backward", "a loss that depends on the parameters, on each rank",
                             f"one that requires no gradient, on {flat:.0f} of {self._ranks.world} ranks", "computing it without no_grad(), detach() or item()")
        loss.sum.backward()
        self._weight += loss.weight
        self._loss += value
        self._units += units
        self._count += 1
        self._marks = Marks(self._named)

    def _disturbance(self) -> str:
        return self._marks.disturbance() if self._marks is not None else ""

    def _lose(self, call: str, disturbance: str) -> None:
        """Drops the window and raises, on all ranks: the sums of one rank are in the steps of all."""
        self._reshard()
        self.discard()
        raise UsageError(call, "parameters and gradients left alone while the window is open", disturbance or "ones that another rank's program changed",
                         "calling step() of the Accumulator alone, and clip_norm of it in the place of clipping; this window is lost")

    def _refusal(self, loss: Any, size: Any, sample_ids: list[int]) -> int | None:
        """Returns the index in REFUSALS of what is wrong with a call, or None.

        Ranks exchange it before one of them raises, because each backward is a collective.
        """
        if not isinstance(loss, _native.Loss):
            return 0
        if size is not None and self._batch is not None and type(size) is not type(self._batch):
            return 1
        return 2 if size is None and isinstance(self._batch, _native.Samples) and not sample_ids else None

    def _refuse(self, refused: list[float]) -> None:
        """Raises the same error on all ranks. `refused` has the number of ranks for each of REFUSALS."""
        self._reshard()
        place = next(place for place, ranks in enumerate(refused) if ranks)
        expected, received, suggestion = REFUSALS[place]
        raise UsageError("Accumulator.backward", expected, f"{received}, on {refused[place]:.0f} of {self._ranks.world} ranks", suggestion)

    def _units_of(self, loss: _native.Loss, size: Any, sample_ids: list[int]) -> float:
        """Returns how much of the batch a micro-batch is, counted as in the native Accumulator."""
        if size is not None:
            return size.count
        return len(sample_ids) if isinstance(self._batch, _native.Samples) else loss.weight

    def _quarantine(self, value: float, ranks: int) -> None:
        """Leaves a micro-batch out on all ranks: none of them runs its backward."""
        self._reshard()
        place = self._count + self._quarantined
        self._quarantined += 1
        self._tell("quarantined", f"micro-batch {place}: the loss is not finite on {ranks} of {self._ranks.world} ranks (here it is {value}), "
                                  "and each backward is one of all ranks")
        if self._quarantined > self._max_quarantined:
            raise RunError("backward", f"at most {self._max_quarantined} micro-batches of a window without a finite loss", f"{self._quarantined} of them",
                           "a lower learning rate, clip_norm, or an earlier checkpoint")

    def _reshard(self) -> None:
        """Frees gathered parameters, as the backward of a forward pass would have done."""
        for part in self._parts:
            part.reshard()

    def _tell(self, name: str, reason: str) -> None:
        if self._on_event is not None:
            self._on_event(_native.Event(name, reason, self._steps))
        else:
            warnings.warn(f"accrue: {reason}", RuntimeWarning, stacklevel=4)

    def expect(self, totals: list[float], coefficients: list[float]) -> None:
        raise UsageError("expect", "a module whose parameters are whole", "one that fully_shard() divided", "one loss")

    def full(self) -> bool:
        """Returns whether the batch is full, counted over all ranks. A collective of all ranks if the batch is in samples or tokens."""
        if self._micro_batches:
            return self._count >= self._micro_batches
        return self._batch is not None and self._ranks.add_up([self._units])[0] >= self._batch.count

    def pending(self) -> bool:
        return self._count + self._quarantined > 0

    def weight(self) -> float:
        return self._weight

    def discard(self) -> None:
        self._forget()
        self._clear()

    def _forget(self) -> None:
        for tensor in self._trained:
            tensor.grad = None

    def step(self, optimizer: torch.optim.Optimizer) -> _native.StepReport:
        disturbance = self._disturbance()
        weight, loss, count, quarantined, disturbed = self._ranks.add_up(
            [self._weight, self._loss, self._count, self._quarantined, disturbance != ""])
        if disturbed:
            self._lose("step", disturbance)
        norm = self._mean(weight)
        stepped = weight > 0 and math.isfinite(norm)
        if stepped:
            optimizer.step()
            self._steps += 1
        else:
            self._forget()
        report = _native.StepReport.of(step=self._steps, stepped=stepped, weight=weight, loss=loss / weight if weight else None, grad_norm=norm,
                                       micro_batches=int(count), quarantined=int(quarantined), world=self._ranks.world,
                                       seconds=time.monotonic() - self._begin)
        self._clear()
        if count + quarantined:
            self._look_at(report, norm)
        return report

    def _look_at(self, report: _native.StepReport, norm: float) -> None:
        """Reports why a window gave no step. Too many windows in a row without a finite gradient raise a RunError."""
        if math.isfinite(norm):
            self._dropped_in_a_row = 0
            if not report.stepped:
                self._tell("dropped", DROPPED + "its total weight is 0")
            return
        self._dropped_in_a_row += 1
        self._tell("dropped", DROPPED + f"the gradient's norm is {norm}")
        if self._dropped_in_a_row > self._max_quarantined:
            raise RunError("step", f"at most {self._max_quarantined} windows in a row without a finite gradient", f"{self._dropped_in_a_row} of them",
                           "a lower learning rate, clip_norm, or an earlier checkpoint")

    def _mean(self, weight: float) -> float:
        """Divides the sums by the weight of all ranks, clips, and returns the norm before clipping."""
        gradients = [tensor.grad for tensor in self._trained if tensor.grad is not None]
        if not weight:
            return 0.0
        norm = _norm(gradients) / weight
        clipping = min(1.0, self._clip_norm / norm) if self._clip_norm > 0 and norm > 0 else 1.0
        for gradient in gradients:
            gradient.mul_(clipping / weight)
        return norm

    def finish(self, optimizer: torch.optim.Optimizer) -> _native.StepReport:
        return self.step(optimizer)

    def share(self, size: Any) -> tuple[int, int]:
        rank, world = self._ranks.rank, self._ranks.world
        count = size.count if size is not None else self._batch.count
        return count * rank // world, count * (rank + 1) // world

    def next_is_last(self) -> None:
        """Does nothing: each gradient is reduced in its own backward."""
