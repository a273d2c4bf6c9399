"""scripts/mutants.py on a small tree of its own: edits find their symbol and expression after moves and other line breaks, and are
refused if they have no place or several; table, stored results and page agree, and --check sees it if they do not. Whether the
mutants of accrue itself have their places is a part of the long form (scripts/long_tests.py), so that no edit has to mend them at once."""
import argparse
import dataclasses
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import mutant_edits  # noqa: E402
import mutants  # noqa: E402
from mutant_edits import Edit, NotFound  # noqa: E402
from mutant_results import Results  # noqa: E402
from mutants import Campaign, Copy, Mutant, Outcome, deviations  # noqa: E402

MUTANTS = pathlib.Path("tests/mutants")
TABLE = MUTANTS / "mutants.toml"
PAGE = pathlib.Path("docs/notes/mutants.md")
SUM = pathlib.Path("src/core/sum.cpp")
SUM_TEXT = '''#include <vector>
// double total(...) { return 0; } stands in no code
#define BRACE {
namespace accrue::core {
namespace {

/// What looks like the end of a body in a literal is none.
constexpr const char* kWords = "}";
constexpr char kBrace = '}';
const long kMany = 262'144;
const char* raw = R"x( } " )x";

template <class T>
T total(const std::vector<T>& values, T factor) {
  T sum = 0;
  for (const T value : values) sum += factor * value;
  return sum;
}

double total(const std::vector<double>& values) { return total(values, 1.0); }

}  // namespace

struct Mean {
  explicit Mean(double of) : sum{of}, count_(1) { ++count_; }
  bool operator<(const Mean& other) const { return sum < other.sum; }
  double operator()(double by) const { return sum / by; }
  double value() const { return sum / count_; }

  double sum;

 private:
  int count_ = 0;
};

void Window::close() {
  commit();
  commit();
  release(slots_,
          entries_);
}

}  // namespace accrue::core
'''
TABLE_TEXT = '''[sum-without-factor]
wrong = "A sum leaves its factor out."
room = "core"
tests = { sum = "Sum.*" }
verify = { gpt2 = "weighting" }
file = "src/core/sum.cpp"
symbol = "total"
find = 'factor * value'
replace = 'value'

[slots-kept]
wrong = "A window keeps its slots."
room = "core"
tests = { sum = "Sum.*" }
why = "It shows in memory."
file = "src/core/sum.cpp"
symbol = "Window::close"
find = 'release(slots_, entries_);'
replace = ''

[[slots-kept.further]]
find = '#include <vector>'
replace = """#include <vector>
#include <cmath>"""
'''


def small_tree(root: pathlib.Path) -> pathlib.Path:
    (root / "include").mkdir()
    (root / SUM).parent.mkdir(parents=True)
    (root / SUM).write_text(SUM_TEXT)
    (root / MUTANTS / "configs").mkdir(parents=True)
    (root / MUTANTS / "configs" / "gpt2.toml").write_text("")
    (root / TABLE).write_text(TABLE_TEXT)
    shutil.copytree(ROOT / "scripts", root / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    results = Results(root)
    results.take_in("sum-without-factor", ["Sum.IsRight"], [{"config": "gpt2", "said": "weighting"}], "c0ffee")
    results.write(mutants.read_table(root))
    return root


def check(root: pathlib.Path, *words: str) -> tuple[int, str]:
    ended = subprocess.run([sys.executable, str(root / "scripts" / "mutants.py"), *(words or ["--check"])], capture_output=True, text=True)
    return ended.returncode, ended.stdout + ended.stderr


def planted(root: pathlib.Path, name: pathlib.Path, old: str, new: str) -> tuple[int, str]:
    """What is reported of the tree with `new` in place of `old`, once; it is as it was afterwards."""
    file = root / name
    text = file.read_text()
    assert old in text, f"{name} has no {old!r}"
    file.write_text(text.replace(old, new, 1))
    result = check(root)
    file.write_text(text)
    return result


def expect(result: tuple[int, str], status: int, *words: str) -> None:
    assert result[0] == status and all(word in result[1] for word in words), result


def after(root: pathlib.Path, *edits: Edit) -> str:
    changed, _ = mutant_edits.planted(root, list(edits))
    (text,) = changed.values()
    return text


def refused(root: pathlib.Path, edit: Edit, *words: str) -> None:
    try:
        mutant_edits.planted(root, [edit])
    except NotFound as error:
        assert all(word in str(error) for word in words), error
    else:
        raise AssertionError(f"{edit} was planted")


def check_symbols(root: pathlib.Path) -> None:
    """Where declarations begin and end, among literals, comments and initializers with brackets."""
    def edit(symbol: str, find: str, replace: str = "0", **more) -> Edit:
        return Edit(find, replace, str(SUM), symbol, **more)
    names = ["::".join(symbol.name) for symbol in mutant_edits.all_symbols(SUM_TEXT)]
    inner = ["Mean::Mean", "Mean::operator<", "Mean::operator()", "Mean::value", "Mean::sum", "Mean::count_", "Mean"]
    assert names == [f"accrue::core::{name}" for name in
                     ["kWords", "kBrace", "kMany", "raw", "total", "total", *inner, "Window::close"]], names
    assert after(root, edit("total", "factor*value")) == SUM_TEXT.replace("factor * value", "0")
    assert after(root, edit("Mean::value", "sum / count_")) == SUM_TEXT.replace("sum / count_", "0")
    assert after(root, edit("Mean::operator()", "sum / by")) == SUM_TEXT.replace("sum / by", "0")
    assert after(root, edit("Mean::Mean", "sum{of}", "sum{0}")) == SUM_TEXT.replace("sum{of}", "sum{0}")
    assert after(root, edit("Window::close", "release(slots_, entries_);", "")) == SUM_TEXT.replace("  release(slots_,\n          entries_);\n", "")
    assert after(root, edit("Window::close", "commit();", "", nth=2)) == SUM_TEXT.replace("  commit();\n", "", 1)
    assert after(root, edit("total(factor)", "values, T factor")) == SUM_TEXT.replace("values, T factor", "0")
    refused(root, edit("total", "sum"), "to have once: sum", "received 3 in src/core/sum.cpp", "try a longer expression, or nth")
    refused(root, edit("Window::close", "commit();", nth=3), "3 times or more")
    refused(root, edit("Mean::value", "sum / by"), "'Mean::value' to have once: sum / by", "received none in src/core/sum.cpp")
    refused(root, edit("Mean::val", "sum / by"), "no such symbol in src or include")
    refused(root, edit("Mean::value", "um / count_"), "received none")
    refused(root, edit("total(other)", "factor * value"), "no such symbol")


PYTHON_TEXT = """class Window:
    def close(self):
        def commit():
            return 2 * self.sum
        return commit()


def close():
    return 2 * 3
"""


def check_python(root: pathlib.Path) -> None:
    """Symbols of the Python package, and a mutant of it that its tests see without a build."""
    source = pathlib.Path("python/accrue/window.py")
    (root / source).parent.mkdir(parents=True)
    (root / source).write_text(PYTHON_TEXT)
    names = ["::".join(symbol.name) for symbol in mutant_edits.all_symbols(PYTHON_TEXT, True)]
    assert names == ["Window", "Window::close", "Window::close::commit", "close"], names
    place = {"file": str(source)}
    assert after(root, Edit("2 * self.sum", "0", symbol="Window::close", **place)) == PYTHON_TEXT.replace("2 * self.sum", "0")
    refused(root, Edit("2 * 3", "0", symbol="Window::close", **place), "received none in python/accrue/window.py")
    tests = root / "tests" / "python"
    tests.mkdir(parents=True)
    (tests / "test_window.py").write_text("import pathlib\n\n\ndef test_close():\n"
                                          f"    assert '2 * 3' in pathlib.Path({str(root / source)!r}).read_text()\n")
    copy = Copy(root, 1)
    if not (ROOT / ".venv-test" / "bin" / "python").exists():
        return
    assert not mutants.failures_of(copy, {"python": "test_window.test_close"}, 60)
    (root / source).write_text(PYTHON_TEXT.replace("2 * 3", "0"))
    assert mutants.failures_of(copy, {"python": "test_window"}, 60) == ["test_window.test_close"]
    try:
        mutants.failures_of(copy, {"python": "test_window.test_open"}, 60)
    except mutants.Failure as failure:
        assert "test_open" in str(failure)
    else:
        raise AssertionError("a test that there is not was run")


def check_moves(root: pathlib.Path) -> None:
    """Symbols are found in the file that they moved to, however their lines are broken; of two, none is taken."""
    broken = SUM_TEXT.replace("factor * value", "factor *\n      value").replace("release(slots_,\n          entries_)", "release(slots_, entries_)")
    other = root / "src" / "accum" / "total.h"
    other.parent.mkdir()
    other.write_text(broken.replace("#include <vector>", "#include <vector>\n#include <string>"))
    (root / SUM).unlink()
    expect(check(root), 0, "note: sum-without-factor: total is in src/accum/total.h, no more in src/core/sum.cpp", "2 have their place")
    changed, _ = mutant_edits.planted(root, mutants.read_table(root)[1].edits)
    assert list(changed) == [other] and "#include <cmath>" in changed[other] and "release" not in changed[other], changed
    shutil.copy(other, root / SUM.parent / "again.cpp")
    expect(check(root), 2, "received it in src/accum/total.h, src/core/again.cpp; try naming the file")
    (root / SUM.parent / "again.cpp").unlink()
    other.unlink()
    expect(check(root), 2, "sum-without-factor: expected 'total' to have once: factor * value, received no such symbol")
    (root / SUM).write_text(SUM_TEXT)
    expect(check(root), 0)


def check_table(root: pathlib.Path) -> None:
    expect(check(root), 0, "2 have their place in the sources")
    expect(planted(root, SUM, "factor * value", "factor * values"), 2, "sum-without-factor: expected 'total'", "received none")
    expect(planted(root, SUM, "factor * value", "factor * value + factor * value"), 2, "received 2 in src/core/sum.cpp")
    expect(planted(root, SUM, "#include <vector>", "#include <array>"), 2, "slots-kept: expected the file to have once: #include <vector>")
    expect(planted(root, TABLE, "replace = 'value'", "replace = 'factor * value'"), 2, "received the same text")
    expect(planted(root, TABLE, "find = 'factor", "fnd = 'factor"), 2, "no such keys: fnd")
    expect(planted(root, TABLE, "replace = ''\n", ""), 2, "slots-kept: expected replace in each edit")
    expect(planted(root, TABLE, 'symbol = "total"\n', ""), 2, "sum-without-factor: expected a file and a symbol")
    expect(planted(root, TABLE, "[sum-without-factor]", "[sum-without]"), 2,
           "sum-without-factor: tests/mutants/results.json has a row of it")
    expect(planted(root, TABLE, "{ gpt2 = ", "{ gpt3 = "), 2, "no tests/mutants/configs/gpt3.toml")
    expect(planted(root, TABLE, '"weighting"', '"weighing"'), 2, "cannot say 'weighing'")
    expect(planted(root, TABLE, '"weighting"', '"equal"'), 2, "nothing shows it to verify")
    expect(planted(root, TABLE, 'room = "core"', 'room = "care"'), 2, "'care' is none of the rooms")
    expect(planted(root, PAGE, "| sum-without-factor |", "| sum |"), 2, f"{PAGE} is not what")
    expect(planted(root, MUTANTS / "results.json", '"sum-without-factor"', '"sum-with-factor"'), 2,
           "sum-with-factor: tests/mutants/results.json has a row of it")


def check_refusals(root: pathlib.Path) -> None:
    """A campaign that would plant nothing is no campaign that passed."""
    expect(check(root, "no-such"), 2, "error: mutants: no such mutants")
    (root / SUM).write_text(SUM_TEXT.replace("factor * value", "value"))
    expect(check(root, "sum-*"), 2, "error: mutants: sum-without-factor: expected 'total'", "received none with a place in the sources")
    (root / SUM).write_text(SUM_TEXT)
    (root / TABLE).write_text(TABLE_TEXT.replace('room = "core"', 'room = "core"\nneeds = "no-such-flag"'))
    expect(check(root, "sum-*"), 2, "not asked, since this machine has no no-such-flag", "received none for this processor")


def check_partial_runs(root: pathlib.Path) -> None:
    """A run by the tests alone keeps what verify said, and the other way round; what is not asked any more goes."""
    mutant = Mutant("leaks", "It leaks.", "core", {"core": "*"}, {"gpt2": "weighting"}, "")
    assert mutant.can_run() and not dataclasses.replace(mutant, needs="no-such-flag").can_run()
    results = Results(root)
    results.take_in("leaks", None, [{"config": "gpt2", "said": "equal"}, {"config": "gone", "said": "equal"}], "c0ffee")
    results.take_in("leaks", ["Leak.IsSeen", "Leak.IsMended"], [], "decade")
    results.write([mutant])
    row, page = Results(root).rows["leaks"], (root / PAGE).read_text()
    assert row["tests"]["commit"] == "decade" and row["verify"]["gpt2"]["commit"] == "c0ffee" and "gone" not in row["verify"], row
    assert "`Leak.IsSeen` and 1 more" in page and "equal (`gpt2`), **expected: weighting**" in page, page
    assert not Results(root).problems([mutant]) and Results(root).problems([]), page
    seen = Outcome(verify=[{"config": "gpt2", "said": "weighting"}])
    assert not deviations(seen, mutant) and deviations(Outcome(verify=[{"config": "gpt2", "said": "unknown"}]), mutant)


class Uncompiled(Copy):
    """A copy whose programs read the source that they are built from."""

    def build(self, targets: list[str]) -> str:
        program = self.build_folder / "tests" / "core" / "sum_test"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\necho '[ RUN      ] Sum.IsRight'\n"
                           f"grep -q 'factor \\* value' {self.folder / SUM} && exit 0\necho '[  FAILED  ] Sum.IsRight'\nexit 1\n")
        program.chmod(0o755)
        accrue = self.build_folder / "accrue"
        answer = json.dumps({"cause": "weighting", "max_relative_error": 1, "bound": 0})
        accrue.write_text(f"#!/bin/sh\necho '{answer}'\ngrep -q 'factor \\* value' {self.folder / SUM} && exit 0\nexit 3\n")
        accrue.chmod(0o755)
        return ""


def check_a_run(root: pathlib.Path) -> None:
    """A mutant that tests see, and one that they do not; the sources are as they were afterwards."""
    copy = Uncompiled(root, 1)
    (root / "build" / "mutant-data").mkdir(parents=True)
    work = Campaign(copy, argparse.Namespace(verify_only=False, no_verify=False, timeout=60, keep_going=False))
    seen, unseen = mutants.read_table(root)
    work.control([seen, unseen])
    outcome = work.outcome_of(seen)
    assert outcome.killed == ["Sum.IsRight"] and [answer["said"] for answer in outcome.verify] == ["weighting"] and not outcome.error, outcome
    assert (root / SUM).read_text() == SUM_TEXT
    outcome = work.outcome_of(unseen)
    assert not outcome.killed and not outcome.error, outcome
    lost = dataclasses.replace(seen, edits=[dataclasses.replace(seen.edits[0], find="no_such * value")])
    assert "received none" in work.outcome_of(lost).error and (root / SUM).read_text() == SUM_TEXT


def main() -> None:
    for part in (check_symbols, check_python, check_table, check_moves, check_a_run, check_refusals):
        with tempfile.TemporaryDirectory(prefix="accrue-mutants-") as scratch:
            part(small_tree(pathlib.Path(scratch)))
    with tempfile.TemporaryDirectory(prefix="accrue-mutants-") as scratch:
        check_partial_runs(pathlib.Path(scratch))


if __name__ == "__main__":
    main()
