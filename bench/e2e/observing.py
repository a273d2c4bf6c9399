#!/usr/bin/env python3
"""What looking at a run costs: the demo's training with everything that observes it, and with nothing of it, in turn.

    bench/e2e/observing.py [--rounds 8] [--steps 12] [--quick] [--out bench/results/observing.json]

Both sides take the same steps; each round begins with the other one. Compared are the medians of a step's seconds, from the
end of the step before to its own end, so that what happens between steps counts. Only the standard library.
"""
import argparse
import pathlib
import sysconfig
import tempfile

from runs import BUILD, ROOT, median, run, save, spread, steps_of

WATCHED = ["--observe.progress=lines"]
# Metrics stay on, since they tell the times: a line of a kilobyte and one write a step are in both sides.
UNWATCHED = ["--observe.progress=off", "--observe.tensorboard=false"]
SIDES = {"watched": WATCHED, "unwatched": UNWATCHED}
WARM_UP_STEPS = 2


def step_seconds(out: pathlib.Path) -> list[float]:
    ends = [step["elapsed"] for step in steps_of(out)][WARM_UP_STEPS - 1:]
    return [end - begin for begin, end in zip(ends, ends[1:])]


def train(folder: pathlib.Path, name: str, side: str, steps: int) -> float:
    out, library = folder / name, sysconfig.get_paths()["stdlib"]
    run([str(BUILD / "accrue"), "train", str(ROOT / "examples" / "base" / "python.toml"),
         f'--data.train=["{library}/[_a-s]*.py"]', f'--data.val=["{library}/[t-z]*.py"]', "--precision.compute=fp32",
         "--run.eval_every=1000000 steps", "--run.eval_batches=1", "--run.checkpoint_every=1000000 steps", f"--run.steps={steps}", f"--run.out={out}", *SIDES[side]])
    return median(step_seconds(out))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, help="8, with --quick 1")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    rounds = options.rounds or (1 if options.quick else 8)
    found = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as name:
        for turn in range(rounds):
            for side in sorted(SIDES, reverse=turn % 2 == 1):
                found[side].append(train(pathlib.Path(name), f"{side}-{turn}", side, options.steps))
    ratios = [a / b for a, b in zip(found["watched"], found["unwatched"])]
    result = {"rounds": rounds, "seconds_per_step": {side: spread(values) for side, values in found.items()},
              "ratio": spread(ratios)}
    print(f"a step watched / unwatched: {result['ratio']['median']:.4f} "
          f"({result['ratio']['min']:.4f} to {result['ratio']['max']:.4f}), rounds: {rounds}")
    save("observing.json", {"demo": result}, options.out, options.quick)


if __name__ == "__main__":
    main()
