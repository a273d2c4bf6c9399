"""Runs test scripts that import the same slow packages, each in a process that is forked behind those imports.

    run_scripts.py [--once FOLDER PROGRAM] --warm "import torch" [--warm ...] [--only NAME] --script NAME SCRIPT [ARGUMENT...] [--script ...]

A script sees its arguments, its folder on the path, and nothing of the others. All run, whatever becomes of one. PROGRAM among their
arguments is loaded once for all its starts, by what is built in FOLDER (started_once.py). Exit status: 0: each passed or was skipped;
77: all were skipped (tests/support/skips.py); 1: the last lines name those that failed.
"""
import contextlib
import os
import pathlib
import runpy
import sys
import time
import traceback

from started_once import StartedOnce

SKIPPED = 77


def parse(words):
    warm, only, once, scripts = [], "", None, []
    while words:
        word = words.pop(0)
        if word == "--warm":
            warm.append(words.pop(0))
        elif word == "--once":
            once = words[:2]
            del words[:2]
        elif word == "--only":
            only = words.pop(0)
        elif word == "--script":
            end = words.index("--script") if "--script" in words else len(words)
            scripts.append(words[:end])
            del words[:end]
        else:
            sys.exit(f"error: run_scripts: expected --once, --warm, --only or --script, received {word}")
    chosen = [script for script in scripts if only in ("", script[0])]
    if not chosen:
        sys.exit(f"error: run_scripts: expected scripts, received none{' called ' + only if only else ''}")
    return warm, once, chosen


def run_here(script, arguments):
    """In the forked process, which ends with the script."""
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(pathlib.Path(script).parent))
    status = 0
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as ended:
        status = ended.code
        if isinstance(status, str):
            print(status, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else 0 if status is None else 1)


def run(name, script, arguments):
    print(f"== {name}", flush=True)
    begin = time.monotonic()
    child = os.fork()
    if child == 0:
        run_here(script, arguments)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(f"== {name}: {'skipped' if status == SKIPPED else 'passed' if status == 0 else f'failed ({status})'}, "
          f"{time.monotonic() - begin:.1f} s", flush=True)
    return status


def main():
    warm, once, scripts = parse(sys.argv[1:])
    try:
        for statement in warm:
            exec(statement, {})
    except ImportError as missing:
        print(f"not imported ahead: {missing}", flush=True)  # the scripts say what they lack
    with contextlib.ExitStack() as open_until_the_end:
        if once:
            folder, program = once
            started = str(open_until_the_end.enter_context(StartedOnce(program, folder)).program)
            scripts = [[started if word == program else word for word in words] for words in scripts]
        statuses = {name: run(name, script, arguments) for name, script, *arguments in scripts}
    failed = [name for name, status in statuses.items() if status not in (0, SKIPPED)]
    if failed:
        print(f"{len(failed)} of {len(scripts)} failed: {', '.join(failed)}")
        return 1
    return SKIPPED if set(statuses.values()) == {SKIPPED} else 0


if __name__ == "__main__":
    sys.exit(main())
