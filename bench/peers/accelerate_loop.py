"""Accelerate with its `accumulate` context."""
from accelerate import Accelerator

from gpt2 import Gpt2
from job import Job
from recipe import Record, make_optimizer, micro_batches

PACKAGES = ("torch", "accelerate")


def train(job: Job, model: Gpt2, record: Record) -> None:
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=job.count,
                              mixed_precision="bf16" if job.precision == "bf16" else "no")
    model, optimizer, batches = accelerator.prepare(model, make_optimizer(job, model), micro_batches(job))
    for ids, targets in batches:
        with accelerator.accumulate(model):
            loss = model(ids, targets)
            accelerator.backward(loss)
            record.micro_batch(loss)
            if accelerator.sync_gradients:
                norm = accelerator.clip_grad_norm_(model.parameters(), job.recipe.most_norm)
            optimizer.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            record.step(norm)
