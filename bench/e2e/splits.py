#!/usr/bin/env python3
"""What splitting one batch costs in time and saves in memory: `accrue bench --sweep-micro` of a GPT-2 of 10.8 M parameters, 32 x 256 tokens.

    bench/e2e/splits.py [--rounds 5] [--out bench/results/splits.json]
    bench/e2e/splits.py --quick         a tiny model: whether everything runs, in half a minute

All splits are taken in turn, round by round, by one process. Only the standard library.
"""
import argparse
import pathlib
import tempfile

from runs import accrue_json, gib, percent, save
from speed import MODELS, QUICK_MODELS, overrides


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    model = dict(QUICK_MODELS["tiny fp32"], count=2) if options.quick else dict(MODELS["10.8M fp32"], micro=32, count=1)
    with tempfile.TemporaryDirectory() as folder:
        found = accrue_json("bench", pathlib.Path(folder), ["--sweep-micro", f"--rounds={1 if options.quick else options.rounds}",
                                                             *overrides(model, pathlib.Path(folder))])
    for size in found["sizes"]:
        print(f"{size['micro_batches']:3} of {size['micro_batch']:3}: {size['seconds']['median']:.3f} s ({percent(size['relative_seconds'] - 1)}), "
              f"{gib(size['peak_bytes'])} ({percent(size['relative_peak_bytes'] - 1)})")
    save("splits.json", {"GPT-2 10.8 M": {"rounds": options.rounds, "sizes": found["sizes"]}}, options.out, options.quick)


if __name__ == "__main__":
    main()
