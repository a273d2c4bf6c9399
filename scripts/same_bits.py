#!/usr/bin/env python3
"""Whether two builds of accrue train the same bits:   scripts/same_bits.py OLD NEW [--only CASE...] [--list]

Each case is a short training by both programs from the same config and files: number formats, recomputation, exact batch
normalisation, quarantine, memory that runs out, folded gradients, several ranks, local steps, a pipeline, a resume. What
they leave has to agree to the bit: every tensor file of every checkpoint, and the metrics but for what is measured (times,
bytes). The last line is a negative control: another seed must be seen. For changes that move code and nothing else.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS / "faults"), str(TESTS / "support")]
import tinyrun  # noqa: E402
from png import png  # noqa: E402

MEASURED = {"time", "elapsed", "seconds", "reason", "tokens_per_second", "images_per_second", "updates_per_hour", "accumulation_seconds",
            "optimizer_seconds", "reduce_seconds", "reduce_exposed_seconds", "peak_bytes", "micro_batch_peak_bytes", "budget_bytes",
            "outside_bytes", "pipeline_bubble", "joules", "epoch_seconds", "micro_batch_seconds", "data_seconds", "checkpoint_seconds",
            "share_of_ceiling", "memory", "offload_read_bytes", "offload_written_bytes", "offload_wait_seconds"}
BY_TIME = {"slow_disk", "slow_input", "memory_near_budget", "ceiling"}  # events that may come in one run and not in another
TEXT = """
[run]
steps = 6
checkpoint_every = "3 steps"
eval_every = "3 steps"
keep = 9
threads = 1
[model]
kind = "gpt2"
layers = 3
heads = 2
width = 32
context = 16
[data]
train = ["text.txt"]
val_fraction = 0.05
[batch]
tokens = 384
micro = 5
[optim]
schedule = {kind = "cosine", warmup = 2}
[dist]
timeout = "60 s"
shares = "equal"
[observe]
progress = "off"
tensorboard = false
"""
IMAGES = TEXT.replace('kind = "gpt2"\nlayers = 3\nheads = 2\nwidth = 32\ncontext = 16', 'kind = "resnet"\nlayers = 8\nwidth = 8') \
             .replace('"text.txt"', '"images/**/*.png"').replace("0.05", "0.2").replace("tokens = 384", "samples = 12")
LINES = TEXT.replace("text.txt", "lines.jsonl")
EXACT = ("--model.batchnorm=exact",)


@dataclasses.dataclass(frozen=True)
class Case:
    config: str = TEXT
    words: tuple[str, ...] = ()
    ranks: int = 1
    resumed_with: tuple[str, ...] | None = None  # stopped after three steps and resumed with these words
    expects: str = ""  # an event without which the case shows nothing


def cases() -> dict[str, Case]:
    fixed = "--precision.accumulate=fixed"
    found = {
        "fp32": Case(),
        "fp64": Case(words=("--precision.compute=fp64",)),
        "bf16": Case(words=("--precision.compute=bf16",)),
        "plain loss": Case(words=("--loss.cross_entropy=plain", "--loss.label_smoothing=0.1", "--loss.z_loss=1e-3")),
        "dropout": Case(words=("--model.dropout=0.2",)),
        "lengths": Case(config=LINES),
        "short last window": Case(words=("--batch.last=weighted", "--run.steps=60", "--run.checkpoint_every=30 steps")),
        "resumed": Case(words=("--model.dropout=0.2",), resumed_with=()),
        "resumed longer": Case(resumed_with=("--run.steps=9",)),
        # A sample is so long that two of them do not fit and one does, whatever else the process happens to hold.
        "no memory": Case(words=("--model.context=4096", "--model.width=64", "--batch.tokens=16384", "--batch.micro=2", "--data.val_fraction=0.2",
                                 "--memory.recompute=none"), resumed_with=("--memory.budget_file=budget",), expects="out_of_memory"),
        "int8 state": Case(words=("--optim.state=int8",)),
        "sgd": Case(words=("--optim.kind=sgd", "--optim.lr=0.05")),
        "adama folded": Case(words=("--optim.kind=adama", "--memory.gradients=optimizer", "--optim.clip=0")),
        "resnet, exact": Case(config=IMAGES, words=EXACT),
        "resnet, micro": Case(config=IMAGES, words=("--model.batchnorm=micro",)),
        "resnet, group": Case(config=IMAGES, words=("--model.batchnorm=convert-group",)),
        "broken image": Case(config=IMAGES.replace("images/", "broken/"), words=(*EXACT, "--batch.max_quarantined=0.5"), expects="quarantine"),
        "quarantine": Case(config=IMAGES.replace('kind = "resnet"\nlayers = 8\nwidth = 8', 'kind = "torchscript"\nfrom = "brittle.pt"'),
                           words=("--batch.max_quarantined=0.9", "--batch.micro=2"), expects="quarantine"),
        "2 ranks, images": Case(config=IMAGES, words=("--model.batchnorm=convert-group",), ranks=2),
        "2 ranks, divided optimizer": Case(words=("--dist.shard=optimizer",), ranks=2),
        "2 ranks, local steps": Case(words=("--dist.local_steps=2", "--dist.outer.lr=1"), ranks=2),
        "2 ranks, resumed": Case(words=(fixed,), ranks=2, resumed_with=()),
        "2 ranks, at the end": Case(words=("--dist.reduce=end",), ranks=2),
    }
    found |= {f"accumulate {kind}": Case(words=(f"--precision.accumulate={kind}",))
              for kind in ("fp64", "fixed", "bf16", "bf16-kahan", "bf16-stochastic")}
    found |= {f"recompute {kind}": Case(words=(f"--memory.recompute={kind}", "--model.dropout=0.1")) for kind in ("selective", "full")}
    found |= {f"{ranks} ranks{', fixed' if words else ''}": Case(words=words, ranks=ranks) for ranks in (2, 3) for words in ((), (fixed,))}
    found |= {f"2 ranks, {kind}": Case(words=(f"--dist.compress={kind}",), ranks=2) for kind in ("bf16", "int8", "powersgd")}
    found |= {f"{stages} stages": Case(config=TEXT.replace('shares = "equal"\n', ""), words=(f"--dist.stages={stages}", "--model.dropout=0.1"), ranks=stages) for stages in (2, 3)}
    return found


def write_files(folder: pathlib.Path) -> None:
    (folder / "text.txt").write_text("".join(f"line {i * 7919 % 1000} of a small text\n" for i in range(900)))
    (folder / "lines.jsonl").write_text("".join(json.dumps({"text": "words " [: 1 + i * 7919 % 6] * 2}) + "\n" for i in range(400)))
    for name in ("images", "broken"):
        for number in range(90):
            kind = folder / name / "light" if number % 2 else folder / name / "dark"
            kind.mkdir(parents=True, exist_ok=True)
            row = [bytes((97 * number + 31 * i + 7 * y) % 128 + 127 * (number % 2) for i in range(24)) for y in range(8)]
            content = png(row)
            (kind / f"{number:03}.png").write_bytes(content[:-20] if name == "broken" and number % 30 == 7 else content)


def write_brittle_model(folder: pathlib.Path) -> None:
    """A module whose outputs are not finite for about one image in twenty."""
    script = """
import torch
class Brittle(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(192, 2)
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = x.flatten(1)
        weak = (torch.floor(flat[:, :1].abs() * 1000).remainder(20) == 0).to(flat.dtype)
        return self.linear(flat) / (1 - weak)
torch.manual_seed(1)
torch.jit.script(Brittle()).save("brittle.pt")
"""
    (folder / "brittle.py").write_text(script)  # torch.jit reads the source
    subprocess.run([sys.executable, "brittle.py"], cwd=folder, check=True)


def train(program: str, folder: pathlib.Path, out: str, case: Case, words: tuple[str, ...]) -> None:
    port = tinyrun.ReservedPort()
    processes = []
    for rank in range(case.ranks):
        launcher = {"RANK": str(rank), "WORLD_SIZE": str(case.ranks), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port.number)} if case.ranks > 1 else {}
        processes.append(subprocess.Popen([program, "train", "run.toml", f"--run.out={out}", *case.words, *words], cwd=folder,
                                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=tinyrun.alone() | launcher))
    for ended in [tinyrun.wait(process) for process in processes]:
        tinyrun.expect(ended.status == 0, f"{out} ends with {ended.status}: {ended.errors.strip()[-400:]}")


def leave_little_memory(program: str, folder: pathlib.Path, out: str, case: Case) -> None:
    """A budget file with room for one sample and not for two, found by trying; the same for both programs."""
    budget = folder / "budget"
    if budget.exists():
        return
    for mebibytes in range(340, 100, -12):
        budget.write_text(f"{mebibytes} MiB")
        tried = tinyrun.copy(folder / out, folder / "tried")
        train(program, folder, "tried", case, ("--resume", "--run.steps=6", *(case.resumed_with or ())))
        if tinyrun.events(tried, case.expects):
            budget.write_text(f"{mebibytes - 12} MiB")
            return


def run(program: str, folder: pathlib.Path, out: str, case: Case) -> None:
    (folder / "run.toml").write_text(case.config)
    if case.resumed_with is None:
        train(program, folder, out, case, ())
        return
    train(program, folder, out, case, ("--run.steps=3",))
    if case.expects == "out_of_memory":
        leave_little_memory(program, folder, out, case)
    train(program, folder, out, case, ("--resume", "--run.steps=6", *case.resumed_with))


def left_by(out: pathlib.Path) -> dict[str, object]:
    """What must agree, by name."""
    found: dict[str, object] = {str(path.relative_to(out)): path.read_bytes() for path in sorted((out / "checkpoints").rglob("*.safetensors"))}
    lines = (line for line in tinyrun.metrics(out) if line.get("event") not in BY_TIME)
    for number, line in enumerate(lines):
        found[f"line {number} of metrics.jsonl"] = {key: value for key, value in line.items() if key not in MEASURED}
    return found


def differences(old: dict[str, object], new: dict[str, object]) -> list[str]:
    names = [name for name in old | new if old.get(name) != new.get(name)]
    return [f"{name}: {old.get(name)} became {new.get(name)}" if isinstance(old.get(name), dict) else name for name in names]


def compare(programs: list[str], folder: pathlib.Path, name: str, case: Case) -> list[str]:
    left = []
    for program, which in zip(programs, ("old", "new")):
        out = f"{name.replace(' ', '_').replace(',', '')}-{which}"
        run(program, folder, out, case)
        left.append(left_by(folder / out))
        if case.expects and not any(case.expects in line.get("event", "") for line in tinyrun.metrics(folder / out)):
            raise tinyrun.Broken(f"{out} has no event {case.expects}: the case shows nothing")
    return differences(*left)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help="the old and the new program")
    parser.add_argument("--only", nargs="+", metavar="CASE")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.list:
        print("\n".join(cases()))
        return 0
    if len(options.programs) != 2 or not all(os.access(program, os.X_OK) for program in options.programs):
        parser.error(f"expected two programs, received {options.programs}; try scripts/same_bits.py OLD NEW")
    programs = [str(pathlib.Path(program).resolve()) for program in options.programs]
    different = 0
    with tempfile.TemporaryDirectory(prefix="accrue-same-bits-") as scratch:
        folder = pathlib.Path(scratch)
        write_files(folder)
        write_brittle_model(folder)
        for name, case in cases().items():
            if options.only and name not in options.only:
                continue
            try:
                found = compare(programs, folder, name, case)
            except tinyrun.Broken as broken:
                found = [str(broken)]
            different += bool(found)
            print(f"{name}: " + ("the same bits" if not found else f"{len(found)} DIFFER, first {found[0][:400]}"), flush=True)
        train(programs[1], folder, "control", Case(), ("--run.seed=7",)) if not options.only else None
        if not options.only and not differences(left_by(folder / "fp32-old"), left_by(folder / "control")):
            print("control: another seed is not seen")
            different += 1
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
