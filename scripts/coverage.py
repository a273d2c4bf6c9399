#!/usr/bin/env python3
"""Which share of the lines of each room the tests of the rooms execute.

    make coverage                     builds the tests of all rooms with counters (build/coverage), runs them, and prints the table
    make coverage ROOMS='core batch'  those of some rooms, and their rows
    scripts/coverage.py build/coverage --lines data    also the lines of src/data that no test executes

The tests are those that run in the process of the test program (one program a room), on the counters of `g++ --coverage`. What only a test of
the command line or of several processes executes counts as not executed: such a test compares results, and does not replace the test of a part.

A line counts once, however many object files have it: a header's line is executed if it is in any of them.

With --ledger FILE (tests/long/results.json) a room that is lower than the stored row by more than half a percentage point is an error: tests
were lost, or code came without tests.

Exit status 0: as stored or higher; 1: a room is lower; 2: there are no counters.
"""
import argparse
import collections
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Threads and random draws reach a few lines in one run and not in the next.
TOLERATED = 5  # per mille
Executed = dict[str, dict[int, bool]]  # by file and line


def room_of(file: str) -> str | None:
    """The room of a path in the repository; None for what is no source of a room."""
    parts = pathlib.PurePosixPath(file).parts
    if len(parts) > 2 and parts[0] == "src":
        return parts[1]
    if len(parts) > 3 and parts[:2] == ("include", "accrue"):
        return parts[2]
    return None


def take_in(executed: Executed, report: dict, root: pathlib.Path) -> None:
    """Adds what the counters of one object file report (gcov --json-format)."""
    for file in report["files"]:
        name = file["file"].removeprefix(f"{root}/")
        if room_of(name) is None:
            continue
        lines = executed.setdefault(name, {})
        for line in file["lines"]:
            lines[line["line_number"]] = lines.get(line["line_number"], False) or line["count"] > 0


def reports(build: pathlib.Path, root: pathlib.Path) -> Iterator[dict]:
    """What gcov makes of each file of counters, of sources below `root` alone: torch's headers would be most of it."""
    for counters in sorted(build.rglob("*.gcda")):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["gcov", "--json-format", "--relative-only", "--source-prefix", str(root), str(counters)], cwd=folder, check=True,
                           stdout=subprocess.DEVNULL)
            for made in pathlib.Path(folder).glob("*.gcov.json.gz"):
                with gzip.open(made, "rt", encoding="utf-8") as file:
                    yield json.load(file)


def per_mille_by_room(executed: Executed) -> dict[str, tuple[int, int]]:
    """Lines with code, and how many of a thousand of them were executed, by room."""
    lines: dict[str, list[bool]] = collections.defaultdict(list)
    for file, of_file in executed.items():
        lines[room_of(file)] += of_file.values()
    return {room: (len(of_room), 1000 * sum(of_room) // len(of_room)) for room, of_room in sorted(lines.items()) if of_room}


def lower(now: dict[str, int], before: dict[str, int]) -> list[str]:
    """The rooms that have lost more than is tolerated, in words. Rooms that are not in both are no loss."""
    return [f"{room}: {before[room] / 10:.1f}% before, {now[room] / 10:.1f}% now" for room in sorted(now.keys() & before.keys())
            if now[room] < before[room] - TOLERATED]


def table(rows: dict[str, tuple[int, int]]) -> str:
    return "\n".join(["| room | lines with code | executed |", "|---|---|---|"]
                     + [f"| {room} | {lines} | {share / 10:.1f}% |" for room, (lines, share) in rows.items()])


def ranges(numbers: Iterable[int]) -> str:
    """12, 14-17"""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path, help="the build folder, in which tests have run")
    parser.add_argument("--rooms", metavar="ROOMS", help="the rooms whose tests have run; all without it")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="the repository")
    parser.add_argument("--lines", metavar="ROOM", help="the lines of this room that were not executed, by file")
    parser.add_argument("--ledger", type=pathlib.Path, metavar="FILE", help="compares with the row `coverage` of this file")
    options = parser.parse_args(words)
    executed: Executed = {}
    root = options.root.resolve()
    for report in reports(options.build.resolve(), root):
        take_in(executed, report, root)
    if not executed:
        print(f"error: coverage: expected counters (*.gcda) of sources below {options.root} in {options.build}, received none; try make coverage", file=sys.stderr)
        return 2
    if options.lines:
        for file, lines in sorted(executed.items()):
            missed = [line for line, was in lines.items() if not was]
            if room_of(file) == options.lines and missed:
                print(f"{file}: {ranges(missed)}")
    rows = per_mille_by_room(executed)
    if options.rooms:
        # Other rooms are executed in part, by the tests of those that use them.
        rows = {room: row for room, row in rows.items() if room in options.rooms.split()}
    print(table(rows))
    stored = json.loads(options.ledger.read_text()).get("coverage", {}).get("counts", {}) if options.ledger and options.ledger.exists() else {}
    lost = lower({room: share for room, (_, share) in rows.items()}, stored)
    if lost:
        print(f"error: coverage: expected no room below the stored row by more than {TOLERATED / 10}%, received {'; '.join(lost)}; "
              "try scripts/coverage.py --lines ROOM", file=sys.stderr)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
