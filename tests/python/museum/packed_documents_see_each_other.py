"""Documents are packed into rows and position_ids restart, but attention crosses the document boundaries.

https://github.com/alex-hh/profam/issues/495 (2025)
"""

import torch
from torch import nn

import accrue
from museum.parts import IGNORED, WORDS

CAUSE = "packing-leak"


class Attending(nn.Module):
    """One causal attention over the whole row, ignoring document boundaries."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, 16)
        self.places = nn.Embedding(32, 16)
        self.head = nn.Linear(16, WORDS)

    def forward(self, input_ids, position_ids, labels=None):
        x = (self.words(input_ids) + self.places(position_ids)).unsqueeze(1)
        return self.head(nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True).squeeze(1))


def packed(lengths, seed):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(WORDS, (1, sum(lengths)), generator=generator)
    positions = torch.cat([torch.arange(length) for length in lengths]).unsqueeze(0)
    labels = torch.where(positions == 0, IGNORED, ids)
    return {"input_ids": ids, "position_ids": positions, "labels": labels}


def loss_fn(model, micro):
    logits = model(**micro)[:, :-1].flatten(0, 1)
    labels = micro["labels"][:, 1:].flatten()
    return accrue.Loss(nn.functional.cross_entropy(logits, labels, ignore_index=IGNORED, reduction="sum"), (labels != IGNORED).sum())


def exhibit():
    torch.manual_seed(3)
    model = Attending()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    window = [packed([5, 9, 4], 1), packed([7, 3], 2), packed([11], 3)]
    total = sum(int((micro["labels"] != IGNORED).sum()) for micro in window)
    with accrue.watch(model, optimizer, loss_fn) as watched:
        for micro in window:
            (loss_fn(model, micro).sum / total).backward()
        optimizer.step()
    return watched.report
