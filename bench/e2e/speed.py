#!/usr/bin/env python3
"""Measures accrue beside a plain libtorch loop, in turn, in one run.

    bench/e2e/speed.py [--rounds 5] [--only NAME] [--out bench/results/speed.json]
    bench/e2e/speed.py --quick          a tiny model: whether everything runs, in half a minute

Each round runs the plain loop (bench/peers/plain_libtorch) and `accrue bench` on the same model, batch and
number of threads, one after the other, each in a process of its own; the ratio is taken round by round.
Also: accumulation overhead at K = 64, and the peak memory of K = 64 beside K = 1. Only the standard library.
"""
import argparse
import pathlib
import statistics
import tempfile

from runs import accrue_json, plain_libtorch, random_tokens, save, spread

MODELS = {
    "10.8M fp32": dict(layers=6, heads=6, width=384, context=256, vocab=256, micro=4, count=16, compute="fp32"),
    "124M fp32": dict(layers=12, heads=12, width=768, context=64, vocab=50304, micro=4, count=8, compute="fp32"),
    "10.8M bf16": dict(layers=6, heads=6, width=384, context=256, vocab=256, micro=4, count=16, compute="bf16"),
    "124M bf16": dict(layers=12, heads=12, width=768, context=64, vocab=50304, micro=4, count=8, compute="bf16"),
}
QUICK_MODELS = {"tiny fp32": dict(layers=2, heads=2, width=64, context=64, vocab=256, micro=4, count=4, compute="fp32")}


def overrides(model: dict, folder: pathlib.Path) -> list[str]:
    tokens = model["micro"] * model["count"] * model["context"]
    return [
        f"--model.layers={model['layers']}", f"--model.heads={model['heads']}", f"--model.width={model['width']}",
        f"--model.context={model['context']}", f"--model.vocab={model['vocab']}",
        f"--data.train={random_tokens(folder, model['vocab'])}", f"--batch.tokens={tokens}",
        f"--batch.micro={model['micro']}", f"--precision.compute={model['compute']}",
    ]


def accrue(model: dict, folder: pathlib.Path, rounds: int) -> dict:
    return accrue_json("bench", folder, [f"--rounds={rounds}", *overrides(model, folder)])


def plain(model: dict, steps: int) -> dict:
    keys = ("layers", "heads", "width", "context", "vocab", "micro", "count")
    return plain_libtorch(steps, {key: model[key] for key in keys})


def compare(name: str, model: dict, folder: pathlib.Path, rounds: int) -> dict:
    ours, theirs, ratios, last = [], [], [], {}
    for _ in range(rounds):
        theirs.append(statistics.median(plain(model, 2)["per_second"]))
        last = accrue(model, folder, 2)
        ours.append(last["tokens_per_second"]["median"])
        ratios.append(ours[-1] / theirs[-1])
    row = {"rounds": rounds, "accrue_tokens_per_second": spread(ours), "plain_libtorch_fp32_tokens_per_second": spread(theirs),
           "ratio": spread(ratios), "model_gflops": last["model_gflops"], "ceiling_gflops": last["ceiling_gflops"],
           "share_of_ceiling": last["share_of_ceiling"]}
    print(f"{name:12} accrue {row['accrue_tokens_per_second']['median']:8.0f} tokens/s   plain libtorch fp32 "
          f"{row['plain_libtorch_fp32_tokens_per_second']['median']:8.0f}   ratio {row['ratio']['median']:.2f} "
          f"({row['ratio']['min']:.2f} to {row['ratio']['max']:.2f})   "
          f"{100 * row['share_of_ceiling']:.0f}% of the GEMM ceiling", flush=True)
    return row


def overhead(model: dict, folder: pathlib.Path, rounds: int) -> dict:
    model = dict(model, count=64)
    many = accrue(model, folder, rounds)
    one = accrue(dict(model, count=1), folder, rounds)
    row = {"rounds": rounds, "accumulation_overhead": many["accumulation_overhead"],
           "seconds_per_micro_batch": many["seconds_per_micro_batch"],
           "bare_seconds_per_micro_batch": many["bare_seconds_per_micro_batch"],
           "optimizer_seconds": many["optimizer_seconds"],
           "peak_bytes": {"K=1": one["peak_bytes"], "K=64": many["peak_bytes"],
                          "ratio": many["peak_bytes"] / one["peak_bytes"]},
           "peak_resident_bytes": {"K=1": one["peak_resident_bytes"], "K=64": many["peak_resident_bytes"],
                                   "ratio": many["peak_resident_bytes"] / one["peak_resident_bytes"]}}
    print(f"K = 64 over 64 bare passes: {100 * row['accumulation_overhead']:+.2f}% "
          f"(optimizer step apart: {1000 * row['optimizer_seconds']['median']:.1f} ms)\n"
          f"peak of K = 64 / K = 1: {row['peak_bytes']['ratio']:.4f} by the meter, "
          f"{row['peak_resident_bytes']['ratio']:.4f} resident", flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, help="5, with --quick 1")
    parser.add_argument("--only", help="one of: " + ", ".join([*MODELS, "overhead"]))
    parser.add_argument("--out", type=pathlib.Path, help="file of the results (bench/results/speed.json)")
    options = parser.parse_args()
    models, rounds = (QUICK_MODELS, options.rounds or 1) if options.quick else (MODELS, options.rounds or 5)
    results = {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for key, model in models.items():
            if options.only in (None, key):
                results[key] = compare(key, model, folder, rounds)
        if options.only in (None, "overhead"):
            results["overhead"] = overhead(next(iter(models.values())), folder, rounds)
    save("speed.json", results, options.out, options.quick)


if __name__ == "__main__":
    main()
