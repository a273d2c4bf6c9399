"""A contrastive loss takes its negatives from the micro-batch, so accumulation does not give a larger batch.

https://github.com/kamalkraj/e5-mistral-7b-instruct/issues/15 (2025)
"""

import torch
from torch import nn

import accrue

CAUSE = "batch-coupled-loss"


def exhibit():
    torch.manual_seed(3)
    tower = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 8))
    batch = [torch.randn(12, 6), torch.randn(12, 6)]

    def loss_fn(model, micro):
        queries, documents = (nn.functional.normalize(model(side), dim=1) for side in micro)
        scores = queries @ documents.T / 0.1
        return accrue.Loss(nn.functional.cross_entropy(scores, torch.arange(len(scores)), reduction="sum"), len(scores))

    def loop(model, micro_batches):
        for micro in micro_batches:
            (loss_fn(model, micro).sum / 12).backward()

    return accrue.verify_loop(tower, batch, loss_fn, loop, micro_batch=4)
