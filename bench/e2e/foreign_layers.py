#!/usr/bin/env python3
"""Measures plain torch::nn models with and without accrue, in turn, in one run.

    bench/e2e/foreign_layers.py [--only gpt2 resnet50 lstm] [--rounds 3] [--out bench/results/foreign_layers.json]
    bench/e2e/foreign_layers.py --quick     tiny models: whether everything runs, in seconds

In each round, each in a process of its own (bench/peers/foreign_loop): the plain libtorch loop, the same model in an
Accumulator's loop, that with accrue::accelerate(), the latter two with accrue's caching allocator too, and for the GPT-2
accrue's own of that shape (`accrue bench`). Speeds are compared round by round, memory by the most that was resident.

What an Accumulator costs where it replaces nothing is a matter of 1%, which processes one after the other do not show: one
process takes steps of the plain loop and of the Accumulator's in turn, each with a model of its own, and compares pairs.
"""
import argparse
import json
import os
import pathlib
import statistics
import tempfile

from agreement import expect_same_losses
from runs import BUILD, accrue_json, flags, gib, random_tokens, run, save, spread
from speed import overrides

JOBS = {  # sizes of foreign_loop; `pairs` of steps in turn
    "gpt2": dict(unit="tokens", pairs=8, layers=6, heads=6, width=384, context=256, vocab=256, micro=4, count=8),
    "resnet50": dict(unit="images", pairs=8, layers=50, width=64, image=224, classes=1000, micro=8, count=2),
    "lstm": dict(unit="tokens", pairs=16, layers=2, width=512, context=128, vocab=10000, classes=10, micro=16, count=8),
}
QUICK_JOBS = {
    "gpt2": JOBS["gpt2"] | dict(pairs=2, layers=2, heads=2, width=64, context=64, count=4),
    "resnet50": JOBS["resnet50"] | dict(pairs=2, layers=8, width=8, image=64, classes=10, micro=2),
    "lstm": JOBS["lstm"] | dict(pairs=2, width=32, context=16, vocab=100, micro=4, count=2),
}
LOOPS = {
    "plain": ["plain"],
    "accumulator": ["accumulator"],
    "accelerated": ["accelerated"],
    "accumulator, allocator": ["accumulator", "--allocator=1"],
    "accelerated, allocator": ["accelerated", "--allocator=1"],
}
OWN = "accrue's own"


SAME_LOSS = 1e-3  # relative: steps of one model on the same data, rounded otherwise


def foreign_loop(job: str, sizes: dict, steps: int, loop: list[str]) -> tuple[dict, int]:
    values = [f"--{key}={value}" for key, value in sizes.items() if key not in ("unit", "pairs")]
    out, resident = run([str(BUILD / "bench" / "peers" / "foreign_loop"), job, *loop, f"--steps={steps}",
                         f"--threads={os.cpu_count()}", *values])
    return json.loads(out), resident


def own(sizes: dict, folder: pathlib.Path) -> tuple[float, int]:
    model = {key: value for key, value in sizes.items() if key not in ("unit", "pairs")} | dict(compute="fp32")
    result = accrue_json("bench", folder, ["--rounds=2", *overrides(model, folder)])
    return result["tokens_per_second"]["median"], result["peak_resident_bytes"]


def measure_loops(job: str, sizes: dict, folder: pathlib.Path, rounds: int) -> dict:
    taken: dict[str, list[tuple[float, int]]] = {name: [] for name in LOOPS}
    losses: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, loop in LOOPS.items():
            result, resident = foreign_loop(job, sizes, 2, loop)
            losses[name] = result["losses"]
            taken[name].append((statistics.median(result["per_second"]), resident))
        if job == "gpt2":
            taken.setdefault(OWN, []).append(own(sizes, folder))
    expect_same_losses(job, losses, SAME_LOSS)
    speeds = {name: [speed for speed, _ in of] for name, of in taken.items()}
    rows = {}
    for name, of in taken.items():
        rows[name] = {"per_second": spread(speeds[name]),
                      "of_plain": spread([a / b for a, b in zip(speeds[name], speeds["plain"])]),
                      "peak_resident_bytes": max(resident for _, resident in of)}
        if OWN in speeds:
            rows[name]["of_own"] = spread([a / b for a, b in zip(speeds[name], speeds[OWN])])
    return rows


def measure_overhead(job: str, sizes: dict, rounds: int) -> dict:
    """How much longer a step takes in the Accumulator's loop, by pairs of neighbours in time."""
    ratios = []
    for _ in range(rounds):
        result, _ = foreign_loop(job, sizes, sizes["pairs"], ["in-turn"])
        expect_same_losses(job, {"plain": result["plain_losses"], "accumulator": result["losses"]}, SAME_LOSS)
        ratios += [a / b - 1 for a, b in zip(result["accumulator"], result["plain"])]
    quartiles = statistics.quantiles(ratios, n=4)
    return {"median": statistics.median(ratios), "quartiles": [quartiles[0], quartiles[2]], "pairs": len(ratios)}


def measure(job: str, sizes: dict, folder: pathlib.Path, rounds: int) -> dict:
    return {"unit": sizes["unit"], "rounds": rounds, "loops": measure_loops(job, sizes, folder, rounds),
            "accumulator_overhead": measure_overhead(job, sizes, rounds)}


def show(job: str, result: dict) -> None:
    print(job)
    for name, row in result["loops"].items():
        of_own = f", {row['of_own']['median']:.2f} of accrue's own" if "of_own" in row else ""
        print(f"  {name:24} {row['per_second']['median']:9.1f} {result['unit']}/s   {row['of_plain']['median']:.2f} "
              f"({row['of_plain']['min']:.2f} to {row['of_plain']['max']:.2f}) of plain{of_own}   "
              f"{gib(row['peak_resident_bytes'])}")
    overhead = result["accumulator_overhead"]
    low, high = overhead["quartiles"]
    print(f"  an Accumulator alone: {100 * overhead['median']:+.2f}% (quartiles {100 * low:+.2f}% to {100 * high:+.2f}%) a "
          f"step, of {overhead['pairs']} pairs in turn", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", choices=JOBS, default=list(JOBS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=pathlib.Path, help="file of the results (bench/results/foreign_layers.json)")
    options = parser.parse_args()
    rounds = 1 if options.quick else options.rounds
    results = {}
    with tempfile.TemporaryDirectory() as name:
        for job in options.only:
            sizes = (QUICK_JOBS if options.quick else JOBS)[job]
            results[job] = measure(job, sizes, pathlib.Path(name), rounds)
            show(job, results[job])
            save("foreign_layers.json", {job: results[job]}, options.out, options.quick)


if __name__ == "__main__":
    main()
