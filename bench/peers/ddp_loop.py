"""DistributedDataParallel over gloo: the ranks take consecutive micro-batches of each step, as accrue's do."""
import contextlib

import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from gpt2 import Gpt2
from job import Job
from recipe import Record, autocast, make_optimizer, micro_batches
from tuning import Tuning

PACKAGES = ("torch",)
BUCKET_MB = 4  # accrue's; DDP's own 25 were slower over 1 Gbit/s, as less of 43 MB is left to overlap with


def train(job: Job, model: Gpt2, record: Record, _: Tuning) -> None:
    """As PyTorch documents accumulation: the gradients are reduced with the last micro-batch only."""
    accumulate(job, model, record, reduces_each=False)


def train_reducing_each(job: Job, model: Gpt2, record: Record, _: Tuning) -> None:
    """Without `no_sync`: with every micro-batch."""
    accumulate(job, model, record, reduces_each=True)


def accumulate(job: Job, model: Gpt2, record: Record, reduces_each: bool) -> None:
    dist.init_process_group("gloo")
    count = job.count // dist.get_world_size()
    replica = DistributedDataParallel(model, gradient_as_bucket_view=True, bucket_cap_mb=BUCKET_MB)
    optimizer = make_optimizer(job, model)
    batches = iter(micro_batches(job, samples_of(job, dist.get_rank(), count)))
    for _ in range(job.all_steps):
        optimizer.zero_grad()
        for i in range(count):
            reduces = reduces_each or i == count - 1
            with contextlib.nullcontext() if reduces else replica.no_sync():
                loss = one_pass(job, replica, next(batches), count)
            record.micro_batch(loss)
        norm = nn.utils.clip_grad_norm_(model.parameters(), job.recipe.most_norm)
        optimizer.step()
        record.step(norm)
    dist.destroy_process_group()


def one_pass(job: Job, replica: nn.Module, batch, count: int):
    with autocast(job):
        loss = replica(*batch)
    (loss / count).backward()
    return loss


def samples_of(job: Job, rank: int, count: int) -> list[int]:
    """`count` micro-batches of each step."""
    firsts = [(step * job.count + rank * count) * job.micro for step in range(job.all_steps)]
    return [sample for first in firsts for sample in range(first, first + count * job.micro)]
