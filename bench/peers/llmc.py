#!/usr/bin/env python3
"""Trains a job with llm.c's CPU program, from a checkout of it: llmc.py CHECKOUT JOB_FOLDER RESULT.json

The program trains one batch of 4 x 64 tokens a step with fixed settings; a job for it has these, and the same batch in
each step, as it draws samples in an order of its own. It is built by its own Makefile from a copy of the checkout, and
ended when it has done as many steps as the job asks for.

RESULT.json: losses, seconds of each timed step, peak_resident_bytes and versions; or `unavailable` with the reason.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import numpy
from safetensors.numpy import load_file

from job import Job

MODEL_MAGIC, MODEL_VERSION = 20240326, 3
TOKENS_MAGIC, TOKENS_VERSION = 20240520, 1
HEADER_INTEGERS = 256
LAYER_TENSORS = ("ln_1.weight", "ln_1.bias", "attn.c_attn.weight", "attn.c_attn.bias", "attn.c_proj.weight",
                 "attn.c_proj.bias", "ln_2.weight", "ln_2.bias", "mlp.c_fc.weight", "mlp.c_fc.bias",
                 "mlp.c_proj.weight", "mlp.c_proj.bias")
STEP = re.compile(r"step \d+: train loss (\S+) \(took (\S+) ms\)")


def header(*values: int) -> bytes:
    integers = numpy.zeros(HEADER_INTEGERS, dtype=numpy.int32)
    integers[:len(values)] = values
    return integers.tobytes()


def write_model(job: Job, path: pathlib.Path) -> None:
    """The vocabulary's padded size is its size; each kind of tensor of all layers in a row, projections as [out, in]."""
    tensors = {name: values.T if name.endswith(("c_attn.weight", "c_proj.weight", "c_fc.weight")) else values
               for name, values in load_file(job.weights_file).items()}
    names = ["transformer.wte.weight", "transformer.wpe.weight",
             *(f"transformer.h.{layer}.{name}" for name in LAYER_TENSORS for layer in range(job.layers)),
             "transformer.ln_f.weight", "transformer.ln_f.bias"]
    with path.open("wb") as file:
        file.write(header(MODEL_MAGIC, MODEL_VERSION, job.context, job.vocab, job.layers, job.heads, job.width, job.vocab))
        for name in names:
            file.write(numpy.ascontiguousarray(tensors[name], dtype=numpy.float32).tobytes())


def write_tokens(job: Job, folder: pathlib.Path) -> None:
    folder.mkdir(parents=True)
    tokens = job.tokens_file.read_bytes()
    for part in ("train", "val"):
        content = header(TOKENS_MAGIC, TOKENS_VERSION, len(tokens) // 2) + tokens
        (folder / f"tiny_shakespeare_{part}.bin").write_bytes(content)


def build(checkout: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    shutil.copytree(checkout, folder, ignore=shutil.ignore_patterns(".git"))
    compiler = [] if shutil.which("clang") else ["CC=gcc"]
    made = subprocess.run(["make", "-C", str(folder), "train_gpt2", *compiler], capture_output=True, text=True)
    if made.returncode != 0:
        raise RuntimeError(f"its make failed: {made.stderr.strip()[-300:]}")
    return folder / "train_gpt2"


def train(program: pathlib.Path, folder: pathlib.Path, job: Job) -> dict:
    environment = os.environ | {"OMP_NUM_THREADS": str(job.threads)}
    process = subprocess.Popen(["stdbuf", "-oL", str(program)], cwd=folder, env=environment, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    losses, seconds, output = [], [], []
    for line in process.stdout:
        output.append(line)
        if step := STEP.match(line):
            losses.append(float(step[1]))
            seconds.append(float(step[2]) / 1e3)
        if len(losses) == job.all_steps:
            break
    process.kill()
    _, _, usage = os.wait4(process.pid, 0)
    if len(losses) < job.all_steps:
        raise RuntimeError("it ended early: " + "".join(output)[-300:])
    return {"losses": losses, "seconds": seconds[job.warm_up_steps:], "peak_resident_bytes": usage.ru_maxrss * 1024}


def commit_of(checkout: pathlib.Path) -> str:
    asked = subprocess.run(["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return asked.stdout.strip() or "of unknown commit"


def main() -> None:
    checkout, folder, result = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
    job = Job.read(folder)
    try:
        with tempfile.TemporaryDirectory() as name:
            scratch = pathlib.Path(name)
            program = build(checkout, scratch / "llm.c")
            write_model(job, scratch / "gpt2_124M.bin")
            write_tokens(job, scratch / "dev" / "data" / "tinyshakespeare")
            outcome = train(program, scratch, job) | {"versions": {"llm.c": commit_of(checkout)}}
    except (OSError, RuntimeError) as failure:
        outcome = {"unavailable": str(failure)}
    result.write_text(json.dumps(outcome))


if __name__ == "__main__":
    main()
