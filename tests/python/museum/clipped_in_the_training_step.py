"""The training step clips before its backward(), which scales down the gradients of earlier micro-batches.

https://github.com/simchowitzlabpublic/nano-world-model/pull/22 (2026)
"""

from torch.nn.utils import clip_grad_norm_

from museum.parts import Window, mean

CAUSE = "clip-per-micro-batch"


def exhibit():
    window = Window()

    def training_step(micro):
        loss = mean(window.model, micro)
        clip_grad_norm_(window.model.parameters(), 0.05)
        return loss

    with window.watch() as watched:
        for micro in window.micro_batches:
            (training_step(micro) / len(window.micro_batches)).backward()
        window.optimizer.step()
    return watched.report
