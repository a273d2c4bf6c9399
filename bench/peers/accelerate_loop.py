"""Accelerate with its `accumulate` context."""
import itertools

from accelerate import Accelerator

from gpt2 import Gpt2
from job import Job
from recipe import Record, make_optimizer, micro_batches, window_autocast
from tuning import Tuning

PACKAGES = ("torch", "accelerate")


def train(job: Job, model: Gpt2, record: Record, tuning: Tuning) -> None:
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=job.count,
                              mixed_precision="bf16" if job.precision == "bf16" else "no",
                              dynamo_backend="inductor" if tuning.compiled else None)
    model, optimizer, loader = accelerator.prepare(model, make_optimizer(job, model), micro_batches(job))
    batches = iter(loader)
    for _ in range(job.all_steps):
        with window_autocast(job, tuning):
            for ids, targets in itertools.islice(batches, job.count):
                with accelerator.accumulate(model):
                    loss = model(ids, targets)
                    accelerator.backward(loss)
                    record.micro_batch(loss)
                    if accelerator.sync_gradients:
                        norm = accelerator.clip_grad_norm_(model.parameters(), job.recipe.most_norm)
                    optimizer.step()
                    optimizer.zero_grad()
        record.step(norm)
