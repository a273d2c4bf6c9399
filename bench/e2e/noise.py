#!/usr/bin/env python3
"""Measures what it costs to measure the noise of gradients: steps of a GPT-2 with observe.noise = none, total and blocks, and in the optimizer's
geometry, in turn, each in a process of its own.

    bench/e2e/noise.py [--rounds 5] [--out bench/results/noise.json]
    bench/e2e/noise.py --quick     a tiny model: whether everything runs
"""
import argparse
import pathlib
import tempfile

from runs import flags, gpt2, median, percent, save, spread, table, train

KINDS = {
    "none": flags("observe", noise="none"),
    "total": flags("observe", noise="total"),
    "blocks": flags("observe", noise="blocks"),
    # A batch that may not change: decided upon, and always the same.
    "in the optimizer's geometry": flags("observe", noise="total"),
}
JOBS = {"GPT-2 10.8 M, 8 micro-batches of 4 x 256": dict(size="10.8M", samples=32, micro=4, steps=5),
        "GPT-2 10.8 M, 2 micro-batches of 4 x 256": dict(size="10.8M", samples=8, micro=4, steps=12)}
QUICK_JOBS = {"tiny": dict(size="tiny", samples=8, micro=2, steps=4)}


def seconds_of(job: dict, kind: str) -> list[float]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        words = [*gpt2(folder, job["size"], job["samples"]), f"--batch.micro={job['micro']}", f"--run.steps={job['steps']}", *KINDS[kind]]
        if kind.startswith("in the"):
            tokens = next(word for word in words if word.startswith("--batch.tokens=")).split("=")[1]
            words += flags("adapt", batch="norm-test", min=tokens, max=tokens)
        (folder / "bench.toml").write_text('[run]\nout = "unused"\n[optim]\nlr = 3e-4\n')
        steps, _ = train(folder, "run", words)
        return [step["seconds"] for step in steps[1:]]  # the first one allocates


def measure(job: dict, rounds: int) -> dict:
    medians: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for _ in range(rounds):
        for kind in KINDS:
            medians[kind].append(median(seconds_of(job, kind)))
    ratios = {kind: [own / without for own, without in zip(medians[kind], medians["none"])] for kind in KINDS}
    return {"seconds": {kind: spread(medians[kind]) for kind in KINDS}, "relative": {kind: spread(ratios[kind]) for kind in KINDS}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    results = {name: measure(job, 1 if options.quick else options.rounds) for name, job in (QUICK_JOBS if options.quick else JOBS).items()}
    rows = [[name, kind, f"{found['seconds'][kind]['median']:.3f}", *(percent(found["relative"][kind][what] - 1) for what in ("median", "min", "max"))]
            for name, found in results.items() for kind in KINDS]
    print(table(["model", "noise", "s a step", "more than none", "least", "most"], rows))
    save("noise.json", results, options.out, options.quick)


if __name__ == "__main__":
    main()
