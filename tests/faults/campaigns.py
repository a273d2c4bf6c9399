"""The fault campaigns: campaigns.py ACCRUE [--short | --only NAME] [--count N] [--seed S] [--jobs J] [--minutes M].

Without --count each runs as often as what is promised was shown with; --short is what the tests run. Prints a line a
campaign, a line beginning with BROKEN for each promise that was not kept, and ends with status 1 if there is one. If a
campaign is left out the status is 77; 1 if ACCRUE_REQUIRE_ALL is set and a build or set-up would have it; 2 if it was
asked for by --only.
"""
import argparse
import dataclasses
import functools
import os
import pathlib
import sys
import time
from collections.abc import Callable

import changing
import damage
import flipped_files
import folders
import hostile_files
import inside
import kill9
import point_kills
import ranks
import signals
import soak
import tinyrun
from tinyrun import Options, Programs

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import skips  # noqa: E402


@dataclasses.dataclass(frozen=True)
class Entry:
    run: Callable[[Options], int]
    count: int
    # Of what the tests run; 0: none, as it strikes at random moments what tests of the gate strike at named points
    # (docs/notes/fault_points.md).
    short: int
    needs: tuple[str, ...] = ()  # which of Programs


OF_RANKS = ("store_host", "fault_points")
CAMPAIGNS = {
    "kill9": Entry(lambda o: kill9.one_process(o, o.count), 500, 2),
    "kill9-ranks": Entry(lambda o: kill9.three_ranks(o, o.count), 100, 0),
    "kill9-windows": Entry(kill9.in_windows, 100, 0, ("fault_points",)),
    "kills-at-points": Entry(point_kills.kills_at_points, 200, 2, ("fault_points",)),
    "kills-while-offloaded": Entry(point_kills.kills_while_offloaded, 100, 1, ("fault_points",)),
    "bit-flips": Entry(damage.bit_flips, 500, 4),
    "truncations": Entry(damage.truncations, 200, 4),
    "swaps": Entry(damage.swaps, 100, 4),
    "flipped-files": Entry(flipped_files.flipped_files, 500, 1, ("fault_points", "python", "tables")),
    "hostile-files": Entry(hostile_files.hostile_files, 450, 2, ("fault_points", "python", "tables")),
    "double-starts": Entry(folders.double_starts, 100, 0),
    "full-disks": Entry(folders.full_disks, 20, 2, ("fault_points",)),
    "foreign-files": Entry(folders.foreign_files, 1, 1),
    "vanishing-folders": Entry(folders.vanishing_folders, 20, 0),
    "signals": Entry(signals.storms, 50, 0),
    "failing-calls": Entry(inside.failing_calls, 63, 7, ("failing_calls", "fault_points")),
    "ranks-killed": Entry(changing.killed, 100, 0, OF_RANKS),
    "ranks-frozen": Entry(changing.frozen, 20, 0, OF_RANKS),
    "ranks-links": Entry(changing.links, 20, 0, OF_RANKS),
    "lost-ranks": Entry(ranks.lost_ranks, 1, 0, ("python",)),
    "cut-links": Entry(ranks.cut_links, 6, 0),
}
# For as long as --minutes says, and only by name.
SOAKS = {"soak": (soak.soak, ()), "soak-ranks": (soak.soak_of_ranks, (*OF_RANKS, "failing_calls"))}
# What brings the programs.
HOW = {"store_host": "cmake --build {build} --target store_host", "fault_points": "cmake --build {build} --target fault_points",
       "failing_calls": "cmake --build {build} --target failing_calls", "python": "scripts/setup.sh test", "tables": "scripts/setup.sh test"}


@dataclasses.dataclass(frozen=True)
class Job:
    name: str
    run: Callable[[], int]
    needs: tuple[str, ...]


def programs_of(arguments: argparse.Namespace) -> Programs:
    built = (arguments.tests or pathlib.Path(arguments.program).parent / "tests").resolve()
    in_ranks = built / "integration" / "ranks"
    root = pathlib.Path(__file__).resolve().parents[2]
    return Programs(in_ranks / "store_host", built / "faults" / "libfault_points.so", built / "faults" / "libfailing_calls.so",
                    root / ".venv-test" / "bin" / "python", root / ".venv-parquet" / "bin" / "python")


def missing(job: Job, arguments: argparse.Namespace) -> str:
    """What the job lacks, and how to have it; nothing if all is there."""
    programs = programs_of(arguments)
    lacking = [name for name in job.needs if not getattr(programs, name).exists()]
    build = pathlib.Path(arguments.program).parent
    return "" if not lacking else (f"expected {', '.join(str(getattr(programs, name)) for name in lacking)}, received no such file; try "
                                   + " && ".join(dict.fromkeys(HOW[name].format(build=build) for name in lacking)))


def jobs_of(arguments: argparse.Namespace) -> list[Job]:
    """Raises Refusal if one is asked for that would not run."""
    asked, jobs = arguments.only or [], []
    program = str(pathlib.Path(arguments.program).resolve())  # campaigns run it in folders of their own
    for name, entry in CAMPAIGNS.items():
        count = arguments.count or (entry.short if arguments.short else entry.count)
        if asked and name not in asked:
            continue
        if count == 0:
            if asked:
                raise Refusal(f"{name}: expected a campaign with a short form, received one without; try it without --short, or with --count")
            continue
        options = Options(program, count, arguments.seed, arguments.jobs, programs_of(arguments))
        jobs.append(Job(name, functools.partial(entry.run, options), entry.needs))
    for name, (run, needs) in SOAKS.items():
        if name in asked:
            options = Options(program, 1, arguments.seed, 1, programs_of(arguments))
            jobs.append(Job(name, functools.partial(run, options, arguments.minutes), needs))
    for job in jobs if asked else []:
        if lacks := missing(job, arguments):
            raise Refusal(f"{job.name}: {lacks}")
    return jobs


class Refusal(Exception):
    """What is asked for cannot be done."""


def count_of(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of 1 or more, received {text}")
    return int(text)


def parse(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="the accrue to run")
    parser.add_argument("--tests", type=pathlib.Path, help="the folder of what tests build (default: tests, beside the accrue)")
    parser.add_argument("--only", choices=[*CAMPAIGNS, *SOAKS], action="append", help="may be given several times")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--count", type=count_of, help="instead of the campaign's own, 1 or more")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="trials at once, where they do not need the machine")
    parser.add_argument("--minutes", type=float, default=30, help="of the soak")
    return parser.parse_args(words)


def status_of(job: Job, arguments: argparse.Namespace) -> int:
    """1: a promise was not kept. Raises LeftOut if it did not run."""
    if lacks := missing(job, arguments):
        raise tinyrun.LeftOut(lacks, could_be_set_up=True)
    begin = time.monotonic()
    try:
        return job.run()
    except tinyrun.Broken as broken:
        print(f"BROKEN {job.name}: {broken}")
        return 1
    finally:
        print(f"    {job.name}: {time.monotonic() - begin:.0f} s", flush=True)


def main(words: list[str] | None = None) -> int:
    arguments = parse(words)
    statuses = []
    try:
        if not pathlib.Path(arguments.program).is_file():
            raise Refusal(f"expected the program accrue, received {arguments.program}, which is no file; try make build")
        jobs = jobs_of(arguments)
    except Refusal as refusal:
        print(f"error: faults: {refusal}", file=sys.stderr)
        return 2
    for job in jobs:
        try:
            statuses.append(status_of(job, arguments))
        except tinyrun.LeftOut as reason:
            statuses.append(left_out(job.name, reason, arguments.only is not None))
    # What is broken comes first, and what ran does not hide what was left out.
    return next((status for status in (1, 2, skips.SKIPPED) if status in statuses), 0)


def left_out(name: str, reason: tinyrun.LeftOut, is_asked: bool) -> int:
    if is_asked:
        print(f"error: faults: {name}: expected a machine that can run it, received another one: {reason}", file=sys.stderr)
        return 2
    if reason.could_be_set_up and os.environ.get(skips.REQUIRE_ALL):
        print(f"BROKEN {name}: it was left out, and {skips.REQUIRE_ALL} is set: {reason}", flush=True)
        return 1
    print(f"skipped: {name}: {reason}", flush=True)
    return skips.SKIPPED


if __name__ == "__main__":
    sys.exit(main())
