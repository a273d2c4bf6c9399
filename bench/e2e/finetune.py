#!/usr/bin/env python3
"""Fine-tunes the same model with accrue and with transformers and PEFT, in turn: speed and resident memory.

    bench/e2e/finetune.py [--only JOB] [--rounds 3] [--steps 2] [--threads N] [--out FOLDER]
    bench/e2e/finetune.py --quick   a tiny model: whether everything runs and agrees, in a minute

Models have the shapes of Qwen2.5-0.5B and Qwen3-1.7B and random weights, which transformers makes. Both systems start
from the same weights and the same adapter and take the same samples in the same order, in bf16. Each uses the
micro-batch that is best for it: transformers' is tried beforehand (bench/peers/peft_worker.py), accrue plans its own.
Speed is shown only where losses and gradient norms agree. Some jobs train with the base in blocks or within a stated
memory.budget, too; one that transformers has no memory for is accrue's alone. `make bench-finetune` sets up .venv-peers
and runs this.
"""
import argparse
import functools
import json
import os
import pathlib
import sys
import tempfile

from agreement import agrees, relative_errors
from runs import ROOT, flags, gib, median, random_tokens, run, save, spread, table, train

PEERS = ROOT / "bench" / "peers"
ENVIRONMENT = ROOT / ".venv-peers"
PYTHON = ENVIRONMENT / "bin" / "python"
sys.path.append(str(PEERS))
from tuning import TUNED, variables  # noqa: E402

SMALL_IDS = 60_000  # of a vocabulary of 151,936: what 16 bits hold
QWEN_05B = dict(model_type="qwen2", config=dict(
    hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2,
    vocab_size=151_936, tie_word_embeddings=True, max_position_embeddings=32_768, rope_theta=1e6, rms_norm_eps=1e-6))
QWEN_17B = dict(model_type="qwen3", config=dict(
    hidden_size=2048, intermediate_size=6144, num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8,
    head_dim=128, vocab_size=151_936, tie_word_embeddings=True, max_position_embeddings=40_960, rope_theta=1e6,
    rms_norm_eps=1e-6))
QWEN_4B = dict(model_type="qwen3", config=dict(
    hidden_size=2560, intermediate_size=9728, num_hidden_layers=36, num_attention_heads=32, num_key_value_heads=8,
    head_dim=128, vocab_size=151_936, tie_word_embeddings=True, max_position_embeddings=40_960, rope_theta=1e6,
    rms_norm_eps=1e-6))
TINY = dict(model_type="qwen2", config=dict(
    hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    vocab_size=1024, tie_word_embeddings=True, max_position_embeddings=256))
LORA, FULL = dict(kind="lora", rank=16, lr=2e-4), dict(kind="full", lr=2e-5)
JOBS = {
    "LoRA 0.5B at 128": QWEN_05B | LORA | dict(context=128, samples=16, blocks=["q8_0"]),
    "LoRA 0.5B at 1024": QWEN_05B | LORA | dict(context=1024, samples=2),
    "LoRA 1.7B at 128": QWEN_17B | LORA | dict(context=128, samples=8, blocks=["q8_0", "q4_k"], budgets=["4000 MiB"]),
    "LoRA 1.7B at 1024": QWEN_17B | LORA | dict(context=1024, samples=2),
    "full 0.5B at 128": QWEN_05B | FULL | dict(context=128, samples=16),
    "LoRA 4B at 128, 4 bits": QWEN_4B | LORA | dict(context=128, samples=16, blocks=["q4_k"], budget="6 GiB", alone=True),
}
QUICK_JOBS = {"LoRA tiny": TINY | LORA | dict(context=64, samples=8, blocks=["q8_0"], budgets=["256 MiB"]), "full tiny": TINY | FULL | dict(context=64, samples=8)}
COMPARED = ("losses", "grad_norms")


def prepare(folder: pathlib.Path, job: dict) -> pathlib.Path:
    folder.mkdir()
    (folder / "job.json").write_text(json.dumps(job))
    count = (job["warm_up_steps"] + job["steps"]) * job["samples"] * job["context"] + 1
    made = pathlib.Path(json.loads(random_tokens(folder, min(SMALL_IDS, job["config"]["vocab_size"]), count))[0])
    made.rename(folder / "tokens.bin")
    run([str(PYTHON), str(PEERS / "peft_worker.py"), "make", str(folder)])
    return folder


def ask_peer(verb: str, folder: pathlib.Path, *more: str) -> tuple[dict, int]:
    result = folder / "result.json"
    command = [str(PYTHON), str(PEERS / "peft_worker.py"), verb, str(folder), str(result), *more]
    _, resident = run(command, os.environ | variables(TUNED, ENVIRONMENT))
    return json.loads(result.read_text()), resident


def run_peer(folder: pathlib.Path, micro: int) -> dict:
    outcome, resident = ask_peer("train", folder, str(micro))
    return outcome | {"peak_resident_bytes": resident, "micro": micro}


def accrue_arguments(folder: pathlib.Path, job: dict) -> list[str]:
    adapter = flags("lora", **{"from": folder / "adapter"}) if job["kind"] == "lora" else []
    return (flags("run", steps=job["warm_up_steps"] + job["steps"], threads=job["threads"],
                  checkpoint_every="1000000 steps")
            + flags("model", context=job["context"], **{"from": folder / "model"}) + adapter
            + flags("data", train=f'["{folder / "tokens.bin"}"]', order="sequential")
            + (flags("memory", budget=job["budget"]) if "budget" in job else [])
            + flags("batch", samples=job["samples"]) + flags("precision", compute="bf16")
            + flags("optim", lr=job["lr"], betas=[0.9, 0.95], eps=1e-5, weight_decay=0, clip=1.0,
                    schedule='{kind = "constant"}'))


def run_accrue(folder: pathlib.Path, job: dict, more: list[str] | None = None) -> dict:
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        steps, resident = train(pathlib.Path(scratch), "run", accrue_arguments(folder, job) + (more or []))
    ends = [step["elapsed"] for step in steps[job["warm_up_steps"] - 1:]]
    return {"losses": [step["loss"] for step in steps], "grad_norms": [step["grad_norm"] for step in steps],
            "seconds": [b - a for a, b in zip(ends, ends[1:])], "peak_resident_bytes": resident,
            "micro": steps[-1]["micro_batch"]}


def row_of(job: dict, rounds: list[dict]) -> dict:
    tokens = job["samples"] * job["context"]
    return {"tokens_per_second": spread([tokens / median(outcome["seconds"]) for outcome in rounds]),
            "peak_resident_bytes": max(outcome["peak_resident_bytes"] for outcome in rounds),
            "micro": rounds[-1]["micro"], "losses": rounds[-1]["losses"], "grad_norms": rounds[-1]["grad_norms"]}


def compare(folder: pathlib.Path, name: str, job: dict, rounds: int) -> dict:
    """In each round each system runs once, in an order that turns around from round to round."""
    prepare(folder, job)
    blocks = {f"accrue, {base}": flags("model", base=base) for base in job.get("blocks", [])}
    budgets = {f"accrue, {budget}": flags("memory", budget=budget) for budget in job.get("budgets", [])}
    runs = {system: functools.partial(run_accrue, folder, job, more) for system, more in (budgets | blocks).items()}
    result = {"job": job, "rounds": rounds}
    if not job.get("alone"):
        result["micro_of_transformers"], _ = ask_peer("micro", folder)
        runs = {"accrue": functools.partial(run_accrue, folder, job),
                "transformers": functools.partial(run_peer, folder, result["micro_of_transformers"]["micro"])} | runs
    outcomes = {system: [] for system in runs}
    for i in range(rounds):
        for system in list(runs)[::1 if i % 2 == 0 else -1]:
            print(f"{name}: round {i + 1} of {rounds}: {system}", file=sys.stderr, flush=True)
            outcomes[system].append(runs[system]())
    result["systems"] = {system: row_of(job, each) for system, each in outcomes.items()}
    return result if job.get("alone") else result | compared(name, result["systems"], outcomes, list(budgets), list(blocks))


def compared(name: str, rows: dict, outcomes: dict, budgets: list[str], blocks: list[str]) -> dict:
    """Raises SystemExit where accrue and transformers do not train alike."""
    errors = relative_errors(outcomes["accrue"][-1], outcomes["transformers"][-1], COMPARED)
    if not agrees(errors, "bf16"):
        sys.exit(f"error: {name}: accrue and transformers do not train alike: {errors}")

    def times_as_fast(system: str, than: str) -> dict:
        return spread([median(b["seconds"]) / median(a["seconds"]) for a, b in zip(outcomes[system], outcomes[than])])

    def beside(system: str, than: str) -> dict:
        return {"speed_ratio": times_as_fast(system, than),
                "memory_ratio": rows[system]["peak_resident_bytes"] / rows[than]["peak_resident_bytes"]}

    return {"relative_errors": errors} | beside("accrue", "transformers") | {
        "budgets": {system: beside(system, "transformers") for system in budgets},
        "blocks": {system: beside(system, "accrue") for system in blocks}}


def shown(results: dict) -> str:
    rows = []
    for name, result in results.items():
        for system, row in result["systems"].items():
            ratios = result if system == "accrue" else (
                result.get("budgets", {}) | result.get("blocks", {})).get(system, {})
            speed = "{median:.2f} ({min:.2f} to {max:.2f})"
            rows.append([name, system, str(row["micro"]),
                         "{median:.0f} ({min:.0f} to {max:.0f})".format(**row["tokens_per_second"]),
                         gib(row["peak_resident_bytes"]),
                         speed.format(**ratios["speed_ratio"]) if "speed_ratio" in ratios else "",
                         f"{ratios['memory_ratio']:.2f}" if "memory_ratio" in ratios else ""])
    return table(["job", "system", "micro-batch", "tokens/s", "resident", "times as fast", "of its memory"], rows) + (
        "\naccrue is compared with transformers, also within a budget; a base in blocks with accrue's in bf16")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=[*JOBS, *QUICK_JOBS])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=2, help="timed, after one warm-up step")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=pathlib.Path, help="the file of results")
    options = parser.parse_args()
    if not PYTHON.exists():
        sys.exit(f"error: expected {PYTHON.relative_to(ROOT)}, received no such file; try scripts/setup.sh peers")
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    jobs = QUICK_JOBS if options.quick else JOBS
    settings = dict(warm_up_steps=1, steps=options.steps, threads=options.threads)
    results = {}
    for name, job in jobs.items():
        if options.only not in (None, name):
            continue
        with tempfile.TemporaryDirectory() as scratch:
            results[name] = compare(pathlib.Path(scratch) / "job", name, job | settings, options.rounds)
        save("finetune.json", results, options.out, options.quick)
    print(shown(results))


if __name__ == "__main__":
    main()
