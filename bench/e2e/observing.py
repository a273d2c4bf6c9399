#!/usr/bin/env python3
"""What looking at a run costs: training with everything that observes it, and with nothing of it.

    bench/e2e/observing.py [--rounds 8] [--steps 12]     the demo's training, in turn, by the clock
    bench/e2e/observing.py --instructions                a tiny model's, by instructions (needs valgrind), in 5 minutes

By the clock each round begins with the other side; compared are the medians of a step's seconds, from the end of the step
before to its own end, so that what happens between steps counts. Metrics stay on in both sides, since they tell the times.
By instructions nothing is on in the other side, and of runs of two lengths the difference is taken, so that neither starting nor
ending a run counts. Only the standard library.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import sysconfig
import tempfile

from runs import BUILD, ROOT, median, run, save, spread, steps_of

WATCHED = ["--observe.progress=lines"]
UNWATCHED = ["--observe.progress=off", "--observe.tensorboard=false"]
SIDES = {"watched": WATCHED, "unwatched": UNWATCHED}
WARM_UP_STEPS = 2

SHORT, LONG = 20, 120  # steps
TINY = ["--model.layers=1", "--model.heads=2", "--model.width=32", "--model.context=16", "--batch.samples=16", "--batch.micro=4",
        "--memory.budget=none", "--run.threads=1", "--run.checkpoint_every=1000000 steps"]


def step_seconds(out: pathlib.Path) -> list[float]:
    ends = [step["elapsed"] for step in steps_of(out)][WARM_UP_STEPS - 1:]
    return [end - begin for begin, end in zip(ends, ends[1:])]


def train(folder: pathlib.Path, name: str, side: str, steps: int) -> float:
    out, library = folder / name, sysconfig.get_paths()["stdlib"]
    run([str(BUILD / "accrue"), "train", str(ROOT / "examples" / "base" / "python.toml"),
         f'--data.train=["{library}/[_a-s]*.py"]', f'--data.val=["{library}/[t-z]*.py"]', "--precision.compute=fp32",
         "--run.eval_every=1000000 steps", "--run.eval_batches=1", "--run.checkpoint_every=1000000 steps",
         f"--run.steps={steps}", f"--run.out={out}", *SIDES[side]])
    return median(step_seconds(out))


def by_the_clock(folder: pathlib.Path, rounds: int, steps: int) -> dict:
    found = {side: [] for side in SIDES}
    for turn in range(rounds):
        for side in sorted(SIDES, reverse=turn % 2 == 1):
            found[side].append(train(folder, f"{side}-{turn}", side, steps))
    ratio = spread([a / b for a, b in zip(found["watched"], found["unwatched"])])
    print(f"a step watched / unwatched: {ratio['median']:.4f} ({ratio['min']:.4f} to {ratio['max']:.4f}), rounds: {rounds}")
    return {"rounds": rounds, "seconds_per_step": {side: spread(values) for side, values in found.items()}, "ratio": ratio}


def instructions_of(folder: pathlib.Path, side: str, steps: int) -> int:
    """Of a whole run, as callgrind counts them."""
    nothing = ["--observe.jsonl=false"] if side == "unwatched" else []
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", str(BUILD / "accrue"), "train", "tiny.toml", *TINY,
               f"--run.steps={steps}", f"--run.out={side}-{steps}", *SIDES[side], *nothing]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "OMP_WAIT_POLICY": "passive"})
    collected = re.search(r"Collected : (\d+)", ended.stderr)
    if ended.returncode or not collected:
        sys.exit(f"error: {' '.join(command)}: expected a count of instructions, received exit status {ended.returncode}: {ended.stderr[-500:]}")
    return int(collected[1])


def by_instructions(folder: pathlib.Path) -> dict:
    (folder / "text.txt").write_text("".join(f"line {i * 7919 % 1000} of a small text\n" for i in range(2000)))
    (folder / "tiny.toml").write_text('[run]\nsteps = 1\n[data]\ntrain = ["text.txt"]\n')
    counts = {side: {steps: instructions_of(folder, side, steps) for steps in (SHORT, LONG)} for side in SIDES}
    per_step = {side: (count[LONG] - count[SHORT]) / (LONG - SHORT) for side, count in counts.items()}
    observed = per_step["watched"] - per_step["unwatched"]
    print(f"instructions of observers a step: {observed:,.0f} beside {per_step['unwatched']:,.0f} of a tiny model's training")
    return {"per_step": per_step, "of_observers_per_step": observed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, help="8, with --quick 1")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if options.instructions:
            part = {"instructions": by_instructions(folder)}
        else:
            part = {"demo": by_the_clock(folder, options.rounds or (1 if options.quick else 8), options.steps)}
    save("observing.json", part, options.out, options.quick)


if __name__ == "__main__":
    main()
