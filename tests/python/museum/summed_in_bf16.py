"""Gradients are summed in bf16, where small contributions are lost.

https://github.com/deepspeedai/DeepSpeed/issues/2768 (2023)
"""

import torch

import accrue
from museum.parts import batch, cross_entropy, loss_fn, model, words

CAUSE = "precision"


def exhibit():
    def loop(net, micro_batches):
        parameters = list(net.parameters())
        total = sum(words(micro) for micro in micro_batches)
        sums = [torch.zeros_like(parameter, dtype=torch.bfloat16) for parameter in parameters]
        for micro in micro_batches:
            gradients = torch.autograd.grad(cross_entropy(net, micro, "sum") / total, parameters)
            for kept, gradient in zip(sums, gradients):
                kept += gradient.bfloat16()
        for parameter, kept in zip(parameters, sums):
            parameter.grad = kept.float()

    return accrue.verify_loop(model(), batch(), loss_fn, loop, micro_batch=1)
