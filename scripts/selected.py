#!/usr/bin/env python3
"""Whether each pattern of a GoogleTest filter selects a test:   scripts/selected.py PROGRAM FILTER

GoogleTest runs no test and passes if a filter selects none, as after a test was renamed. Prints the patterns that select nothing; the
exit status is 2 then.
"""
import subprocess
import sys


def selects(program: str, pattern: str) -> bool:
    listed = subprocess.run([program, "--gtest_list_tests", f"--gtest_filter={pattern}"], check=True, capture_output=True, text=True).stdout
    return any(line.startswith("  ") for line in listed.splitlines())


def main() -> int:
    if len(sys.argv) != 3:
        print("error: selected: expected a test program and a filter; try scripts/selected.py build/tsan/tests/data/data_test 'Loader*'", file=sys.stderr)
        return 2
    program, filters = sys.argv[1:]
    nothing = [pattern for pattern in filters.split(":") if not selects(program, pattern)]
    if nothing:
        print(f"error: selected: expected tests of {program}, received none of {', '.join(nothing)}; try --gtest_list_tests for their names", file=sys.stderr)
    return 2 if nothing else 0


if __name__ == "__main__":
    sys.exit(main())
