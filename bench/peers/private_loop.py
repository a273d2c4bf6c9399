#!/usr/bin/env python3
"""A transformers model in a loop that clips the gradient of each sample, or does not: one process, one JSON object on standard output.

    bench/peers/private_loop.py MODEL LOOP [--key=value]...

MODEL: gpt2, llama, vit, with random weights. LOOP: plain (no privacy); clipped (accrue.privacy.ClippedGradients); one (a pass for each sample, its
gradient clipped in torch); opacus (a gradient for each sample), opacus_ghost (its two backward passes). Every step has the same samples and clips
at 1, and none adds noise. Loops that clip compute the mean of clipped gradients, whose norm is a result: it has to be the same. Rates are by the
processor's time of one thread, which other work on the machine changes little, and all loops have the same libraries loaded.
"""
import argparse
import json
import math
import time

import accrue.privacy
import torch
from python_loop import SIZES, micro_batches_of, model_of, units
from torch.nn import functional

CLIP = 1.0


def losses_of(model, kind: str, micro: dict) -> torch.Tensor:
    """The mean loss of each sample."""
    logits, labels = model(micro["x"]).logits, micro["labels"]
    if kind == "vit":
        return functional.cross_entropy(logits, labels, reduction="none")
    logits, labels = logits[:, :-1], labels[:, 1:]
    return functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view(labels.shape).mean(1)


def samples_of(window: list[dict]) -> int:
    return sum(len(micro["x"]) for micro in window)


def plain_gradients(model, kind: str, window: list[dict]) -> None:
    for micro in window:
        (losses_of(model, kind, micro).sum() / samples_of(window)).backward()


def gradients_one_by_one(model, kind: str, window: list[dict]) -> None:
    parameters = [each for each in model.parameters() if each.requires_grad]
    sums = [torch.zeros_like(each) for each in parameters]
    for micro in window:
        for sample in range(len(micro["x"])):
            model.zero_grad()
            losses_of(model, kind, {name: each[sample:sample + 1] for name, each in micro.items()}).sum().backward()
            norm = math.sqrt(sum(float(each.grad.square().sum()) for each in parameters))
            for total, each in zip(sums, parameters):
                total.add_(each.grad, alpha=min(1.0, CLIP / norm))
    for total, each in zip(sums, parameters):
        each.grad = total.div_(samples_of(window))


class OfAccrue:
    def __init__(self, model, kind: str):
        self._clipped = accrue.privacy.ClippedGradients(model, lambda model, micro: losses_of(model, kind, micro), clip=CLIP)
        self._randomness = accrue.privacy.SystemRandomness()

    def __call__(self, model, kind: str, window: list[dict]) -> None:
        for micro in window:
            self._clipped.add(micro)
        parameters = self._clipped.parameters
        for name, each in self._clipped.take(0.0, self._randomness):
            parameters[name].grad = each.div_(samples_of(window)).to(parameters[name].dtype)


class OfOpacus:
    def __init__(self, model, ghost: bool):
        from opacus import GradSampleModule
        from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import GradSampleModuleFastGradientClipping
        self._ghost = ghost
        self._model = (GradSampleModuleFastGradientClipping(model, max_grad_norm=CLIP, use_ghost_clipping=True, loss_reduction="sum", strict=False)
                       if ghost else GradSampleModule(model, loss_reduction="sum", strict=False))

    def __call__(self, model, kind: str, window: list[dict]) -> None:
        parameters = [each for each in model.parameters() if each.requires_grad]
        sums = [torch.zeros_like(each) for each in parameters]
        for micro in window:
            model.zero_grad()
            losses = losses_of(self._model, kind, micro)
            if self._ghost:
                losses.sum().backward(retain_graph=True)
                factors = self._model.get_clipping_coef()
                model.zero_grad()
                self._model.disable_hooks()
                (factors * losses).sum().backward()
                self._model.enable_hooks()
                for total, each in zip(sums, parameters):
                    total += each.grad
            else:
                losses.sum().backward()
                norms = torch.stack([each.grad_sample.flatten(1).square().sum(1) for each in parameters]).sum(0).sqrt()
                factors = (CLIP / norms).clamp(max=1.0)
                for total, each in zip(sums, parameters):
                    total += torch.einsum("i,i...->...", factors, each.grad_sample)
                    each.grad_sample = None
        for total, each in zip(sums, parameters):
            each.grad = total.div_(samples_of(window))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=SIZES)
    parser.add_argument("loop", choices=["plain", "clipped", "one", "opacus", "opacus_ghost"])
    for key in ("layers", "heads", "width", "context", "vocab", "image", "patch", "classes", "micro", "count"):
        parser.add_argument(f"--{key}", type=int)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    for key, value in SIZES[options.model].items():
        if getattr(options, key) is None:
            setattr(options, key, value)
    torch.set_num_threads(options.threads)
    model = model_of(options.model, options)
    made = {"plain": lambda: plain_gradients, "one": lambda: gradients_one_by_one, "clipped": lambda: OfAccrue(model, options.model),
            "opacus": lambda: OfOpacus(model, ghost=False), "opacus_ghost": lambda: OfOpacus(model, ghost=True)}[options.loop]()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    rates, norms = [], []
    for step in range(options.steps + 1):  # the first one is not timed: it allocates
        window = micro_batches_of(options.model, options, step)
        begin = time.process_time()
        made(model, options.model, window)
        norms.append(math.sqrt(sum(float(each.grad.square().sum()) for each in model.parameters())))
        optimizer.step()
        optimizer.zero_grad()
        if step > 0:
            rates.append(units(options.model, options) / (time.process_time() - begin))
    print(json.dumps({"per_second": rates, "norms": norms}))


if __name__ == "__main__":
    main()
