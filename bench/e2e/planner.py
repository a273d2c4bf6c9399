#!/usr/bin/env python3
"""Measures how well `accrue plan` predicts, and how good its plans are.

    bench/e2e/planner.py [--quick] [--only PART] [--rounds 3] [--out bench/results/planner.json]

Predictions: the planner's peak bytes and seconds for a size that none of its trials ran, beside what that size then
takes, for GPT-2 from tiny to 124 M, ViT and ResNet, in fp32 and bf16, with and without recomputation.
Choices: the chosen plan's throughput (accrue bench, median of 5) beside the best of an exhaustive search over powers
of two and modes under the same budget. Predictions are made in rounds over all sizes; of each
size the round with the median error of its seconds counts, and all errors are kept. --quick takes the small models and
fewer rounds, and keeps nothing. Only the standard library.
"""
import argparse
import pathlib
import tempfile

from runs import Refused, accrue_json, gib, gpt2, images, median, percent, save, table

MODES = ("none", "selective", "full")


def predictions(folder: pathlib.Path, quick: bool) -> dict[str, list[str]]:
    """Name to arguments."""
    cases = {}

    def add(name: str, arguments: list[str], modes: tuple[str, ...] = ("none", "full"), **memory) -> None:
        for mode in modes:
            extra = [f"--memory.{key}={value}" for key, value in memory.items()]
            cases[", ".join([name, mode, *(f"{k} {v}" for k, v in memory.items())])] = [
                *arguments, f"--memory.recompute={mode}", *extra]

    sizes = ("tiny", "1.8M") if quick else ("tiny", "1.8M", "10.8M", "124M")
    for compute in ("fp32", "bf16"):
        for size in sizes:
            add(f"gpt2 {size} {compute}", gpt2(folder, size, 16 if size == "124M" else 64, compute),
                MODES if size == "1.8M" else ("none", "full"))
        add(f"vit 10.7M {compute}", images(folder, "vit", 64, compute))
    add("resnet-20", images(folder, "resnet", 128))
    if not quick:
        add("gpt2 10.8M fp32", gpt2(folder, "10.8M", 64), budget="1GiB")
        add("gpt2 124M fp32", gpt2(folder, "124M", 16), budget="4GiB")
    return cases


def untried(plan: dict) -> dict | None:
    """The largest point that was predicted and not among the trials: the plan itself, or an alternative."""
    tried = {(trial["micro_batch"], trial["recompute"]) for trial in plan["trials"]}
    points = [plan, *plan["alternatives"]]
    points = [point for point in points if (point["micro_batch"], point["recompute"]) not in tried]
    return max(points, key=lambda point: point["micro_batch"], default=None)


def predict(name: str, arguments: list[str], folder: pathlib.Path) -> dict:
    """Of a point that no trial ran, beside that point run on its own in another process."""
    plan = accrue_json("plan", folder, arguments)
    point = untried(plan) or plan
    there = accrue_json("plan", folder, [*arguments, f"--batch.micro={point['micro_batch']}",
                                         f"--memory.recompute={point['recompute']}"])
    row = {"name": name, "micro_batch": point["micro_batch"], "recompute": point["recompute"],
           "tried": point is plan and untried(plan) is None}
    for what in ("peak_bytes", "seconds_per_micro_batch"):
        predicted, measured = point[f"predicted_{what}"], there[f"measured_{what}"]
        row[what] = {"predicted": predicted, "measured": measured, "error": predicted / measured - 1}
    print(f"{name:40} {row['micro_batch']:4} samples   peak {percent(row['peak_bytes']['error'])}   "
          f"seconds {percent(row['seconds_per_micro_batch']['error'])}", flush=True)
    return row


def predicted(cases: dict[str, list[str]], folder: pathlib.Path, rounds: int) -> list[dict]:
    found = {name: [] for name in cases}
    for _ in range(rounds):
        for name, arguments in cases.items():
            found[name].append(predict(name, arguments, folder))
    return [of_rounds(rows) for rows in found.values()]


def of_rounds(rows: list[dict]) -> dict:
    """The round with the median error of the seconds, with the errors of all."""
    ordered = sorted(rows, key=lambda row: row["seconds_per_micro_batch"]["error"])
    errors = {what: [row[what]["error"] for row in rows] for what in ("peak_bytes", "seconds_per_micro_batch")}
    return ordered[len(ordered) // 2] | {"rounds": len(rows), "errors": errors}


def prediction_table(rows: list[dict]) -> str:
    return table(
        ["configuration", "samples", "peak predicted", "measured", "", "s predicted", "measured", ""],
        [[row["name"], str(row["micro_batch"]), gib(row["peak_bytes"]["predicted"]),
          gib(row["peak_bytes"]["measured"]), percent(row["peak_bytes"]["error"]),
          f"{row['seconds_per_micro_batch']['predicted']:.4f}", f"{row['seconds_per_micro_batch']['measured']:.4f}",
          percent(row["seconds_per_micro_batch"]["error"])] for row in rows])


def throughput(folder: pathlib.Path, arguments: list[str], point: tuple[int, str], rounds: int) -> float:
    """Tokens or images per second; 0 where the budget does not allow it."""
    try:
        result = accrue_json("bench", folder, [*arguments, f"--batch.micro={point[0]}",
                                               f"--memory.recompute={point[1]}", f"--rounds={rounds}"])
    except Refused:
        return 0
    return result.get("tokens_per_second", result.get("images_per_second"))["median"]


def choices(folder: pathlib.Path, quick: bool) -> dict[str, tuple[list[str], int]]:
    """Name to arguments, a budget among them, and the batch in samples."""
    cases = {
        "gpt2 tiny fp32": (gpt2(folder, "tiny", 64), 64, "200MiB"),
        "gpt2 1.8M fp32": (gpt2(folder, "1.8M", 64), 64, "250MiB"),
    }
    if not quick:
        cases |= {
            "gpt2 1.8M bf16": (gpt2(folder, "1.8M", 64, "bf16"), 64, "400MiB"),
            "gpt2 10.8M fp32": (gpt2(folder, "10.8M", 32), 32, "1GiB"),
            "vit 10.7M fp32": (images(folder, "vit", 64), 64, "600MiB"),
            "resnet-20": (images(folder, "resnet", 128), 128, "300MiB"),
        }
    return {name: ([*arguments, f"--memory.budget={budget}"], samples)
            for name, (arguments, samples, budget) in cases.items()}


def choose(name: str, arguments: list[str], samples: int, folder: pathlib.Path, rounds: int) -> dict:
    plan = accrue_json("plan", folder, arguments)
    chosen = (plan["micro_batch"], plan["recompute"])
    sizes = [2**i for i in range(samples.bit_length()) if 2**i <= samples]
    points = {(size, mode) for size in sizes for mode in MODES} | {chosen}
    measured = {point: throughput(folder, arguments, point, 1) for point in sorted(points)}
    # The best few of the search again, in turn with the chosen one.
    finalists = sorted(measured, key=measured.get, reverse=True)[:3]
    again = {point: [] for point in [*finalists, chosen]}
    for _ in range(rounds):
        for point in again:
            again[point].append(throughput(folder, arguments, point, 1))
    medians = {point: median(values) for point, values in again.items()}
    best = max(medians, key=medians.get)
    row = {"name": name, "chosen": chosen, "chosen_per_second": medians[chosen], "best": best,
           "best_per_second": medians[best], "ratio": medians[chosen] / medians[best],
           "search": {f"{size} {mode}": value for (size, mode), value in measured.items()}}
    print(f"{name:24} chosen {chosen[0]} {chosen[1]}, best {best[0]} {best[1]}: {row['ratio']:.3f}", flush=True)
    return row


def choice_table(rows: list[dict]) -> str:
    return table(["configuration", "chosen", "per second", "best of the search", "per second", "ratio"],
                 [[row["name"], "{} {}".format(*row["chosen"]), f"{row['chosen_per_second']:.0f}",
                   "{} {}".format(*row["best"]), f"{row['best_per_second']:.0f}", f"{row['ratio']:.3f}"]
                  for row in rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=["predictions", "choices"])
    parser.add_argument("--rounds", type=int, help="of the predictions: 3, with --quick 1")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if options.only in (None, "predictions"):
            rows = predicted(predictions(folder, options.quick), folder, options.rounds or (1 if options.quick else 3))
            results["predictions"] = rows
            print("\n" + prediction_table(rows) + "\n", flush=True)
        if options.only in (None, "choices"):
            results["choice_rounds"] = rounds = 3 if options.quick else 5
            rows = [choose(case, arguments, samples, folder, rounds)
                    for case, (arguments, samples) in choices(folder, options.quick).items()]
            results["choices"] = rows
            print("\n" + choice_table(rows) + "\n", flush=True)
    save("planner.json", results, options.out, options.quick)


if __name__ == "__main__":
    main()
