"""What all Python peers share: samples, optimizer, precision, and the record of a run."""
import contextlib
import resource
import time
from collections.abc import Sequence

import numpy
import torch
from torch.utils.data import DataLoader, Dataset

from job import Job


class TokenSamples(Dataset):
    """Sample i of context T is the tokens [i T, i T + T], as inputs and as targets shifted by one."""

    def __init__(self, job: Job):
        self.tokens = numpy.memmap(job.tokens_file, dtype=numpy.uint16, mode="r")
        self.context = job.context
        self.count = job.samples

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        first = i * self.context
        sample = torch.from_numpy(self.tokens[first:first + self.context + 1].astype(numpy.int64))
        return sample[:-1], sample[1:]


def micro_batches(job: Job, samples: Sequence[int] | None = None) -> DataLoader:
    """Of all samples in order, or of these."""
    return DataLoader(TokenSamples(job), batch_size=job.micro, shuffle=False, sampler=samples)


def make_optimizer(job: Job, model: torch.nn.Module) -> torch.optim.AdamW:
    """The fused kernel, the fastest that PyTorch has; decay on matrices only."""
    recipe, parameters = job.recipe, list(model.parameters())
    groups = [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": recipe.weight_decay},
              {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=recipe.lr, betas=tuple(recipe.betas), eps=recipe.eps, fused=True)


def autocast(job: Job) -> contextlib.AbstractContextManager:
    return torch.autocast("cpu", dtype=torch.bfloat16) if job.precision == "bf16" else contextlib.nullcontext()


class Record:
    """Losses and times of the steps. A step's seconds run from the end of the one before to its own end, so that they
    cover everything, reading data included."""

    def __init__(self, warm_up_steps: int):
        self._warm_up_steps = warm_up_steps
        self._micro_losses: list[float] = []
        self._losses: list[float] = []
        self._grad_norms: list[float] = []
        self._ends: list[float] = []
        self._times: list[float] = []  # Unix, of the ends

    def micro_batch(self, loss: torch.Tensor) -> None:
        self._micro_losses.append(loss.item())

    def step(self, grad_norm: float | torch.Tensor) -> None:
        """`grad_norm`: of the mean gradient, before clipping."""
        self._ends.append(time.perf_counter())
        self._times.append(time.time())
        self._losses.append(sum(self._micro_losses) / len(self._micro_losses))
        self._grad_norms.append(float(grad_norm))
        self._micro_losses.clear()

    def result(self) -> dict:
        ends = self._ends[self._warm_up_steps - 1:]
        return {"losses": self._losses, "grad_norms": self._grad_norms, "times": self._times,
                "seconds": [end - begin for begin, end in zip(ends, ends[1:])],
                "peak_resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
