"""What all Python peers share: samples, optimizer, precision, and the record of a run."""
import contextlib
import resource
import time
from collections.abc import Callable, Sequence

import numpy
import torch
from torch.utils.data import DataLoader, Dataset

from job import Job
from tuning import Tuning


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


def window_autocast(job: Job, tuning: Tuning) -> contextlib.AbstractContextManager:
    """Around a window. Autocast keeps the casts of weights until its outermost context ends, which has to be before
    they change: at the latest behind the step, before the next forward pass."""
    return autocast(job) if tuning.tuned else contextlib.nullcontext()


def norm_before_clipping(model: torch.nn.Module, reported: torch.Tensor, most_norm: float) -> float:
    """Of the gradients that clip_grad_norm_ has clipped by the norm that it reported, in double: over the 39 million
    elements of a vocabulary's gradient its sums in fp32 lose up to a percent."""
    parts = (part for parameter in model.parameters() for part in parameter.grad.flatten().split(1 << 20))
    clipped = sum(part.double().square().sum().item() for part in parts) ** 0.5
    return clipped / min(1.0, most_norm / (float(reported) + 1e-6))


class Record:
    """Losses and times of the steps. A step's seconds run from the end of the one before to its own end, so that they
    cover everything, reading data included; but not what only the comparison needs."""

    def __init__(self, warm_up_steps: int):
        self._warm_up_steps = warm_up_steps
        self._micro_losses: list[float] = []
        self._losses: list[float] = []
        self._grad_norms: list[float] = []
        self._grad_norms_in_double: list[float] = []
        self._begins: list[float] = []  # of the steps after the first
        self._ends: list[float] = []
        self._times: list[float] = []  # Unix, of the ends

    def micro_batch(self, loss: torch.Tensor) -> None:
        self._micro_losses.append(loss.item())

    def step(self, grad_norm: float | torch.Tensor, in_double: Callable[[], float] | None = None) -> None:
        """`grad_norm`: of the mean gradient, before clipping. `in_double`: the same, made off the clock."""
        self._ends.append(time.perf_counter())
        self._times.append(time.time())
        self._losses.append(sum(self._micro_losses) / len(self._micro_losses))
        self._grad_norms.append(float(grad_norm))
        self._micro_losses.clear()
        if in_double:
            self._grad_norms_in_double.append(in_double())
        self._begins.append(time.perf_counter())

    def result(self) -> dict:
        timed = zip(self._begins[self._warm_up_steps - 1:], self._ends[self._warm_up_steps:])
        return {"losses": self._losses, "grad_norms": self._grad_norms, "times": self._times,
                "grad_norms_in_double": self._grad_norms_in_double,
                "seconds": [end - begin for begin, end in timed],
                "peak_resident_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
