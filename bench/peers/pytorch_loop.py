"""The accumulation loop of PyTorch's documentation, as it is and compiled."""
import itertools
from collections.abc import Callable

import torch

from gpt2 import Gpt2
from job import Job
from recipe import Record, autocast, make_optimizer, micro_batches, norm_before_clipping, window_autocast
from tuning import Tuning

PACKAGES = ("torch",)


def train(job: Job, model: Gpt2, record: Record, tuning: Tuning) -> None:
    accumulate(job, model, model, record, tuning)


def train_compiled(job: Job, model: Gpt2, record: Record, tuning: Tuning) -> None:
    """Compilation falls into the warm-up step."""
    accumulate(job, model, torch.compile(model, fullgraph=True, dynamic=False), record, tuning)


def accumulate(job: Job, model: Gpt2, forward: Callable[..., torch.Tensor], record: Record, tuning: Tuning) -> None:
    optimizer = make_optimizer(job, model)
    batches = iter(micro_batches(job))
    for _ in range(job.all_steps):
        optimizer.zero_grad()
        with window_autocast(job, tuning):
            for ids, targets in itertools.islice(batches, job.count):
                with autocast(job):
                    loss = forward(ids, targets)
                (loss / job.count).backward()
                record.micro_batch(loss)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), job.recipe.most_norm)
        optimizer.step()
        record.step(norm, lambda: norm_before_clipping(model, norm, job.recipe.most_norm))
