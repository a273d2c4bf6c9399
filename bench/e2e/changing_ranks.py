#!/usr/bin/env python3
"""What a run does while its ranks are killed and come back, beside the same run that nobody disturbs.

    bench/e2e/changing_ranks.py [--seconds 180] [--every 60 15] [--reduce end] [--rounds 2] [--quick]
                                [--out bench/results/changing_ranks.json]

Four ranks train with micro-batches that take 20 ms, most of which they wait, so that they do not take each other's core.
Every so many seconds one of them, any, is killed (SIGKILL) and started again at once; their store is hosted elsewhere, as
a launcher's agent hosts it. Goodput is steps for each second that a rank lived, from the start of its process to its end,
as a share of the undisturbed run's of the same round. Sums are reduced at a window's end, as the guide advises where ranks
come and go. That the parameters are the same is tested (tests/integration/ranks). Needs a build with tests. Only the
standard library.
"""
import argparse
import pathlib
import random
import statistics
import sys
import tempfile
import time

from runs import BUILD, ROOT, save

sys.path.append(str(ROOT / "tests" / "faults"))

import tinyrun  # noqa: E402
from lasting import LastingRun, Place  # noqa: E402

WORLD = 4
MICRO_BATCH_MS = 20
MICRO_BATCHES = 64
TESTS = BUILD / "tests"
CONFIG = """
run = {{out = "{out}", steps = 1000000, threads = 1, checkpoint_every = "1 h"}}
model = {{layers = 1, heads = 1, width = 16, context = 16}}
data = {{train = ["{text}"]}}
batch = {{tokens = {tokens}, micro = 1}}
precision = {{accumulate = "fixed"}}
dist = {{reduce = "{reduce}"}}
observe = {{progress = "off", tensorboard = false}}
"""


def start(folder: pathlib.Path, name: str, reduce: str, port: int) -> LastingRun:
    out, config = folder / name, folder / f"{name}.toml"
    config.write_text(CONFIG.format(out=out, text=folder / "text.txt", tokens=MICRO_BATCHES * 16, reduce=reduce))
    slow = tinyrun.slow(TESTS / "faults" / "libfault_points.so", MICRO_BATCH_MS)
    return LastingRun(TESTS / "integration" / "ranks" / "store_host", [str(BUILD / "accrue"), "train", str(config)], out, folder, WORLD,
                      port, lambda rank: Place() if rank is None else Place(variables=slow))


def measure(folder: pathlib.Path, name: str, reduce: str, seconds: float, every: float | None) -> dict:
    """Steps for each second of a rank, from when all of them train. The first kill is half an interval after that."""
    port = tinyrun.ReservedPort()
    run = start(folder, name, reduce, port.number)
    try:
        while run.steps() < 3:
            time.sleep(0.1)
        steps, lived, begin, kills = run.steps(), run.rank_seconds(), time.monotonic(), 0
        draw = random.Random(7)
        for count in range(int(seconds / every) if every else 0):
            time.sleep(max(0, begin + (count + 0.5) * every - time.monotonic()))
            victim = draw.randrange(WORLD)
            kills += run.kill(victim)
            run.start_again(victim)
        time.sleep(max(0, begin + seconds - time.monotonic()))
        return {"kills": kills, "seconds": time.monotonic() - begin, "steps": run.steps() - steps,
                "steps_per_rank_second": (run.steps() - steps) / (run.rank_seconds() - lived)}
    finally:
        run.end()


def measure_round(folder: pathlib.Path, name: str, options: argparse.Namespace) -> dict:
    undisturbed = measure(folder, f"{name}-undisturbed", options.reduce, options.seconds, None)
    print(f"undisturbed        {undisturbed['steps']} steps in {options.seconds:.0f} s", flush=True)
    found = {"undisturbed": undisturbed, "runs": []}
    for every in options.every:
        run = measure(folder, f"{name}-every{every:.0f}", options.reduce, options.seconds, every)
        run["every_seconds"] = every
        run["goodput"] = run["steps_per_rank_second"] / undisturbed["steps_per_rank_second"]
        found["runs"].append(run)
        print(f"a kill every {every:3.0f} s  {run['steps']} steps, {run['kills']} kills, goodput of a living rank "
              f"{run['goodput']:.3f}", flush=True)
    return found


def summary(rounds: list[dict]) -> list[dict]:
    """For each interval the median of the rounds' goodput, and its spread."""
    found = []
    for same in zip(*(one["runs"] for one in rounds)):
        goodputs = [run["goodput"] for run in same]
        found.append({"every_seconds": same[0]["every_seconds"], "kills": sum(run["kills"] for run in same),
                      "goodput": statistics.median(goodputs), "least": min(goodputs), "most": max(goodputs)})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=180, help="of each run")
    parser.add_argument("--every", type=float, nargs="+", default=[60, 15], help="seconds between kills")
    parser.add_argument("--reduce", choices=["end", "overlap"], default="end", help="dist.reduce")
    parser.add_argument("--rounds", type=int, default=2, help="of all runs in turn")
    parser.add_argument("--quick", action="store_true", help="half a minute, a kill every 10 s, one round")
    parser.add_argument("--out", type=pathlib.Path, help="bench/results/changing_ranks.json")
    options = parser.parse_args()
    if options.quick:
        options.seconds, options.every, options.rounds = 30, [10], 1
    results = {"ranks": WORLD, "micro_batch_ms": MICRO_BATCH_MS, "micro_batches": MICRO_BATCHES, "reduce": options.reduce, "rounds": []}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "text.txt").write_text("".join(f"line {i * 7919 % 1000} of a small text\n" for i in range(300)))
        for count in range(options.rounds):
            results["rounds"].append(measure_round(folder, f"round{count}", options))
    results["goodput"] = summary(results["rounds"])
    for row in results["goodput"]:
        print(f"a kill every {row['every_seconds']:3.0f} s  goodput {row['goodput']:.3f} ({row['least']:.3f} to {row['most']:.3f})")
    save("changing_ranks.json", results, options.out, options.quick)


if __name__ == "__main__":
    main()
