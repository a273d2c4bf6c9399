#!/usr/bin/env python3
"""Measures clipping of each sample's gradient in a user's own loop: accrue's, a pass for each sample, Opacus, and no privacy, in turn, in one run.

    bench/e2e/private.py [--only JOB...] [--rounds 3] [--out bench/results/private.json]
    bench/e2e/private.py --quick     tiny models: whether everything runs and agrees

In each round, each in a process of its own (bench/peers/private_loop.py). Processor times of one thread are compared with training without privacy round by round, memory
by the most that was resident. Loops that clip have to compute the same gradient. Opacus has no rule for tied parameters and for transformers'
Conv1D, so it is measured with Llama alone.
"""
import argparse
import json
import os
import pathlib
import statistics
import sys

from runs import BUILD, ROOT, gib, run, save, spread

PEERS = ROOT / "bench" / "peers"
OPACUS = ("opacus", "opacus_ghost")
JOBS = {
    "GPT-2 10.8 M": dict(model="gpt2", count=2),
    "Llama 10 M": dict(model="llama", count=2),
    "ViT 10 M": dict(model="vit", count=2),
}
TINY = dict(layers=2, heads=2, width=64, micro=4, count=1)
QUICK_JOBS = {
    "GPT-2 tiny": dict(model="gpt2", context=32, **TINY),
    "Llama tiny": dict(model="llama", context=32, **TINY),
    "ViT tiny": dict(model="vit", image=32, **TINY),
}
SAME_NORM = 1e-3  # relative; Opacus divides by the norm + 1e-6


def measured(loop: str, job: dict) -> tuple[dict, int]:
    """What the loop's process prints, and the most that it was resident with."""
    environment = os.environ | {"PYTHONPATH": str(BUILD / "python"), "PYTHONWARNINGS": "ignore", "TRANSFORMERS_VERBOSITY": "error"}
    flags = [f"--{key}={value}" for key, value in job.items() if key != "model"]
    out, resident = run([sys.executable, str(PEERS / "private_loop.py"), job["model"], loop, *flags], environment)
    return json.loads(out.splitlines()[-1]), resident


def expect_same_norms(name: str, norms: dict[str, list[float]]) -> None:
    expected = norms["one"][0]
    for loop, (first, *_) in norms.items():
        if (abs(first - expected) <= SAME_NORM * expected) == (loop == "plain"):
            sys.exit(f"error: {name}: the gradient of {loop} has the norm {first}, that of a pass for each sample {expected}")


def measure(name: str, job: dict, rounds: int) -> dict:
    loops = ("plain", "clipped", "one", *(OPACUS if job["model"] == "llama" else ()))
    seconds: dict[str, list[float]] = {loop: [] for loop in loops}
    residents: dict[str, list[int]] = {loop: [] for loop in loops}
    norms: dict[str, list[float]] = {}
    for _ in range(rounds):
        for loop in loops:
            result, resident = measured(loop, job)
            seconds[loop].append(1 / statistics.median(result["per_second"]))
            residents[loop].append(resident)
            norms[loop] = result["norms"]
    expect_same_norms(name, norms)
    return {"rounds": rounds, "unit": "images" if job["model"] == "vit" else "tokens", "loops": {
        loop: {"per_second": spread([1 / each for each in seconds[loop]]),
               "time_of_plain": spread([a / b for a, b in zip(seconds[loop], seconds["plain"])]),
               "peak_resident_bytes": spread(residents[loop]),
               "memory_of_plain": spread([a / b for a, b in zip(residents[loop], residents["plain"])])} for loop in loops}}


def show(name: str, result: dict) -> None:
    print(name)
    for loop, row in result["loops"].items():
        time, memory = row["time_of_plain"], row["memory_of_plain"]
        print(f"  {loop:13} {row['per_second']['median']:9.1f} {result['unit']}/s   {time['median']:.2f} ({time['min']:.2f} to {time['max']:.2f}) of the time, "
              f"{memory['median']:.2f} ({memory['min']:.2f} to {memory['max']:.2f}) of the memory   {gib(row['peak_resident_bytes']['median'])}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", choices=[*JOBS], default=[*JOBS])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=pathlib.Path, help="file of the results (bench/results/private.json)")
    options = parser.parse_args()
    jobs = QUICK_JOBS if options.quick else {name: JOBS[name] for name in options.only}
    for name, job in jobs.items():
        result = measure(name, job, 1 if options.quick else options.rounds)
        show(name, result)
        save("private.json", {name: result}, options.out, options.quick)


if __name__ == "__main__":
    main()
