#!/usr/bin/env python3
"""Watches training loops that are drawn at random: right ones, which are not to be blamed, and ones with a planted fault, which are not to
pass. After each, all that the loop leaves is compared with what its twin leaves that was not watched.

    PYTHONPATH=build/release/python .venv-test/bin/python scripts/sound_loops.py             # 1,000 right ones and 300 wrong ones
    ... scripts/sound_loops.py --first 17 --right 1 --wrong 0 --show                         # one of them again, with its report

At the end there is a table by kind: of each value that loops are drawn with, and of each planted fault. A right loop that is of a kind
which the guide lists as not judged counts in that kind alone. Ctrl-C ends the run with the table of what was watched.

Exit status 0: no false alarm, no conclusive "Equal" of a wrong one, no exception, no difference from a twin, and of each kind as many
verdicts as RIGHT_EQUAL and WRONG_NAMED ask for; 1: some.
"""
import argparse
import collections
import itertools
import pathlib
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "python"))
import torch  # noqa: E402
from drawn_loops import FAULTS, Outcome, kinds_of, watched  # noqa: E402

RIGHT_EQUAL = 0.8  # of the right loops of each kind that the guide does not list as not judged
WRONG_NAMED = 0.9  # of the wrong loops of each fault, with the planted cause


class Table:
    """Verdicts by kind."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, str], collections.Counter] = {}

    def add(self, outcome: Outcome) -> None:
        for kind in kinds_of(outcome.told):
            self._of.setdefault(kind, collections.Counter())[outcome.named] += 1

    def lines(self) -> list[str]:
        rows = ["| kind | loops | equal | not equal, with the cause | another cause | not judged or not conclusive | enough |", "|---|---|---|---|---|---|---|"]
        for (side, kind), counts in sorted(self._of.items()):
            rest = counts.total() - counts["equal"] - counts["named"] - counts["another"]
            enough = "" if side == "listed" else "yes" if self._is_enough(side, counts) else "**no**"
            rows.append(f"| {side}: {kind} | {counts.total()} | {counts['equal']} | {counts['named']} | {counts['another']} | {rest} | {enough} |")
        return rows

    @staticmethod
    def _is_enough(side: str, counts: collections.Counter) -> bool:
        wanted, least = ("equal", RIGHT_EQUAL) if side == "right" else ("named", WRONG_NAMED)
        return counts[wanted] >= least * counts.total()

    def short_of(self) -> int:
        return sum(side != "listed" and not self._is_enough(side, counts) for (side, _), counts in self._of.items())


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
    table = Table()
    failures = 0
    seeds = range(arguments.first, arguments.first + max(arguments.right, arguments.wrong))
    right = [(seed, "") for seed in seeds[:arguments.right]]
    wrong = [(seed, list(FAULTS)[seed % len(FAULTS)]) for seed in seeds[:arguments.wrong]]
    runs = [run for pair in itertools.zip_longest(right, wrong) for run in pair if run]  # in turn, for a table of a run that is interrupted
    for seed, fault in runs:
        try:
            outcome = watched(seed, fault)
        except KeyboardInterrupt:
            break
        counts["wrong" if fault else "right", outcome.verdict] += 1
        table.add(outcome)
        is_failure = outcome.is_false_alarm or outcome.is_missed or outcome.verdict == "raised" or bool(outcome.differs)
        failures += is_failure
        if is_failure or arguments.show:
            print(f"seed {seed} {fault or 'right'}: {outcome.verdict}; differs from its twin: {outcome.differs or 'nothing'}")
            print(f"{outcome.told}\n{outcome.report}\n", flush=True)
    for (kind, verdict), count in sorted(counts.items()):
        print(f"{kind}: {verdict}: {count}")
    print("\n".join(table.lines()))
    print(f"failures: {failures} of {counts.total()}, of {len(runs)} that were asked for; kinds with too few: {table.short_of()}")
    return 1 if failures or table.short_of() else 0


if __name__ == "__main__":
    sys.exit(main())
