#!/usr/bin/env python3
"""Measures unmodified transformers models in a user's own Python loop, with and without accrue, in turn, in one run.

    bench/e2e/python_models.py [--only JOB...] [--rounds 3] [--out bench/results/python_models.json]
    bench/e2e/python_models.py --quick     tiny models: whether everything runs and agrees, in a minute

In each round, each in a process of its own (bench/peers/python_loop.py): the plain loop, the same with tcmalloc and with torch.compile,
an Accumulator's loop, and that accelerated. Speeds are compared with the fastest of the plain ones round by round, memory by the most
that was resident. Of a head alone (bench/peers/python_head.py) the memory is kept: what a pass takes above what was resident before it.
"""
import argparse
import json
import os
import pathlib
import statistics
import sys

from agreement import expect_same_losses
from runs import BUILD, ROOT, gib, run, save, spread

PEERS = ROOT / "bench" / "peers"
sys.path.append(str(PEERS))
from tuning import TUNED, variables  # noqa: E402

LARGE = dict(layers=12, heads=12, width=768, context=256, vocab=50304, micro=4, count=2)
JOBS = {
    "GPT-2 10.8 M, fp32": dict(model="gpt2", dtype="fp32"),
    "GPT-2 10.8 M, bf16": dict(model="gpt2", dtype="bf16"),
    "GPT-2 124 M, 50,304 words, fp32": dict(model="gpt2", dtype="fp32", **LARGE),
    "GPT-2 124 M, 50,304 words, bf16": dict(model="gpt2", dtype="bf16", **LARGE),
    "Llama 10 M, fp32": dict(model="llama", dtype="fp32"),
    "ViT 10 M, fp32": dict(model="vit", dtype="fp32"),
}
HEADS = {"head of GPT-2 124 M": dict(rows=1024, context=256, width=768, vocab=50304)}
TINY = dict(layers=2, heads=2, width=64, micro=2, count=2)
QUICK_JOBS = {
    "GPT-2 tiny": dict(model="gpt2", dtype="fp32", context=32, **TINY),
    "Llama tiny, bf16": dict(model="llama", dtype="bf16", context=32, **TINY),
    "ViT tiny": dict(model="vit", dtype="fp32", image=32, **TINY),
}
QUICK_HEADS = {"head, tiny": dict(rows=128, context=32, width=64, vocab=512)}
PLAIN = ("plain", "plain, tcmalloc", "compiled, tcmalloc")
LOOPS = {
    "plain": ("plain", False),
    "plain, tcmalloc": ("plain", True),
    "compiled, tcmalloc": ("compiled", True),
    "accumulator": ("accumulator", False),
    "accelerated": ("accelerated", False),
}
SAME_LOSS = {"fp32": 1e-3, "bf16": 3e-2}  # relative, of the first two steps


def measured(script: str, words: list[str], sizes: dict, tuned: bool = False) -> tuple[dict, int]:
    """What a script of bench/peers tells, and the most that its process was resident with."""
    environment = os.environ | {"PYTHONPATH": str(BUILD / "python"), "PYTHONWARNINGS": "ignore"}
    environment |= variables(TUNED, ROOT / ".venv-peers") if tuned else {}
    flags = [f"--{key}={value}" for key, value in sizes.items()]
    out, resident = run([sys.executable, str(PEERS / script), *words, *flags], environment)
    return json.loads(out.splitlines()[-1]), resident


def measure(name: str, job: dict, rounds: int) -> dict:
    rates: dict[str, list[float]] = {loop: [] for loop in LOOPS}
    residents: dict[str, int] = {}
    losses: dict[str, list[float]] = {}
    for _ in range(rounds):
        for loop, (kind, tuned) in LOOPS.items():
            sizes = {key: value for key, value in job.items() if key != "model"}
            result, resident = measured("python_loop.py", [job["model"], kind], sizes, tuned)
            rates[loop].append(statistics.median(result["per_second"]))
            residents[loop] = max(resident, residents.get(loop, 0))
            losses[loop] = result["losses"]
    expect_same_losses(name, losses, SAME_LOSS[job["dtype"]])
    fastest = max(PLAIN, key=lambda loop: statistics.median(rates[loop]))
    loops = {loop: {"per_second": spread(rates[loop]),
                    "of_plain": spread([a / b for a, b in zip(rates[loop], rates["plain"])]),
                    "of_fastest": spread([a / b for a, b in zip(rates[loop], rates[fastest])]),
                    "peak_resident_bytes": residents[loop]} for loop in LOOPS}
    return {"unit": "images" if job["model"] == "vit" else "tokens", "rounds": rounds, "fastest_plain": fastest, "loops": loops}


def measure_head(name: str, sizes: dict, rounds: int) -> dict:
    """It has no loops of a whole model; seconds are told and not kept."""
    result: dict = {"loops": {}, "rounds": rounds}
    for dtype in SAME_LOSS:
        residents: dict[str, list[int]] = {"plain": [], "accelerated": []}
        losses: dict[str, list[float]] = {}
        for _ in range(rounds):
            for loop, most in residents.items():
                head, _ = measured("python_head.py", [loop], sizes | {"dtype": dtype})
                most.append(head["resident_bytes"])
                losses[loop] = head["losses"]
                print(f"{name}, {dtype}, {loop}: {gib(most[-1])} above what was resident, {min(head['seconds']):.2f} s", flush=True)
        expect_same_losses(f"{name}, {dtype}", losses, SAME_LOSS[dtype])
        rows = {loop: {"resident_bytes": spread(most)} for loop, most in residents.items()}
        rows["accelerated"]["of_plain"] = spread([a / b for a, b in zip(residents["accelerated"], residents["plain"])])
        result[dtype] = rows
    return result


def show(name: str, result: dict) -> None:
    print(f"{name} (fastest without accrue: {result['fastest_plain']})")
    for loop, row in result["loops"].items():
        of = row["of_fastest"]
        print(f"  {loop:20} {row['per_second']['median']:9.1f} {result['unit']}/s   {row['of_plain']['median']:.2f} of plain, "
              f"{of['median']:.2f} ({of['min']:.2f} to {of['max']:.2f}) of the fastest   {gib(row['peak_resident_bytes'])}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", choices=[*JOBS, *HEADS], default=[*JOBS, *HEADS])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=pathlib.Path, help="file of the results (bench/results/python_models.json)")
    options = parser.parse_args()
    rounds = 1 if options.quick else options.rounds
    jobs, heads = (QUICK_JOBS, QUICK_HEADS) if options.quick else (
        {name: job for name, job in of.items() if name in options.only} for of in (JOBS, HEADS))
    for name, job in jobs.items():
        result = measure(name, job, rounds)
        show(name, result)
        save("python_models.json", {name: result}, options.out, options.quick)
    for name, sizes in heads.items():
        save("python_models.json", {name: measure_head(name, sizes, rounds)}, options.out, options.quick)


if __name__ == "__main__":
    main()
