#!/usr/bin/env python3
"""Makes the initial weights of a job, once for all systems: prepare.py JOB_FOLDER (which has its job.json)."""
import json
import pathlib
import sys

from safetensors.torch import save_file

from gpt2 import INITIAL_STD, Gpt2
from job import Job

SEED = 1337


def hugging_face_config(job: Job) -> dict:
    return {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": job.vocab,
            "n_positions": job.context, "n_embd": job.width, "n_layer": job.layers, "n_head": job.heads,
            "n_inner": None, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5,
            "tie_word_embeddings": True, "embd_pdrop": 0.0, "resid_pdrop": 0.0, "attn_pdrop": 0.0,
            "initializer_range": INITIAL_STD, "dtype": "float32"}


def main() -> None:
    job = Job.read(pathlib.Path(sys.argv[1]))
    model = Gpt2(job)
    model.initialise(SEED)
    job.weights_file.parent.mkdir()
    tensors = {name: tensor.contiguous() for name, tensor in model.hugging_face_tensors().items()}
    save_file(tensors, job.weights_file, metadata={"format": "pt"})
    (job.weights_file.parent / "config.json").write_text(json.dumps(hugging_face_config(job), indent=2) + "\n")


if __name__ == "__main__":
    main()
