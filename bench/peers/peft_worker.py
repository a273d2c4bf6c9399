#!/usr/bin/env python3
"""Fine-tunes one job with transformers, and PEFT where adapters are trained.

    peft_worker.py make JOB_FOLDER               model/ and, of a LoRA job, adapter/ from job.json, with random weights
    peft_worker.py micro JOB_FOLDER RESULT.json  the micro-batch with which a sample takes least: {"micro", "seconds"}
    peft_worker.py train JOB_FOLDER RESULT.json MICRO   losses and grad_norms of each step, seconds of each timed one

As its users tune it: tcmalloc (finetune.py preloads it), frozen weights in bf16 and adapters in fp32 as PEFT makes them,
all weights in fp32 where all are trained, one bf16 autocast context around each window, ATen's fused attention, the
fused AdamW, gradients that are set to None.
"""
import json
import pathlib
import statistics
import sys
import time

import numpy
import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model

ADAPTED = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
MOST_TOKENS = 2048  # of a micro-batch: transformers keeps whole logits, in bf16 and in fp32


def make(folder: pathlib.Path, job: dict) -> None:
    transformers.set_seed(1337)
    config = transformers.AutoConfig.for_model(job["model_type"], **job["config"])
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(folder / "model")
    if job["kind"] != "lora":
        return
    adapted = get_peft_model(model, LoraConfig(r=job["rank"], lora_alpha=2 * job["rank"], target_modules=ADAPTED,
                                               task_type="CAUSAL_LM"))
    with torch.no_grad():  # else the first gradients of the other factor would be nothing
        for name, parameter in adapted.named_parameters():
            if ".lora_B." in name:
                parameter.normal_(0, 1e-3)
    adapted.save_pretrained(folder / "adapter")


def load(folder: pathlib.Path, job: dict) -> torch.nn.Module:
    lora = job["kind"] == "lora"
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder / "model", dtype=torch.bfloat16 if lora else torch.float32, attn_implementation="sdpa")
    if lora:
        model = PeftModel.from_pretrained(model, folder / "adapter", is_trainable=True)
    model.config.use_cache = False
    return model.train()


def samples_of(folder: pathlib.Path, job: dict) -> torch.Tensor:
    """[samples, context + 1], in the order in which accrue takes them."""
    tokens = torch.from_numpy(numpy.fromfile(folder / "tokens.bin", dtype=numpy.uint16).astype(numpy.int64))
    context = job["context"]
    count = (len(tokens) - 1) // context
    return torch.stack([tokens[i * context:i * context + context + 1] for i in range(count)])


def sum_of_losses(model: torch.nn.Module, rows: torch.Tensor) -> torch.Tensor:
    logits = model(input_ids=rows[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten(), reduction="sum")


def autocast() -> torch.autocast:
    return torch.autocast("cpu", dtype=torch.bfloat16)


def best_micro(folder: pathlib.Path, job: dict) -> dict:
    """Of the powers of two that divide the window; a sample's seconds are the median of three."""
    model, rows = load(folder, job), samples_of(folder, job)
    seconds = {}
    micro = 1
    while job["samples"] % micro == 0 and micro * job["context"] <= MOST_TOKENS:
        taken = []
        for _ in range(4):
            begin = time.perf_counter()
            with autocast():
                sum_of_losses(model, rows[:micro]).backward()
            taken.append(time.perf_counter() - begin)
            model.zero_grad()
        seconds[micro] = statistics.median(taken[1:]) / micro
        micro *= 2
    return {"micro": min(seconds, key=seconds.get), "seconds": seconds}


def train(folder: pathlib.Path, job: dict, micro: int) -> dict:
    model, rows = load(folder, job), samples_of(folder, job)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=job["lr"], betas=(0.9, 0.95), eps=1e-5, weight_decay=0, fused=True)
    losses, norms, ends = [], [], [time.perf_counter()]
    for step in range(job["warm_up_steps"] + job["steps"]):
        window = rows[step * job["samples"]:(step + 1) * job["samples"]]
        tokens = window[:, 1:].numel()
        total = 0.0
        with autocast():
            for part in window.split(micro):
                loss = sum_of_losses(model, part) / tokens
                loss.backward()
                total += loss.item()
        norms.append(torch.nn.utils.clip_grad_norm_(trained, 1.0).item())
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
        ends.append(time.perf_counter())
    timed = ends[job["warm_up_steps"]:]
    return {"losses": losses, "grad_norms": norms, "seconds": [b - a for a, b in zip(timed, timed[1:])],
            "trained_parameters": sum(parameter.numel() for parameter in trained)}


def main() -> None:
    verb, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    job = json.loads((folder / "job.json").read_text())
    torch.set_num_threads(job["threads"])
    torch.set_flush_denormal(True)
    transformers.logging.set_verbosity_error()
    if verb == "make":
        make(folder, job)
        return
    result = best_micro(folder, job) if verb == "micro" else train(folder, job, int(sys.argv[4]))
    pathlib.Path(sys.argv[3]).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
