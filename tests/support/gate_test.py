"""scripts/gate.py runs what it should, ends what hangs, and names a commit only if all of it passed: on steps of a second."""
import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import time
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import gate  # noqa: E402
from gate import Step  # noqa: E402

JUNIT = """<testsuite><testcase name="quick" time="0.5"/><testcase name="slow" time="7.25"><failure/></testcase></testsuite>"""


def git(folder: pathlib.Path, *words: str) -> str:
    return subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True, capture_output=True,
                          text=True).stdout.strip()


def run(folder: pathlib.Path, *steps: Step, names: tuple[str, ...] = ()) -> tuple[int, str, dict]:
    """Status, output, and what gate.json has."""
    result = folder / "build" / "gate.json"
    with (mock.patch.multiple(gate, ROOT=folder, OUT=folder / "build" / "gate", RESULT=result, STEPS=steps),
          mock.patch.object(sys, "argv", ["gate.py", *names]), contextlib.redirect_stdout(io.StringIO()) as out):
        status = gate.main()
    return status, out.getvalue(), json.loads(result.read_text()) if result.exists() else {}


def check_passes(folder: pathlib.Path, head: str) -> None:
    status, out, result = run(folder, Step("a step", "echo said", 1, ()), Step("next", "true", 1, ("a step",)))
    assert status == 0 and out.rstrip().endswith("2 passed, 0 failed"), out
    assert result["result"] == "passed" and result["commit"] == head and result["clean"], result
    assert set(result["seconds"]) == {"a step", "next"}, result
    assert (folder / "build" / "gate" / "a-step.log").read_text() == "said\n"


def check_fails(folder: pathlib.Path, head: str) -> None:
    """What depends on a step that failed is not run, the rest is; a pipe does not hide the failure."""
    status, out, result = run(folder, Step("bad", "echo why; false", 1, ()), Step("after", "true", 1, ("bad",)),
                              Step("beside", "touch beside", 1, ()))
    (folder / "beside").unlink()
    assert status == 1 and "why" in out and "bad: failed" in out and "after: not run" in out, out
    assert out.rstrip().endswith("1 passed, 2 failed"), out
    assert result["result"] == "failed" and head not in json.dumps(result) and result["tried"] == head[:10], result


def check_tests_are_named(folder: pathlib.Path) -> None:
    write = f"echo '{JUNIT}' >build/gate/some.xml; false"
    status, out, result = run(folder, Step("tests", write, 1, (), "some.xml"))
    assert status == 1 and "tests: failed: slow" in out and "7.2 s   slow" in out, out
    assert result["tests"] == {"tests: quick": 0.5, "tests: slow": 7.25}, result


def check_what_hangs_is_ended(folder: pathlib.Path) -> None:
    begin = time.monotonic()
    status, out, result = run(folder, Step("hangs", "echo before; sleep 600 & wait", 1 / 60, ()), Step("next", "true", 1, ()))
    assert status == 1 and time.monotonic() - begin < 30, out
    assert "hangs: ended after" in out and "before" in out and result["failed"] == ["hangs: ended after 0 minutes"], out


def check_edited_trees(folder: pathlib.Path) -> None:
    (folder / "file").write_text("edited")
    status, _, result = run(folder, Step("a step", "true", 1, ()))
    assert status == 0 and not result["clean"] and result["commit"] is None, result
    git(folder, "checkout", "-q", "file")
    status, _, result = run(folder, Step("edits", "echo more >file", 1, ()))
    assert status == 0 and not result["clean"] and result["commit"] is None, result
    git(folder, "checkout", "-q", "file")


def check_some_steps(folder: pathlib.Path) -> None:
    """They say nothing of the commit: the result of the last whole run stays."""
    before = (folder / "build" / "gate.json").read_text()
    steps = Step("one", "true", 1, ()), Step("two", "false", 1, ("one",))
    assert run(folder, *steps, names=("one",))[0] == 0
    assert run(folder, *steps, names=("two",))[0] == 1
    assert (folder / "build" / "gate.json").read_text() == before
    with contextlib.redirect_stderr(io.StringIO()) as errors:
        assert run(folder, *steps, names=("three",))[0] == 2
    assert "received three" in errors.getvalue()


def main() -> None:
    for step in gate.STEPS:
        assert set(step.needs) <= {other.name for other in gate.STEPS[:gate.STEPS.index(step)]}, step
    with tempfile.TemporaryDirectory(prefix="accrue-gate-") as scratch:
        folder = pathlib.Path(scratch)
        git(folder, "init", "-q")
        (folder / ".gitignore").write_text("/build/\n")
        (folder / "file").write_text("a file\n")
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", "One file")
        head = git(folder, "rev-parse", "HEAD")
        check_passes(folder, head)
        check_fails(folder, head)
        check_tests_are_named(folder)
        check_what_hangs_is_ended(folder)
        check_edited_trees(folder)
        check_some_steps(folder)


if __name__ == "__main__":
    main()
