"""scripts/long_tests.py in a small repository with small parts: a row for each as it ends, a part that fails stops no other, what
counted nothing or was skipped has not passed, and --older counts commits. What is counted is read from lines as the tools write them."""
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import long_tests  # noqa: E402
from long_tests import Part  # noqa: E402

RESULTS = pathlib.Path("tests/long/results.json")


def part(name: str, command: str, counted=long_tests.number_of("tests", r"^(\d+) tests")) -> Part:
    return Part(name, f"what {name} is", "a second", command, counted)


PARTS = (
    part("passes", "echo '3 tests'"),
    part("fails", "echo '2 tests'; echo too bad >&2; exit 3"),
    part("half-a-pipe", "false | echo '2 tests'"),
    part("counts-nothing", "echo nothing was selected"),
    part("left-out", "echo 'skipped: there is no such machine'; exit 77"),
    part("requires", "[ -n \"$ACCRUE_REQUIRE_ALL\" ] && [ -z \"$ARGS$MAKEFLAGS\" ] && cat build/long/fails.log && echo '4 tests'"),
)


def git(root: pathlib.Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *who, *words], cwd=root, check=True, capture_output=True, text=True).stdout


def commit(root: pathlib.Path, text: str) -> None:
    (root / "source").write_text(text)
    git(root, "add", "-A")
    git(root, "commit", "-qm", text)


def run(root: pathlib.Path, *words: str) -> tuple[int, str]:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = long_tests.main(list(words), root, PARTS, clock=lambda: 0.0)
    return status, said.getvalue()


def expect(result: tuple[int, str], status: int, *words: str) -> None:
    assert result[0] == status and all(word in result[1] for word in words), result


def check_a_run(root: pathlib.Path) -> None:
    expect(run(root), 1, "too bad", "passes: passed in 0 s: 3 tests", "fails: failed in 0 s: 2 tests (exit status 3), log in build/long/fails.log",
           "half-a-pipe: failed", "counts-nothing: failed in 0 s (it reports success, and counted nothing)",
           "left-out: skipped in 0 s (there is no such machine)", "requires: passed",
           "received failures of fails, half-a-pipe, counts-nothing; try make test-all ARGS='fails half-a-pipe counts-nothing'")
    rows = json.loads((root / RESULTS).read_text())
    head = git(root, "rev-parse", "--short=10", "HEAD").strip()
    assert set(rows) == {one.name for one in PARTS} and all(row["commit"] == head for row in rows.values()), rows
    assert rows["passes"]["counts"] == {"tests": 3} and rows["passes"]["result"] == "passed" and rows["passes"]["command"] == "echo '3 tests'", rows
    assert rows["fails"]["counts"] == {"tests": 2} and rows["fails"]["reason"] == "exit status 3" and rows["passes"]["date"].startswith("20"), rows
    assert (root / "build/long/fails.log").read_text() == "2 tests\ntoo bad\n" and not list((root / "tests/long").glob(".*"))


def check_some_of_them(root: pathlib.Path) -> None:
    (root / "source").write_text("changed")
    expect(run(root, "passes", "left-out"), 0, "passes: passed")
    rows = json.loads((root / RESULTS).read_text())
    assert rows["passes"]["commit"].endswith("+") and not rows["fails"]["commit"].endswith("+") and len(rows) == len(PARTS), rows
    expect(run(root, "no-such"), 2, "expected parts of passes, fails,", "received no-such; try --list")
    expect(run(root, "--list"), 0, "passes          what passes is; a second")


def check_older(root: pathlib.Path) -> None:
    (root / RESULTS).unlink(missing_ok=True)
    commit(root, "one")
    expect(run(root, "--older", "0"), 0, *(f"{one.name}: never ran" for one in PARTS))
    run(root)
    status, said = run(root, "--older", "0")
    assert status == 0 and said.splitlines() == [f"left-out: never ran (skipped on {said.split('skipped on ')[1][:10]}: there is no such machine)"], said
    for text in ("two", "three", "four"):
        commit(root, text)
    run(root, "passes")
    status, said = run(root, "--older", "2")
    assert status == 0 and "fails: 3 commits ago (" in said and "passes" not in said, said
    expect(run(root, "--older", "3", "passes"), 0, "each part ran within 3 commits")
    rows = json.loads((root / RESULTS).read_text())
    rows["fails"]["commit"] = "0123456789"
    (root / RESULTS).write_text(json.dumps(rows))
    expect(run(root, "--older", "3"), 0, "fails: on a commit that is not in this history")


def check_counts() -> None:
    build = "[1/30] Building\n[30/30] Linking\n"
    ctest = "3/3 Test #3: x ....***Skipped 0.1 sec\n\n67% tests passed, 1 tests failed out of 3\n"
    table = ("| mutant | room | killed by tests | verify | not as expected |\n|---|---|---|---|---|\n| a-b | core | Sum.IsRight | equal (gpt2) |  |\n"
             "| c | core | NOBODY | not asked |  |\n| d | core | X.Y | equal (gpt2) | gpt2: equal, expected: unknown |\n| e | core | ERROR: no |  |  |\n"
             "error: mutants: f: expected\n")
    for counted, text, counts in (
            (long_tests.of_build, build, {"steps": 30}),
            (long_tests.of_build, "ninja: no work to do.\n", {"steps": 0}),
            (long_tests.of_gate, "the slowest of 73 tests\n    1.0 s   x\n\n8 passed, 0 failed\n", {"steps": 8, "failed": 0, "tests": 73}),
            (long_tests.of_ctest, ctest + ctest, {"tests": 6, "failed": 2, "skipped": 2}),
            (long_tests.of_pytest, "1 failed, 3 passed, 2 warnings in 1.25s\n", {"failed": 1, "passed": 3}),
            (long_tests.of_googletest, "[  PASSED  ] 3 tests.\n[  PASSED  ] 1 test.\n", {"passed": 4}),
            (long_tests.of_faults, "kill -9: 8 trials as promised\nbit flips: 2 flips, 7 trials as promised\nBROKEN x\n", {"trials": 15, "broken": 1, "skipped": 0}),
            (long_tests.of_large_files, "4 of 5 train on files larger than memory\n", {"passed": 4, "kinds": 5}),
            (long_tests.of_fuzz, "fuzz: idx: 30 inputs, nothing found\nfuzz: gguf: 12 inputs, nothing found\n", {"inputs": 42, "targets": 2}),
            (long_tests.of_matrix, "| 2.11.0 | CPU | yes | yes | yes | 9 |\n| 2.13.0 | CUDA | yes | no | yes | 9 |\n", {"versions": 2, "passed": 1}),
            (long_tests.of_coverage, "| room | lines with code | executed |\n|---|---|---|\n| core | 1200 | 97.4% |\n| data | 9 | 100.0% |\n",
             {"core": 974, "data": 1000}),
            (long_tests.of_sound_runs, "300 runs of 410 drawn, 9 s: 1 false alarm, 299 sound; 300 equal\n", {"runs": 300, "false alarms": 1}),
            (long_tests.of_mutants, table, {"mutants": 4, "errors": 2, "survived": 1, "not as expected": 1})):
        assert counted(text) == counts, (counted, counted(text))
        assert counted("nothing that counts\n") == {}, counted
    for one in long_tests.PARTS:
        assert one.counted("nothing that counts\n") == {}, one.name


def main() -> None:
    check_counts()
    os.environ |= {"ARGS": "passes", "MAKEFLAGS": "ARGS=passes"}
    with tempfile.TemporaryDirectory(prefix="accrue-long-") as scratch:
        root = pathlib.Path(scratch)
        git(root, "init", "-q")
        (root / ".gitignore").write_text("build\n")
        commit(root, "zero")
        check_a_run(root)
        check_some_of_them(root)
        check_older(root)


if __name__ == "__main__":
    main()
