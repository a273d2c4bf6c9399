"""Each mutant of tests/mutants applies, and table, stored results and page agree; scripts/mutants.py --check sees where that is not so."""
import dataclasses
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MUTANTS = pathlib.Path("tests/mutants")
PAGE = pathlib.Path("docs/notes/mutants.md")


def check(root: pathlib.Path) -> tuple[int, str]:
    ended = subprocess.run([sys.executable, str(root / "scripts" / "mutants.py"), "--check"], capture_output=True, text=True)
    return ended.returncode, ended.stdout + ended.stderr


def planted(root: pathlib.Path, name: pathlib.Path, old: str, new: str) -> tuple[int, str]:
    """What is said of the tree with `new` in place of `old`, once; it is as it was afterwards."""
    file = root / name
    text = file.read_text()
    assert old in text, f"{name} has no {old!r}"
    file.write_text(text.replace(old, new, 1))
    result = check(root)
    file.write_text(text)
    return result


def expect(result: tuple[int, str], status: int, *words: str) -> None:
    assert result[0] == status and all(word in result[1] for word in words), result


def check_partial_runs(root: pathlib.Path) -> None:
    """A run by the tests alone keeps what verify said, and the other way round; what is not asked any more goes."""
    sys.path.insert(0, str(ROOT / "scripts"))
    from mutant_results import Results
    from mutants import Mutant, Outcome, deviations
    mutant = Mutant("leaks", "It leaks.", "core", {"core": "*"}, {"gpt2": "weighting"}, "")
    assert mutant.can_run() and not dataclasses.replace(mutant, needs="no-such-flag").can_run()
    results = Results(root)
    results.take_in("leaks", None, [{"config": "gpt2", "said": "equal"}, {"config": "gone", "said": "equal"}], "c0ffee")
    results.take_in("leaks", ["Leak.IsSeen", "Leak.IsMended"], [], "decade")
    (root / PAGE).parent.mkdir(parents=True)
    (root / MUTANTS).mkdir(parents=True)
    results.write([mutant])
    row, page = Results(root).rows["leaks"], (root / PAGE).read_text()
    assert row["tests"]["commit"] == "decade" and row["verify"]["gpt2"]["commit"] == "c0ffee" and "gone" not in row["verify"], row
    assert "`Leak.IsSeen` and 1 more" in page and "equal (`gpt2`), **expected: weighting**" in page, page
    assert not Results(root).problems([mutant]) and Results(root).problems([]), page
    seen = Outcome(verify=[{"config": "gpt2", "said": "weighting"}])
    assert not deviations(seen, mutant) and deviations(Outcome(verify=[{"config": "gpt2", "said": "unknown"}]), mutant)


def main() -> None:
    expect(check(ROOT), 0, "the table names each")
    with tempfile.TemporaryDirectory(prefix="accrue-mutants-") as scratch:
        check_partial_runs(pathlib.Path(scratch))
    with tempfile.TemporaryDirectory(prefix="accrue-mutants-") as scratch:
        root = pathlib.Path(scratch)
        for folder in ("src", "scripts", MUTANTS):
            shutil.copytree(ROOT / folder, root / folder)
        (root / PAGE).parent.mkdir(parents=True)
        shutil.copy(ROOT / PAGE, root / PAGE)
        expect(check(root), 0, "the table names each")
        table = MUTANTS / "mutants.toml"
        expect(planted(root, pathlib.Path("src/optim/sgd.cpp"), "options_.momentum)", "options_.momentum * 1)"), 2,
               "momentum-without-factor", "does not apply")
        expect(planted(root, table, "[momentum-without-factor]", "[momentum-without]"), 2,
               "momentum-without: the table names it", "momentum-without-factor.patch is in no row")
        expect(planted(root, table, "{ gpt2_sgd = ", "{ gpt3_sgd = "), 2, "no tests/mutants/configs/gpt3_sgd.toml")
        expect(planted(root, table, '{ gpt2_sgd = "unknown"', '{ gpt2_sgd = "unknwon"'), 2, "cannot say 'unknwon'")
        expect(planted(root, table, '{ gpt2_sgd = "unknown"', '{ gpt2_sgd = "equal"'), 2, "nothing shows it to verify")
        expect(planted(root, PAGE, "| momentum-without-factor |", "| momentum |"), 2, f"{PAGE} is not what")
        expect(planted(root, MUTANTS / "results.json", '"fixed-unit-more"', '"fixed-unit-less"'), 2,
               "fixed-unit-less: tests/mutants/results.json has a row of it")
        expect(planted(root, table, 'room = "optim"', 'room = "options"'), 2, "'options' is none of the rooms")


if __name__ == "__main__":
    main()
