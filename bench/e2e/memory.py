#!/usr/bin/env python3
"""Measures what memory budgets cost and what each way of saving memory saves.

    bench/e2e/memory.py [--quick] [--only PART] [--rounds 3] [--out bench/results/memory.json]

budgets: GPT-2 124 M, one step of 65,536 tokens at context 256 under several budgets, beside a plain libtorch loop on
  the same batch: its peak with the smallest micro-batch, and in one pass as its two smallest sizes extrapolate.
cgroup: the small model of tests/faults/cgroup.py in a memory cgroup of exactly its budget: how it ended, the most that
  was resident, and the most that was charged, page cache included. Left out where no cgroup can be made.
adama: 10.8 M, full recomputation, 4,096 tokens per micro-batch: peak and time beside AdamW with a gradient buffer.
Rounds take each budget, and each optimizer, in turn; of speeds the median counts, of memory the most.
--quick takes smaller models and one round, and keeps nothing. Only the standard library. What a smaller state does to the loss is in optimizer_memory.py.
"""
import argparse
import json
import pathlib
import sys
import tempfile

from runs import BUILD, GPT2, ROOT, Refused, gib, gpt2, median, percent, plain_libtorch, save, spread, table, train

sys.path.append(str(ROOT / "tests" / "faults"))
import cgroup as limited  # noqa: E402  trains in a memory cgroup


def plain_peak(size: str, micro: int, count: int) -> int:
    model = {"vocab": 256, **GPT2[size]}
    return plain_libtorch(1, {**model, "micro": micro, "count": count})["peak_resident_bytes"]


def under(budget: str, arguments: list[str], folder: pathlib.Path, turn: int) -> dict:
    name = f"budget-{budget}-{turn}"
    try:
        steps, resident = train(folder, name, [*arguments, "--run.steps=1", f"--memory.budget={budget}",
                                               "--run.checkpoint_every=1000 steps"])
    except Refused as refused:
        return {"budget": budget, "refused": str(refused)}
    step = steps[0]
    row = {"budget": budget, "peak_bytes": step["peak_bytes"], "peak_resident_bytes": resident,
           "tokens_per_second": step["tokens_per_second"], "micro_batch": step["micro_batch"],
           "micro_batches": step["micro_batches"], "recompute": recompute_of(folder / name),
           "retries": step.get("retries", 0), "loss": step["loss"], "grad_norm": step["grad_norm"]}
    print(f"{budget:>8}: {row['micro_batches']} x {row['micro_batch']} {row['recompute']}, peak "
          f"{gib(row['peak_bytes'])} ({gib(resident)} resident), {row['tokens_per_second']:.0f} tokens/s, gradient "
          f"norm {row['grad_norm']:.7g}", flush=True)
    return row


def of_rounds(rows: list[dict]) -> dict:
    """Of one budget."""
    if any("refused" in row for row in rows):
        return rows[0]
    speeds = spread([row["tokens_per_second"] for row in rows])
    return rows[0] | {what: max(row[what] for row in rows) for what in ("peak_bytes", "peak_resident_bytes")} | {
        "tokens_per_second": speeds["median"], "tokens_per_second_of_rounds": speeds}


def recompute_of(out: pathlib.Path) -> str:
    states = sorted((out / "checkpoints").glob("*/state.json"))
    return json.loads(states[-1].read_text())["plan"].get("recompute", "none") if states else "unknown"


def budgets(folder: pathlib.Path, quick: bool, rounds: int) -> dict:
    size, samples, limits = ("1.8M", 64, ("150MiB", "300MiB")) if quick else ("124M", 256, ("2.75GiB", "3GiB", "6GiB"))
    found = {limit: [] for limit in limits}
    for turn in range(rounds):
        for limit, of_limit in found.items():
            of_limit.append(under(limit, gpt2(folder, size, samples), folder, turn))
    rows = [of_rounds(of_limit) for of_limit in found.values()]
    one, two = (plain_peak(size, micro, 1) for micro in (1, 2))
    plain = {"smallest_peak_bytes": plain_peak(size, 1, 2), "one_pass_peak_bytes": one + (samples - 1) * (two - one)}
    print(table(["budget", "plan", "peak", "resident", "tokens/s", "gradient norm"],
                [[row["budget"], "refused", "", "", "", ""] if "refused" in row else
                 [row["budget"], f"{row['micro_batches']} x {row['micro_batch']}, {row['recompute']}",
                  gib(row["peak_bytes"]), gib(row["peak_resident_bytes"]), f"{row['tokens_per_second']:.0f}",
                  f"{row['grad_norm']:.7g}"] for row in rows]
                + [["plain libtorch", f"{samples} x 1", "", gib(plain["smallest_peak_bytes"]), "", ""],
                   ["plain libtorch", f"1 x {samples} (extrapolated)", "", gib(plain["one_pass_peak_bytes"]), "", ""]]),
          flush=True)
    return {"model": size, "samples": samples, "rounds": rounds, "accrue": rows, "plain_libtorch": plain}


def cgroup(folder: pathlib.Path, quick: bool, rounds: int) -> dict:
    budgets, mebi = ([400] if quick else [250, 400, 1024]), limited.MEBI
    found = {budget: [] for budget in budgets}
    for _ in range(rounds):
        for budget, rows in found.items():
            with tempfile.TemporaryDirectory(dir=folder) as name:
                status, resident, charged, said = limited.train(str(BUILD / "accrue"), pathlib.Path(name), budget * mebi,
                                                                f"{budget}MiB", dict(layers=4, width=128))
                rows.append({"status": status, "peak_resident_bytes": resident, "charged_bytes": charged})
            print(f"cgroup of {budget} MiB: status {status}, {resident / mebi:.0f} MiB resident, {charged / mebi:.0f} "
                  f"charged" + (f"\n{said[-500:]}" if status else ""), flush=True)
    return {"rounds": rounds, "budgets": {budget: {
        "statuses": [row["status"] for row in rows],
        **{what: max(row[what] for row in rows) for what in ("peak_resident_bytes", "charged_bytes")}}
        for budget, rows in found.items()}}


def adama(folder: pathlib.Path, quick: bool, rounds: int) -> dict:
    size, micro = ("1.8M", 32) if quick else ("10.8M", 16)
    arguments = [*gpt2(folder, size, 4 * micro), f"--batch.micro={micro}", "--memory.recompute=full",
                 "--optim.clip=0", "--run.steps=4"]
    results = {kind: [] for kind in ("adamw", "adama")}
    for i in range(rounds):
        for kind, measured in results.items():
            steps, _ = train(folder, f"{kind}-{i}", [*arguments, f"--optim.kind={kind}"])
            measured.append({"peak_bytes": max(step["peak_bytes"] for step in steps),
                             "tokens_per_second": median([step["tokens_per_second"] for step in steps[1:]])})
    rows = {kind: {what: median([one[what] for one in measured]) for what in ("peak_bytes", "tokens_per_second")}
            for kind, measured in results.items()}
    ratios = [a["tokens_per_second"] / b["tokens_per_second"] for a, b in zip(results["adama"], results["adamw"])]
    rows["adama"] |= {"peak_ratio": rows["adama"]["peak_bytes"] / rows["adamw"]["peak_bytes"],
                      "throughput_ratio": median(ratios)}
    print(table(["optimizer", "peak", "tokens/s"],
                [[kind, gib(row["peak_bytes"]), f"{row['tokens_per_second']:.0f}"] for kind, row in rows.items()]))
    print(f"adama: peak {percent(rows['adama']['peak_ratio'] - 1)}, throughput "
          f"{percent(rows['adama']['throughput_ratio'] - 1)} (median of ratios round by round)", flush=True)
    return {"model": size, "rounds": rounds, "tokens_per_micro_batch": micro * GPT2[size]["context"], **rows}


PARTS = {"budgets": budgets, "cgroup": cgroup, "adama": adama}


def cgroups_can_be_made() -> bool:
    try:
        limited.Group(512 * limited.MEBI).remove()
    except OSError as error:
        print(f"no memory cgroup can be made here ({error}); the part cgroup is left out")
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=list(PARTS))
    parser.add_argument("--rounds", type=int, help="3, with --quick 1")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    rounds = options.rounds or (1 if options.quick else 3)
    parts = [part for part in PARTS if options.only in (None, part)]
    if "cgroup" in parts and not cgroups_can_be_made():
        parts.remove("cgroup")
    with tempfile.TemporaryDirectory() as name:
        results = {part: PARTS[part](pathlib.Path(name), options.quick, rounds) for part in parts}
    save("memory.json", results, options.out, options.quick)


if __name__ == "__main__":
    main()
