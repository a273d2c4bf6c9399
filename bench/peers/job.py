"""One comparison as all systems get it: a folder that prepare.py made.

    job.json  tokens.bin (headerless uint16)  model/ (a Hugging Face GPT-2: config.json, model.safetensors)
"""
import dataclasses
import json
import math
import pathlib


@dataclasses.dataclass(frozen=True)
class Recipe:
    """AdamW with a constant learning rate."""
    lr: float = 3e-4
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-5  # not 1e-8: a gradient near 0 would turn its rounding error into a step of the learning rate
    weight_decay: float = 0.1  # of matrices
    clip: float = 1.0  # the mean gradient's norm; 0: off

    @property
    def most_norm(self) -> float:
        return self.clip or math.inf


@dataclasses.dataclass(frozen=True)
class Job:
    folder: pathlib.Path
    layers: int
    heads: int
    width: int
    context: int
    vocab: int
    micro: int  # samples in a micro-batch
    count: int  # micro-batches in a step
    precision: str  # "fp32"; "bf16": products in bf16, parameters, gradients and the residual stream in fp32
    warm_up_steps: int
    steps: int  # timed ones, after those
    threads: int
    recipe: Recipe = Recipe()
    one_batch: bool = False  # every step has the same samples

    @staticmethod
    def read(folder: pathlib.Path) -> "Job":
        values = json.loads((folder / "job.json").read_text())
        return Job(folder=folder, recipe=Recipe(**values.pop("recipe", {})), **values)

    @property
    def all_steps(self) -> int:
        return self.warm_up_steps + self.steps

    @property
    def samples(self) -> int:
        return self.all_steps * self.count * self.micro

    @property
    def tokens_file(self) -> pathlib.Path:
        return self.folder / "tokens.bin"

    @property
    def weights_file(self) -> pathlib.Path:
        return self.folder / "model" / "model.safetensors"
