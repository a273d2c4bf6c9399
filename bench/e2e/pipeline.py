#!/usr/bin/env python3
"""Measures two ranks as the stages of a pipeline, by the number of micro-batches, beside two that share the batch.

    bench/e2e/pipeline.py [--rounds 3] [--steps 6] [--quick] [--out bench/results/pipeline.json]

One core a rank. In turn, in one run, for each number of micro-batches: dist.stages = 2, dist.stages = 1 with two ranks,
and one process on one core. Told are the seconds of a step, the part of the time that the stages waited for each other
beside (stages - 1) / (micro-batches + stages - 1), and the peak of rank 0 by the meter.
"""
import argparse
import pathlib
import tempfile

import ranks
from runs import flags, gpt2, save, spread, steps_of

CORES = [0, 1]
LAYOUTS = {  # the ranks' cores, and what they are told
    "two stages": (CORES, flags("dist", stages=2)), "two ranks": (CORES, flags("dist", shares="equal")),
    "one process": (CORES[:1], [])}


def train(folder: pathlib.Path, model: list[str], name: str, layout: str, steps: int) -> list[dict]:
    """The steps' lines, without the first, which is slow in its own way."""
    cores, told = LAYOUTS[layout]
    ranks.train(folder, name, [*model, *flags("run", steps=steps, threads=1), *told], cores)
    return steps_of(folder / name)[1:]


def summarise(steps: list[dict]) -> dict:
    row = {key: spread([step[key] for step in steps])
           for key in ("seconds", "peak_bytes", "wire_bytes", "pipeline_bubble") if key in steps[0]}
    return row | {key: steps[0][key] for key in ("loss", "pipeline_bubble_formula") if key in steps[0]}


def show(count: int, rows: dict) -> None:
    bubble = rows["two stages"]["pipeline_bubble"]
    cells = [f"{rows[layout]['seconds']['median']:.2f} ({rows[layout]['seconds']['min']:.2f} to "
             f"{rows[layout]['seconds']['max']:.2f})" for layout in LAYOUTS]
    peaks = " / ".join(f"{rows[layout]['peak_bytes']['median'] / 1e6:.0f}" for layout in LAYOUTS)
    print(f"| {count} | {' | '.join(cells)} | {100 * bubble['median']:.0f} ({100 * bubble['min']:.0f} to "
          f"{100 * bubble['max']:.0f}) | {100 * rows['two stages']['pipeline_bubble_formula']:.0f} | {peaks} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--quick", action="store_true", help="a tiny model, one round")
    parser.add_argument("--out", type=pathlib.Path, help="bench/results/pipeline.json")
    options = parser.parse_args()
    size, samples = ("tiny", 4) if options.quick else ("10.8M", 4)
    counts, rounds = ([2, 4], 1) if options.quick else ([1, 2, 4, 8, 16], options.rounds)
    print(f"| micro-batches | {', s a step | '.join(LAYOUTS)}, s a step | bubble, % | formula, % | peak, MB |\n"
          "|---|---|---|---|---|---|---|", flush=True)
    results = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for count in counts:
            model = [*gpt2(folder, size, count * samples), f"--batch.micro={samples}"]
            steps = {layout: [] for layout in LAYOUTS}
            for turn in range(rounds):
                for layout, found in steps.items():
                    found += train(folder, model, f"{layout}-{count}-{turn}", layout, options.steps)
            results[count] = {layout: summarise(found) for layout, found in steps.items()}
            show(count, results[count])
    save("pipeline.json", {"model": size, "rounds": rounds, "samples_per_micro_batch": samples,
                           "by_micro_batches": results}, options.out, options.quick)


if __name__ == "__main__":
    main()
