#!/usr/bin/env python3
"""What keeping less in the optimizer does to the loss: validation loss by kind and state, over seeds.

    bench/e2e/optimizer_memory.py [--steps 100] [--seeds 3] [--quick] [--out bench/results/optimizer_memory.json]

Trains a small GPT on this repository's documentation with each case and prints the mean and the single losses
after the last step. A state is as good as fp32's where they differ by less than seeds do. Only the standard library.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

from runs import BUILD, ROOT, save

CASES = {
    "adamw fp32": ["--optim.kind=adamw"],
    "adamw bf16": ["--optim.kind=adamw", "--optim.state=bf16"],
    "adamw int8": ["--optim.kind=adamw", "--optim.state=int8"],
    "adama fp32": ["--optim.kind=adama"],
    "adama bf16": ["--optim.kind=adama", "--optim.state=bf16"],
    "sgd fp32": ["--optim.kind=sgd", "--optim.lr=0.1"],
    "sgd folded": ["--optim.kind=sgd", "--optim.lr=0.1", "--memory.gradients=optimizer"],
}

CONFIG = f"""
[model]
layers = 2
heads = 2
width = 64
context = 64
[data]
train = ["{ROOT}/docs/*.md", "{ROOT}/docs/guide/*.md"]
val_fraction = 0.1
[batch]
tokens = 4096
micro = 4
[optim]
lr = 2e-3
clip = 0
[observe]
progress = "off"
"""


def final_loss(folder: pathlib.Path, name: str, seed: int, steps: int) -> float:
    config, out = folder / "run.toml", folder / f"{name}-{seed}"
    config.write_text(CONFIG)
    command = [str(BUILD / "accrue"), "train", str(config), f"--run.out={out}", f"--run.steps={steps}",
               f"--run.seed={seed}", *CASES[name]]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(command)} failed:\n{done.stderr}")
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [line["eval_loss"] for line in lines if "eval_loss" in line][-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="four steps and one seed")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    steps, seeds = (4, 1) if options.quick else (options.steps, options.seeds)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in CASES:
            losses = [final_loss(pathlib.Path(folder), name, seed, steps) for seed in range(1, seeds + 1)]
            found[name] = {"steps": steps, "losses": losses, "mean": statistics.mean(losses)}
            print(f"{name:12} mean {statistics.mean(losses):.4f}  {[round(loss, 4) for loss in losses]}", flush=True)
    save("optimizer_memory.json", found, options.out, options.quick)


if __name__ == "__main__":
    main()
