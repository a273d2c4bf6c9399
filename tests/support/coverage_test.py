"""scripts/coverage.py on a repository of two rooms, whose program is compiled and run here: lines by room, a header that two sources have,
lines of others that do not count, a room that is lower than its stored row, and a folder without counters."""
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
import coverage  # noqa: E402

SOURCES = {
    "include/accrue/alpha/shared.h": "inline int shared(bool first) {\n  if (first)\n    return 1;\n  return 2;\n}\n",
    "src/alpha/one.cpp": '#include "include/accrue/alpha/shared.h"\nint one() {\n  return shared(true);\n}\n',
    "src/beta/two.cpp": '#include "include/accrue/alpha/shared.h"\nint two() {\n  return shared(false);\n}\nint never() {\n  return 3;\n}\n',
    "tests/main.cpp": "#include <string>\nint one();\nint two();\nint main() {\n  return std::to_string(one() + two()) == \"3\" ? 0 : 1;\n}\n",
}


def program(root: pathlib.Path) -> None:
    """Compiled and run, so that build/ has its counters."""
    for name, text in SOURCES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "build").mkdir()
    objects = []
    for name in SOURCES:
        if name.endswith(".cpp"):
            objects.append(f"{pathlib.Path(name).stem}.o")
            subprocess.run(["g++", "--coverage", "-O0", "-I", str(root), "-c", str(root / name), "-o", objects[-1]], cwd=root / "build", check=True)
    subprocess.run(["g++", "--coverage", *objects, "-o", "program"], cwd=root / "build", check=True)
    subprocess.run([root / "build/program"], check=True)


def run(root: pathlib.Path, *words: str) -> tuple[int, str]:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = coverage.main([str(root / "build"), "--root", str(root), *words])
    return status, said.getvalue()


def check_a_program(root: pathlib.Path) -> None:
    program(root)
    status, said = run(root, "--lines", "beta")
    # shared() has four lines of code, of which each source executes three; the functions of the sources have two each.
    assert status == 0 and "| alpha | 6 | 100.0% |\n| beta | 4 | 50.0% |" in said and "src/beta/two.cpp: 5-6\n" in said and "tests" not in said, said


def check_a_lower_room(root: pathlib.Path) -> None:
    ledger = root / "results.json"
    for stored, status in (({"beta": 505}, 0), ({"beta": 506}, 1), ({"gamma": 1000}, 0), ({}, 0)):
        ledger.write_text(json.dumps({"coverage": {"counts": stored}}))
        got, said = run(root, "--ledger", str(ledger))
        assert got == status and ("beta: 50.6% before, 50.0% now" in said) == bool(status), (stored, got, said)
    assert run(root, "--ledger", str(root / "none.json"))[0] == 0
    ledger.write_text(json.dumps({"coverage": {"counts": {"beta": 506}}}))
    status, said = run(root, "--rooms", "alpha gamma", "--ledger", str(ledger))
    assert status == 0 and "alpha" in said and "beta" not in said, said


def check_no_counters(root: pathlib.Path) -> None:
    (root / "build").mkdir()
    status, said = run(root)
    assert status == 2 and "received none; try make coverage" in said, said


def check_words() -> None:
    assert coverage.ranges([17, 12, 14, 15, 16]) == "12, 14-17" and coverage.ranges([]) == ""
    assert [coverage.room_of(file) for file in ("src/data/text/x.cpp", "include/accrue/data/x.h", "src/x.cpp", "tests/data/x_test.cpp", "/usr/include/c++/12/string")] == [
        "data", "data", None, None, None]


def main() -> None:
    check_words()
    os.environ["LC_ALL"] = "C"
    for check in (check_a_program, check_no_counters):
        with tempfile.TemporaryDirectory(prefix="accrue-coverage-") as scratch:
            check(pathlib.Path(scratch))
            if check is check_a_program:
                check_a_lower_room(pathlib.Path(scratch))


if __name__ == "__main__":
    main()
