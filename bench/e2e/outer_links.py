#!/usr/bin/env python3
"""What a slow link leaves of the time of two ranks that step alone between outer steps, with parts, delay and compression.

    bench/e2e/outer_links.py [--rounds N] [--out FOLDER]    # about 15 minutes
    bench/e2e/outer_links.py --report                       # no run: the table of what is stored
    bench/e2e/outer_links.py --quick                        # a tiny model: whether everything runs

The ranks are processes in two network namespaces of this machine, joined by a shaped cable (netns.py), each on a core
of its own, which the thread that exchanges parts shares with the training. Every repetition runs all variants,
beginning with another one. The floor is the median step of rounds over the fastest cable, of the repetition
where that is least: what a step takes in which nothing is exchanged. Where the kernel has no namespaces or cannot shape
them, it says so and ends with 0. See docs/notes/local_steps.md.
"""
import argparse
import pathlib
import sys
import tempfile

import curves
import netns
from links import probe
from peers import rotated
from results import RESULTS, ResultFile
from runs import GPT2, QUICK, flags, median, spread, steps_of, table, train_command

FILE = "outer_links.json"
LINKS = {"10 Gbit/s": netns.Shape(rate_mbit=10_000), "100 Mbit/s": netns.Shape(rate_mbit=100, delay_ms=1),
         "20 Mbit/s": netns.Shape(rate_mbit=20, delay_ms=10)}
FAST = "10 Gbit/s"
LENGTH = 16  # local steps of a round
STEPS = 5  # of a run that reduces each of them
RUN_SECONDS = 900  # that one run may take

ROUND = flags("dist", local_steps=LENGTH)
PARTS = flags("dist", **{"outer.parts": 4, "outer.delay": 4})
INT8 = flags("dist", compress="int8")
VARIANTS = {
    "one reduction a step": [],
    "rounds": ROUND,
    "rounds, int8": [*ROUND, *INT8],
    "rounds, 4 parts, delay 4": [*ROUND, *PARTS],
    "rounds, 4 parts, delay 4, int8": [*ROUND, *PARTS, *INT8],
}

# Samples are those of a step over both ranks.
JOB = dict(model=dict(layers=4, heads=4, width=256, context=128), samples=8, micro=4, steps=3 * LENGTH)
QUICK_JOB = dict(model=GPT2["tiny"], samples=8, micro=4, steps=2 * LENGTH)


def seconds_of(variant: str, cable: netns.Cable, job: dict) -> dict:
    """Of a step, after the first round, or the first step where each one is reduced. Most steps of a round that is
    exchanged as one exchange nothing."""
    first = LENGTH if VARIANTS[variant] else 1
    steps = job["steps"] if VARIANTS[variant] else STEPS
    job = job | {"steps": steps, "eval_every": steps, "eval_batches": 1}
    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(scratch) / "run"
        command = train_command(out.parent, "run", [*curves.arguments(job, seed=1), *VARIANTS[variant]])
        netns.run_ranks(cable, lambda rank: command, RUN_SECONDS)
        ends = [step["time"] for step in steps_of(out)[first - 1:]]
        return {"mean": (ends[-1] - ends[0]) / (len(ends) - 1), "median": median([b - a for a, b in zip(ends, ends[1:])])}


def measure(repetitions: int, job: dict, links: list[str]) -> dict:
    """Raises netns.Unavailable."""
    outcomes = {link: {variant: [] for variant in VARIANTS} for link in links}
    probes = {}
    for number in range(repetitions):
        for link in links:
            with netns.cable(LINKS[link]) as cable:
                if link != FAST:
                    probes[link] = probe(cable)
                for variant in rotated(list(VARIANTS), number):
                    print(f"{link}: {variant}", file=sys.stderr, flush=True)
                    outcomes[link][variant].append(seconds_of(variant, cable, job))
    floor = min(run["median"] for run in outcomes[FAST]["rounds"])
    return {link: {"length": LENGTH, "probe": probes.get(link), "floor_seconds": floor,
                   "variants": {variant: {"seconds": spread([run["mean"] for run in runs])}
                                for variant, runs in of.items()}} for link, of in outcomes.items()}


def table_of(file: ResultFile) -> str:
    rows = []
    for link, result in file.parts.items():
        for variant, row in result["variants"].items():
            seconds = row["seconds"]
            rows.append([link, variant, f"{seconds['median']:.2f} ({seconds['min']:.2f} to {seconds['max']:.2f})",
                         f"{result['floor_seconds'] / seconds['median']:.2f}"])
    return table(["link", "", "seconds a step, median (min to max)", "of the time trained"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2, help="repetitions of everything")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, help=f"folder of {FILE}")
    options = parser.parse_args()
    file = ResultFile((options.out or (QUICK if options.quick else RESULTS)) / FILE)
    if not options.report:
        links = [FAST, "100 Mbit/s"] if options.quick else list(LINKS)
        try:
            file.add(measure(1 if options.quick else options.rounds, QUICK_JOB if options.quick else JOB, links))
        except netns.Unavailable as reason:
            return print(f"skipped: {reason}")
        except netns.RankFailed as failed:
            sys.exit(f"error: {failed}")
        file.write()
    print(table_of(file))


if __name__ == "__main__":
    main()
