#!/usr/bin/env python3
"""Plants faults in accrue's sources, one after the other, and reports which tests see each, and whether `accrue verify` does.

A mutant is a row of tests/mutants/mutants.toml: what is wrong in it, which tests are to see it, what verify is to say, and the edit
that plants it, which is found by symbol and expression (mutant_edits.py). They are planted in a copy of the tree (--work), which has
a build folder of its own and is kept for the next time. First the copy as it is has to pass the same tests, and verify has to call
it equal. A mutant that has no place in the sources any more is an error of its own: the others are asked.

What came of it is stored, row by row, with date and commit: tests/mutants/results.json, from which docs/notes/mutants.md is
written (mutant_results.py). Rows that a run does not ask stay as they are.

    scripts/mutants.py --check                     # no build: each has its place in the sources, table and stored results agree
    scripts/mutants.py --page                      # no build: the page anew, after an edit of the table
    scripts/mutants.py                             # all, an hour and a half on two cores
    scripts/mutants.py 'attention*' --no-verify    # some of them, by the tests alone
    scripts/mutants.py --room optim --verify-only

Exit status 0: tests saw each mutant, and verify said what the table expects; 1: some survived, or verify said otherwise;
2: a control failed, or a mutant has no place in the sources or does not compile.
"""
import argparse
import dataclasses
import fnmatch
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass, field

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import mutant_edits  # noqa: E402
from mutant_data import write_data  # noqa: E402
from mutant_edits import Edit  # noqa: E402
from mutant_results import PAGE, STORED, Results  # noqa: E402
from stored import commit_of  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = pathlib.Path("tests/mutants")
ROOMS = ("kernels", "accum", "optim", "train", "batch", "data", "distributed", "checkpoint", "models", "core", "python")
PYTHON = "python"  # the room whose tests are pytest's, and whose mutants need no build
BUILD_SECONDS = 3600
DIFFERS = 3  # verify's exit status where something differs
EQUAL = "equal"
# What verify may be expected to say: the cause of a difference that it sees, that there is none, or an error.
EXPECTED = re.compile(rf"{EQUAL}|exit [12]|batchnorm|dropout|weighting|normalization|precision|nondeterminism|batch-coupled-loss"
                      "|unknown|zeroed-mid-window|stepped-mid-window")


class Failure(Exception):
    """What ends the whole: the table is wrong, or a control fails."""


@dataclass
class Mutant:
    name: str
    wrong: str
    room: str
    tests: dict[str, str]
    verify: dict[str, str]  # what is asked, and what verify is expected to say
    why: str
    needs: str = ""  # what the processor has to have, as /proc/cpuinfo calls it, for the fault to be run
    edits: list[Edit] = field(default_factory=list)

    def can_run(self) -> bool:
        return not self.needs or self.needs in flags_of_processor()

    def seen_by_verify(self) -> bool:
        return any(said != EQUAL and not said.startswith("exit") for said in self.verify.values())


@dataclass
class Outcome:
    killed: list[str] = field(default_factory=list)
    verify: list[dict] = field(default_factory=list)
    error: str = ""
    seconds: float = 0


@functools.cache
def flags_of_processor() -> frozenset[str]:
    found = re.search(r"^flags\s*:(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return frozenset(found[1].split()) if found else frozenset()


def configs_in(root: pathlib.Path) -> set[str]:
    return {file.stem for file in (root / FOLDER / "configs").glob("*.toml")}


EDIT_KEYS = {one.name for one in dataclasses.fields(Edit)}


def edit_of(name: str, row: dict, is_first: bool) -> Edit:
    edit = Edit(**{key: row[key] for key in EDIT_KEYS if key in row})
    if not edit.find.strip():
        raise Failure(f"{name}: expected an expression in 'find', received none")
    if bool(edit.file) != bool(edit.symbol) or (is_first and not edit.file):
        raise Failure(f"{name}: expected a file and a symbol with: {edit.find}; without both only in 'further'")
    return edit


def read_table(root: pathlib.Path) -> list[Mutant]:
    with open(root / FOLDER / "mutants.toml", "rb") as file:
        table = tomllib.load(file)
    mutants = []
    for name, row in table.items():
        further = row.get("further", [])
        unknown = set(row) - {"wrong", "room", "tests", "verify", "why", "needs", "further"} - EDIT_KEYS
        unknown |= {key for one in further for key in one} - EDIT_KEYS
        if unknown:
            raise Failure(f"{name}: no such keys: {', '.join(sorted(unknown))}")
        if missing := [f"{key}" for key in ("find", "replace") if not all(key in one for one in (row, *further))]:
            raise Failure(f"{name}: expected {' and '.join(missing)} in each edit")
        edits = [edit_of(name, one, one is row) for one in (row, *further)]
        mutants.append(Mutant(name, row.get("wrong", ""), row.get("room", ""), row.get("tests", {}), row.get("verify", {}),
                              row.get("why", ""), row.get("needs", ""), edits))
    return mutants


def problems_of(root: pathlib.Path, mutants: list[Mutant]) -> list[str]:
    """What is wrong with the table by itself."""
    problems = []
    configs = configs_in(root)
    for mutant in mutants:
        def complain(what: str, name: str = mutant.name) -> None:
            problems.append(f"{name}: {what}")
        if not mutant.wrong.endswith("."):
            complain("'wrong' is no sentence")
        if mutant.room not in ROOMS:
            complain(f"'{mutant.room}' is none of the rooms {', '.join(ROOMS)}")
        if not mutant.tests:
            complain("no tests that are to see it")
        if any("-" in pattern for pattern in mutant.tests.values()):
            complain("a filter that leaves tests out ('-'), which cannot be joined with others")
        if not mutant.seen_by_verify() and not mutant.why:
            complain("nothing shows it to verify, and no reason why ('why')")
        for asked, said in mutant.verify.items():
            if asked.split()[0] not in configs:
                complain(f"no {FOLDER}/configs/{asked.split()[0]}.toml")
            if not EXPECTED.fullmatch(said):
                complain(f"verify of {asked} cannot say '{said}'")
    return problems


def planted(root: pathlib.Path, mutant: Mutant) -> tuple[dict[pathlib.Path, str], list[str]]:
    """The files of `root` that the mutant changes, with it, and remarks on symbols that have moved."""
    changed, remarks = mutant_edits.planted(root, mutant.edits)
    same = [path for path, text in changed.items() if text == path.read_text()]
    if same:
        raise mutant_edits.NotFound(f"expected a change of {same[0].relative_to(root)}, received the same text")
    return changed, [f"{mutant.name}: {remark}" for remark in remarks]


def misplaced(root: pathlib.Path, mutants: list[Mutant]) -> tuple[dict[str, str], list[str]]:
    """Why mutants have no place in the sources, by name, and the remarks on the others."""
    problems, remarks = {}, []
    for mutant in mutants:
        try:
            remarks += planted(root, mutant)[1]
        except mutant_edits.NotFound as error:
            problems[mutant.name] = str(error)
    return problems, remarks


def run(command: list[str], cwd: pathlib.Path, seconds: float) -> tuple[int | None, str, str]:
    """The exit status (nothing where it took longer than `seconds`), and what was written to both outputs."""
    process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                               start_new_session=True, env=os.environ | {"OMP_WAIT_POLICY": "passive"})
    try:
        out, errors = process.communicate(timeout=seconds)
        return process.returncode, out, errors
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, errors = process.communicate()
        return None, out, errors
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise


def tracked(root: pathlib.Path) -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=root, check=True,
                            capture_output=True, text=True)
    return [name for name in listed.stdout.split("\0") if name and (root / name).is_file()]


class Copy:
    """A copy of the tree, with a build folder of its own."""

    # Unity builds: after an edit of one file, up to 12 are compiled again, which takes 15 to 20 s against 12 s of one file
    # alone; but all of it the first time takes 12 minutes against 34 (two cores).
    def __init__(self, folder: pathlib.Path, jobs: int) -> None:
        self.folder = folder.resolve()
        self.build_folder = self.folder / "build" / "release"
        self.jobs = jobs

    def update(self) -> None:
        """Brings the sources to those of the tree; files that are alike are left alone, and so are their objects."""
        self.folder.mkdir(parents=True, exist_ok=True)
        listing = self.folder / ".copied-files"
        names = tracked(ROOT)
        before = listing.read_text().splitlines() if listing.exists() else []
        for name in set(before) - set(names):
            (self.folder / name).unlink(missing_ok=True)
        for name in names:
            source, target = ROOT / name, self.folder / name
            content = source.read_bytes()
            if target.exists() and target.read_bytes() == content:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            shutil.copymode(source, target)
        listing.write_text("\n".join(names) + "\n")
        write_data(self.folder / "build" / "mutant-data")

    def configure(self) -> None:
        """With the libraries that the tree itself is built with."""
        if (self.build_folder / "CMakeCache.txt").exists():
            return
        cache = ROOT / "build" / "release" / "CMakeCache.txt"
        if not cache.exists():
            raise Failure("the tree has no build/release; `make build` makes it")
        known = dict(re.findall(r"^(ACCRUE_LIBTORCH|CMAKE_PREFIX_PATH):\w+=(.*)$", cache.read_text(), re.MULTILINE))
        status, out, errors = run(["cmake", "--preset", "release", "-DCMAKE_UNITY_BUILD=ON", "-DACCRUE_BUILD_TESTS=ON",
                                   *(f"-D{name}={value}" for name, value in known.items())], self.folder, BUILD_SECONDS)
        if status != 0:
            raise Failure(f"cmake: {out[-2000:]}{errors[-2000:]}")

    def build(self, targets: list[str]) -> str:
        """What the compiler says where it fails, else nothing."""
        if not targets:
            return ""
        status, out, errors = run(["cmake", "--build", str(self.build_folder), "-j", str(self.jobs), "--target", *targets],
                                  self.folder, BUILD_SECONDS)
        if status is None:
            return f"it took more than {BUILD_SECONDS} s"
        found = re.findall(r"^.*(?:error|Error|FAILED):.*$", out + errors, re.MULTILINE)
        return "" if status == 0 else "; ".join(found[:3]) or (out + errors)[-500:]

    def python_package(self) -> pathlib.Path:
        """What PYTHONPATH is to name: the copy's Python files beside the tree's own extension, in which no mutant of theirs is."""
        folder = self.folder / "build" / "mutant-python"
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "accrue").mkdir(parents=True)
        built = ROOT / "build" / "release" / "python" / "accrue"
        for path in (*(self.folder / "python" / "accrue").glob("*.py"), *built.glob("_native*"), *built.glob("_build.py")):
            (folder / "accrue" / path.name).symlink_to(path.resolve())
        return folder

    def test_program(self, name: str) -> pathlib.Path:
        found = [path for path in (self.build_folder / "tests").glob(f"**/{name}_test") if path.is_file()]
        if not found:
            raise Failure(f"no test program of '{name}'")
        return found[0]


def failures_of_python(copy: Copy, pattern: str, seconds: float) -> list[str]:
    """`pattern` names files (test_watch) or functions in them (test_watch.test_right), joined by ':'."""
    chosen = [f"{file}.py::{function}" if function else f"{file}.py" for file, _, function in (one.partition(".") for one in pattern.split(":"))]
    environment = {"PYTHONPATH": str(copy.python_package()), "PYTHONDONTWRITEBYTECODE": "1"}
    status, out, errors = run(["env", *(f"{name}={value}" for name, value in environment.items()), str(ROOT / ".venv-test" / "bin" / "python"), "-m",
                               "pytest", "-q", "-rfE", "-p", "no:cacheprovider", *chosen], copy.folder / "tests" / "python", seconds)
    if status in (4, 5):
        raise Failure(f"no test of '{PYTHON}' is called {pattern}: {(out + errors)[-300:]}")
    found = re.findall(r"^(?:FAILED|ERROR) \S*?(\w+)\.py(?:::(\w+))?", out, re.MULTILINE)
    names = sorted({f"{file}.{function}" if function else file for file, function in found})
    if status is None:
        return [*names, f"timeout of {PYTHON}"]
    return names or ([f"{PYTHON} (exit {status}: {errors.strip()[-100:]})"] if status else [])


def failures_of(copy: Copy, tests: dict[str, str], seconds: float) -> list[str]:
    """The tests that fail; a program that crashes or does not end counts, too."""
    failed = failures_of_python(copy, tests[PYTHON], seconds) if PYTHON in tests else []
    for room, pattern in tests.items():
        if room == PYTHON:
            continue
        program = copy.test_program(room)
        status, out, errors = run([str(program), f"--gtest_filter={pattern}"], program.parent, seconds)
        names = sorted(set(re.findall(r"^\[  FAILED  \] ([^\s,]+)", out, re.MULTILINE)))
        names = [name for name in names if "." in name]
        if re.search(r"^\[=+\] Running 0 tests", out, re.MULTILINE):
            raise Failure(f"no test of '{room}' is called {pattern}")
        if status is None:
            names.append(f"timeout of {room}")
        elif status != 0 and not names:
            last = re.findall(r"^\[ RUN      \] (\S+)", out, re.MULTILINE)
            names.append(f"{last[-1] if last else room} (exit {status}: {errors.strip()[-100:]})")
        failed += names
    return failed


def ask_verify(copy: Copy, asked: str, seconds: float) -> dict:
    config, *arguments = asked.split()
    status, out, errors = run([str(copy.build_folder / "accrue"), "verify", str(copy.folder / FOLDER / "configs" / f"{config}.toml"),
                               "--json", *arguments], copy.folder / "build" / "mutant-data", seconds)
    if status not in (0, DIFFERS):
        return {"config": asked, "said": "timeout" if status is None else f"exit {status}", "message": errors.strip()[-300:]}
    report = json.loads(out)
    return {"config": asked, "said": report["cause"] if status == DIFFERS else EQUAL, "error": report["max_relative_error"],
            "bound": report["bound"]}


def union_of_tests(mutants: list[Mutant]) -> dict[str, str]:
    patterns: dict[str, list[str]] = {}
    for mutant in mutants:
        for room, pattern in mutant.tests.items():
            patterns.setdefault(room, []).append(pattern)
    return {room: ":".join(dict.fromkeys(":".join(parts).split(":"))) for room, parts in patterns.items()}


def targets_of(tests: dict[str, str], asks: bool) -> list[str]:
    return [f"{room}_test" for room in tests if room != PYTHON] + (["accrue"] if asks else [])


class Campaign:
    def __init__(self, copy: Copy, options: argparse.Namespace) -> None:
        self.copy, self.options = copy, options

    def tests_of(self, mutants: list[Mutant]) -> dict[str, str]:
        return {} if self.options.verify_only else union_of_tests(mutants)

    def configs_of(self, mutants: list[Mutant]) -> list[str]:
        return [] if self.options.no_verify else list(dict.fromkeys(asked for m in mutants for asked in m.verify))

    def control(self, mutants: list[Mutant]) -> None:
        """The tree as it is: tests pass, and verify calls it equal."""
        tests, configs = self.tests_of(mutants), self.configs_of(mutants)
        if error := self.copy.build(targets_of(tests, bool(configs))):
            raise Failure(f"the tree itself does not build: {error}")
        failed = failures_of(self.copy, tests, self.options.timeout)
        answers = [ask_verify(self.copy, asked, self.options.timeout) for asked in configs]
        unequal = [f"verify of {a['config']} ({a['said']}: {a.get('message', '')})" for a in answers if a["said"] != EQUAL]
        if failed or unequal:
            message = f"the tree itself fails: {', '.join(failed + unequal)}"
            if not self.options.keep_going:
                raise Failure(message)
            print(message, file=sys.stderr)

    def outcome_of(self, mutant: Mutant) -> Outcome:
        began = time.monotonic()
        outcome = Outcome()
        before: dict[pathlib.Path, bytes] = {}
        try:
            changed, _ = planted(self.copy.folder, mutant)
            before = {path: path.read_bytes() for path in changed}
            for path, text in changed.items():
                path.write_text(text)
            tests, configs = self.tests_of([mutant]), self.configs_of([mutant])
            outcome.error = self.copy.build(targets_of(tests, bool(configs)))
            if not outcome.error:
                outcome.killed = failures_of(self.copy, tests, self.options.timeout)
                outcome.verify = [ask_verify(self.copy, asked, self.options.timeout) for asked in configs]
            return outcome
        except (Failure, mutant_edits.NotFound) as failure:
            outcome.error = str(failure)
            return outcome
        finally:
            for path, content in before.items():
                path.write_bytes(content)
            outcome.seconds = round(time.monotonic() - began, 1)


def deviations(outcome: Outcome, mutant: Mutant) -> list[str]:
    """Where verify said something else than the table expects."""
    return [f"{answer['config']}: {answer['said']}, expected: {mutant.verify[answer['config']]}" for answer in outcome.verify
            if answer["said"] != mutant.verify[answer["config"]]]


def in_words(outcome: Outcome, mutant: Mutant, options: argparse.Namespace) -> list[str]:
    """The cells of the mutant's line: who killed it, what verify said of each config, where that is not as expected."""
    if outcome.error:
        return [f"ERROR: {outcome.error}".replace("|", "/").replace("\n", " ")[:200], "", ""]
    killed = "not asked" if options.verify_only else ", ".join(outcome.killed[:2]) or "NOBODY"
    if len(outcome.killed) > 2:
        killed += f" and {len(outcome.killed) - 2} more"
    said = ", ".join(f"{answer['said']} ({answer['config']})" for answer in outcome.verify)
    return [killed, said or "not asked", "; ".join(deviations(outcome, mutant))]


def chosen(mutants: list[Mutant], options: argparse.Namespace) -> list[Mutant]:
    """In the order of the files that they change, so that fewer are compiled twice."""
    some = [m for m in mutants if (not options.names or any(fnmatch.fnmatch(m.name, name) for name in options.names))
            and (not options.room or m.room == options.room) and (m.verify or not options.verify_only)]
    if not some:
        raise Failure("no such mutants")
    return sorted(some, key=lambda m: m.edits[0].file)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="which mutants, with * and ?; all where none is named")
    parser.add_argument("--room", choices=ROOMS)
    parser.add_argument("--check", action="store_true", help="only whether each has its place in the sources and the table is right")
    parser.add_argument("--page", action="store_true", help="only writes the page anew, and drops results of what the table has no more")
    parser.add_argument("--no-verify", action="store_true")
    parser.add_argument("--verify-only", action="store_true", help="without tests")
    parser.add_argument("--keep-going", action="store_true", help="after a control that fails and a mutant that does not compile")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build" / "mutants", help="where the copy of the tree is kept")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--timeout", type=float, default=300, help="seconds that tests of a room, or verify of a config, may take")
    parser.add_argument("--dry", action="store_true", help="without storing what comes of it")
    return parser.parse_args()


def campaign(options: argparse.Namespace) -> int:
    mutants = read_table(ROOT)
    results = Results(ROOT)
    problems = problems_of(ROOT, mutants)
    if options.page and not problems:
        results.write(mutants)
        return 0
    if options.check:
        lost, remarks = misplaced(ROOT, mutants)
        problems += [f"{name}: {why}" for name, why in lost.items()] + results.problems(mutants)
        print("".join(f"note: {remark}\n" for remark in remarks), end="")
    if problems:
        raise Failure("\n".join(problems))
    if options.check:
        print(f"mutants: {len(mutants)} have their place in the sources, and table and stored results agree")
        return 0
    some = chosen(mutants, options)
    for mutant in some:
        if not mutant.can_run():
            print(f"{mutant.name}: not asked, since this machine has no {mutant.needs}", file=sys.stderr)
    some = [mutant for mutant in some if mutant.can_run()]
    lost, _ = misplaced(ROOT, some)
    for name, why in lost.items():
        print(f"error: mutants: {name}: {why}", file=sys.stderr)
    some = [mutant for mutant in some if mutant.name not in lost]
    if not some:
        raise Failure(f"expected mutants that can be planted and run here, received {'none with a place in the sources' if lost else 'none for this processor'}")
    copy = Copy(options.work, options.jobs)
    copy.update()
    work = Campaign(copy, options)
    if targets_of(work.tests_of(some), bool(work.configs_of(some))):
        copy.configure()
    work.control(some)
    print("| mutant | room | killed by tests | verify | not as expected |\n|---|---|---|---|---|")
    commit = commit_of(ROOT, {str(STORED), str(PAGE)})
    errors, unlike = len(lost), 0
    for mutant in some:
        outcome = work.outcome_of(mutant)
        print("| " + " | ".join([mutant.name, mutant.room, *in_words(outcome, mutant, options)]) + " |", flush=True)
        errors += bool(outcome.error)
        survived = not outcome.error and not outcome.killed and not options.verify_only
        unlike += survived or bool(deviations(outcome, mutant))
        if not options.dry and not outcome.error:
            results.take_in(mutant.name, None if options.verify_only else outcome.killed, outcome.verify, commit)
            results.write(mutants)
        if outcome.error and not options.keep_going:
            break
    return 2 if errors else 1 if unlike else 0


def main() -> int:
    try:
        return campaign(arguments())
    except Failure as failure:
        print(f"error: mutants: {failure}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("mutants: interrupted; what came of those above is stored", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
