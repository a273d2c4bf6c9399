"""Every backward() counts as the end of the window and resets the sum, so only the last micro-batch reaches the step.

https://github.com/allenai/open-instruct/pull/1498 (2026)
"""

import torch

from museum.parts import mean, proved

CAUSE = "last-micro-batch-only"


def exhibit():
    def loop(model, micro_batches):
        parameters = list(model.parameters())
        for micro in micro_batches:
            averaged = torch.autograd.grad(mean(model, micro), parameters)
        for parameter, gradient in zip(parameters, averaged):
            parameter.grad = gradient / len(micro_batches)

    return proved(loop)
