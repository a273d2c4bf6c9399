#!/usr/bin/env python3
"""Watches training loops that are drawn at random: right ones, which are not to be blamed, and ones with a planted fault, which are not to
pass. After each, all that the loop leaves is compared with what its twin leaves that was not watched.

    PYTHONPATH=build/release/python .venv-test/bin/python scripts/sound_loops.py             # 1,000 right ones and 300 wrong ones
    ... scripts/sound_loops.py --first 17 --right 1 --wrong 0 --show                         # one of them again, with its report

Exit status 0: no false alarm, no conclusive "Equal" of a wrong one, no exception, no difference from a twin; 1: some.
"""
import argparse
import collections
import pathlib
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "python"))
import torch  # noqa: E402
from drawn_loops import FAULTS, watched  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--right", type=int, default=1000)
    parser.add_argument("--wrong", type=int, default=300)
    parser.add_argument("--show", action="store_true", help="each report")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    counts: collections.Counter = collections.Counter()
    failures = 0
    seeds = range(arguments.first, arguments.first + max(arguments.right, arguments.wrong))
    runs = [(seed, "") for seed in seeds[:arguments.right]] + [(seed, FAULTS[seed % len(FAULTS)]) for seed in seeds[:arguments.wrong]]
    for seed, fault in runs:
        outcome = watched(seed, fault)
        counts["wrong" if fault else "right", outcome.verdict] += 1
        is_failure = outcome.is_false_alarm or outcome.is_missed or outcome.verdict == "raised" or bool(outcome.differs)
        failures += is_failure
        if is_failure or arguments.show:
            print(f"seed {seed} {fault or 'right'}: {outcome.verdict}; differs from its twin: {outcome.differs or 'nothing'}")
            print(f"{outcome.told}\n{outcome.report}\n", flush=True)
    for (kind, verdict), count in sorted(counts.items()):
        print(f"{kind}: {verdict}: {count}")
    print(f"failures: {failures} of {len(runs)}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
