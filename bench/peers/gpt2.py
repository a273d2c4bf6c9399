"""GPT-2 as a careful user writes it in PyTorch; every Python peer trains this module."""
import math

import torch
from torch import nn
from torch.nn import functional as F

from job import Job

INITIAL_STD = 0.02
TRANSPOSED = (".attn.c_attn.weight", ".attn.c_proj.weight", ".mlp.c_fc.weight", ".mlp.c_proj.weight")


class Attention(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, time, width = x.shape
        parts = self.c_attn(x).split(width, dim=2)
        q, k, v = (part.view(batch, time, self.heads, width // self.heads).transpose(1, 2) for part in parts)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(attended.transpose(1, 2).reshape(batch, time, width))


class FeedForward(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width)
        self.c_proj = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width, eps=1e-5)
        self.attn = Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width, eps=1e-5)
        self.mlp = FeedForward(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt2(nn.Module):
    """Parameters are named as Hugging Face names them; the head is tied to `wte` and no parameter of its own."""

    def __init__(self, job: Job):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(job.vocab, job.width),
            "wpe": nn.Embedding(job.context, job.width),
            "h": nn.ModuleList(Block(job.width, job.heads) for _ in range(job.layers)),
            "ln_f": nn.LayerNorm(job.width, eps=1e-5),
        })

    def forward(self, ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The mean loss of the tokens."""
        t = self.transformer
        x = t.wte(ids) + t.wpe.weight[:ids.shape[1]]
        for block in t.h:
            x = block(x)
        logits = F.linear(t.ln_f(x), t.wte.weight)
        # In fp32, which autocast does by itself on CUDA: a loss near 11 in bf16 would be a multiple of 1/16.
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())

    @torch.no_grad()
    def initialise(self, seed: int) -> None:
        """GPT-2's own: normal, the residual projections smaller by the root of their number; no biases."""
        generator = torch.Generator().manual_seed(seed)
        residual_std = INITIAL_STD / math.sqrt(2 * len(self.transformer.h))
        for name, parameter in self.named_parameters():
            if name.endswith(".c_proj.weight"):
                parameter.normal_(0, residual_std, generator=generator)
            elif parameter.dim() > 1:
                parameter.normal_(0, INITIAL_STD, generator=generator)
            elif name.endswith(".bias"):
                parameter.zero_()

    def hugging_face_tensors(self) -> dict[str, torch.Tensor]:
        """Views of the parameters in Hugging Face's layout, whose projections are [in, out]."""
        return {name: parameter.detach().t() if name.endswith(TRANSPOSED) else parameter.detach()
                for name, parameter in self.named_parameters()}

    @torch.no_grad()
    def load(self, tensors: dict[str, torch.Tensor]) -> None:
        own = self.hugging_face_tensors()
        if own.keys() != tensors.keys():
            raise ValueError(f"expected the tensors of this model, others differ: {own.keys() ^ tensors.keys()}")
        for name, tensor in own.items():
            tensor.copy_(tensors[name])
