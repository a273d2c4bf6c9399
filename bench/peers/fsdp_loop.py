"""FSDP2 (fully_shard) over gloo, by its three ways to accumulate; the ranks take consecutive micro-batches, as accrue's do."""
import atexit
import functools

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

from ddp_loop import one_pass, samples_of
from gpt2 import Gpt2
from job import Job
from recipe import Record, make_optimizer, micro_batches
from tuning import Tuning

PACKAGES = ("torch",)


def train_reducing_each(job: Job, model: Gpt2, record: Record, _: Tuning) -> None:
    """The least memory: parameters are gathered, and gradients scattered, for every micro-batch."""
    accumulate(job, model, record, reduces_each=True, keeps=False)


def train_reducing_last(job: Job, model: Gpt2, record: Record, _: Tuning) -> None:
    """Gradients are whole on each rank until the last micro-batch; parameters are gathered for each."""
    accumulate(job, model, record, reduces_each=False, keeps=False)


def train_keeping(job: Job, model: Gpt2, record: Record, _: Tuning) -> None:
    """The least traffic: parameters and gradients are whole on each rank during a step."""
    accumulate(job, model, record, reduces_each=False, keeps=True)


def accumulate(job: Job, model: Gpt2, record: Record, reduces_each: bool, keeps: bool) -> None:
    dist.init_process_group("gloo")
    count = job.count // dist.get_world_size()
    for block in model.transformer["h"]:
        fully_shard(block, reshard_after_forward=not keeps)
    fully_shard(model, reshard_after_forward=not keeps)
    optimizer = make_optimizer(job, model)
    batches = iter(micro_batches(job, samples_of(job, dist.get_rank(), count)))
    for _ in range(job.all_steps):
        optimizer.zero_grad()
        for i in range(count):
            last = i == count - 1
            model.set_requires_gradient_sync(reduces_each or last)
            model.set_reshard_after_backward(last or not keeps)
            record.micro_batch(one_pass(job, model, next(batches), count))
        norm = nn.utils.clip_grad_norm_(model.parameters(), job.recipe.most_norm)
        optimizer.step()
        record.step(norm.full_tensor())
    model.hugging_face_tensors = functools.partial(whole_tensors, job, model)
    atexit.register(dist.destroy_process_group)


def whole_tensors(job: Job, model: Gpt2) -> dict[str, torch.Tensor]:
    """Gpt2.hugging_face_tensors(), of parameters that all ranks gather."""
    whole = Gpt2(job)
    for parameter, sharded in zip(whole.parameters(), model.parameters()):
        parameter.data = sharded.detach().full_tensor()
    return whole.hugging_face_tensors()
