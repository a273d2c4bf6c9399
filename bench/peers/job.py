"""One comparison as all systems get it: a folder that prepare.py made.

    job.json  tokens.bin (headerless uint16)  model/ (a Hugging Face GPT-2: config.json, model.safetensors)
"""
import dataclasses
import json
import pathlib


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

    @staticmethod
    def read(folder: pathlib.Path) -> "Job":
        return Job(folder=folder, **json.loads((folder / "job.json").read_text()))

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
