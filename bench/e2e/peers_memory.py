#!/usr/bin/env python3
"""What a user gets of each system on one memory limit: its fastest micro-batch that stays within it, the same batch a step.

    bench/e2e/peers_memory.py [--only JOB] [--systems NAME,NAME] [--rounds 3] [--steps 2] [--threads N] [--out FOLDER]
    bench/e2e/peers_memory.py --quick   a tiny model: whether everything runs and agrees, in some minutes

Each system, with each of its tunings, trains in micro-batches of 1, 2, 4, ... samples until its process has once been
resident with more than the limit, as the operating system counts; accrue is told the limit as memory.budget. Then the
fastest of each system that stayed within the limit run in turn, and accrue once more with a plan of its own. Those are
compared with PyTorch eager's training as in peers.py. `make bench-peers-memory` sets up .venv-peers and runs this.
"""
import argparse
import json
import os
import pathlib
import sys

import peers_memory_report
from peers import (JOBS, OURS, QUICK_JOBS, REFERENCE, SYSTEMS, TUNINGS_OF, WARM_UP_STEPS, Entry, Variant,
                   chosen_systems, expect_peers, measure, prepare, run_entry, scratch_folder, speeds_of, summarise,
                   variants_of)
from runs import QUICK, RESULTS

GIBI = 1 << 30
LIMITS = {"10.8M fp32": GIBI, "124M fp32": 4 * GIBI, "10.8M bf16": GIBI, "124M bf16": 4 * GIBI,
          "tiny fp32": GIBI, "tiny bf16": GIBI}
ALL_JOBS = {name: job for name, job in (JOBS | QUICK_JOBS).items() if name in LIMITS}
PLANNED = "accrue, its own plan"


def sizes(job: dict) -> list[int]:
    """Powers of two that divide the samples of a step."""
    samples = job["micro"] * job["count"]
    return [2**i for i in range(samples.bit_length()) if samples % 2**i == 0]


def with_micro(folder: pathlib.Path, job: dict, micro: int) -> tuple[pathlib.Path, dict]:
    """The same training in micro-batches of so many samples: a folder of its own, with the tokens and weights of `folder`."""
    split = dict(job, micro=micro, count=job["micro"] * job["count"] // micro)
    made = folder / f"micro-{micro}-steps-{job['steps']}"
    if not made.exists():
        made.mkdir()
        (made / "job.json").write_text(json.dumps(split))
        for name in ("tokens.bin", "model"):
            (made / name).symlink_to(folder / name)
    return made, split


def limited(limit: int) -> tuple[str, ...]:
    return (f"--memory.budget={limit // (1 << 20)}MiB",)


def search(folder: pathlib.Path, job: dict, variant: Variant, limit: int) -> dict[int, dict]:
    """By micro-batch, smallest first: what one run made of it. The last may be beyond the limit."""
    points = {}
    for micro in sizes(job):
        print(f"{variant.name}: micro-batches of {micro}", file=sys.stderr, flush=True)
        outcome = run_entry(Entry(variant, *with_micro(folder, job, micro),
                                  limited(limit) if variant.system == OURS else ()))
        if "unavailable" in outcome:
            points[micro] = {"unavailable": outcome["unavailable"]}
            break
        points[micro] = {"tokens_per_second": speeds_of(job, [outcome])[0],
                         "peak_resident_bytes": outcome["peak_resident_bytes"]}
        if outcome["peak_resident_bytes"] > limit:
            break
    return points


def best_point(points: dict[str, dict[int, dict]], names: list[str], limit: int) -> tuple[str, int] | None:
    """The fastest of these variants' that stayed within the limit."""
    within = {(name, micro): point["tokens_per_second"] for name in names for micro, point in points[name].items()
              if point.get("peak_resident_bytes", limit + 1) <= limit}
    return max(within, key=within.get, default=None)


def finals(folder: pathlib.Path, job: dict, variants: dict[str, Variant], points: dict, limit: int) -> dict[str, Entry]:
    """The best of each system, and accrue's own plan."""
    entries = {}
    for system in dict.fromkeys(variant.system for variant in variants.values()):
        names = [name for name, variant in variants.items() if variant.system == system]
        if found := best_point(points, names, limit):
            name, micro = found
            entries[name] = Entry(variants[name], *with_micro(folder, job, micro), limited(limit) if system == OURS else ())
    entries[PLANNED] = Entry(Variant(OURS), folder, job, limited(limit), planned=True)
    return entries


def compare(scratch: pathlib.Path, name: str, job: dict, systems: list[str], rounds: int) -> dict:
    limit = LIMITS[name]
    folder = prepare(scratch / name.replace(" ", "-"), job)
    variants = variants_of(systems)
    points = {found: search(folder, dict(job, steps=1), variant, limit) for found, variant in variants.items()}
    entries = finals(folder, job, variants, points, limit)
    reference = {REFERENCE.name: Entry(REFERENCE, folder, job)} | entries  # which need not be anybody's best
    outcomes = measure(reference, rounds)
    found = summarise(reference, outcomes)
    rows = {key: found[key] for key in entries}
    for key, row in rows.items():
        row["micro"] = outcomes[key][0].get("micro", entries[key].job["micro"])
        row["within_limit"] = row.get("peak_resident_bytes", limit + 1) <= limit
    return {"job": job, "limit_bytes": limit, "rounds": rounds, "points": points, "systems": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=ALL_JOBS)
    parser.add_argument("--systems", help=f"some of {','.join(SYSTEMS)}; {OURS} and {REFERENCE.system} always run")
    parser.add_argument("--rounds", type=int, help="3, with --quick 1")
    parser.add_argument("--steps", type=int, default=2, help=f"timed, after {WARM_UP_STEPS} warm-up step")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=pathlib.Path, help="folder of peers_memory.json and peers_memory.md")
    options = parser.parse_args()
    expect_peers()
    settings = dict(warm_up_steps=WARM_UP_STEPS, steps=options.steps, threads=options.threads)
    kept = QUICK_JOBS if options.quick else JOBS
    chosen = [name for name in ALL_JOBS if name == options.only or (options.only is None and name in kept)]
    with scratch_folder(options.threads) as scratch:
        for name in chosen:
            found = compare(scratch, name, ALL_JOBS[name] | settings, chosen_systems(options.systems),
                            options.rounds or (1 if options.quick else 3))
            peers_memory_report.add(options.out or (QUICK if options.quick else RESULTS), name, found)


if __name__ == "__main__":
    main()
