#!/usr/bin/env python3
"""Trains one job with one system and writes what came out: worker.py SYSTEM JOB_FOLDER RESULT.json [TUNING]

RESULT.json: losses, grad_norms and times (Unix, of its end) of each step, seconds of each timed one, parameter_norm, update_norm (norms.py),
peak_resident_bytes and versions; or, where the system does not run here, `unavailable` with the reason.
"""
import importlib
import importlib.metadata
import json
import pathlib
import platform
import sys
import traceback

import torch
from safetensors.torch import load_file

from gpt2 import Gpt2
from job import Job
from norms import norms
from recipe import Record
from tuning import AS_INSTALLED, TUNINGS, Tuning

SYSTEMS = {  # to the module and its function
    "eager": ("pytorch_loop", "train"),
    "compile": ("pytorch_loop", "train_compiled"),
    "accelerate": ("accelerate_loop", "train"),
    "lightning": ("lightning_loop", "train"),
    "deepspeed": ("deepspeed_loop", "train"),
    "ddp": ("ddp_loop", "train"),
    "ddp-each": ("ddp_loop", "train_reducing_each"),
    "fsdp-each": ("fsdp_loop", "train_reducing_each"),
    "fsdp-last": ("fsdp_loop", "train_reducing_last"),
    "fsdp-keep": ("fsdp_loop", "train_keeping"),
}


def run(system: str, job: Job, tuning: Tuning) -> dict:
    if tuning.tuned:
        torch.set_flush_denormal(True)  # of this thread, and of those that it is yet to start
    torch.set_num_threads(job.threads)
    module_name, function = SYSTEMS[system]
    module = importlib.import_module(module_name)
    model = Gpt2(job)
    model.load(load_file(job.weights_file))
    record = Record(job.warm_up_steps)
    getattr(module, function)(job, model, record, tuning)
    result = record.result()  # before anything else takes memory
    final = {name: tensor.numpy() for name, tensor in model.hugging_face_tensors().items()}
    initial = {name: tensor.numpy() for name, tensor in load_file(job.weights_file).items()}
    versions = {package: importlib.metadata.version(package) for package in module.PACKAGES}
    return result | norms(initial, final) | {"versions": {"python": platform.python_version(), **versions}}


def main() -> None:
    system, folder, result = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    tuning = TUNINGS[sys.argv[4]] if len(sys.argv) > 4 else AS_INSTALLED
    try:
        outcome = run(system, Job.read(folder), tuning)
    except Exception as failure:  # whatever a peer raises is a reason to be shown; the others go on
        traceback.print_exc()
        outcome = {"unavailable": f"{type(failure).__name__}: {failure}"}
    result.write_text(json.dumps(outcome))


if __name__ == "__main__":
    main()
