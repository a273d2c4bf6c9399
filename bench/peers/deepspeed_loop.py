"""DeepSpeed's engine on one CPU process: `gradient_accumulation_steps`, no ZeRO, the same optimizer."""
import itertools
import os

os.environ.update(DS_ACCELERATOR="cpu", RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1",
                  MASTER_PORT="0")

import deepspeed
import torch

from gpt2 import Gpt2
from job import Job
from recipe import Record, autocast, make_optimizer, micro_batches, window_autocast
from tuning import Tuning

PACKAGES = ("torch", "deepspeed")


def train(job: Job, model: Gpt2, record: Record, tuning: Tuning) -> None:
    config = {"train_micro_batch_size_per_gpu": job.micro, "gradient_accumulation_steps": job.count,
              "zero_optimization": {"stage": 0}}
    deepspeed.init_distributed("gloo")
    engine, *_ = deepspeed.initialize(model=model, optimizer=make_optimizer(job, model), config=config)
    if tuning.compiled:
        engine.compile()
    batches = iter(micro_batches(job))
    for _ in range(job.all_steps):
        with window_autocast(job, tuning):
            for ids, targets in itertools.islice(batches, job.count):
                with autocast(job):
                    loss = engine(ids, targets)
                engine.backward(loss)
                record.micro_batch(loss)
                if engine.is_gradient_accumulation_boundary():
                    # Not by the config's gradient_clipping, which does the same and keeps the norm to itself.
                    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), job.recipe.most_norm)
                engine.step()
        record.step(norm)
