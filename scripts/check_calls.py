#!/usr/bin/env python3
"""Whether files are opened and text is printed in one way:   scripts/check_calls.py [ROOT]

A file is opened by src/core/open_file.h, which looks at what it is and follows no link where it writes, and text goes to
the terminal through std::cout and std::cerr, which escape it (src/core/printable_streams.h). Prints each other call in
src/, include/ and apps/; the exit status is 1 then.
"""
import pathlib
import re
import sys

OPENED = "open_to_read(), stream_to_read(), create_file() or open_to_change() of core/open_file.h"
PRINTED = "print_text() of cli/output/print_text.h, std::cout or std::cerr"
CALLS = [
    (re.compile(r"(?<![\w.>:])::(open|openat|creat|fopen)\s*\("), OPENED),
    (re.compile(r"\b(std::fopen|std::freopen|mkstemp|mkostemp)\s*\("), OPENED),
    (re.compile(r"\bstd::([io]?fstream)\s*(\w+\s*)?[({]\s*[^)}\s]"), OPENED),
    (re.compile(r"\bstd::([io]?fstream)\s+\w+\s*[({]"), OPENED),
    (re.compile(r"\b(std::v?printf|std::v?fprintf|std::puts|std::fputs|std::putchar|std::fwrite)\s*\("), PRINTED),
]
# Files of the system, whose names are in the program, and what the calls stand for.
ALLOWED = {
    "apps/accrue/address_space.cpp": {OPENED},  # before libraries can be used
    "src/core/open_file.h": {OPENED},
    "src/core/open_file.cpp": {OPENED},
    "src/core/atomic_file.cpp": {OPENED},
    "src/core/control_groups.cpp": {OPENED},
    "src/core/machine.cpp": {OPENED},
    "src/core/energy_meter.cpp": {OPENED},
    "src/memory/system_memory.cpp": {OPENED},
    "src/distributed/group/liveness/rank_process.cpp": {OPENED},
    "src/cli/process/standard_output.cpp": {OPENED},
    "src/core/nameless_file.cpp": {OPENED},  # no name that another process could have put there
    "include/accrue/models/gguf_magic.h": {OPENED},
}


def without_comment(line: str) -> str:
    return re.sub(r"//.*", "", line)


def main() -> None:
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[1]
    found = []
    files = sorted(path for folder in ("src", "include", "apps") for path in (root / folder).rglob("*") if path.suffix in (".h", ".cpp"))
    for path in files:
        name = path.relative_to(root).as_posix()
        for number, line in enumerate(path.read_text().splitlines(), 1):
            code = without_comment(line)
            for call, instead in CALLS:
                match = call.search(code)
                if match and instead not in ALLOWED.get(name, set()):
                    found.append(f"{name}:{number}: {match.group(0).strip()}: {instead}")
                    break
    if found:
        sys.exit("error: calls: expected one way to open files and to print, received\n  " + "\n  ".join(found))
    print(f"{len(files)} files: each is opened, and each text printed, in one way")


if __name__ == "__main__":
    main()
