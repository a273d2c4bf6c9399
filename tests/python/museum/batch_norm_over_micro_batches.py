"""Batch normalisation uses the statistics of each micro-batch, not of the batch.

https://github.com/giotto-ai/giotto-deep/issues/75 (2022)
"""

import torch
from torch import nn

import accrue

CAUSE = "batchnorm"


def exhibit():
    torch.manual_seed(3)
    network = nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 1))
    batch = {"x": torch.randn(12, 6), "y": torch.randn(12, 1)}

    def loss_fn(model, micro):
        return accrue.Loss((model(micro["x"]) - micro["y"]).square().sum(), len(micro["y"]))

    def loop(model, micro_batches):
        for micro in micro_batches:
            (loss_fn(model, micro).sum / 12).backward()

    return accrue.verify_loop(network, batch, loss_fn, loop, micro_batch=4)
