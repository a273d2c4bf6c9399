"""The fault campaigns: campaigns.py ACCRUE [--short | --only NAME] [--count N] [--seed S] [--jobs J] [--minutes M].

Without --count each runs as often as what is promised was shown with; --short is what the tests run. Prints a line a
campaign, a line beginning with BROKEN for each promise that was not kept, and ends with status 1 if there is one.
"""
import argparse
import dataclasses
import pathlib
import sys
import time
from collections.abc import Callable

import changing
import damage
import folders
import inside
import kill9
import ranks
import signals
import soak
import tinyrun
from tinyrun import Options, Programs


@dataclasses.dataclass(frozen=True)
class Entry:
    run: Callable[[Options], int]
    count: int
    short: int  # 0: not in the short form


CAMPAIGNS = {
    "kill9": Entry(lambda o: kill9.one_process(o, o.count), 500, 8),
    "kill9-ranks": Entry(lambda o: kill9.three_ranks(o, o.count), 100, 2),
    "kill9-windows": Entry(kill9.in_windows, 100, 0),
    "bit-flips": Entry(damage.bit_flips, 500, 8),
    "truncations": Entry(damage.truncations, 200, 4),
    "swaps": Entry(damage.swaps, 100, 4),
    "double-starts": Entry(folders.double_starts, 100, 4),
    "full-disks": Entry(folders.full_disks, 20, 2),
    "foreign-files": Entry(folders.foreign_files, 1, 1),
    "vanishing-folders": Entry(folders.vanishing_folders, 20, 2),
    "signals": Entry(signals.storms, 50, 4),
    "failing-calls": Entry(inside.failing_calls, 60, 6),
    "ranks-killed": Entry(changing.killed, 100, 3),
    "ranks-frozen": Entry(changing.frozen, 20, 0),
    "ranks-links": Entry(changing.links, 20, 0),
    "lost-ranks": Entry(ranks.lost_ranks, 1, 0),
    "cut-links": Entry(ranks.cut_links, 6, 1),
}


SOAKS = {"soak": soak.soak, "soak-ranks": soak.soak_of_ranks}


def programs_of(arguments: argparse.Namespace) -> Programs | None:
    built = arguments.tests or pathlib.Path(arguments.program).resolve().parent / "tests"
    ranks = built / "integration" / "ranks"
    programs = Programs(ranks / "store_host", built / "faults" / "libfault_points.so", built / "faults" / "libfailing_calls.so")
    return programs if all(path.exists() for path in dataclasses.astuple(programs)) else None


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="the accrue to run")
    parser.add_argument("--tests", type=pathlib.Path, help="the folder of what tests build (default: tests, beside the accrue)")
    parser.add_argument("--only", choices=[*CAMPAIGNS, *SOAKS], action="append", help="may be given several times")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--count", type=int, help="instead of the campaign's own")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="trials at once, where they do not need the machine")
    parser.add_argument("--minutes", type=float, default=30, help="of the soak")
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    programs = programs_of(arguments)
    failed = 0
    for name, entry in CAMPAIGNS.items():
        count = arguments.count or (entry.short if arguments.short else entry.count)
        if (arguments.only and name not in arguments.only) or count == 0:
            continue
        begin = time.monotonic()
        try:
            failed |= entry.run(Options(arguments.program, count, arguments.seed, arguments.jobs, programs))
        except tinyrun.Broken as broken:
            print(f"BROKEN {name}: {broken}")
            failed = 1
        print(f"    {name}: {time.monotonic() - begin:.0f} s", flush=True)
    for name, run in SOAKS.items():
        if arguments.only and name in arguments.only:
            failed |= run(Options(arguments.program, 1, arguments.seed, 1, programs), arguments.minutes)
    return failed


if __name__ == "__main__":
    sys.exit(main())
