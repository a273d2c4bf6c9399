#!/usr/bin/env python3
"""What failed in the last run of ctest, case by case, after its long output: where a log is cut, its end is what one sees.

usage: failures.py BUILD_FOLDER
"""

import pathlib
import re
import sys

LINES_OF_A_CASE = 40
ENTRY = re.compile(r"^\d+/\d+ Testing: (?P<name>.+?)$(?P<body>.*?)^\"(?P=name)\" end time:", re.MULTILINE | re.DOTALL)
OUTPUT = re.compile(r"^Output:\n-+\n(?P<output>.*)^<end of output>", re.MULTILINE | re.DOTALL)
# GoogleTest prints the end of a case with its time, and lists the failed ones once more without it.
CASE = re.compile(r"^\[ RUN      \] (?P<case>\S+)\n(?P<text>(?:(?!\[ RUN  ).*\n)*?)^\[  FAILED  \] (?P=case).* \(\d+ ms\)$", re.MULTILINE)
PASSED = "Test Passed."


def last_lines(text, count=LINES_OF_A_CASE):
    lines = text.rstrip().splitlines()
    left_out = [f"[{len(lines) - count} lines before]"] if len(lines) > count else []
    return "\n".join(left_out + lines[-count:])


def failed_cases(output):
    """The failed cases of a GoogleTest program as pairs of name and text; none where it crashed, or is another program."""
    return [(case["case"], case["text"]) for case in CASE.finditer(output)]


def failures(log):
    """Lines on each test in `log`, the text of ctest's LastTest.log, that did not pass."""
    for entry in ENTRY.finditer(log):
        if PASSED in entry["body"]:
            continue
        found = OUTPUT.search(entry["body"])
        output = found["output"] if found else entry["body"]
        cases = failed_cases(output)
        if not cases:
            yield f"== {entry['name']}\n{last_lines(output)}"
        for name, text in cases:
            yield f"== {entry['name']}: {name}\n{last_lines(text)}"


def main():
    log = pathlib.Path(sys.argv[1]) / "Testing" / "Temporary" / "LastTest.log"
    print("\n".join(failures(log.read_text(encoding="utf-8", errors="replace"))))


if __name__ == "__main__":
    main()
