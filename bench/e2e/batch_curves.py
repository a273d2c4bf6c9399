#!/usr/bin/env python3
"""Trains the same GPT-2 of 1 M parameters on 3 M tokens of real text with batches of many sizes, with batches that change, and with rates that
are too high: what a batch costs in loss, and what it saves in steps.

    bench/e2e/batch_curves.py [--only PART...] [--out bench/results/batch_curves.json]
    bench/e2e/batch_curves.py --quick      a tiny model: whether everything runs, in two minutes

Parts: rate (which learning rate the others begin with), fixed (batches of 4 k to 128 k tokens), changing (batches that are decided on the way),
passes (one batch in 1, 4, 16 and 64 micro-batches), stable (how high a rate each batch bears, with a warm-up and without). What is compared are
losses at equal tokens, so other work beside it changes nothing. The rate of a batch is that of the base batch times the root of their ratio.
"""
import argparse
import itertools
import json
import pathlib
import sys
import sysconfig
import tempfile

from runs import flags, lines_of, run, save, steps_of, train_command

LIBRARY = sysconfig.get_paths()["stdlib"]
BASE = 8192  # the batch that RATE was found for
BATCHES = (4096, 8192, 16384, 32768, 65536, 131072)
RATES = (1e-3, 2e-3, 4e-3, 8e-3)
STABLE = {"batches": (4096, 32768, 131072), "rates": (4e-3, 8e-3, 16e-3, 32e-3, 64e-3), "warmups": ("0%", "10%")}
JOB = dict(model=dict(layers=5, heads=4, width=128, context=128), tokens=3_000_000, short=600_000, seeds=(1, 2, 3), rate=4e-3)
QUICK_JOB = dict(model=dict(layers=2, heads=2, width=32, context=128), tokens=400_000, short=200_000, seeds=(1,), rate=4e-3)
# What batches that are decided on the way begin with, and what decides.
CHANGING = {
    "noise-scale": (4096, dict(batch="noise-scale", max=131072, min=4096, lr_rule="sqrt")),
    "critical": (4096, dict(batch="critical", max=131072, min=4096, lr_rule="sqrt")),
    "norm-test": (4096, dict(batch="norm-test", max=131072, min=4096, lr_rule="sqrt")),
    "seesaw": (4096, dict(batch="seesaw", max=131072)),
}


def rate_of(batch: int, rate: float) -> float:
    return rate * (batch / BASE) ** 0.5


def arguments(job: dict, seed: int, batch: int, rate: float, tokens: int, warmup: str = "5%") -> list[str]:
    """Text that is held out is always the same, as much of it for every batch."""
    held_out = [f"{LIBRARY}/{name}.py" for name in ("textwrap", "timeit", "trace", "tokenize")]
    return [*flags("run", tokens=tokens, seed=seed, checkpoint_every='"1000000 steps"', keep=1, keep_best="false", eval_every="20%"),
            *flags("model", kind="gpt2", **job["model"]),
            *flags("data", train=f'["{LIBRARY}/[_a-s]*.py", "{LIBRARY}/[_a-r]*/**/*.py"]', val=json.dumps(held_out)),
            *flags("batch", tokens=batch), *flags("precision", compute="fp32"),
            *flags("optim", kind="adamw", lr=rate, betas="[0.9, 0.95]", weight_decay=0.1, clip=1.0,
                   schedule=f'{{kind = "cosine", warmup = "{warmup}", min_lr = {rate / 100}}}')]


def outcome(words: list[str]) -> dict:
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "bench.toml").write_text('[run]\nout = "unused"\n')
        try:
            run(train_command(folder, "run", words))
        except SystemExit:  # a rate that is too high ends in losses that are not finite
            if not (folder / "run" / "metrics.jsonl").exists():
                raise
            return {"diverged": True}
        steps = steps_of(folder / "run")
        evaluations = [line for line in lines_of(folder / "run") if "eval_loss" in line]
        tokens = {step["step"]: step["tokens"] for step in steps}
        return {"steps": len(steps), "tokens": steps[-1]["tokens"], "loss": evaluations[-1]["eval_loss"] if evaluations else None,
                "curve": [[tokens[line["step"]], line["step"], line["eval_loss"]] for line in evaluations],
                "batches": batches_of(steps), "noise_scale": noise_of(steps), "seconds": sum(step["seconds"] for step in steps)}


def batches_of(steps: list[dict]) -> list[list[int]]:
    """[step, tokens of the batch] wherever it changes; the short last one of an epoch is none."""
    found: list[list[int]] = []
    for before, step in itertools.pairwise([None, *steps]):
        if not found or (step["batch_tokens"] != found[-1][1] and (before is None or step is not steps[-1])):
            found.append([step["step"], step["batch_tokens"]])
    return found


def noise_of(steps: list[dict]) -> list[list[float]]:
    """[tokens, noise scale] at ten places."""
    measured = [[step["tokens"], step["noise_scale"]] for step in steps if "noise_scale" in step]
    return measured[::max(1, len(measured) // 10)]


def parts(job: dict) -> dict[str, list[tuple[str, list[str]]]]:
    """By part: what each run is called, and its arguments; the first seed of everything comes first."""
    rate, tokens = job["rate"], job["tokens"]

    def of(seed: int, batch: int, *more: str, lr: float | None = None, length: int = tokens, warmup: str = "5%") -> list[str]:
        return [*arguments(job, seed, batch, lr or rate_of(batch, rate), length, warmup), *more]

    return {
        "rate": [(f"{lr:g}", of(1, BASE, lr=lr)) for lr in RATES],
        "fixed": [(f"{batch}, seed {seed}", of(seed, batch)) for seed in job["seeds"] for batch in BATCHES],
        "changing": [(f"{name}, seed {seed}", of(seed, batch, *flags("adapt", **adapt)))
                     for seed in job["seeds"] for name, (batch, adapt) in CHANGING.items()],
        "passes": [(f"{count} of {32768 // count} tokens", of(1, 32768, f"--batch.micro={32768 // count // 128}", length=tokens // 2))
                   for count in (1, 4, 16, 64)],
        "stable": [(f"{batch}, {lr:g}, warm-up {warmup}", of(1, batch, lr=lr, length=job["short"], warmup=warmup))
                   for batch in STABLE["batches"] for lr in STABLE["rates"] for warmup in STABLE["warmups"]],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    job = JOB
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", choices=parts(job))
    parser.add_argument("--match", default="", help="only runs whose names contain this")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    if options.quick:
        job = QUICK_JOB
    for part, runs in parts(job).items():
        if options.only and part not in options.only:
            continue
        for name, words in runs:
            if options.match not in name:
                continue
            found = outcome(words)
            print(f"{part}: {name}: {found.get('loss')} after {found.get('steps')} steps", file=sys.stderr, flush=True)
            save("batch_curves.json", {f"{part}: {name}": found}, options.out, options.quick)


if __name__ == "__main__":
    main()
