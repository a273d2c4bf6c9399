#!/usr/bin/env python3
"""Measures what memory budgets cost and what each way of saving memory saves.

    bench/e2e/memory.py [--quick] [--only PART] [--out bench/results/memory.json]

budgets: GPT-2 124 M, one step of 65,536 tokens at context 256 under several budgets, beside a plain libtorch loop on
  the same batch: its peak with the smallest micro-batch, and in one pass as its two smallest sizes extrapolate.
adama: 10.8 M, full recomputation, 4,096 tokens per micro-batch: peak and time beside AdamW with a gradient buffer.
--quick takes smaller models. Only the standard library. What a smaller state does to the loss is in optimizer_memory.py.
"""
import argparse
import json
import pathlib
import tempfile

from runs import GPT2, Refused, gib, gpt2, median, percent, plain_libtorch, save, table, train


def plain_peak(size: str, micro: int, count: int) -> int:
    model = {"vocab": 256, **GPT2[size]}
    return plain_libtorch(1, {**model, "micro": micro, "count": count})["peak_resident_bytes"]


def under(budget: str, arguments: list[str], folder: pathlib.Path) -> dict:
    name = f"budget-{budget}"
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


def recompute_of(out: pathlib.Path) -> str:
    states = sorted((out / "checkpoints").glob("*/state.json"))
    return json.loads(states[-1].read_text())["plan"].get("recompute", "none") if states else "unknown"


def budgets(folder: pathlib.Path, quick: bool) -> dict:
    size, samples, limits = ("1.8M", 64, ("150MiB", "300MiB")) if quick else ("124M", 256, ("2.75GiB", "3GiB", "6GiB"))
    rows = [under(limit, gpt2(folder, size, samples), folder) for limit in limits]
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
    return {"model": size, "samples": samples, "accrue": rows, "plain_libtorch": plain}


def adama(folder: pathlib.Path, quick: bool) -> dict:
    size, micro = ("1.8M", 32) if quick else ("10.8M", 16)
    arguments = [*gpt2(folder, size, 4 * micro), f"--batch.micro={micro}", "--memory.recompute=full",
                 "--optim.clip=0", "--run.steps=4"]
    results = {kind: [] for kind in ("adamw", "adama")}
    for i in range(3 if quick else 5):
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
    return {"model": size, "tokens_per_micro_batch": micro * GPT2[size]["context"], **rows}


PARTS = {"budgets": budgets, "adama": adama}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=list(PARTS))
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        results = {part: measure(pathlib.Path(name), options.quick) for part, measure in PARTS.items()
                   if options.only in (None, part)}
    save("memory.json", results, options.out)


if __name__ == "__main__":
    main()
