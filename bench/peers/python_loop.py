#!/usr/bin/env python3
"""A transformers model in a loop of the user's own, plain or with accrue: one process, one JSON object on standard output.

    bench/peers/python_loop.py MODEL LOOP [--key=value]...

MODEL: gpt2, llama, vit, with random weights. LOOP: plain; compiled (torch.compile); accumulator; accelerated (accrue.accelerate, too, and
its allocator). The model is transformers' own, unmodified, and the loss is torch's cross entropy of its logits.
"""
import argparse
import contextlib
import json
import time

import torch
import transformers

SIZES = {
    "gpt2": dict(layers=6, heads=6, width=384, context=256, vocab=256, micro=4, count=8),
    "llama": dict(layers=6, heads=6, width=384, context=256, vocab=256, micro=4, count=8),
    "vit": dict(layers=6, heads=6, width=384, image=96, patch=8, classes=100, micro=8, count=8),
}


def model_of(kind: str, sizes: argparse.Namespace):
    torch.manual_seed(1)
    common = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    if kind == "gpt2":
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(
            n_layer=sizes.layers, n_head=sizes.heads, n_embd=sizes.width, n_positions=sizes.context, vocab_size=sizes.vocab, resid_pdrop=0.0,
            embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False))
    if kind == "llama":
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(
            num_hidden_layers=sizes.layers, num_attention_heads=sizes.heads, hidden_size=sizes.width, intermediate_size=8 * sizes.width // 3,
            max_position_embeddings=sizes.context, vocab_size=sizes.vocab, use_cache=False))
    return transformers.ViTForImageClassification(transformers.ViTConfig(
        num_hidden_layers=sizes.layers, num_attention_heads=sizes.heads, hidden_size=sizes.width, intermediate_size=4 * sizes.width,
        image_size=sizes.image, patch_size=sizes.patch, num_labels=sizes.classes, **common))


def micro_batches_of(kind: str, sizes: argparse.Namespace, step: int) -> list[dict]:
    generator = torch.Generator().manual_seed(step)
    if kind == "vit":
        return [{"x": torch.randn(sizes.micro, 3, sizes.image, sizes.image, generator=generator),
                 "labels": torch.randint(sizes.classes, (sizes.micro,), generator=generator)} for _ in range(sizes.count)]
    ids = [torch.randint(sizes.vocab, (sizes.micro, sizes.context), generator=generator) for _ in range(sizes.count)]
    return [{"x": each, "labels": each} for each in ids]


def loss_of(model, kind: str, micro: dict, reduction: str) -> torch.Tensor:
    logits, labels = model(micro["x"]).logits, micro["labels"]
    if kind != "vit":
        logits, labels = logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
    return torch.nn.functional.cross_entropy(logits, labels, reduction=reduction)


def units(kind: str, sizes: argparse.Namespace) -> int:
    return sizes.micro * sizes.count * (1 if kind == "vit" else sizes.context)


def plain_step(model, optimizer, kind, window, rounding) -> float:
    total = 0.0
    for micro in window:
        with rounding():
            loss = loss_of(model, kind, micro, "mean") / len(window)
        loss.backward()
        total += float(loss.detach())
    optimizer.step()
    optimizer.zero_grad()
    return total


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=SIZES)
    parser.add_argument("loop", choices=["plain", "compiled", "accumulator", "accelerated"])
    for key in ("layers", "heads", "width", "context", "vocab", "image", "patch", "classes", "micro", "count"):
        parser.add_argument(f"--{key}", type=int)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32")
    options = parser.parse_args()
    for key, value in SIZES[options.model].items():
        if getattr(options, key) is None:
            setattr(options, key, value)
    torch.set_num_threads(options.threads)
    with_accrue = options.loop in ("accumulator", "accelerated")
    if with_accrue:
        import accrue
    if options.loop == "accelerated":
        accrue.install_allocator()
    model = model_of(options.model, options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    called = torch.compile(model) if options.loop == "compiled" else model

    def rounding():
        return torch.autocast("cpu", torch.bfloat16) if options.dtype == "bf16" else contextlib.nullcontext()

    accumulator = accrue.Accumulator(model) if with_accrue else None

    def accrue_step(window) -> float:
        for micro in window:
            with rounding():
                loss = accrue.Loss(loss_of(model, options.model, micro, "sum"),
                                   micro["labels"].numel() if options.model == "vit" else micro["labels"][:, 1:].numel())
            accumulator.backward(loss)
        return accumulator.step(optimizer).loss

    rates, losses = [], []
    with accrue.accelerate(model) if options.loop == "accelerated" else contextlib.nullcontext():
        for step in range(options.steps + 1):  # the first one is not timed: it compiles and allocates
            window = micro_batches_of(options.model, options, step)
            begin = time.perf_counter()
            losses.append(accrue_step(window) if with_accrue else plain_step(called, optimizer, options.model, window, rounding))
            if step > 0:
                rates.append(units(options.model, options) / (time.perf_counter() - begin))
    print(json.dumps({"per_second": rates, "losses": losses}))


if __name__ == "__main__":
    main()
