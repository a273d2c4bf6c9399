#!/usr/bin/env python3
"""What a run does while its ranks are killed and come back, beside the same run that nobody disturbs.

    bench/e2e/changing_ranks.py [--seconds 180] [--every 60 15] [--quick] [--out bench/results/changing_ranks.json]

Four ranks train with micro-batches that take 20 ms, most of which they wait, so that they do not take each other's core.
Every so many seconds one of them, any, is killed (SIGKILL) and started again at once; their store is hosted elsewhere, as
a launcher's agent hosts it. Goodput is steps for each second that a rank lived, from the start of its process to its end,
as a share of the undisturbed run's. That the parameters are the same is tested (tests/integration/ranks). Needs a build
with tests. Only the standard library.
"""
import argparse
import pathlib
import random
import sys
import tempfile
import time

import ranks
from runs import BUILD, ROOT, save

sys.path.append(str(ROOT / "tests" / "faults"))

from lasting import LastingRun  # noqa: E402

WORLD = 4
MICRO_BATCH_MS = 20
MICRO_BATCHES = 64
PROGRAMS = BUILD / "tests" / "integration" / "ranks"
CONFIG = """
run = {{out = "{out}", steps = 1000000, threads = 1, checkpoint_every = "1 h"}}
model = {{layers = 1, heads = 1, width = 16, context = 16}}
data = {{train = ["{text}"]}}
batch = {{tokens = {tokens}, micro = 1}}
precision = {{accumulate = "fixed"}}
observe = {{progress = "off", tensorboard = false}}
"""


def start(folder: pathlib.Path, name: str) -> LastingRun:
    out, config = folder / name, folder / f"{name}.toml"
    config.write_text(CONFIG.format(out=out, text=folder / "text.txt", tokens=MICRO_BATCHES * 16))
    return LastingRun(PROGRAMS / "store_host", [str(PROGRAMS / "slow_rank"), str(config), str(MICRO_BATCH_MS)], out, folder, WORLD,
                      ranks.free_port())


def measure(folder: pathlib.Path, name: str, seconds: float, every: float | None) -> dict:
    """Steps for each second of a rank, from when all of them train."""
    run = start(folder, name)
    try:
        while run.steps() < 3:
            time.sleep(0.1)
        steps, lived, begin, kills = run.steps(), run.rank_seconds(), time.monotonic(), 0
        draw = random.Random(7)
        while time.monotonic() < begin + seconds:
            time.sleep(min(every or seconds, begin + seconds - time.monotonic()))
            if every and time.monotonic() < begin + seconds - every / 2:
                victim = draw.randrange(WORLD)
                kills += run.kill(victim)
                run.start_again(victim)
        return {"kills": kills, "seconds": time.monotonic() - begin, "steps": run.steps() - steps,
                "steps_per_rank_second": (run.steps() - steps) / (run.rank_seconds() - lived)}
    finally:
        run.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=180, help="of each run")
    parser.add_argument("--every", type=float, nargs="+", default=[60, 15], help="seconds between kills")
    parser.add_argument("--quick", action="store_true", help="half a minute, a kill every 10 s")
    parser.add_argument("--out", type=pathlib.Path, help="bench/results/changing_ranks.json")
    options = parser.parse_args()
    seconds, intervals = (30, [10]) if options.quick else (options.seconds, options.every)
    results = {"ranks": WORLD, "micro_batch_ms": MICRO_BATCH_MS, "micro_batches": MICRO_BATCHES, "runs": []}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "text.txt").write_text("".join(f"line {i * 7919 % 1000} of a small text\n" for i in range(300)))
        undisturbed = measure(folder, "undisturbed", seconds, None)
        results["undisturbed"] = undisturbed
        print(f"undisturbed        {undisturbed['steps']} steps in {seconds:.0f} s", flush=True)
        for every in intervals:
            found = measure(folder, f"every{every:.0f}", seconds, every)
            found["every_seconds"] = every
            found["goodput"] = found["steps_per_rank_second"] / undisturbed["steps_per_rank_second"]
            results["runs"].append(found)
            print(f"a kill every {every:3.0f} s  {found['steps']} steps, {found['kills']} kills, goodput of a living rank "
                  f"{found['goodput']:.3f}", flush=True)
    save("changing_ranks.json", results, options.out, options.quick)


if __name__ == "__main__":
    main()
