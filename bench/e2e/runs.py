"""What the end-to-end measurements share: data made on the spot, and accrue run in a process of its own."""
import array
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import sysconfig
import tempfile

from results import RESULTS, ROOT, ResultFile

BUILD = ROOT / "build" / "release"
QUICK = BUILD / "bench-quick"

GPT2 = {
    "tiny": dict(layers=2, heads=2, width=64, context=64),
    "1.8M": dict(layers=4, heads=4, width=192, context=128),
    "10.8M": dict(layers=6, heads=6, width=384, context=256),
    "124M": dict(layers=12, heads=12, width=768, context=256, vocab=50304),
}


class Refused(Exception):
    """accrue exited with status 3: the memory budget cannot be met."""


def flags(section: str, **values) -> list[str]:
    return [f"--{section}.{key}={value}" for key, value in values.items()]


def python_sources() -> str:
    """A corpus that every machine with an interpreter has, as a value for data.train."""
    return f'["{sysconfig.get_paths()["stdlib"]}/[_a-s]*.py"]'


def random_tokens(folder: pathlib.Path, vocab: int, count: int = 300_000) -> str:
    path = folder / f"random-{vocab}.bin"
    if not path.exists():
        generator = random.Random(1337)
        path.write_bytes(array.array("H", (generator.randrange(vocab) for _ in range(count))).tobytes())
    return f'["{path}"]'


def random_images(folder: pathlib.Path, count: int = 2_000) -> str:
    """CIFAR-10's binary records: a label and 3 x 32 x 32 bytes."""
    path = folder / "cifar.bin"
    if not path.exists():
        generator = random.Random(1337)
        path.write_bytes(b"".join(bytes([i % 10]) + generator.randbytes(3072) for i in range(count)))
    return f'["{path}"]'


def gpt2(folder: pathlib.Path, size: str, samples: int, compute: str = "fp32") -> list[str]:
    model = GPT2[size]
    data = random_tokens(folder, model["vocab"]) if "vocab" in model else python_sources()
    return flags("model", kind="gpt2", **model) + [
        f"--data.train={data}", f"--batch.tokens={samples * model['context']}", f"--precision.compute={compute}"]


def images(folder: pathlib.Path, kind: str, samples: int, compute: str = "fp32") -> list[str]:
    shape = dict(layers=6, heads=6, width=384, context=64) if kind == "vit" else dict(layers=20, width=16)
    norm = dict(batchnorm="micro") if kind == "resnet" else {}
    return flags("model", kind=kind, **shape, **norm) + [
        f"--data.train={random_images(folder)}", "--data.format=images", f"--batch.samples={samples}",
        f"--precision.compute={compute}"]


def config_file(folder: pathlib.Path) -> pathlib.Path:
    path = folder / "bench.toml"
    path.write_text('[run]\nsteps = 100\nout = "unused"\n[optim]\nlr = 3e-4\n')
    return path


def run(command: list[str], environment: dict[str, str] | None = None) -> tuple[str, int]:
    """Its standard output, and the most resident memory that it had, in bytes."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if process.returncode == 3:
            raise Refused(err.read().strip())
        if process.returncode != 0:
            sys.exit(f"error: {' '.join(command)} failed:\n{err.read()}")
        return out.read(), usage.ru_maxrss * 1024


def accrue_json(verb: str, folder: pathlib.Path, arguments: list[str]) -> dict:
    return json.loads(run([str(BUILD / "accrue"), verb, str(config_file(folder)), "--json", *arguments])[0])


def train_command(folder: pathlib.Path, name: str, arguments: list[str]) -> list[str]:
    return [str(BUILD / "accrue"), "train", str(config_file(folder)), f"--run.out={folder / name}",
            "--observe.tensorboard=false", "--observe.progress=off", *arguments]


def lines_of(out: pathlib.Path) -> list[dict]:
    """A run's metrics."""
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def steps_of(out: pathlib.Path) -> list[dict]:
    return [line for line in lines_of(out) if "loss" in line]


def train(folder: pathlib.Path, name: str, arguments: list[str]) -> tuple[list[dict], int]:
    """The steps of the run's metrics, and its peak of resident memory."""
    _, resident = run(train_command(folder, name, arguments))
    return steps_of(folder / name), resident


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def gib(count: float) -> str:
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


def percent(value: float) -> str:
    return f"{100 * value:+.1f}%"


def median(values: list[float]) -> float:
    return statistics.median(values)


def spread(values: list[float]) -> dict[str, float]:
    return {"min": min(values), "median": median(values), "max": max(values)}


def plain_libtorch(steps: int, sizes: dict) -> dict:
    """What bench/peers/plain_libtorch says of a model and batch of these sizes, on all cores."""
    out, _ = run([str(BUILD / "bench" / "peers" / "plain_libtorch"), f"--steps={steps}", f"--threads={os.cpu_count()}",
                  *(f"--{key}={value}" for key, value in sizes.items())])
    return json.loads(out)


def save(name: str, results: dict, out: pathlib.Path | None, quick: bool = False,
         versions: dict[str, str] | None = None) -> None:
    """Into `out`, or where results are kept; quick ones are not. Parts that were not measured now stay as they are."""
    file = ResultFile(out or (QUICK if quick else RESULTS) / name)
    file.add(results, versions)
    file.write()
    print(f"written to {file.path}")
