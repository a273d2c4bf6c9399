#!/usr/bin/env python3
"""A language model's head alone, plain or accelerated: one process, one JSON object on standard output.

    bench/peers/python_head.py LOOP [--key=value]...

LOOP: plain (logits, then torch's cross entropy of them); accelerated (the same lines with accrue.accelerate, and its allocator). Forward and
backward of `rows` hidden states, from which `context` - 1 of `context` labels follow, as in python_loop.py. `--loss`: sum, as an Accumulator
takes it, or mean, which is divided by 2 then, as a loop of 2 micro-batches does. Tells the seconds of each pass, and how much more was
resident in the first one than before it.
"""
import argparse
import contextlib
import json
import pathlib
import re
import time

import torch
from torch import nn

STATUS, RESET_PEAK = pathlib.Path("/proc/self/status"), pathlib.Path("/proc/self/clear_refs")


def resident(which: str) -> int:
    """VmRSS: bytes now; VmHWM: the most since the peak was reset."""
    return 1024 * int(re.search(rf"{which}:\s*(\d+)", STATUS.read_text())[1])


class Head(nn.Module):
    """What a transformers model ends in. Its hidden states are trained, so that both gradients are made."""

    def __init__(self, rows: int, context: int, width: int, vocab: int):
        super().__init__()
        self.hidden = nn.Parameter(torch.randn(rows // context, context, width))
        self.lm_head = nn.Linear(width, vocab, bias=False)

    def forward(self) -> torch.Tensor:
        return self.lm_head(self.hidden)


def a_pass(model: Head, labels: torch.Tensor, reduction: str, rounding) -> float:
    model.zero_grad()
    with rounding():
        loss = nn.functional.cross_entropy(model()[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), reduction=reduction)
        if reduction == "mean":
            loss = loss / 2
    loss.backward()
    return float(loss.detach()) * 2 if reduction == "mean" else float(loss.detach()) / labels[:, 1:].numel()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("loop", choices=["plain", "accelerated"])
    for key, value in dict(rows=1024, context=256, width=768, vocab=50304, steps=2, threads=2).items():
        parser.add_argument(f"--{key}", type=int, default=value)
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--loss", choices=["sum", "mean"], default="sum")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.loop == "accelerated":
        import accrue
        accrue.install_allocator()

    def rounding():
        return torch.autocast("cpu", torch.bfloat16) if options.dtype == "bf16" else contextlib.nullcontext()

    def accelerated(model: Head):
        return accrue.accelerate(model, head=model.lm_head) if options.loop == "accelerated" else contextlib.nullcontext()

    def made(rows: int, vocab: int) -> tuple[Head, torch.Tensor]:
        torch.manual_seed(1)
        return Head(rows, options.context, options.width, vocab), torch.randint(vocab, (rows // options.context, options.context))

    small, few = made(options.context, 64)
    with accelerated(small):
        a_pass(small, few, options.loss, rounding)  # loads what a process loads once
    model, labels = made(options.rows, options.vocab)
    RESET_PEAK.write_text("5")
    before = resident("VmRSS")
    seconds, losses = [], []
    with accelerated(model):
        for step in range(options.steps + 1):
            begin = time.perf_counter()
            losses.append(a_pass(model, labels, options.loss, rounding))
            if step == 0:
                above = resident("VmHWM") - before
            else:
                seconds.append(time.perf_counter() - begin)
    print(json.dumps({"resident_bytes": above, "seconds": seconds, "losses": losses}))


if __name__ == "__main__":
    main()
