#!/usr/bin/env python3
"""What a thousand ranks would do that die and come back, by a simulation with the program's own decisions (tests/simulation).

    bench/e2e/thousand_ranks.py [--quick] [--out bench/results/thousand_ranks.json]

The costs of a loss and a return are those that four real ranks had (docs/notes/thousand_ranks.md). Four simulated ranks that
are killed as bench/e2e/changing_ranks.py kills real ones are the check. Times of calls are of this machine, all else is
arithmetic. Needs a build with tests. Only the standard library.
"""
import argparse
import json
import pathlib

from runs import BUILD, run, save, table

PROGRAM = BUILD / "tests" / "simulation" / "simulate_ranks"
# Seconds: until all know who died; from there until the next group trains; from a process's start until it asks to join.
MEASURED = {"notice": 0.035, "meet": 0.03, "start": 0.53}
FOUR = {"machines": 4, "micro_batches": 64, "micro_batch_seconds": 0.02, "noise": 0.02, "close": 0.002, **MEASURED}
# A state of 1 GB over 10 Gbit/s for each that joins, a collective of half a second, windows of 16 micro-batches a rank.
THOUSAND = {"machines": 1000, "micro_batches": 16000, "micro_batch_seconds": 0.5, "noise": 0.02, "close": 0.5, "away": 5,
            "notice": 0.035, "meet": 0.03, "newcomer": 0.8, "start": 5}
HOUR = 3600
UNEQUAL = {"spread": 0.2}
STORE = {"store_rate": 100_000}
CASES = {
    "4 ranks, one killed every 60 s": FOUR | {"kill_every": 60},
    "4 ranks, one killed every 15 s": FOUR | {"kill_every": 15},
    "4 ranks, one killed every 15 s, without lifelines": FOUR | {"kill_every": 15, "notice": 1.2, "has_lifelines": False},
    "1,000 ranks, each lives a day": THOUSAND | {"lifetime": 24 * HOUR},
    "1,000 ranks, each lives 4 hours": THOUSAND | {"lifetime": 4 * HOUR},
    "1,000 ranks, each lives an hour": THOUSAND | {"lifetime": HOUR},
    "1,000 ranks, each lives an hour, windows go with a loss": THOUSAND | {"lifetime": HOUR, "keeps_windows": False},
    "1,000 ranks, each lives an hour, newcomers get 10 MB": THOUSAND | {"lifetime": HOUR, "newcomer": 0.008},
    "1,000 ranks, each lives a day, a divided state": THOUSAND | {"lifetime": 24 * HOUR, "state_tensors": 148},
    "1,000 unequal ranks, each lives a day": THOUSAND | UNEQUAL | {"lifetime": 24 * HOUR},
    "1,000 unequal ranks, each lives an hour": THOUSAND | UNEQUAL | {"lifetime": HOUR},
    "1,000 unequal ranks, each lives an hour, speeds known": THOUSAND | UNEQUAL | {"lifetime": HOUR, "knows_speeds": True},
    "1,000 ranks, each lives a day and freezes once in it, 10 s": THOUSAND | {"lifetime": 24 * HOUR, "freezes_after": 24 * HOUR,
                                                                              "frozen_for": 10},
    "1,000 ranks, each lives a day, the store as it is": THOUSAND | STORE | {"lifetime": 24 * HOUR},
    "100 ranks, each lives a day, the store as it is": THOUSAND | STORE | {"machines": 100, "micro_batches": 1600, "lifetime": 24 * HOUR},
}


def simulated(case: dict, seconds: float) -> dict:
    out, _ = run([str(PROGRAM), json.dumps(case | {"length": seconds})])
    return json.loads(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two minutes of each run")
    parser.add_argument("--out", type=pathlib.Path, help="bench/results/thousand_ranks.json")
    options = parser.parse_args()
    seconds = 120 if options.quick else HOUR
    results, rows = {}, []
    for name, case in CASES.items():
        found = simulated(case, seconds)
        results[name] = found | {"setting": case}
        rows.append([name, f"{found['goodput']:.3f}", f"{found['least_in_15_s']:.3f}", str(found["deaths"]), str(found["changes"]),
                     str(found["steps"]), found["broken"] or "-"])
        print(f"{name}: {found['goodput']:.3f} {found['broken']}", flush=True)
    print(table(["run of an hour", "goodput", "least in 15 s", "deaths", "changes", "steps", "ended by"], rows))
    save("thousand_ranks.json", results, options.out, options.quick)


if __name__ == "__main__":
    main()
