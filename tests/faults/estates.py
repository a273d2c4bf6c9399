"""Runs of all kinds with everything that lies in and beside their folders: data, tokenizers, caches, exports, a second folder.
All paths are relative, so that a copy of an estate is one, and all of the data is trained on. Only the standard library, but for
what another Python makes: a table, a module.
"""
import dataclasses
import json
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable

import large_files
import tinyrun
from tinyrun import Options, expect

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import started_once  # noqa: E402
from png import png  # noqa: E402

CONFIG = """
[run]
out = "runs/first"
steps = 4
checkpoint_every = "2 steps"
eval_every = "2 steps"
keep = 9
threads = 1
[model]
{model}
[data]
{data}
[batch]
{batch}
[precision]
accumulate = "fixed"
[optim]
schedule = {{kind = "constant"}}
[observe]
progress = "off"
"""
GPT2 = 'kind = "gpt2"\nlayers = 1\nheads = 1\nwidth = 16\ncontext = 32'
TEXT = 'train = ["text.txt"]\nval_fraction = 0.05\ntokenizer = "words"'
# torch.jit reads the source from a file.
MODULE = """
import torch
class Linear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(192, 2)
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x.flatten(1))
torch.manual_seed(1)
torch.jit.script(Linear()).save("module.pt")
"""


def config(model: str = GPT2, data: str = TEXT, batch: str = "tokens = 384\nmicro = 4") -> str:
    return CONFIG.format(model=model, data=data, batch=batch)


def write_text(folder: pathlib.Path) -> None:
    (folder / "text.txt").write_text("".join(f"line {i * 7919 % 1000} of a small text\n" for i in range(60)))
    (folder / "held.txt").write_text("".join(f"line {i * 31 % 1000} of another text\n" for i in range(20)))
    large_files.write_tokenizer(folder / "words")


def write_lines(folder: pathlib.Path) -> None:
    lines = ({"text": "words of one line "[: 4 + i * 7919 % 14]} for i in range(80))
    (folder / "lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def write_pairs(folder: pathlib.Path) -> None:
    pairs = ({"prompt": f"line {i} ", "chosen": "of", "rejected": f"text {i % 7}"} for i in range(24))
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))


def write_images(folder: pathlib.Path) -> None:
    for number in range(24):
        kind = folder / "images" / ("light" if number % 2 else "dark")
        kind.mkdir(parents=True, exist_ok=True)
        rows = [bytes((97 * number + 31 * i + 7 * y) % 128 + 127 * (number % 2) for i in range(24)) for y in range(8)]
        (kind / f"{number:03}.png").write_bytes(png(rows))


def write_module(folder: pathlib.Path) -> None:
    (folder / "module.py").write_text(MODULE)


@dataclasses.dataclass(frozen=True)
class Kind:
    """How an estate is made: its files, what a Python makes of them, and the commands of accrue that follow."""
    write: tuple[Callable[[pathlib.Path], None], ...]
    configs: dict[str, str]  # by file
    commands: tuple[tuple[str, ...], ...]
    python: tuple[str, ...] = ()  # which of Programs, and its arguments
    given: str = ""               # a file that is the standard input of what trains
    fault: str = ""               # what interrupts the training
    lost: tuple[str, ...] = ()    # files and folders that are gone afterwards


TRAINED = ("train", "run.toml")
LLAMA = GPT2.replace("gpt2", "llama")
RESNET = 'kind = "resnet"\nlayers = 8\nwidth = 4\nbatchnorm = "convert-group"'
IMAGES = {"data": 'train = ["images/*/*.png"]\nval_fraction = 0.2', "batch": "samples = 8\nmicro = 4"}
KINDS = {
    "text": Kind((write_text,), {"run.toml": config(), "tune.toml": config('from = "hf"')}, (TRAINED, ("export", "runs/first", "--out", "hf"))),
    "lines": Kind((write_text, write_lines), {"run.toml": config(data=TEXT.replace("text.txt", "lines.jsonl"))}, (TRAINED,)),
    "adapters": Kind((write_text,), {"base.toml": config(LLAMA).replace("runs/first", "runs/base"),
                                     "run.toml": config('from = "hf"\n[lora]\nrank = 2'),
                                     "tune.toml": config('from = "hf"\n[lora]\nfrom = "adapter"'),
                                     "packed.toml": config('from = "gguf/model.gguf"')},
                     (("train", "base.toml"), ("export", "runs/base", "--out", "hf"),
                      ("export", "runs/base", "--out", "gguf", "--format", "gguf"), TRAINED,
                      ("export", "runs/first", "--out", "adapter", "--format", "adapter"))),
    "middle": Kind((write_text,), {"run.toml": config()}, (TRAINED,), fault="at=micro-batch step=4 count=2 do=INT"),
    "images": Kind((write_images,), {"run.toml": config(RESNET, **IMAGES), "tune.toml": config(RESNET + '\nfrom = "hf"', **IMAGES)},
                   (TRAINED, ("export", "runs/first", "--out", "hf"))),
    "pairs": Kind((write_text, write_pairs), {"base.toml": config().replace("runs/first", "runs/base"),
                                              "run.toml": config('from = "runs/base"', TEXT.replace("text.txt", "pairs.jsonl"))
                                                          + '[loss]\nkind = "dpo"\n'},
                  (("train", "base.toml"), TRAINED)),
    "replica": Kind((write_text,), {"run.toml": config().replace("[model]", 'replica = "copies/first"\n[model]')}, (TRAINED,), lost=("runs/first",)),
    "input": Kind((write_text,), {"run.toml": config(data=TEXT.replace("text.txt", "-"))}, (TRAINED,), given="text.txt"),
    "table": Kind((write_text, write_lines), {"run.toml": config(data=TEXT.replace("text.txt", "table.parquet"))}, (TRAINED,),
                  python=("tables", "-c", large_files.TO_TABLE, "lines.jsonl", "table.parquet"), lost=("lines.jsonl",)),
    "module": Kind((write_images, write_module), {"run.toml": config('kind = "torchscript"\nfrom = "module.pt"', **IMAGES)},
                   (TRAINED, ("export", "runs/first", "--out", "hf")),
                   python=("python", "module.py"), lost=("module.py",)),
}


def run(options: Options, folder: pathlib.Path, words: tuple[str, ...], fault: str = "", given: str = "") -> tinyrun.Ended:
    """A command in an estate."""
    armed = {"LD_PRELOAD": str(options.programs.fault_points), "ACCRUE_FAULT": fault} if fault else {}
    environment = tinyrun.alone() | armed
    command = [options.program, *words]
    if not given:
        return tinyrun.wait(started_once.start(command, environment, folder))
    with open(folder / given, "rb") as stdin:
        return tinyrun.wait(subprocess.Popen(command, cwd=folder, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment))


def make(options: Options, kind: Kind, folder: pathlib.Path) -> pathlib.Path:
    folder.mkdir()
    for write in kind.write:
        write(folder)
    if kind.python:
        program, *words = kind.python
        done = subprocess.run([getattr(options.programs, program), *words], cwd=folder, capture_output=True, text=True)
        expect(done.returncode == 0, f"{kind.python}: {done.stderr}")
    for name, content in kind.configs.items():
        (folder / name).write_text(content)
    for words in kind.commands:
        trains = words == TRAINED
        ended = run(options, folder, words, kind.fault if trains else "", kind.given if trains else "")
        wanted = tinyrun.INTERRUPTED if trains and kind.fault else 0
        expect(ended.status == wanted, f"{' '.join(words)}: status {ended.status}: {ended.errors}")
    for lost in (folder / name for name in kind.lost):
        shutil.rmtree(lost) if lost.is_dir() else lost.unlink()
    return folder
