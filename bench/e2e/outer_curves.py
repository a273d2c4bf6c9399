#!/usr/bin/env python3
"""Trains the same small GPT-2 on two ranks by rounds of several lengths and outer steps of several settings.

    bench/e2e/outer_curves.py [--only WORDS] [--seeds N...]    # what is stored of others stays
    bench/e2e/outer_curves.py --missing                        # only what is not stored
    bench/e2e/outer_curves.py --report                         # no run: the table and the plot of what is stored
    bench/e2e/outer_curves.py --quick                          # a few steps of a tiny model: whether everything runs

The job is that of curves.py, and so is what a step trains: the same samples, the same optimizer, the same rates. Ranks
meet on the loopback device: losses do not depend on a link. `dist.outer` gets the defaults that this found
(docs/notes/local_steps.md).
"""
import argparse
import dataclasses
import pathlib
import sys
import tempfile

import curves
import netns
import outer_curves_report
from ranks import free_port
from results import RESULTS, ROOT, ResultFile
from runs import QUICK, flags, steps_of, train_command

FILE = "outer_curves.json"
SEEDS = (1, 2)
LENGTHS = (8, 32, 64)


@dataclasses.dataclass(frozen=True)
class Setting:
    """Of rounds; one step: one reduction a step."""
    local_steps: int
    lr: float = 1
    momentum: float = 0
    parts: int = 1
    delay: int = 0
    compress: str = "none"

    @property
    def name(self) -> str:
        if self.local_steps == 1:
            return outer_curves_report.REFERENCE
        streams = f", {self.parts} parts" if self.parts > 1 else ""
        streams += f", delay {self.delay}" if self.delay > 0 else ""
        compressed = f", {self.compress}" if self.compress != "none" else ""
        return f"{self.local_steps} local steps: lr {self.lr:g}, momentum {self.momentum:g}{streams}{compressed}"

    @property
    def flags(self) -> list[str]:
        if self.local_steps == 1:
            return []
        stated = {"local_steps": self.local_steps, "outer.lr": self.lr, "outer.momentum": self.momentum}
        stated |= {"outer.parts": self.parts} if self.parts > 1 else {}
        stated |= {"outer.delay": self.delay} if self.delay > 0 else {}
        stated |= {"compress": self.compress} if self.compress != "none" else {}
        return flags("dist", **stated)


# What was tried: the mean, DiLoCo's rates, and those between which the usual ones were found.
RATES = ((1, 0), (0.5, 0.7), (0.5, 0.8), (0.7, 0.7), (0.7, 0.8), (0.7, 0.9))
STREAMS = (Setting(32, 0.7, 0.7, parts=4, delay=4), Setting(32, 0.7, 0.7, parts=4, delay=4, compress="int8"),
           Setting(32, 0.7, 0.7, delay=16))
SETTINGS = [Setting(1), *(Setting(length, *rates) for length in LENGTHS for rates in RATES), *STREAMS]


def part_of(setting: Setting, seed: int) -> str:
    return f"{setting.name}; seed {seed}"


def train(setting: Setting, seed: int, job: dict) -> dict:
    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(scratch) / "run"
        command = train_command(out.parent, "run", [*curves.arguments(job, seed), *setting.flags])
        netns.run_ranks(curves.Loopback(free_port()), lambda rank: command, 10 * curves.RUN_SECONDS)
        curve = curves.curve_of(out)
        del curve["seconds"]  # ranks on one machine tell nothing of them
        steps = steps_of(out)
        return {**dataclasses.asdict(setting), "seed": seed, "curve": curve, "steps": len(steps),
                "wire_bytes": sum(step.get("wire_bytes", 0) for step in steps) / len(steps)}


def measure(settings: list[Setting], seeds: list[int], job: dict, path: pathlib.Path, missing: bool) -> None:
    for seed in seeds:
        for setting in settings:
            part = part_of(setting, seed)
            if missing and part in ResultFile(path).parts:
                continue
            print(part, file=sys.stderr, flush=True)
            outcome = train(setting, seed, job)
            file = ResultFile(path)
            file.add({part: outcome})
            file.write()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="settings whose names contain this")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, help="folder of outer_curves.json and outer_curves.svg; these are "
                        "in bench/results and docs/notes otherwise")
    options = parser.parse_args()
    job = curves.QUICK_JOB if options.quick else curves.JOB
    folder = options.out or (QUICK if options.quick else None)
    path = (folder or RESULTS) / FILE
    settings = [setting for setting in SETTINGS if options.only in setting.name]
    if not settings:
        sys.exit(f"error: --only: expected a part of a setting's name, received {options.only!r}; try one of "
                 f"{', '.join(setting.name for setting in SETTINGS)}")
    try:
        if not options.report:
            measure(settings, options.seeds, job, path, options.missing)
    except netns.RankFailed as failed:
        sys.exit(f"error: {failed}")
    file = ResultFile(path)
    print(outer_curves_report.table_of(file))
    ((folder or ROOT / "docs" / "notes") / "outer_curves.svg").write_text(outer_curves_report.plot(file))


if __name__ == "__main__":
    main()
