#!/usr/bin/env python3
"""The long form of the tests: what takes too long for every change, one part after the other, with a ledger of what ran when.

    make test-all                           all parts, about a day on two cores
    make test-all ARGS='tsan mutants'       some of them
    scripts/long_tests.py --list            the parts
    scripts/long_tests.py --older 20        which parts last ran more than 20 commits ago, or never

A part that fails does not stop the others. As each ends, its row goes to tests/long/results.json: on which commit it ran ("+": with
changes that were not committed), when, what was counted, the seconds and the result. A part that reports success and counted nothing
has failed: it ran no test. What a part wrote is in build/long/NAME.log.

Exit status 0: each part passed, or was skipped for a reason that it gives; 1: some failed; 2: no such part.
"""
import argparse
import collections
import datetime
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import stored  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
STORED = pathlib.Path("tests/long/results.json")
LOGS = pathlib.Path("build/long")
# What parts write: it makes no tree another one.
OWN = {str(STORED), "tests/mutants/results.json", "docs/notes/mutants.md"}
OF_MAKE = {"MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "ARGS", "FAULTS", "PRESET"}
SKIPPED = 77
PASSED, FAILED, LEFT_OUT = "passed", "failed", "skipped"
Counts = dict[str, int]


def sums(text: str, pattern: str, *names: str) -> Counts:
    """The groups of all matches, added up; nothing if there is no match."""
    found = re.findall(pattern, text, re.MULTILINE)
    rows = [match if isinstance(match, tuple) else (match,) for match in found]
    return {name: sum(int(row[place]) for row in rows) for place, name in enumerate(names)} if rows else {}


def of_ctest(text: str) -> Counts:
    counts = sums(text, r"^\d+% tests passed, (\d+) tests? failed out of (\d+)", "failed", "tests")
    return counts and {"tests": counts["tests"], "failed": counts["failed"], "skipped": len(re.findall(r"\*\*\*Skipped", text))}


def of_gate(text: str) -> Counts:
    """The last lines of scripts/gate.py."""
    return sums(text, r"^(\d+) passed, (\d+) failed$", "steps", "failed") | sums(text, r"^the slowest of (\d+) tests$", "tests")


def of_pytest(text: str) -> Counts:
    counts: Counts = collections.Counter()
    for number, what in re.findall(r"(?<![\w.])(\d+) (passed|failed|skipped|error)s?\b(?=.* in [\d.]+s)", text):
        counts[what] += int(number)
    return dict(counts)


def of_unittest(text: str) -> Counts:
    return sums(text, r"^Ran (\d+) tests? in", "tests")


def of_googletest(text: str) -> Counts:
    return sums(text, r"^\[  PASSED  \] (\d+) tests?", "passed")


def of_build(text: str) -> Counts:
    """Ninja's steps; none if all was built before."""
    steps = [int(most) for _, most in re.findall(r"\[(\d+)/(\d+)\]", text)]
    return {"steps": max(steps)} if steps else {"steps": 0} if "ninja: no work to do" in text else {}


def of_faults(text: str) -> Counts:
    counts = sums(text, r"(\d+) trials as promised", "trials")
    return counts and counts | {"broken": len(re.findall(r"^BROKEN ", text, re.MULTILINE)), "skipped": len(re.findall(r"^skipped: ", text, re.MULTILINE))}


def of_large_files(text: str) -> Counts:
    return sums(text, r"^(\d+) of (\d+) train on files larger", "passed", "kinds")


def of_fuzz(text: str) -> Counts:
    counts = sums(text, r"^fuzz: \S+: (\d+) inputs", "inputs")
    return counts and counts | {"targets": len(re.findall(r"^fuzz: \S+: \d+ inputs", text, re.MULTILINE))}


def of_matrix(text: str) -> Counts:
    rows = re.findall(r"^\| \d+\.\d+\S* \| \w+ \| (\w+) \| (\w+) \| (\w+) \|", text, re.MULTILINE)
    return {"versions": len(rows), "passed": rows.count(("yes", "yes", "yes"))} if rows else {}


def of_mutants(text: str) -> Counts:
    rows = [line for line in text.splitlines() if re.match(r"\| [a-z][\w-]* \| (?!room)\w+ \|", line)]
    errors = sum("| ERROR:" in row for row in rows) + len(re.findall(r"^error: mutants: ", text, re.MULTILINE))
    return {"mutants": len(rows), "errors": errors, "survived": sum("| NOBODY |" in row for row in rows),
            "not as expected": sum(not row.endswith("|  |") and "| ERROR:" not in row for row in rows)} if rows else {}


def of_coverage(text: str) -> Counts:
    """The table of scripts/coverage.py: of a thousand lines of each room, how many were executed."""
    rows = re.findall(r"^\| (\w+) \| \d+ \| (\d+)\.(\d)% \|$", text, re.MULTILINE)
    return {room: 10 * int(percent) + int(tenth) for room, percent, tenth in rows}


def of_sound_runs(text: str) -> Counts:
    counts = sums(text, r"^(\d+) runs of \d+ drawn", "runs")
    return counts and counts | {"false alarms": 0} | sums(text, r"\b(\d+) false alarm", "false alarms")


@dataclass(frozen=True)
class Part:
    name: str
    what: str
    time: str  # on two cores
    command: str
    counted: Callable[[str], Counts]


def number_of(what: str, pattern: str) -> Callable[[str], Counts]:
    return lambda text: sums(text, pattern, what)


def lines_of(what: str, pattern: str) -> Callable[[str], Counts]:
    def counted(text: str) -> Counts:
        found = re.findall(pattern, text, re.MULTILINE)
        return {what: len(found)} if found else {}

    return counted


MAKE = "make --no-print-directory"
BUILT = f"{MAKE} setup-test setup-wheel test-build"
CAMPAIGNS = f"{MAKE} faults-build && python3 tests/faults/campaigns.py build/release/accrue"
GENERIC_ROOMS = "kernels|accum|optim|models|train|verify|device"
# In this order: what takes little comes first, and what others build on.
PARTS = (
    Part("gate", "what every change must pass", "40 minutes", f"{MAKE} gate ARGS=", of_gate),
    Part("mutants-check", "whether each mutant has its place in the sources, and table and results agree", "a second", "python3 scripts/mutants.py --check",
         number_of("mutants", r"^mutants: (\d+) have their place")),
    Part("figures", "whether the documents have the figures of bench/results", "a second", "python3 bench/e2e/write_benchmarks.py --check",
         number_of("documents", r"^(\d+) documents have")),
    Part("docs", "the documentation as pages: every link, every public header and every public Python name", "5 minutes",
         f"{MAKE} docs setup-test && .venv-test/bin/python tests/support/docs_pages.py build/docs/html", of_unittest),
    Part("right-loops", "1000 right loops of Python, of which none is called wrong", "a minute",
         f"{BUILT} && ACCRUE_RIGHT_LOOPS=1000 PYTHONPATH=build/release/python .venv-test/bin/python -m pytest -q -p no:cacheprovider tests/python/test_right_loops.py",
         of_pytest),
    Part("sound-layouts", "100 sound layouts of ranks, of which none is called wrong", "a minute",
         f"{BUILT} && ACCRUE_SOUND_LAYOUTS=100 build/release/tests/verify/verify_test --gtest_filter=LayoutFaults.Sound*", of_googletest),
    Part("generic", "whole rooms by operators of ATen alone", "an hour",
         f"{BUILT} && ACCRUE_TEST_KERNELS=generic ctest --test-dir build/release --no-tests=error --output-on-failure -j 1 -L '^({GENERIC_ROOMS})$'", of_ctest),
    Part("golden", "comparisons with other libraries, on all of their texts", "10 minutes",
         f"{BUILT} && ACCRUE_GOLDEN=whole ctest --test-dir build/release --no-tests=error --output-on-failure -R '^golden_'", of_ctest),
    Part("llama-cpp", "GGUF files in llama.cpp, by its Python bindings: ids and logits", "20 minutes",
         f"{BUILT} && scripts/setup.sh llama-cpp && .venv-llama-cpp/bin/python tests/long/llama_cpp_golden.py build/release/tests/golden/gguf_golden", of_unittest),
    Part("benches", "the benchmarks, built", "10 minutes", f"{MAKE} benches", of_build),
    Part("examples-alone", "the examples without precompiled headers", "15 minutes", f"{MAKE} examples-alone", of_build),
    Part("cold-build", "everything from a clone, with no cache", "25 minutes", "scripts/cold_build.sh", of_build),
    Part("container-test", "what Containerfile runs, in bare Debians", "30 minutes", f"{MAKE} container-test ARGS=",
         lines_of("systems", r"^passed: accrue trains in a bare Debian")),
    Part("asan-all", "the address and undefined-behaviour sanitizers, all rooms", "an hour and a half", f"{MAKE} asan-all", of_ctest),
    Part("tsan", "accrue's own threads under the thread sanitizer", "30 minutes", f"{MAKE} tsan", of_googletest),
    Part("fuzz-corpus", "each reader of files on its kept inputs", "10 minutes", f"{MAKE} fuzz-corpus", of_fuzz),
    Part("coverage", "which lines of each room its tests execute, in per mille; no room below its stored row", "50 minutes", f"{MAKE} coverage", of_coverage),
    Part("matrix", "other versions of libtorch", "30 minutes", f"{MAKE} matrix ARGS=", of_matrix),
    Part("faults", "the fault campaigns in full", "3 hours", CAMPAIGNS, of_faults),
    Part("soak", "steps, evaluations and checkpoints for half an hour", "30 minutes", f"{CAMPAIGNS} --only soak", of_faults),
    Part("soak-ranks", "four ranks under faults of all kinds for half an hour", "30 minutes", f"{CAMPAIGNS} --only soak-ranks", of_faults),
    Part("large-files", "training on files larger than memory", "10 minutes",
         f"{MAKE} faults-build && python3 tests/faults/large_files.py build/release/accrue --pyarrow .venv-parquet/bin/python", of_large_files),
    Part("two-hosts", "runs on two hosts, which are namespaces, by each launcher", "10 minutes",
         f"{MAKE} faults-build && python3 tests/long/two_hosts.py build/release/accrue build/release/tests/faults/libfault_points.so .venv-test/bin/python",
         of_unittest),
    Part("sound-runs", "verify on 300 drawn configs in which nothing is wrong", "2 hours", f"{MAKE} sound-runs ARGS=", of_sound_runs),
    Part("mutants", "faults planted in the sources, and who sees them", "an hour and a half", f"{MAKE} mutants ARGS=", of_mutants),
)


class Ledger:
    def __init__(self, root: pathlib.Path) -> None:
        self.path = root / STORED
        self.rows: dict[str, dict] = json.loads(self.path.read_text()) if self.path.exists() else {}

    def take_in(self, name: str, row: dict) -> None:
        """Read again: another run may have added a row meanwhile."""
        self.rows = (json.loads(self.path.read_text()) if self.path.exists() else {}) | {name: row}
        stored.write(self.path, json.dumps(dict(sorted(self.rows.items())), indent=1) + "\n")


def run_and_tell(root: pathlib.Path, part: Part) -> tuple[int, str]:
    """The exit status and all that the part wrote, which is shown and logged as it comes."""
    log = root / LOGS / f"{part.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    # What make was given for this target is not for those of the parts; JOBS and the like are in the environment.
    inherited = {name: value for name, value in os.environ.items() if name not in OF_MAKE}
    environment = {"ACCRUE_REQUIRE_ALL": "1", "OMP_WAIT_POLICY": "passive"} | inherited
    process = subprocess.Popen(["bash", "-c", f"set -o pipefail; {part.command}"], cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, errors="replace", start_new_session=True)
    lines = []
    try:
        with open(log, "w", encoding="utf-8") as file:
            for line in process.stdout:
                lines.append(line)
                print(line, end="", flush=True)
                file.write(line)
        return process.wait(), "".join(lines)
    except BaseException:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        raise


def row_of(root: pathlib.Path, part: Part, clock: Callable[[], float]) -> dict:
    began = clock()
    row = {"command": part.command, "commit": stored.commit_of(root, OWN), "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")}
    status, text = run_and_tell(root, part)
    counts = part.counted(text)
    result = {0: PASSED, SKIPPED: LEFT_OUT}.get(status, FAILED)
    row |= {"counts": counts, "seconds": round(clock() - began), "result": result}
    if result == FAILED:
        row["reason"] = f"exit status {status}"
    elif result == LEFT_OUT:
        row["reason"] = (re.findall(r"^skipped: (.*)$", text, re.MULTILINE) or ["no reason given"])[-1]
    elif not counts:
        row |= {"result": FAILED, "reason": "it reports success, and counted nothing"}
    return row


def in_words(row: dict) -> str:
    counts = ", ".join(f"{count} {what}" for what, count in row["counts"].items())
    return f"{row['result']} in {row['seconds']} s" + (f": {counts}" if counts else "") + (f" ({row['reason']})" if "reason" in row else "")


def run(root: pathlib.Path, parts: list[Part], clock: Callable[[], float]) -> int:
    ledger = Ledger(root)
    rows = {}
    for part in parts:
        print(f"\n== {part.name}: {part.what}", flush=True)
        rows[part.name] = row_of(root, part, clock)
        ledger.take_in(part.name, rows[part.name])
        print(f"== {part.name}: {in_words(rows[part.name])}", flush=True)
    print()
    for name, row in rows.items():
        print(f"{name}: {in_words(row)}" + (f", log in {LOGS}/{name}.log" if row["result"] == FAILED else ""))
    failed = [name for name, row in rows.items() if row["result"] == FAILED]
    if failed:
        print(f"error: long tests: expected all parts to pass, received failures of {', '.join(failed)}; try make test-all ARGS='{' '.join(failed)}'",
              file=sys.stderr)
    return 1 if failed else 0


def commits_since(root: pathlib.Path, commit: str) -> int | None:
    """None if the history of what is checked out does not have it."""
    counted = subprocess.run(["git", "merge-base", "--is-ancestor", commit, "HEAD"], cwd=root, capture_output=True)
    if counted.returncode != 0:
        return None
    return int(subprocess.run(["git", "rev-list", "--count", f"{commit}..HEAD"], cwd=root, check=True, capture_output=True, text=True).stdout)


def older(root: pathlib.Path, parts: list[Part], commits: int) -> list[str]:
    lines = []
    for part in parts:
        row = Ledger(root).rows.get(part.name)
        if row is None or row["result"] == LEFT_OUT:
            lines.append(f"{part.name}: never ran" + (f" (skipped on {row['date'][:10]}: {row['reason']})" if row else ""))
            continue
        age = commits_since(root, row["commit"].rstrip("+"))
        if age is None or age > commits:
            since = "on a commit that is not in this history" if age is None else f"{age} commits ago"
            lines.append(f"{part.name}: {since} ({row['date'][:10]}, {row['commit']}, {row['result']})")
    return lines


def arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="which parts; all if none is named")
    parser.add_argument("--list", action="store_true", help="the parts, what they are and how long they take")
    parser.add_argument("--older", type=int, metavar="N", help="prints which parts last ran more than N commits ago, or never")
    return parser.parse_args(words)


def main(words: list[str] | None = None, root: pathlib.Path = ROOT, parts: tuple[Part, ...] = PARTS,
         clock: Callable[[], float] = time.monotonic) -> int:
    options = arguments(words)
    unknown = [name for name in options.parts if name not in {part.name for part in parts}]
    if unknown:
        print(f"error: long tests: expected parts of {', '.join(part.name for part in parts)}, received {', '.join(unknown)}; try --list", file=sys.stderr)
        return 2
    some = [part for part in parts if not options.parts or part.name in options.parts]
    if options.list:
        print("\n".join(f"{part.name:15} {part.what}; {part.time}" for part in some))
        return 0
    if options.older is not None:
        print("\n".join(older(root, some, options.older)) or f"each part ran within {options.older} commits")
        return 0
    return run(root, some, clock)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("error: long tests: interrupted; the rows of the parts that ended are stored")
