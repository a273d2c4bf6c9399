#!/usr/bin/env python3
"""Trains the same model with accrue and with every other system, in turn, and compares their speed.

    bench/e2e/peers.py [--only JOB] [--systems NAME,NAME] [--rounds 3] [--steps 3] [--threads N] [--out FOLDER]
    bench/e2e/peers.py --quick          a tiny model: whether everything runs and agrees, in a minute or two
    bench/e2e/peers.py --self-test      whether the comparison notices a training that is not the same
    bench/e2e/peers.py --llmc CHECKOUT  also llm.c's CPU program, in the job of one micro-batch a step: it neither
                                        accumulates nor clips

Every system starts from the same weights file and takes the same samples in the same order, in the same
micro-batches, precision and number of threads, in a process of its own; peers as installed and tuned
(bench/peers/tuning.py); each round runs all of them, beginning with another one. Speed is shown only of systems whose losses and norms agree with PyTorch eager's (agreement.py).
`make bench-peers` sets up .venv-peers, which the peers run in, and runs this. See docs/notes/peers.md.
"""
import argparse
import contextlib
import copy
import dataclasses
import json
import os
import pathlib
import sys
import tempfile
from collections.abc import Iterator

import peers_report
from agreement import COMPARED, agrees, relative_errors
from runs import QUICK, RESULTS, ROOT, Refused, flags, median, random_tokens, run, spread, steps_of, train

PEERS = ROOT / "bench" / "peers"
ENVIRONMENT = ROOT / ".venv-peers"
PYTHON = ENVIRONMENT / "bin" / "python"
sys.path.append(str(PEERS))
from job import Recipe  # noqa: E402  what the peers read
from tuning import AS_INSTALLED, COMPILED, TUNED, Tuning, tcmalloc, variables  # noqa: E402

SMALL = dict(layers=6, heads=6, width=384, context=256, vocab=256, micro=4, count=16)
LARGE = dict(layers=12, heads=12, width=768, context=64, vocab=50304, micro=4, count=8)
JOBS = {
    "10.8M fp32": dict(SMALL, precision="fp32"),
    "124M fp32": dict(LARGE, precision="fp32"),
    "124M fp32 long": dict(LARGE, context=1024, micro=1, count=2, precision="fp32"),
    "10.8M bf16": dict(SMALL, precision="bf16"),
    "124M bf16": dict(LARGE, precision="bf16"),
}
# One micro-batch a step, as llm.c's CPU program has it, with its settings; it draws samples in an order of its own.
ONE_JOB = "124M fp32 K = 1"
JOBS[ONE_JOB] = dict(LARGE, count=1, precision="fp32", one_batch=True,
                     recipe=dict(lr=1e-4, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, clip=0))
TINY = dict(layers=2, heads=2, width=64, context=64, vocab=256, micro=4, count=4)
QUICK_JOBS = {f"tiny {precision}": dict(TINY, precision=precision) for precision in ("fp32", "bf16")}


@dataclasses.dataclass(frozen=True)
class Variant:
    """A system with one of its tunings."""
    system: str
    tuning: Tuning = AS_INSTALLED

    @property
    def name(self) -> str:
        return self.system if self.system in UNTUNED else f"{self.system}, {self.tuning.name}"


@dataclasses.dataclass(frozen=True)
class Entry:
    """A variant with what it is to train, and what else accrue is told."""
    variant: Variant
    folder: pathlib.Path
    job: dict
    also: tuple[str, ...] = ()
    planned: bool = False  # accrue chooses the micro-batch and recomputation by itself


OURS = "accrue"
LLMC = "llm.c"
UNTUNED = (OURS, LLMC)
TUNINGS_OF = {OURS: (AS_INSTALLED,), "eager": (AS_INSTALLED, TUNED), "compile": (AS_INSTALLED, TUNED),
              "accelerate": (AS_INSTALLED, TUNED, COMPILED), "lightning": (AS_INSTALLED, TUNED, COMPILED),
              "deepspeed": (AS_INSTALLED, TUNED, COMPILED), LLMC: (AS_INSTALLED,)}
SYSTEMS = tuple(system for system in TUNINGS_OF if system != LLMC)
REFERENCE = Variant("eager")
LLMC_CHECKOUT = "ACCRUE_BENCH_LLMC"  # the environment variable that has its path
WARM_UP_STEPS = 1


def all_steps(job: dict) -> int:
    return job["warm_up_steps"] + job["steps"]


def tokens_per_step(job: dict) -> int:
    return job["micro"] * job["count"] * job["context"]


def prepare(folder: pathlib.Path, job: dict) -> pathlib.Path:
    """The job's folder: what is to be trained, the tokens and the initial weights."""
    folder.mkdir()
    (folder / "job.json").write_text(json.dumps(job))
    write_tokens(folder, job)
    run([str(PYTHON), str(PEERS / "prepare.py"), str(folder)])
    return folder


def write_tokens(folder: pathlib.Path, job: dict) -> None:
    """Of all steps, or of one over and over; the last target is the first token."""
    repeats = all_steps(job) if job.get("one_batch") else 1
    drawn = all_steps(job) * tokens_per_step(job) // repeats
    made = pathlib.Path(json.loads(random_tokens(folder, job["vocab"], drawn))[0])
    tokens = made.read_bytes()
    made.unlink()
    (folder / "tokens.bin").write_bytes(tokens * repeats + tokens[:2])


def accrue_arguments(folder: pathlib.Path, job: dict, planned: bool = False) -> list[str]:
    recipe = Recipe(**job.get("recipe", {}))
    return (flags("run", steps=all_steps(job), threads=job["threads"],
                  checkpoint_every="1000000 steps")
            + flags("model", kind="gpt2", **{"from": folder / "model"})
            + flags("data", train=f'["{folder / "tokens.bin"}"]', order="sequential")
            + flags("batch", tokens=tokens_per_step(job))
            + flags("precision", compute=job["precision"])
            + flags("optim", kind="adamw", lr=recipe.lr, betas=list(recipe.betas), eps=recipe.eps,
                    weight_decay=recipe.weight_decay, decay="matrices", clip=recipe.clip,
                    schedule='{kind = "constant"}')
            + ([] if planned else flags("batch", micro=job["micro"]) + flags("memory", recompute="none")))


def run_accrue(entry: Entry) -> dict:
    with tempfile.TemporaryDirectory(dir=entry.folder) as scratch:
        out = pathlib.Path(scratch)
        _, resident = train(out, "run", [*accrue_arguments(entry.folder, entry.job, entry.planned), *entry.also])
        return accrue_outcome(entry.folder, entry.job, out / "run") | {"peak_resident_bytes": resident}


def accrue_outcome(folder: pathlib.Path, job: dict, out: pathlib.Path) -> dict:
    """Of a run directory."""
    steps = steps_of(out)
    final = out / "checkpoints" / f"step-{len(steps):08}" / "model.safetensors"
    norms, _ = run([str(PYTHON), str(PEERS / "norms.py"), str(folder / "model" / "model.safetensors"), str(final)])
    about = json.loads((out / "run.json").read_text())
    ends = [step["elapsed"] for step in steps[job["warm_up_steps"] - 1:]]
    return {"losses": [step["loss"] for step in steps], "grad_norms": [step["grad_norm"] for step in steps],
            "seconds": [end - begin for begin, end in zip(ends, ends[1:])], "micro": steps[-1]["micro_batch"], "versions": about["versions"],
            "machine": {key: about["machine"][key] for key in ("processor", "isa", "threads")}} | json.loads(norms)


def run_peer(variant: Variant, folder: pathlib.Path) -> dict:
    command = [PEERS / "llmc.py", os.environ[LLMC_CHECKOUT]] if variant.system == LLMC else [
        PEERS / "worker.py", variant.system]
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        result = pathlib.Path(scratch) / "result.json"
        tuning = [] if variant.system == LLMC else [variant.tuning.name]
        run([str(PYTHON), *map(str, command), str(folder), str(result), *tuning],
            os.environ | variables(variant.tuning, ENVIRONMENT))
        return json.loads(result.read_text())


def run_entry(entry: Entry) -> dict:
    try:
        return run_accrue(entry) if entry.variant.system == OURS else run_peer(entry.variant, entry.folder)
    except Refused as refused:
        return {"unavailable": str(refused)}


def rotated(systems: list[str], by: int) -> list[str]:
    by %= len(systems)
    return systems[by:] + systems[:by]


def measure(entries: dict[str, Entry], rounds: int) -> dict[str, list[dict]]:
    """The outcome of each round by the entry's name; one that does not run is not asked again."""
    outcomes = {name: [] for name in entries}
    for i in range(rounds):
        for name in rotated(list(entries), i):
            if any("unavailable" in outcome for outcome in outcomes[name]):
                continue
            print(f"round {i + 1} of {rounds}: {name}", file=sys.stderr, flush=True)
            outcomes[name].append(run_entry(entries[name]))
    return outcomes


def variants_of(systems: list[str]) -> dict[str, Variant]:
    variants = [Variant(system, tuning) for system in systems for tuning in TUNINGS_OF[system]]
    return {variant.name: variant for variant in variants}


def compared_in(job: dict) -> tuple[str, ...]:
    """llm.c keeps its norms and parameters to itself, and under its eps (1e-8) nobody's agree; each step's loss shows
    what the steps before it did."""
    return ("losses",) if job.get("one_batch") else COMPARED


def reference_for(variant: Variant, outcome: dict) -> dict:
    """accrue's gradient norms are sums in double, the peers' what PyTorch reports."""
    return outcome | {"grad_norms": outcome["grad_norms_in_double"]} if variant.system == OURS else outcome


def speeds_of(job: dict, rounds: list[dict]) -> list[float]:
    return [tokens_per_step(job) / median(outcome["seconds"]) for outcome in rounds]


def row_of(entry: Entry, rounds: list[dict], reference: list[dict]) -> dict:
    """Why it is not available; or its errors and, only where they are within the bound, its speed."""
    about = {"system": entry.variant.system, "tuning": entry.variant.tuning.name}
    if "unavailable" in rounds[-1]:
        return about | {"unavailable": rounds[-1]["unavailable"]}
    compared = [relative_errors(ours, reference_for(entry.variant, theirs), compared_in(entry.job))
                for ours, theirs in zip(rounds, reference)]
    worst = {what: max(errors[what] for errors in compared) for what in compared[0]}
    row = about | {"agrees": agrees(worst, entry.job["precision"]), "relative_errors": worst,
                   "versions": rounds[0]["versions"],
                   **{what: rounds[0][what] for what in ("losses", "grad_norms") if what in rounds[0]}}
    if row["agrees"]:
        row |= {"tokens_per_second": spread(speeds_of(entry.job, rounds)),
                "peak_resident_bytes": max(outcome["peak_resident_bytes"] for outcome in rounds)}
    return row


def summarise(entries: dict[str, Entry], outcomes: dict[str, list[dict]]) -> dict[str, dict]:
    """A row by name, with how many times as fast accrue is, round by round."""
    reference = outcomes[REFERENCE.name]
    if "unavailable" in reference[0]:
        sys.exit(f"error: PyTorch eager, which the others are compared with: {reference[0]['unavailable']}")
    rows = {name: row_of(entries[name], rounds, reference) for name, rounds in outcomes.items()}
    for name, row in rows.items():
        if "tokens_per_second" in row and "tokens_per_second" in rows.get(OURS, {}):
            pairs = zip(speeds_of(entries[OURS].job, outcomes[OURS]), speeds_of(entries[name].job, outcomes[name]))
            row["accrue_ratio"] = spread([a / b for a, b in pairs])
    return rows


def compare(scratch: pathlib.Path, name: str, job: dict, systems: list[str], rounds: int) -> dict:
    folder = prepare(scratch / name.replace(" ", "-"), job)
    entries = {variant: Entry(found, folder, job) for variant, found in variants_of(systems).items()}
    outcomes = measure(entries, rounds)
    return {"job": job, "rounds": rounds, "allocator": allocator_of_tuned(),
            "machine": outcomes[OURS][0]["machine"], "systems": summarise(entries, outcomes)}


def allocator_of_tuned() -> str:
    found = tcmalloc(ENVIRONMENT)
    return found.resolve().name if found else "the C library's, as tcmalloc was not found"


def self_test(scratch: pathlib.Path, jobs: dict[str, dict]) -> None:
    """The comparison accepts what is the same training and rejects what is not."""
    for name, job in jobs.items():
        folder = prepare(scratch / name.replace(" ", "-"), job)
        halved = prepare(folder / "halved", dict(job, count=job["count"] // 2))
        others = prepare(folder / "others", job)
        swap_halves(others / "tokens.bin")
        ours = Variant(OURS)
        reference, again = run_peer(REFERENCE, folder), run_accrue(Entry(ours, folder, job))
        wrong = {"half the micro-batches": run_peer(REFERENCE, halved), "other samples": run_peer(REFERENCE, others)}
        wrong["gradients not divided by K"] = copy.deepcopy(reference)
        wrong["gradients not divided by K"]["grad_norms"] = [job["count"] * g for g in reference["grad_norms"]]
        wrong["a step too few"] = copy.deepcopy(reference)
        wrong["a step too few"]["losses"].pop()
        wrong["a loss that is not finite"] = reference | {"losses": [*reference["losses"][:-1], float("nan")]}
        expect(agrees(relative_errors(again, reference_for(ours, reference)), job["precision"]),
               f"{name}: accrue agrees with PyTorch")
        for what, outcome in wrong.items():
            errors = relative_errors(outcome, reference)
            expect(not agrees(errors, job["precision"]), f"{name}: {what} is rejected")


def swap_halves(file: pathlib.Path) -> None:
    content = file.read_bytes()
    middle = len(content) // 4 * 2  # uint16
    file.write_bytes(content[middle:] + content[:middle])


def expect(holds: bool, what: str) -> None:
    if not holds:
        sys.exit(f"error: self-test: it does not hold that {what}")
    print(f"ok: {what}", flush=True)


def chosen_systems(text: str | None) -> list[str]:
    names = text.split(",") if text else list(SYSTEMS)
    for name in names:
        if name not in SYSTEMS:
            sys.exit(f"error: --systems: expected some of {','.join(SYSTEMS)}, received {name}")
    return [system for system in SYSTEMS if system in names or system in (OURS, REFERENCE.system)]


def systems_for(job: str, systems: list[str]) -> list[str]:
    """Who accumulates has nothing of its own to show in one micro-batch; llm.c has nothing else."""
    if job != ONE_JOB:
        return systems
    return [OURS, REFERENCE.system, "compile"] + ([LLMC] if LLMC_CHECKOUT in os.environ else [])


def chosen_jobs(options: argparse.Namespace) -> dict[str, dict]:
    jobs = QUICK_JOBS if options.quick or options.self_test else JOBS
    if options.only and options.only not in jobs:
        sys.exit(f"error: --only: expected one of {', '.join(jobs)}, received {options.only}")
    settings = dict(warm_up_steps=WARM_UP_STEPS, steps=options.steps, threads=options.threads)
    return {name: job | settings for name, job in jobs.items() if options.only in (None, name)}


def expect_peers() -> None:
    if not PYTHON.exists():
        sys.exit(f"error: expected {PYTHON.relative_to(ROOT)}, received no such file; try scripts/setup.sh peers")


@contextlib.contextmanager
def scratch_folder(threads: int) -> Iterator[pathlib.Path]:
    """And what the processes of all systems find in their environment. torch.compile has one cache for the program: a
    job is compiled once, and never with what another run left."""
    with tempfile.TemporaryDirectory() as name:
        os.environ |= {"OMP_NUM_THREADS": str(threads), "TORCHINDUCTOR_CACHE_DIR": str(pathlib.Path(name) / "inductor")}
        yield pathlib.Path(name)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--only", metavar="JOB", help="one of: " + ", ".join(JOBS))
    parser.add_argument("--systems", help=f"some of {','.join(SYSTEMS)}; {OURS} and {REFERENCE.system} always run")
    parser.add_argument("--llmc", metavar="CHECKOUT", type=pathlib.Path,
                        help=f"a checkout of llm.c: adds its CPU program to the job {ONE_JOB!r}")
    parser.add_argument("--rounds", type=int, help="3, with --quick 1")
    parser.add_argument("--steps", type=int, default=3, help=f"timed, after {WARM_UP_STEPS} warm-up step")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--out", type=pathlib.Path, help="folder of peers.json, peers.md and peers.svg; "
                        "jobs that are in its peers.json already and are not run now stay there")
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 3)
    expect_peers()
    if options.llmc and not (options.llmc / "train_gpt2.c").exists():
        sys.exit(f"error: --llmc: expected a checkout of llm.c, received {options.llmc} without train_gpt2.c")
    return options


def main() -> None:
    options = parse()
    if options.llmc:
        os.environ[LLMC_CHECKOUT] = str(options.llmc)
    systems, jobs = chosen_systems(options.systems), chosen_jobs(options)
    with scratch_folder(options.threads) as scratch:
        if options.self_test:
            return self_test(scratch, jobs)
        out = options.out or (QUICK if options.quick else RESULTS)
        for job_name, job in jobs.items():
            compared = compare(scratch, job_name, job, systems_for(job_name, systems), options.rounds)
            peers_report.add(out, job_name, compared)


if __name__ == "__main__":
    main()
