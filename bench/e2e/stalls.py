#!/usr/bin/env python3
"""How long training waits for its data, its checkpoints and its log, from the trace of a run.

    bench/e2e/stalls.py [--steps 12] [--rounds 3] [--only NAME] [--quick] [--out bench/results/stalls.json]

Each run writes a checkpoint after every step, which is more than anybody would, and every metric; beside it one without checkpoints, as writing
takes the same cores. Of the rounds the one with the median step counts. Only the standard library.
"""
import argparse
import json
import pathlib
import statistics
import tempfile

from runs import save, train
from speed import MODELS, QUICK_MODELS, overrides

WAITS = ("data: wait", "checkpoint: wait", "log")
RUNS = ("10.8M fp32", "124M bf16")


def traced(model: dict, folder: pathlib.Path, steps: int, checkpoint_every: int) -> list[dict]:
    trace = folder / f"trace-{checkpoint_every}.json"
    train(folder, f"every-{checkpoint_every}", ["--trace", str(trace), *overrides(model, folder), f"--run.steps={steps}",
                                                f"--run.checkpoint_every={checkpoint_every} steps"])
    return [event for event in json.loads(trace.read_text()) if event["ph"] == "X"]


def seconds_per_step(events: list[dict]) -> float:
    ends = sorted(e["ts"] + e["dur"] for e in events if e["name"] == "optimizer step")
    return statistics.median(b - a for a, b in zip(ends, ends[1:])) / 1e6


def steady(events: list[dict]) -> list[dict]:
    """Without the first step, which maps its memory, and what follows the last one, when nothing is left to do beside it."""
    ends = sorted(e["ts"] + e["dur"] for e in events if e["name"] == "optimizer step")
    return [e for e in events if e["ts"] >= ends[0] and e["ts"] + e["dur"] <= ends[-1]]


def waits(events: list[dict]) -> dict:
    inside = steady(events)
    wall = max(e["ts"] + e["dur"] for e in inside) - min(e["ts"] for e in inside)
    row = {}
    for name in WAITS:
        spans = [e["dur"] / 1e6 for e in inside if e["name"] == name]
        row[name] = {"share": sum(spans) * 1e6 / wall, "most_seconds": max(spans), "median_seconds": statistics.median(spans)}
    beside = {}
    for name in ("data: load", "checkpoint: write"):
        spans = [e["dur"] / 1e6 for e in inside if e["name"] == name]
        beside[name] = {"share": sum(spans) * 1e6 / wall, "median_seconds": statistics.median(spans) if spans else None}
    return {"seconds": wall / 1e6, "waits": row, "beside": beside}


def measured(model: dict, steps: int) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        beside = traced(model, pathlib.Path(folder), steps, 1)
        none = traced(model, pathlib.Path(folder), steps, steps + 1)
    return waits(beside) | {"seconds_per_step": {"with_checkpoint": seconds_per_step(beside),
                                                 "without": seconds_per_step(none)}}


def of_rounds(rows: list[dict]) -> dict:
    ordered = sorted(rows, key=lambda row: row["seconds_per_step"]["with_checkpoint"])
    return ordered[len(ordered) // 2] | {"rounds": len(rows)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--rounds", type=int, help="3, with --quick 1")
    parser.add_argument("--quick", action="store_true", help="a tiny model, four steps")
    parser.add_argument("--only", choices=RUNS)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    models = QUICK_MODELS if options.quick else {name: MODELS[name] for name in RUNS if options.only in (None, name)}
    rounds, steps = options.rounds or (1 if options.quick else 3), 4 if options.quick else options.steps
    found = {name: [] for name in models}
    for _ in range(rounds):
        for name, model in models.items():
            found[name].append(measured(model, steps))
    rows = {name: of_rounds(of_name) for name, of_name in found.items()}
    for name, row in rows.items():
        print(name + "".join(f"   {wait} {100 * found['share']:.3f}% (most {1000 * found['most_seconds']:.1f} ms)"
                             for wait, found in row["waits"].items())
              + f"   step {row['seconds_per_step']['with_checkpoint']:.2f} s beside a checkpoint, {row['seconds_per_step']['without']:.2f} s without"
              + "".join(f"   [{work} {100 * found['share']:.1f}%]" for work, found in row["beside"].items()), flush=True)
    save("stalls.json", rows, options.out, options.quick)


if __name__ == "__main__":
    main()
