#!/usr/bin/env python3
"""Parts of training alone, by the Google Benchmark programs of bench/micro: rounds in random order within one process.

    bench/e2e/micro.py [--quick] [--only PART] [--rounds 9] [--out bench/results/micro.json]

recompute: what each kind of recomputation costs and keeps of a micro-batch of GPT-2 10.8 M (1,024 tokens).
head: the vocabulary loss of GPT-2 124 M by chunks, with whole logits in one chunk, and the same by ATen.
data: tokens a second of the data path, without a model.
--quick runs each once for a moment and keeps nothing. Only the standard library.
"""
import argparse
import json
import pathlib
import tempfile

from runs import BUILD, run, save, spread, table

PARTS = {  # the program, and which of its benchmarks
    "recompute": ("recompute_bench", "gpt2_10.8M/(fp32|bf16)/(none|selective|full)/"),
    "head": ("kernels_bench", "head_by_(chunks|aten)/(fp32|bf16)(/|$)"),
    "data": ("data_bench", "fetch/|prefetched/"),
}
# What another one's seconds are divided by, in the same round.
REFERENCES = {"recompute": lambda name: "/".join([*name.split("/")[:-1], "none"]),
              "head": lambda name: "head_by_aten/" + name.split("/")[1],
              "data": lambda name: name}
SECONDS = {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
QUICK_SECONDS = "0.01"


def measure(part: str, rounds: int, quick: bool) -> dict:
    program, wanted = PARTS[part]
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.json"
        run([str(BUILD / "bench" / "micro" / program), f"--benchmark_filter={wanted}",
             f"--benchmark_repetitions={rounds}", "--benchmark_enable_random_interleaving=true",
             *([f"--benchmark_min_time={QUICK_SECONDS}"] if quick else []),
             f"--benchmark_out={out}", "--benchmark_out_format=json"])
        return summary(part, json.loads(out.read_text()), rounds)


def name_of(line: dict) -> str:
    return line["run_name"].removesuffix("/real_time")


def summary(part: str, report: dict, rounds: int) -> dict:
    """By benchmark: seconds, the ratio to its reference round by round, and what it counts."""
    lines = [line for line in report["benchmarks"] if line["run_type"] == "iteration"]
    by_round = {(name_of(line), line["repetition_index"]): line["real_time"] * SECONDS[line["time_unit"]] for line in lines}
    cases = {}
    for line in lines:
        name = name_of(line)
        reference = REFERENCES[part](name)
        row = cases.setdefault(name, {"seconds": [], "ratio": [], "counted": {}})
        row["seconds"].append(by_round[name, line["repetition_index"]])
        row["ratio"].append(row["seconds"][-1] / by_round[reference, line["repetition_index"]])
        for key in ("peak_MB", "tokens_per_second"):
            if key in line:
                row["counted"].setdefault(key, []).append(line[key])
    return {"rounds": rounds, "cases": {name: {
        "seconds": spread(row["seconds"]), "ratio": spread(row["ratio"]),
        **{key: spread(values) for key, values in row["counted"].items()}} for name, row in cases.items()}}


def shown(result: dict) -> str:
    def cell(found: dict | None, digits: int) -> str:
        return f"{found['median']:,.{digits}f} ({found['min']:,.{digits}f} to {found['max']:,.{digits}f})" if found else ""

    return table(["", "seconds", "ratio", "MB", "tokens/s"],
                 [[name, cell(row["seconds"], 6), cell(row["ratio"], 3), cell(row.get("peak_MB"), 1),
                   cell(row.get("tokens_per_second"), 0)] for name, row in result["cases"].items()])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=list(PARTS))
    parser.add_argument("--rounds", type=int, help="9, with --quick 1")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    results = {}
    for part in [options.only] if options.only else PARTS:
        results[part] = measure(part, options.rounds or (1 if options.quick else 9), options.quick)
        print(shown(results[part]) + "\n", flush=True)
    save("micro.json", results, options.out, options.quick)


if __name__ == "__main__":
    main()
