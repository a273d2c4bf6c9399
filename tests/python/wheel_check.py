#!/usr/bin/env python3
"""Installs the wheel of `make wheel` into a fresh environment and uses it there as a newcomer would, without a compiler at hand.

    tests/python/wheel_check.py DIST

torch is that of the environment which runs this, by path: what is fresh is accrue, and nothing of the source tree or the build folder
is found.
"""
import json
import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
COUNT = "import accrue, json; print(json.dumps([accrue.__file__, accrue.__version__, accrue.Loss(3, 2).weight]))"


def fail(expected: str, received: str) -> None:
    sys.exit(f"error: wheel: expected {expected}, received {received}")


def run(folder: pathlib.Path, *words: str) -> str:
    """Runs in an empty folder, with no program in PATH but the environment's."""
    environment = {"PATH": str(folder / "bin"), "HOME": str(folder), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([str(folder / "bin" / words[0]), *words[1:]], cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        fail(f"{' '.join(words)[:80]} to work", f"status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def quick_start() -> str:
    """A loop is proved and watched, as the guide of Python begins, and a step is taken."""
    blocks = [block.split("```")[0] for block in (ROOT / "docs" / "guide" / "python.md").read_text().split("```python\n")[1:]]
    return "\n".join([*blocks[:2], "print(accrue.step(model, optimizer, batch, loss_fn, clip_norm=1.0).loss)\n"])


def main() -> None:
    wheels = sorted(pathlib.Path(sys.argv[1]).glob("accrue-*.whl"))
    if len(wheels) != 1:
        fail(f"one wheel in {sys.argv[1]} (make wheel)", f"{len(wheels)}")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name) / "fresh"
        venv.create(folder, with_pip=True)
        site = next(folder.glob("lib/python*/site-packages"))
        own = [path for path in sys.path if path.endswith("site-packages")]
        (site / "torch.pth").write_text("\n".join([sysconfig.get_paths()["purelib"], *own]) + "\n")
        run(folder, "pip", "install", "-q", "--no-index", "--no-deps", str(wheels[0]))
        file, version, weight = json.loads(run(folder, "python", "-c", COUNT))
        if not file.startswith(str(folder)) or weight != 2:
            fail(f"accrue of {folder}", f"{file} ({version})")
        if f"accrue {version}" not in run(folder, "python", "-m", "accrue", "--version"):
            fail(f"the command of version {version}", run(folder, "python", "-m", "accrue", "--version"))
        (folder / "quick_start.py").write_text(quick_start())
        printed = run(folder, "python", "quick_start.py")
        if "weighting" not in printed:
            fail("the quick start to name the cause", printed)
    print(f"{wheels[0].name}: installed into a fresh environment, imported, used")


if __name__ == "__main__":
    main()
