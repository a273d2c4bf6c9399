#!/usr/bin/env python3
"""Measures a plain torch::nn GPT-2 with and without accrue, in turn, in one run.

    bench/e2e/foreign_layers.py [--rounds 3] [--out bench/results/foreign_layers.json]
    bench/e2e/foreign_layers.py --quick     a tiny model: whether everything runs, in seconds

In each round, each in a process of its own: the plain libtorch loop (bench/peers/plain_libtorch), the same model
in an Accumulator's loop, that with accrue::accelerate(), both with accrue's caching allocator too, and accrue's own
GPT-2 of that shape (`accrue bench`). Speeds are compared round by round, memory by the most that was resident.
"""
import argparse
import json
import os
import pathlib
import statistics
import tempfile

from runs import BUILD, accrue_json, gib, random_tokens, run, save, spread
from speed import overrides

MODEL = dict(layers=6, heads=6, width=384, context=256, vocab=256, micro=4, count=8, compute="fp32")
QUICK_MODEL = dict(layers=2, heads=2, width=64, context=64, vocab=256, micro=4, count=4, compute="fp32")
LOOPS = {
    "plain": ("plain_libtorch", []),
    "accumulator": ("accelerated_gpt2", []),
    "accelerated": ("accelerated_gpt2", ["--accelerate=1"]),
    "accumulator, allocator": ("accelerated_gpt2", ["--allocator=1"]),
    "accelerated, allocator": ("accelerated_gpt2", ["--accelerate=1", "--allocator=1"]),
}
OWN = "accrue's own"


def loop(program: str, extra: list[str], model: dict) -> tuple[float, int]:
    """Tokens per second, and the most resident bytes."""
    sizes = [f"--{key}={model[key]}" for key in ("layers", "heads", "width", "context", "vocab", "micro", "count")]
    out, resident = run([str(BUILD / "bench" / "peers" / program), "--steps=2", f"--threads={os.cpu_count()}",
                         *sizes, *extra])
    return statistics.median(json.loads(out)["tokens_per_second"]), resident


def own(model: dict, folder: pathlib.Path) -> tuple[float, int]:
    result = accrue_json("bench", folder, ["--rounds=2", *overrides(model, folder)])
    return result["tokens_per_second"]["median"], result["peak_resident_bytes"]


def measure(model: dict, folder: pathlib.Path, rounds: int) -> dict:
    taken = {name: [] for name in [*LOOPS, OWN]}
    for _ in range(rounds):
        for name, (program, extra) in LOOPS.items():
            taken[name].append(loop(program, extra, model))
        taken[OWN].append(own(model, folder))
    speeds = {name: [speed for speed, _ in of] for name, of in taken.items()}
    return {name: {"tokens_per_second": spread(speeds[name]),
                   "of_plain": spread([a / b for a, b in zip(speeds[name], speeds["plain"])]),
                   "of_own": spread([a / b for a, b in zip(speeds[name], speeds[OWN])]),
                   "peak_resident_bytes": max(resident for _, resident in of)}
            for name, of in taken.items()} | {"rounds": rounds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=pathlib.Path, help="file of the results (bench/results/foreign_layers.json)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        result = measure(QUICK_MODEL if options.quick else MODEL, pathlib.Path(name), options.rounds)
    for name, row in result.items():
        if name != "rounds":
            print(f"{name:24} {row['tokens_per_second']['median']:7.0f} tokens/s   {row['of_plain']['median']:.2f} "
                  f"({row['of_plain']['min']:.2f} to {row['of_plain']['max']:.2f}) of plain, "
                  f"{row['of_own']['median']:.2f} of accrue's own   {gib(row['peak_resident_bytes'])}")
    save("foreign_layers.json", {"gpt2 10.8M fp32": result}, options.out, options.quick)


if __name__ == "__main__":
    main()
