"""Each micro-batch's gradient is clipped outside .grad before it is added to the sum.

https://github.com/tenstorrent/tt-metal/issues/17568 (2025)
"""

import torch

from museum.parts import mean, proved

CAUSE = "clip-per-micro-batch"


def exhibit():
    def loop(model, micro_batches):
        parameters = list(model.parameters())
        for micro in micro_batches:
            gradients = torch.autograd.grad(mean(model, micro) / len(micro_batches), parameters)
            norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
            for parameter, gradient in zip(parameters, gradients):
                clipped = gradient * min(1.0, 0.03 / float(norm))
                parameter.grad = clipped if parameter.grad is None else parameter.grad + clipped

    return proved(loop, samples=12, even=True)
