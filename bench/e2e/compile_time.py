#!/usr/bin/env python3
"""What including accrue costs a file that includes libtorch anyway: seconds to read its headers.

    bench/e2e/compile_time.py [--rounds 9]     --quick: one round, and nothing is stored

The compiler reads (-fsyntax-only, no precompiled header) files of one line each, with the flags that the build has for an example:
torch/torch.h; accrue/accrue.h; and both. They come in turn, each round in the other order, by the user's and the system's seconds
of the compiler alone, so that what else runs on the machine counts less. Only the standard library.
"""
import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

from runs import BUILD, save, spread

EXAMPLE = "example_stepper.dir"
SIDES = {"torch": ["torch/torch.h"], "accrue": ["accrue/accrue.h"], "both": ["torch/torch.h", "accrue/accrue.h"]}
DROPPED = {"-c": 1, "-o": 2, "-include": 2, "-Winvalid-pch": 1}  # with how many words each goes


def fail(expected: str, received: str, suggestion: str) -> None:
    sys.exit(f"error: compile time: expected {expected}, received {received}; try {suggestion}")


def compiler() -> list[str]:
    """The command that an example is compiled by, without its file and its precompiled header."""
    path = BUILD / "compile_commands.json"
    commands = json.loads(path.read_text()) if path.exists() else []
    found = next((entry for entry in commands if EXAMPLE in entry["command"]), None)
    if found is None:
        fail("a build with examples", f"no command of {EXAMPLE} in {path}", "make test, which builds them")
    words, kept = shlex.split(found["command"]), []
    while words:
        count = DROPPED.get(words[0], 0)
        if count == 0 and words[0] != found["file"]:
            kept.append(words[0])
        del words[:max(count, 1)]
    return [word for word in kept if not word.endswith(".cpp")] + ["-fsyntax-only"]


def seconds_of(command: list[str]) -> float:
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        fail("headers that compile by themselves", errors.strip()[:500], " ".join(command))
    return usage.ru_utime + usage.ru_stime


def measure(folder: pathlib.Path, rounds: int) -> dict:
    command, found = compiler(), {side: [] for side in SIDES}
    for side, headers in SIDES.items():
        (folder / f"{side}.cpp").write_text("".join(f"#include <{header}>\n" for header in headers))
        seconds_of([*command, str(folder / f"{side}.cpp")])  # the files are read from the disk once before
    for turn in range(rounds):
        for side in sorted(SIDES, reverse=turn % 2 == 1):
            found[side].append(seconds_of([*command, str(folder / f"{side}.cpp")]))
    return {"compiler": command[0], "rounds": rounds, "seconds": {side: spread(values) for side, values in found.items()},
            "ratio": spread([both / torch for both, torch in zip(found["both"], found["torch"])])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, help="9, with --quick 1")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        found = measure(pathlib.Path(name), options.rounds or (1 if options.quick else 9))
    for side, seconds in found["seconds"].items():
        print(f"{' and '.join(SIDES[side])}: {seconds['median']:.1f} s ({seconds['min']:.1f} to {seconds['max']:.1f})")
    print(f"both / torch/torch.h: {found['ratio']['median']:.3f} ({found['ratio']['min']:.3f} to {found['ratio']['max']:.3f})")
    save("compile_time.json", {"headers": found}, options.out, options.quick)


if __name__ == "__main__":
    main()
