"""The command line: python -m accrue VERB ..."""

import importlib.util
import os
import pathlib
import sys


def _library_path() -> str:
    """Returns LD_LIBRARY_PATH with the libraries of the installed torch in front, which the program uses."""
    torch = pathlib.Path(importlib.util.find_spec("torch").origin).parent / "lib"
    others = os.environ.get("LD_LIBRARY_PATH")
    return f"{torch}:{others}" if others else str(torch)


def main() -> None:
    program = pathlib.Path(__file__).parent / "bin" / "accrue"
    if not program.exists():
        sys.exit(f"error: accrue: expected the program {program}, received none; try installing the wheel, which has it")
    os.execve(program, [str(program), *sys.argv[1:]], os.environ | {"LD_LIBRARY_PATH": _library_path()})


if __name__ == "__main__":
    main()
