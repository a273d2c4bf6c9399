#!/usr/bin/env python3
"""What it costs to measure the noise of gradients, as a part of a step: the norms that a window takes besides, and a micro-batch of a GPT-2 of
10.8 M parameters, 4 x 256 tokens, in turn in one process (accumulation_bench).

    bench/e2e/noise.py [--rounds 9] [--out bench/results/noise.json]
    bench/e2e/noise.py --quick     one round: whether everything runs
"""
import argparse
import json
import pathlib

from runs import BUILD, percent, run, save, spread, table

NORMS = {"euclidean": "metrics, and adapt.geometry = \"euclidean\"", "optimizer": "and in Adam's metric", "sign": "and the sum of absolute values"}
MICRO_BATCHES = (2, 8, 32)


def measure(rounds: int) -> dict[str, list[float]]:
    """Milliseconds by name, one for each round."""
    out, _ = run([str(BUILD / "bench" / "micro" / "accumulation_bench"), "--benchmark_filter=micro_batch|noise", "--benchmark_format=json",
                  "--benchmark_enable_random_interleaving=true", f"--benchmark_repetitions={rounds}"])
    found: dict[str, list[float]] = {}
    for line in json.loads(out)["benchmarks"]:
        if line["run_type"] == "iteration":
            found.setdefault(line["run_name"].removesuffix("/real_time"), []).append(line["real_time"])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    times = measure(1 if options.quick else options.rounds)
    shares = {norm: {str(count): spread([own / (count * micro) for own, micro in zip(times[f"noise/{norm}"], times["micro_batch"])])
                     for count in MICRO_BATCHES} for norm in NORMS}
    rows = [[NORMS[norm], f"{spread(times[f'noise/{norm}'])['median']:.1f} ms",
             *(f"{percent(shares[norm][str(count)]['median'])} ({percent(shares[norm][str(count)]['min'])} to {percent(shares[norm][str(count)]['max'])})"
               for count in MICRO_BATCHES)] for norm in NORMS]
    print(f"a micro-batch: {spread(times['micro_batch'])['median']:.0f} ms")
    print(table(["norms", "a window", *(f"of {count} micro-batches" for count in MICRO_BATCHES)], rows))
    save("noise.json", {"GPT-2 10.8 M": {"milliseconds": {name: spread(each) for name, each in times.items()}, "share": shares}}, options.out,
         options.quick)


if __name__ == "__main__":
    main()
