"""Each mutant of tests/mutants applies and has its row in the table; scripts/mutants.py --check sees where that is not so."""
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MUTANTS = pathlib.Path("tests/mutants")


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


def main() -> None:
    expect(check(ROOT), 0, "the table names each")
    with tempfile.TemporaryDirectory(prefix="accrue-mutants-") as scratch:
        root = pathlib.Path(scratch)
        for folder in ("src", "scripts", MUTANTS):
            shutil.copytree(ROOT / folder, root / folder)
        expect(check(root), 0, "the table names each")
        table = MUTANTS / "mutants.toml"
        expect(planted(root, pathlib.Path("src/optim/sgd.cpp"), "options_.momentum)", "options_.momentum * 1)"), 2,
               "momentum-without-factor", "does not apply")
        expect(planted(root, table, "[momentum-without-factor]", "[momentum-without]"), 2,
               "momentum-without: the table names it", "momentum-without-factor.patch is in no row")
        expect(planted(root, table, 'verify = ["gpt2_sgd"]', 'verify = ["gpt3_sgd"]'), 2, "no tests/mutants/configs/gpt3_sgd.toml")
        expect(planted(root, table, 'room = "optim"', 'room = "options"'), 2, "'options' is none of the rooms")


if __name__ == "__main__":
    main()
