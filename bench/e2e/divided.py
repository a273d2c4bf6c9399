#!/usr/bin/env python3
"""What a divided optimizer state saves and costs: peaks, bytes sent and seconds of a step of a GPT-2 of 25.4 M with AdamW.

    bench/e2e/divided.py [--rounds 3] [--steps 4] [--quick] [--out bench/results/divided.json]

In turn: two ranks with all of the state each, and with dist.shard = "optimizer" two ranks and four. All are processes of
this machine; four share two cores, so that of them only memory and bytes say something. Only the standard library.
"""
import argparse
import pathlib
import tempfile

import ranks
from runs import GPT2, flags, python_sources, save, spread, steps_of, table

MODEL = dict(layers=8, heads=8, width=512, context=128)
SAMPLES = 8
LAYOUTS = {"two ranks, whole state": ("none", 2), "two ranks, divided": ("optimizer", 2),
           "four ranks, divided": ("optimizer", 4)}
TOLD = ("peak_bytes", "wire_bytes", "optimizer_seconds", "seconds")
CORES = 2


def train(folder: pathlib.Path, name: str, layout: str, model: dict, steps: int) -> list[dict]:
    """The steps' lines, without the first."""
    shard, world = LAYOUTS[layout]
    arguments = [*flags("run", steps=steps, threads=1), *flags("model", kind="gpt2", **model),
                 f"--data.train={python_sources()}", *flags("batch", tokens=SAMPLES * model["context"], micro=1),
                 *flags("optim", kind="adamw"), *flags("dist", shard=shard, shares="equal")]
    ranks.train(folder, name, arguments, [rank % CORES for rank in range(world)])
    return steps_of(folder / name)[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--quick", action="store_true", help="a tiny model, one round")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    model, rounds = (GPT2["tiny"], 1) if options.quick else (MODEL, options.rounds)
    found = {layout: [] for layout in LAYOUTS}
    with tempfile.TemporaryDirectory() as name:
        for turn in range(rounds):
            for number, (layout, steps) in enumerate(found.items()):
                steps += train(pathlib.Path(name), f"{number}-{turn}", layout, model, options.steps)
    results = {layout: {"rounds": rounds, **{key: spread([step[key] for step in steps]) for key in TOLD}}
               for layout, steps in found.items()}
    print(table(["", "peak of rank 0, MB", "MB sent a step", "s in the optimizer", "s a step"],
                [[layout, f"{row['peak_bytes']['max'] / 1e6:.1f}", f"{row['wire_bytes']['median'] / 1e6:.1f}",
                  f"{row['optimizer_seconds']['median']:.3f}", f"{row['seconds']['median']:.3f}"]
                 for layout, row in results.items()]))
    save("divided.json", {"model": model, **results}, options.out, options.quick)


if __name__ == "__main__":
    main()
