"""Windows of parameters that fully_shard() (FSDP2) divides over ranks: sums are in `.grad`, reduced in each backward."""

import time
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as distributed
from torch import nn

from accrue import _native
from accrue.errors import UsageError


def is_sharded(parameters: Sequence[tuple[str, torch.Tensor]]) -> bool:
    return any(type(tensor.detach()).__name__ == "DTensor" for _, tensor in parameters)


# Options of an Accumulator that are not for these windows, with the values that say nothing.
UNUSED = {"accumulate": "fp32", "check_finite": True, "max_quarantined": 16, "split_out_of_memory": True, "measure_noise": False, "replay": None, "on_event": None,
          "group": None}


class ShardedWindow:
    """What an Accumulator is made of where its parameters are DTensors; the interface is that of `_native.Accumulator`.

    fully_shard() reduces and scatters each backward's gradient, so that no rank holds more than its shard of the sums: accrue has it
    add up (and not average) over ranks, and divides once, by the weight of all ranks.
    """

    def __init__(self, model: Any, parameters: Sequence[tuple[str, torch.Tensor]], *, batch: Any, micro_batches: int, clip_norm: float,
                 **others: Any):
        if not isinstance(model, nn.Module):
            raise UsageError("Accumulator", "the module that fully_shard() divided", "its parameters", "Accumulator(model)")
        stated = [name for name, default in UNUSED.items() if others.get(name, default) != default]
        if stated:
            raise UsageError("Accumulator", "batch, micro_batches and clip_norm of a module that fully_shard() divided", ", ".join(stated),
                             "leaving them out")
        for part in model.modules():
            if hasattr(part, "set_gradient_divide_factor"):
                part.set_gradient_divide_factor(1.0)
                part.set_force_sum_reduction_for_comms(True)  # Gloo has no sum that divides
        self._trained = [tensor for _, tensor in parameters if tensor.requires_grad]
        self._batch, self._micro_batches, self._clip_norm = batch, micro_batches, clip_norm
        self._steps = 0
        self._clear()

    def _clear(self) -> None:
        self._weight, self._loss, self._units, self._count, self._begin = 0.0, 0.0, 0.0, 0, time.monotonic()

    def set_batch(self, batch: Any) -> None:
        if self._count > 0:
            raise UsageError("set_batch", "no open window", "one with micro-batches pending", "step() or finish() before it")
        if type(batch) is not type(self._batch):
            raise UsageError("set_batch", "a batch in the unit of the accumulator's", repr(batch), "the unit that it was made with")
        self._batch = batch

    def backward(self, loss: _native.Loss, size: Any, sample_ids: list[int]) -> None:
        if not isinstance(loss, _native.Loss):
            raise UsageError("Accumulator.backward", "accrue.Loss(sum, weight)", type(loss).__name__, "one loss, as a sum and its weight")
        if self._count == 0:
            self._forget()
        loss.sum.backward()
        self._weight += loss.weight
        self._loss += float(loss.sum.detach())
        self._units += size.count if size is not None else loss.weight
        self._count += 1

    def expect(self, totals: list[float], coefficients: list[float]) -> None:
        raise UsageError("expect", "a module whose parameters are whole", "one that fully_shard() divided", "one loss")

    def full(self) -> bool:
        """All ranks ask alike, since each backward is a collective of theirs: the batch counts what all of them have."""
        if self._micro_batches:
            return self._count >= self._micro_batches
        return self._batch is not None and self._over_ranks([self._units])[0] >= self._batch.count

    def _over_ranks(self, values: list[float]) -> list[float]:
        """Sums over the ranks that the parameters are divided over."""
        totals = torch.tensor(values, dtype=torch.float64, device=self._trained[0].device)
        distributed.all_reduce(totals, group=self._trained[0].device_mesh.get_group(0))
        return totals.tolist()

    def pending(self) -> bool:
        return self._count > 0

    def weight(self) -> float:
        return self._weight

    def discard(self) -> None:
        self._forget()
        self._clear()

    def _forget(self) -> None:
        for tensor in self._trained:
            tensor.grad = None

    def step(self, optimizer: torch.optim.Optimizer) -> _native.StepReport:
        weight, loss, count = self._over_ranks([self._weight, self._loss, self._count])
        norm = self._mean(weight)
        stepped = weight > 0 and norm == norm and norm != float("inf")
        if stepped:
            optimizer.step()
            self._steps += 1
        else:
            self._forget()
        report = _native.StepReport.of(step=self._steps, stepped=stepped, weight=weight, loss=loss / weight if weight else None, grad_norm=norm,
                                       micro_batches=int(count), world=distributed.get_world_size(), seconds=time.monotonic() - self._begin)
        self._clear()
        return report

    def _mean(self, weight: float) -> float:
        """Divides the sums by the weight of all ranks, clips, and returns the norm before that."""
        for tensor in self._trained:
            if tensor.grad is not None:
                tensor.grad.mul_(1 / weight if weight else 0.0)
        largest = self._clip_norm if self._clip_norm > 0 else float("inf")
        norm = torch.nn.utils.clip_grad_norm_(self._trained, largest)
        return float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)

    def finish(self, optimizer: torch.optim.Optimizer) -> _native.StepReport:
        return self.step(optimizer)

    def share(self, size: Any) -> tuple[int, int]:
        rank, world = distributed.get_rank(), distributed.get_world_size()
        count = size.count if size is not None else self._batch.count
        return count * rank // world, count * (rank + 1) // world

    def next_is_last(self) -> None:
        """Nothing travels later than its backward."""
