#!/usr/bin/env python3
"""Trains the same model on two ranks over slow links with accrue and with PyTorch's DDP, in turn.

    bench/e2e/links.py [--only LINK] [--part systems|hiding] [--rounds N] [--out FOLDER]
    bench/e2e/links.py --quick          a tiny model: whether everything runs and agrees, in a minute or two

The ranks are processes in two network namespaces of this machine, joined by a shaped cable (netns.py), each on a core
of its own. Every round runs all systems, beginning with another one. Times are shown only of systems whose losses and
norms agree with DDP's (agreement.py). What is sent is counted by the cable. Where the kernel has no namespaces or
cannot shape them, it says so and ends with 0. `make bench-links` sets up .venv-peers and runs this with it. See
docs/notes/links.md.
"""
import argparse
import json
import pathlib
import sys
import tempfile
import time
from collections.abc import Iterable

import links_report
import netns
from agreement import agrees, relative_errors
from peers import PEERS, PYTHON, SMALL, TINY, WARM_UP_STEPS, accrue_arguments, accrue_outcome, prepare, rotated
from runs import QUICK, RESULTS, ROOT, median, spread, steps_of, train_command

LINKS = {"1 Gbit/s": netns.Shape(rate_mbit=1000, delay_ms=0.2), "100 Mbit/s": netns.Shape(rate_mbit=100, delay_ms=1.0)}
ROUNDS = {"1 Gbit/s": 3, "100 Mbit/s": 3}  # of 4 and 7 minutes
WORLD = 2
PROBE_SECONDS = 2
LEAST_SHARE = 0.85  # of its rate, that a cable gives to plain sockets; 0.95 is what headers leave
STEPS = 2  # timed ones of a run, after the warm-up step
RUN_SECONDS = 600  # that one run may take

OVERLAP, END, DDP, DDP_EACH = "accrue overlap", "accrue end", "DDP no_sync", "DDP each"
DIVIDED = "accrue divided"  # divided_links.py compares these
FSDP_EACH, FSDP_LAST, FSDP_KEEP = "FSDP2, scattered each", "FSDP2, scattered last", "FSDP2, kept whole"
OURS = {OVERLAP: ["--dist.reduce=overlap"], END: ["--dist.reduce=end"],
        DIVIDED: ["--dist.shard=all", "--memory.recompute=auto", "--memory.accumulation=layered"]}
WORKER = {DDP: "ddp", DDP_EACH: "ddp-each", FSDP_EACH: "fsdp-each", FSDP_LAST: "fsdp-last", FSDP_KEEP: "fsdp-keep"}
SYSTEMS = (OVERLAP, END, DDP, DDP_EACH)

MODEL = dict(SMALL, context=128)
# What is trained of it: micro-batches of how many samples, and how many of them on each rank in a step (K).
CELLS = {f"K = {count}": dict(micro=1, count=count, systems=SYSTEMS) for count in (1, 2, 4, 8)}
LARGE_MICRO = {"K = 8, micro-batches of 4": dict(micro=4, count=8, systems=(OVERLAP, END, DDP))}
CELLS_OF = {"1 Gbit/s": CELLS | LARGE_MICRO, "100 Mbit/s": CELLS}
QUICK_CELLS = {f"K = {count}": dict(micro=4, count=count, systems=SYSTEMS) for count in (1, 2)}

# What overlap hides, where 90% are asked for: more steps of accrue alone, in micro-batches of two sizes.
HIDING_LINK = "1 Gbit/s"
HIDING_CELLS = {f"K = 8, micro-batches of {micro}": dict(micro=micro, count=8) for micro in (1, 4)}
HIDING_ROUNDS, HIDING_STEPS = 3, 6
QUIET_BYTES = 1 << 16  # what ranks send while they reduce nothing


class Meter:
    """What the two ends have sent, over the time of a run."""

    def __init__(self, cable: netns.Cable):
        self._cable = cable
        self._samples: list[tuple[float, tuple[int, int]]] = []

    def tick(self) -> None:
        self._samples.append((time.time(), self._cable.sent_bytes()))

    def at(self, moment: float) -> tuple[int, int]:
        """Nothing is under way at a step's end, so the next sample has all of it."""
        return next(sent for sampled, sent in self._samples if sampled >= moment)

    def bytes_per_step(self, ends: list[float]) -> list[float]:
        """By end of the cable, of the steps that end at these times but for the first."""
        return [(after - before) / (len(ends) - 1) for before, after in zip(self.at(ends[0]), self.at(ends[-1]))]

    def reduction_begins(self, after: float) -> float:
        """The last sample before rank 0 sends more than ranks do otherwise."""
        before = self.at(after)[0]
        return max(sampled for sampled, sent in self._samples if sent[0] - before <= QUIET_BYTES)


def run_accrue(also: list[str], cable: netns.Cable, folder: pathlib.Path, job: dict, scratch: pathlib.Path) -> dict:
    command = train_command(scratch, "run", [*accrue_arguments(folder, job), *also])
    meter = Meter(cable)
    netns.run_ranks(cable, lambda rank: command, RUN_SECONDS, meter.tick)
    meter.tick()
    steps = steps_of(scratch / "run")[WARM_UP_STEPS - 1:]
    return accrue_outcome(folder, job, scratch / "run") | {
        "sent_bytes": meter.bytes_per_step([step["time"] for step in steps]),
        "reductions": [reduction_of(step, before, meter) for before, step in zip(steps, steps[1:])]}


def reduction_of(step: dict, before: dict, meter: Meter) -> dict[str, float]:
    """Of rank 0. What it waits for the other rank to begin is no part of the reduction."""
    backward = step["reduce_seconds"] - step["reduce_exposed_seconds"]
    begins = step["time"] - step["optimizer_seconds"] - backward
    waits = max(0.0, meter.reduction_begins(before["time"]) - begins)
    return {"wire_bytes": step["wire_bytes"], "backward_seconds": backward, "waits_seconds": waits,
            "exposed_seconds": step["reduce_exposed_seconds"] - waits}


def run_worker(worker: str, cable: netns.Cable, folder: pathlib.Path, job: dict, scratch: pathlib.Path) -> dict:
    """A system of bench/peers/worker.py."""
    results = [scratch / f"rank{rank}.json" for rank in range(WORLD)]
    meter = Meter(cable)
    netns.run_ranks(cable, lambda rank: [str(PYTHON), str(PEERS / "worker.py"), worker, str(folder),
                                         str(results[rank])], RUN_SECONDS, meter.tick)
    meter.tick()
    ranks = [json.loads(result.read_text()) for result in results]
    for rank in ranks:
        if "unavailable" in rank:
            sys.exit(f"error: {worker}: {rank['unavailable']}")
    # Each rank knows the losses of its own micro-batches, which are as many as the other's.
    losses = [sum(both) / WORLD for both in zip(*(rank["losses"] for rank in ranks))]
    return ranks[0] | {"losses": losses, "sent_bytes": meter.bytes_per_step(ranks[0]["times"][WARM_UP_STEPS - 1:])}


def run_system(system: str, cable: netns.Cable, folder: pathlib.Path, job: dict) -> dict:
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        if system in OURS:
            return run_accrue(OURS[system], cable, folder, job, pathlib.Path(scratch))
        return run_worker(WORKER[system], cable, folder, job, pathlib.Path(scratch))


def probe(cable: netns.Cable) -> dict:
    """What the cable gives to plain sockets. Ends the program where that shows a machine with other things to do."""
    count = cable.shape.rate_mbit * 125_000 * PROBE_SECONDS
    command = [sys.executable, str(ROOT / "bench" / "e2e" / "link_probe.py"), str(count)]
    ends = [json.loads(out) for out in netns.run_ranks(cable, lambda rank: command, 60)]
    mbit = min(end["mbit"] for end in ends)
    if mbit < LEAST_SHARE * cable.shape.rate_mbit:
        sys.exit(f"error: probe the link: expected {cable.shape.rate_mbit} Mbit/s, received {mbit:.0f}; try on a machine "
                 "that does nothing else")
    return {"round_trip_ms": ends[0]["round_trip_ms"], "mbit": mbit}


# --- Part "systems": all systems, by K --------------------------------------------------------------------------------


def first_of(systems: Iterable[str], kind: dict) -> str:
    return next(system for system in systems if system in kind)


def summarise(cell: dict, outcomes: dict[str, list[dict]]) -> dict:
    """The reference is the first system that is not accrue."""
    rows, reference = {}, outcomes[first_of(outcomes, WORKER)]
    for system, rounds in outcomes.items():
        compared = [relative_errors(ours, theirs) for ours, theirs in zip(rounds, reference)]
        worst = {what: max(errors[what] for errors in compared) for what in compared[0]}
        row = rows[system] = {"agrees": agrees(worst, "fp32"), "relative_errors": worst,
                              "losses": rounds[0]["losses"]}
        if not row["agrees"]:
            continue
        row["seconds"] = spread([seconds for outcome in rounds for seconds in outcome["seconds"]])
        row["sent_bytes"] = [spread([outcome["sent_bytes"][end] for outcome in rounds]) for end in range(WORLD)]
        if system in OURS:
            row["wire_bytes"] = spread([step["wire_bytes"] for outcome in rounds for step in outcome["reductions"]])
    return {"micro": cell["micro"], "count": cell["count"], "systems": rows}


def make_jobs(folder: pathlib.Path, model: dict, cells: dict, steps: int) -> dict[str, tuple[pathlib.Path, dict]]:
    """By cell: the folder of its job, and the job."""
    made = {}
    for name, cell in cells.items():
        job = dict(model, micro=cell["micro"], count=WORLD * cell["count"], precision="fp32",
                   warm_up_steps=WARM_UP_STEPS, steps=steps, threads=1)
        made[name] = prepare(folder / f"{cell['micro']}-{cell['count']}", job), job
    return made


def run_round(number: int, cable: netns.Cable, jobs: dict, systems_of: dict[str, tuple], outcomes: dict) -> None:
    """Adds to the outcomes of each cell's systems."""
    for cell, (folder, job) in jobs.items():
        for system in rotated(list(systems_of[cell]), number):
            print(f"round {number + 1}: {cell}: {system}", file=sys.stderr, flush=True)
            outcomes[cell][system].append(run_system(system, cable, folder, job))


def run_rounds(rounds: int, cable: netns.Cable, jobs: dict, systems_of: dict[str, tuple]) -> dict:
    outcomes = {cell: {system: [] for system in systems} for cell, systems in systems_of.items()}
    for number in range(rounds):
        run_round(number, cable, jobs, systems_of, outcomes)
    return outcomes


def compare(cable: netns.Cable, folder: pathlib.Path, model: dict, cells: dict, rounds: int) -> dict:
    outcomes = run_rounds(rounds, cable, make_jobs(folder, model, cells, STEPS),
                          {name: cell["systems"] for name, cell in cells.items()})
    first = next(iter(outcomes.values()))
    ours, theirs = (first[first_of(first, kind)][0] for kind in (OURS, WORKER))
    return {"rounds": rounds, "steps": STEPS, "machine": ours["machine"], "versions": ours["versions"] | theirs["versions"],
            "cells": {name: summarise(cell, outcomes[name]) for name, cell in cells.items()}}


# --- Part "hiding": what overlap hides -------------------------------------------------------------------------------


def measure_hiding(cable: netns.Cable, folder: pathlib.Path, model: dict, rounds: int) -> dict:
    outcomes = run_rounds(rounds, cable, make_jobs(folder, model, HIDING_CELLS, HIDING_STEPS),
                          {name: (OVERLAP, END) for name in HIDING_CELLS})
    return {name: hidden(cable.shape.rate_mbit, of[OVERLAP], of[END]) for name, of in outcomes.items()}


def hidden(rate_mbit: int, overlap: list[dict], end: list[dict]) -> dict:
    """How much of what can be hidden is hidden: docs/notes/links.md has the definitions."""
    def steps(rounds: list[dict], figure: str) -> list[float]:
        return [step[figure] for outcome in rounds for step in outcome["reductions"]]

    whole, exposed, backward = steps(end, "exposed_seconds"), steps(overlap, "exposed_seconds"), steps(
        overlap, "backward_seconds")
    return {"steps": len(exposed), "bytes_over_rate_seconds": 8e-6 * median(steps(end, "wire_bytes")) / rate_mbit,
            "reduction_seconds": spread(whole), "backward_seconds": spread(backward),
            "exposed_seconds": spread(exposed), "waits_seconds": spread(steps(overlap, "waits_seconds")),
            "share": spread([(median(whole) - left) / min(median(whole), beside)
                             for left, beside in zip(exposed, backward)])}


def model_of(quick: bool) -> dict:
    """Its shape, without the batch."""
    return {key: value for key, value in (TINY if quick else MODEL).items() if key not in ("micro", "count")}


def measure(link: str, folder: pathlib.Path, options: argparse.Namespace) -> dict:
    """Raises netns.Unavailable."""
    model = model_of(options.quick)
    with netns.cable(LINKS[link]) as cable:
        result = {"rate_mbit": cable.shape.rate_mbit, "delay_ms": cable.shape.delay_ms if cable.delays else None,
                  "probe": probe(cable), "model": model}
        folder.mkdir()
        if options.part in (None, "systems"):
            cells = QUICK_CELLS if options.quick else CELLS_OF[link]
            result |= compare(cable, folder, model, cells, options.rounds or (1 if options.quick else ROUNDS[link]))
        if options.part in (None, "hiding") and link == HIDING_LINK and not options.quick:
            (folder / "hiding").mkdir()
            cells = measure_hiding(cable, folder / "hiding", model, options.rounds or HIDING_ROUNDS)
            result["hiding"] = {"probe": result["probe"], "cells": cells}
        return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=list(LINKS))
    parser.add_argument("--part", choices=("systems", "hiding"), help=f"hiding: at {HIDING_LINK} only")
    parser.add_argument("--rounds", type=int, help=", ".join(f"{n} at {link}" for link, n in ROUNDS.items()))
    parser.add_argument("--out", type=pathlib.Path, help="folder of links.json, links.md and links.svg; what is in its "
                        "links.json already and is not measured now stays there")
    options = parser.parse_args()
    if not PYTHON.exists():
        sys.exit(f"error: expected {PYTHON.relative_to(ROOT)}, received no such file; try scripts/setup.sh peers")
    out = options.out or (QUICK if options.quick else RESULTS)
    links = [options.only] if options.only else [HIDING_LINK] if options.part == "hiding" else list(LINKS)
    with tempfile.TemporaryDirectory() as name:
        for i, link in enumerate(links):
            try:
                links_report.add(out, link, measure(link, pathlib.Path(name) / str(i), options))
            except netns.Unavailable as reason:
                return print(f"skipped: {reason}")
            except netns.RankFailed as failed:
                sys.exit(f"error: {link}: {failed}")


if __name__ == "__main__":
    main()
