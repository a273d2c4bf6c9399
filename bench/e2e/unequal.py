#!/usr/bin/env python3
"""Measures windows of two ranks of which one is about three times as slow: leased by speed, and shared equally.

    bench/e2e/unequal.py [--rounds 3] [--steps 10] [--quick] [--out bench/results/unequal.json]

Rank 0 has a core of its own. Rank 1 has another one, which it shares with two loops that do nothing: the scheduler
gives each of the three a third. In turn, in one run: dist.shares = "speed" and "equal". The ideal is what the speeds,
as the ranks measured them, would take together if work could be divided at will, without a reduction or a step.
Only the standard library.
"""
import argparse
import contextlib
import json
import pathlib
import statistics
import sys
import tempfile

import ranks
from runs import flags, gpt2, lines_of, save, spread

MICRO_BATCHES = 64
SAMPLES_PER_MICRO_BATCH = 2
FAST_CORE, SLOW_CORE = 0, 1


@contextlib.contextmanager
def busy(core: int, loops: int):
    processes = [ranks.on_core(core, [sys.executable, "-c", "while True: pass"]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def train(folder: pathlib.Path, size: str, name: str, shares: str, steps: int) -> pathlib.Path:
    """The run's folder."""
    arguments = [*gpt2(folder, size, MICRO_BATCHES * SAMPLES_PER_MICRO_BATCH),
                 *flags("run", steps=steps, threads=1, checkpoint_every=f"{steps} steps"),
                 f"--batch.micro={SAMPLES_PER_MICRO_BATCH}", f"--dist.shares={shares}"]
    with busy(SLOW_CORE, 2):
        ranks.train(folder, name, arguments, [FAST_CORE, SLOW_CORE])
    return folder / name


def read(out: pathlib.Path) -> dict:
    """Seconds of windows since the last change of leases, or the first, and what the ranks measured."""
    lines = lines_of(out)
    leases = [line for line in lines if line.get("event") == "leases"]
    first = leases[-1]["step"] if leases else 2
    of_ranks = json.loads((ranks.checkpoint_of(out) / "state.json").read_text())["ranks"]
    return {"seconds": [line["seconds"] for line in lines if "lr" in line and line["step"] >= first],
            "division": leases[-1]["reason"] if leases else "equal",
            "seconds_per_sample": [statistics.median(rank["seconds_per_sample"]) for rank in of_ranks]}


def ideal_seconds(run: dict) -> float:
    return MICRO_BATCHES * SAMPLES_PER_MICRO_BATCH / sum(1 / seconds for seconds in run["seconds_per_sample"])


def summarise(runs: list[dict]) -> dict:
    ratios = [seconds / ideal_seconds(run) for run in runs for seconds in run["seconds"]]
    return {"window_seconds": spread([seconds for run in runs for seconds in run["seconds"]]),
            "windows": len(ratios), "ideal_seconds": spread([ideal_seconds(run) for run in runs]),
            "ratio_to_ideal": spread(ratios), "divisions": [run["division"] for run in runs],
            "seconds_per_sample": [run["seconds_per_sample"] for run in runs]}


def show(name: str, row: dict) -> None:
    seconds, ratio = row["window_seconds"], row["ratio_to_ideal"]
    print(f"{name:6} {row['windows']:3} windows  {seconds['median']:.2f} s ({seconds['min']:.2f} to {seconds['max']:.2f})"
          f"  ideal {row['ideal_seconds']['median']:.2f} s  ratio {ratio['median']:.2f} ({ratio['min']:.2f} to "
          f"{ratio['max']:.2f})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="a tiny model, one round")
    parser.add_argument("--out", type=pathlib.Path, help="bench/results/unequal.json")
    options = parser.parse_args()
    size, rounds = ("tiny", 1) if options.quick else ("1.8M", options.rounds)
    runs = {"speed": [], "equal": []}
    with tempfile.TemporaryDirectory() as name:
        for turn in range(rounds):
            for shares, found in runs.items():
                found.append(read(train(pathlib.Path(name), size, f"{shares}-{turn}", shares, options.steps)))
    results = {shares: summarise(found) for shares, found in runs.items()}
    for shares, row in results.items():
        show(shares, row)
        print("       " + "; ".join(sorted(set(row["divisions"]))))
    save("unequal.json", {"micro_batches": MICRO_BATCHES, "rounds": rounds, **results}, options.out, options.quick)


if __name__ == "__main__":
    main()
