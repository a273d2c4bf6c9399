#!/usr/bin/env python3
"""What a change must pass before it is submitted: `make gate`, which is all that .ci/run does.

Runs the steps below, the cheapest first, and goes on behind one that failed if the next ones do not depend on it. Ends with a
table of the steps and their seconds, the slowest tests, and the list of what failed, also if a step hung and was ended.

Writes
  build/gate.json        result, seconds by step, tests by seconds; names the commit only if it passed
  build/gate/NAME.log    the output of each step
  build/gate/*.xml       the results of ctest, as JUnit has them

    scripts/gate.py            all
    scripts/gate.py NAME...    some of the steps, which must have been run before if others depend on them; no gate.json

Exit status 0: all passed; 1: the list at the end has what failed; 2: an unknown step.
"""
import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[1]
OUT = ROOT / "build" / "gate"
RESULT = ROOT / "build" / "gate.json"
SLOWEST = 25
LINES_OF_A_FAILURE = 60
MINUTE = 60


@dataclasses.dataclass(frozen=True)
class Step:
    name: str
    command: str
    minutes: float  # after which it is ended: several times what it takes
    needs: tuple[str, ...] = ("set-up",)
    junit: str = ""  # where its tests' results are, in OUT


STEPS = (
    Step("set-up", "scripts/setup.sh gate", 20, ()),
    Step("formatting", "make fmt-check", 5),
    Step("scripts", "make check-scripts", 5),
    Step("sanitizer build", "make sanitize-build", 30),
    Step("sanitizers", "make sanitize-test", 25, ("set-up", "sanitizer build"), "sanitizers.xml"),
    Step("fuzz corpus", "make sanitize-corpus", 10, ("set-up", "sanitizer build")),
    Step("build", "make test-build", 45),
    Step("tests", "make test-run", 55, ("set-up", "build"), "tests.xml"),
)


@dataclasses.dataclass
class Done:
    step: Step
    result: str  # passed, failed, ended after so long, or not run
    seconds: float = 0
    processor_seconds: float = 0  # of all cores: a step with fewer than cores x seconds waits

    @property
    def passed(self) -> bool:
        return self.result == "passed"


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def log_of(step: Step) -> pathlib.Path:
    return OUT / (step.name.replace(" ", "-") + ".log")


def processor_seconds() -> float:
    """Of all processes that ended below this one."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(step: Step) -> Done:
    """Shows and keeps what the step prints. What it started ends with it."""
    print(f"\n== {step.name}: {step.command}", flush=True)
    begin, used = time.monotonic(), processor_seconds()
    ended = ""
    process = subprocess.Popen(["bash", "-o", "pipefail", "-c", f"{{ {step.command}; }} 2>&1 | tee '{log_of(step)}'"], cwd=ROOT,
                               stdin=subprocess.DEVNULL, start_new_session=True, env=os.environ | {"ACCRUE_GATE": str(OUT)})
    try:
        process.wait(step.minutes * MINUTE)
    except subprocess.TimeoutExpired:
        ended = f"ended after {step.minutes:.0f} minutes"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return Done(step, ended or ("passed" if process.returncode == 0 else "failed"), time.monotonic() - begin,
                processor_seconds() - used)


def tests_of(step: Step) -> list[tuple[str, float, bool]]:
    """Name, seconds and whether it failed, of each test that ctest ran."""
    if not step.junit or not (OUT / step.junit).exists():
        return []
    cases = xml.etree.ElementTree.parse(OUT / step.junit).getroot().iter("testcase")
    return [(case.get("name"), float(case.get("time") or 0), case.find("failure") is not None) for case in cases]


def print_table(done: list[Done]) -> None:
    print(f"\n== the gate\n{'':<18}{'took':>10} {'processors':>10}")
    for row in done:
        print(f"{row.step.name:<18}{row.seconds:>8.0f} s {row.processor_seconds:>8.0f} s   {row.result}")
    print(f"{'all':<18}{sum(row.seconds for row in done):>8.0f} s {sum(row.processor_seconds for row in done):>8.0f} s")
    tests = sorted((test for row in done for test in tests_of(row.step)), key=lambda test: -test[1])
    if tests:
        print(f"\nthe slowest of {len(tests)} tests")
        for name, seconds, _ in tests[:SLOWEST]:
            print(f"{seconds:>8.1f} s   {name}")


def failures(done: list[Done]) -> list[str]:
    lines = []
    for row in done:
        if row.passed:
            continue
        failed = [name for name, _, failed in tests_of(row.step) if failed]
        lines.append(f"{row.step.name}: {row.result}" + (": " + ", ".join(failed) if failed else ""))
    return lines


def print_ends_of_logs(done: list[Done]) -> None:
    for row in done:
        if row.passed or row.result == "not run":
            continue
        lines = log_of(row.step).read_text(errors="replace").splitlines()
        print(f"\n== the end of {log_of(row.step).relative_to(ROOT)}")
        print("\n".join(lines[-LINES_OF_A_FAILURE:]))


def write_result(done: list[Done], commit: str, is_clean: bool) -> None:
    """Only a commit that passed, and nothing beside it, is named in full."""
    passed = all(row.passed for row in done)
    result = {"result": "passed" if passed else "failed", "commit": commit if passed and is_clean else None, "tried": commit[:10],
              "clean": is_clean, "ended": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
              "cores": os.cpu_count(), "failed": failures(done), "seconds": {row.step.name: round(row.seconds, 1) for row in done},
              "processor_seconds": {row.step.name: round(row.processor_seconds, 1) for row in done},
              "tests": {f"{row.step.name}: {name}": round(seconds, 2) for row in done for name, seconds, _ in tests_of(row.step)}}
    partial = RESULT.with_suffix(".partial")
    partial.write_text(json.dumps(result, indent=1) + "\n")
    partial.replace(RESULT)


def state_of_tree() -> tuple[str, bool]:
    return git("rev-parse", "HEAD"), not git("status", "--porcelain")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="*", metavar="NAME", help="some of: " + ", ".join(step.name for step in STEPS))
    names = parser.parse_args().steps
    known = {step.name for step in STEPS}
    if unknown := [name for name in names if name not in known]:
        print(f"error: gate: expected steps among {', '.join(sorted(known))}, received {unknown[0]}", file=sys.stderr)
        return 2
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.glob("*.xml"):
        old.unlink()
    if not names:
        RESULT.unlink(missing_ok=True)
    commit, is_clean = state_of_tree()
    done: list[Done] = []
    for step in STEPS:
        if names and step.name not in names:
            continue
        lacks = {row.step.name for row in done if not row.passed} & set(step.needs)
        done.append(Done(step, "not run") if lacks else run(step))
    print_ends_of_logs(done)
    print_table(done)
    # A tree that was edited meanwhile is not that of the commit.
    now, still_clean = state_of_tree()
    if not names:
        write_result(done, commit, is_clean and still_clean and now == commit)
    count = sum(row.passed for row in done)
    if lines := failures(done):
        print("\nfailed:\n  " + "\n  ".join(lines))
    print(f"\n{count} passed, {len(done) - count} failed", flush=True)
    return 0 if count == len(done) else 1


if __name__ == "__main__":
    sys.exit(main())
