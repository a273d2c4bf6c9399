#!/usr/bin/env python3
"""Trains a model that two ranks divide over a slow link, with accrue (dist.shard = "all") and with PyTorch's FSDP2, in turn.

    bench/e2e/divided_links.py [--rounds N] [--only LINK] [--out FILE]
    bench/e2e/divided_links.py --quick          a tiny model: whether everything runs and agrees

The ranks and their cable are those of links.py. FSDP2 runs in its three ways to accumulate (bench/peers/fsdp_loop.py):
gradients scattered with each micro-batch, which takes as little memory as accrue; with the last one, which keeps whole
gradients; and with parameters that also stay whole during a step. Every round runs all systems, beginning with another
one. Times are shown only of systems whose losses and norms agree with the first FSDP2's (agreement.py). What is sent is
counted by the cable. Needs .venv-peers (scripts/setup.sh peers).
"""
import argparse
import pathlib
import sys
import tempfile

import links
import netns
from peers import PYTHON
from runs import ROOT, save, table

LINKS = {"1 Gbit/s": netns.Shape(rate_mbit=1000, delay_ms=0.2), "10 Gbit/s": netns.Shape(rate_mbit=10000, delay_ms=0.1)}
SYSTEMS = (links.DIVIDED, links.FSDP_EACH, links.FSDP_LAST, links.FSDP_KEEP)
COUNTS, QUICK_COUNTS = (1, 4, 16), (1, 2)  # micro-batches of a sample in a step, on each rank


def measure(link: str, options: argparse.Namespace) -> dict:
    """Raises netns.Unavailable."""
    counts, rounds = (QUICK_COUNTS, 1) if options.quick else (COUNTS, options.rounds)
    cells = {f"K = {count}": dict(micro=1, count=count, systems=SYSTEMS) for count in counts}
    model = links.model_of(options.quick)
    with tempfile.TemporaryDirectory() as folder, netns.cable(LINKS[link]) as cable:
        probed = links.probe(cable) if cable.shape.rate_mbit <= 1000 else None  # a core does not give 10 Gbit/s to sockets
        return {"probe": probed, "delay_ms": cable.shape.delay_ms if cable.delays else None, "model": model,
                **links.compare(cable, pathlib.Path(folder), model, cells, rounds)}


def row_of(cell: str, system: str, systems: dict[str, dict]) -> list[str]:
    row, ours = systems[system], systems[links.DIVIDED]
    if not row["agrees"]:
        return [cell, system, "does not agree", "", ""]
    seconds = row["seconds"]
    ratio = f"{seconds['median'] / ours['seconds']['median']:.2f}" if ours["agrees"] else ""
    sent = max(end["median"] for end in row["sent_bytes"])
    return [cell, system, f"{seconds['median']:.2f} ({seconds['min']:.2f} to {seconds['max']:.2f})", ratio, f"{sent / 1e6:.1f}"]


def rows_of(result: dict) -> list[list[str]]:
    return [row_of(name, system, cell["systems"]) for name, cell in result["cells"].items() for system in cell["systems"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=list(LINKS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    if not PYTHON.exists():
        sys.exit(f"error: expected {PYTHON.relative_to(ROOT)}, received no such file; try scripts/setup.sh peers")
    found = {}
    for link in [options.only] if options.only else list(LINKS):
        try:
            found[link] = measure(link, options)
        except netns.Unavailable as reason:
            return print(f"skipped: {reason}")
        except netns.RankFailed as failed:
            sys.exit(f"error: {link}: {failed}")
        print(link)
        print(table(["", "system", "s a step", "times accrue's", "MB sent a step and rank"], rows_of(found[link])))
    save("divided_links.json", found, options.out, options.quick)


if __name__ == "__main__":
    main()
