#!/usr/bin/env python3
"""The CPU's training by operators of ATen alone (run.kernels = "generic", what a GPU has) beside accrue's own kernels, in turn.

    bench/e2e/generic.py [--rounds 3] [--out bench/results/generic.json]
    bench/e2e/generic.py --quick        a tiny model: whether everything runs, in half a minute

Each round is `accrue bench` of the same model and batch with either, in a process of its own; the ratio is taken round by round. Only the standard
library.
"""
import argparse
import pathlib
import tempfile

from runs import accrue_json, save, spread
from speed import MODELS, QUICK_MODELS, overrides

KERNELS = ("native", "generic")


def compare(name: str, model: dict, folder: pathlib.Path, rounds: int) -> dict:
    speeds: dict[str, list[float]] = {kernels: [] for kernels in KERNELS}
    for _ in range(rounds):
        for kernels in KERNELS:
            found = accrue_json("bench", folder, ["--rounds=2", f"--run.kernels={kernels}", "--run.device=cpu", *overrides(model, folder)])
            speeds[kernels].append(found["tokens_per_second"]["median"])
    ratio = spread([generic / native for native, generic in zip(speeds["native"], speeds["generic"])])
    print(f"{name:12} native {spread(speeds['native'])['median']:8.0f} tokens/s   generic {spread(speeds['generic'])['median']:8.0f}   "
          f"ratio {ratio['median']:.2f} ({ratio['min']:.2f} to {ratio['max']:.2f})", flush=True)
    return {"rounds": rounds, **{f"{kernels}_tokens_per_second": spread(each) for kernels, each in speeds.items()}, "ratio": ratio}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    models, rounds = (QUICK_MODELS, 1) if options.quick else (MODELS, options.rounds)
    with tempfile.TemporaryDirectory() as folder:
        for name, model in models.items():
            # A few micro-batches are enough: the ratio is of forward and backward.
            row = compare(name, dict(model, count=min(model["count"], 4)), pathlib.Path(folder), rounds)
            save("generic.json", {name: row}, options.out, options.quick)


if __name__ == "__main__":
    main()
