"""Random right loops are called right: no false alarm. ACCRUE_RIGHT_LOOPS: how many (60)."""

import os
import random

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import accrue

COUNT = int(os.environ.get("ACCRUE_RIGHT_LOOPS", "60"))
IGNORED = -100


class Words(nn.Module):
    """Embedding, some layers, a head. `watched`: with dropout, too, whose masks a watch draws again, and perhaps recomputed layers."""

    def __init__(self, draw: random.Random, words: int, watched: bool):
        super().__init__()
        self.dropout = nn.Dropout(0.2) if watched and draw.random() < 0.5 else nn.Identity()
        self.recomputes = draw.random() < 0.3
        width = draw.choice([4, 8, 16])
        self.embedding = nn.Embedding(words, width)
        self.body = nn.Sequential(*[layer for _ in range(draw.randint(1, 3))
                                    for layer in (nn.Linear(width, width), draw.choice([nn.Tanh, nn.GELU, nn.ReLU])())])
        self.norm = nn.LayerNorm(width) if draw.random() < 0.5 else nn.Identity()
        self.head = nn.Linear(width, words, bias=draw.random() < 0.5)
        if draw.random() < 0.3:
            self.head.weight = self.embedding.weight

    def forward(self, input_ids, labels=None):
        x = self.dropout(self.embedding(input_ids))
        x = checkpoint(self.body, x, use_reentrant=False) if self.recomputes else self.body(x)
        return self.head(self.norm(x))


def draw_batch(draw: random.Random, words: int, samples: int, length: int) -> dict:
    generator = torch.Generator().manual_seed(draw.randrange(10**6))
    batch = {name: torch.randint(words, (samples, length), generator=generator) for name in ("input_ids", "labels")}
    for sample in range(samples):
        batch["labels"][sample, draw.randint(1, length):] = IGNORED
    return batch


def loss_of(model, micro, reduction):
    logits = model(micro["input_ids"], labels=micro["labels"]).flatten(0, 1).float()
    return nn.functional.cross_entropy(logits, micro["labels"].flatten(), ignore_index=IGNORED, reduction=reduction)


def words_of(micro):
    return int((micro["labels"] != IGNORED).sum())


def loss_fn(model, micro):
    return accrue.Loss(loss_of(model, micro, "sum"), words_of(micro))


def by_total(model, micro_batches):
    total = sum(words_of(micro) for micro in micro_batches)
    for micro in micro_batches:
        (loss_of(model, micro, "sum") / total).backward()


def by_scaled_means(model, micro_batches):
    total = sum(words_of(micro) for micro in micro_batches)
    for micro in micro_batches:
        (loss_of(model, micro, "mean") * (words_of(micro) / total)).backward()


def divided_at_the_end(model, micro_batches):
    for micro in micro_batches:
        loss_of(model, micro, "sum").backward()
    total = sum(words_of(micro) for micro in micro_batches)
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad /= total


def by_accumulator(model, micro_batches):
    accumulator = accrue.Accumulator(model)
    for micro in micro_batches:
        accumulator.backward(loss_fn(model, micro))
    accumulator.step(torch.optim.SGD(model.parameters(), lr=0.1))


RIGHT = [by_total, by_scaled_means, divided_at_the_end, by_accumulator]


def optimizer_of(draw, model):
    kind = draw.choice([torch.optim.SGD, torch.optim.AdamW, torch.optim.Adam, torch.optim.RMSprop, torch.optim.Adagrad])
    return kind(model.parameters(), lr=draw.choice([1e-1, 1e-3]))


@pytest.mark.parametrize("seed", range(COUNT))
def test_right_loop_is_called_right(seed):
    draw = random.Random(seed)
    torch.manual_seed(seed)
    words = draw.choice([7, 19, 40])
    samples = draw.randint(3, 14)
    batch = draw_batch(draw, words, samples, draw.randint(2, 12))
    is_watched = draw.random() < 0.5
    model = Words(draw, words, is_watched)
    if draw.random() < 0.3:
        model.double()
    loop = draw.choice(RIGHT)
    if not is_watched:
        report = accrue.verify_loop(model, batch, loss_fn, loop, micro_batch=draw.randint(1, max(1, samples // 2)), seed=seed)
    else:
        report = watched(draw, model, batch, loop)
    assert report.equal, f"seed {seed}, {loop.__name__}\n{report}"


def watched(draw, model, batch, loop):
    optimizer = optimizer_of(draw, model)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    size = draw.randint(1, max(1, accrue.batch_size(batch) // 2))
    window = [accrue.batch_slice(batch, begin, begin + size) for begin in range(0, accrue.batch_size(batch), size)]
    clip = draw.random() < 0.5
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with accrue.watch(model, optimizer, loss_fn) as w:
        optimizer.zero_grad()
        if loop is by_accumulator:
            accumulator = accrue.Accumulator(model, clip_norm=0.01 if clip else 0)
            for micro in window:
                accumulator.backward(loss_fn(model, micro))
            accumulator.step(optimizer)
        else:
            loop(model, window)
            if clip:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
            optimizer.step()
        schedule.step()
    assert any(not torch.equal(a, b) for a, b in zip(before, model.parameters())), "the loop's own step is kept"
    return w.report
