"""GPT-2 124 M in plain PyTorch on a GPU, as its users write it: bf16 autocast, fused attention and AdamW, gradients
accumulated over micro-batches.   bench/device/pytorch_gpt2.py [--compile] [--micro=N] [--steps=N] [--batch=TOKENS]

Prints one line of JSON: tokens per second of each step behind the warm-up, the peak of the allocator, the last loss.
"""
import argparse
import json
import time

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, CONTEXT, WIDTH, LAYERS, HEADS = 50304, 1024, 768, 12, 12
WARM_UP = 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.attention_out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp_in, self.mlp_out = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        heads = self.qkv(self.before(x)).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(heads[0], heads[1], heads[2], is_causal=True)
        x = x + self.attention_out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.mlp_out(F.gelu(self.mlp_in(self.after(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.last = nn.LayerNorm(WIDTH)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.last(x), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--micro", type=int, default=64)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--batch", type=int, default=524288)
    options = parser.parse_args()
    torch.manual_seed(1337)
    torch.set_float32_matmul_precision("high")
    model = Gpt2().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    loss_of = torch.compile(model) if options.compile else model
    micro_batches = options.batch // (options.micro * CONTEXT)
    ids = torch.randint(VOCABULARY, (micro_batches, options.micro, CONTEXT + 1)).pin_memory()
    rates = []
    for step in range(options.steps + WARM_UP):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for micro in ids:
            on_device = micro.cuda(non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = loss_of(on_device[:, :-1], on_device[:, 1:]) / micro_batches
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        if step >= WARM_UP:
            rates.append(options.batch / (time.perf_counter() - begin))
    print(json.dumps({"system": "pytorch compiled" if options.compile else "pytorch eager", "micro": options.micro,
                      "tokens_per_second": [round(rate) for rate in rates],
                      "peak_bytes": torch.cuda.max_memory_allocated(), "loss": loss.item() * micro_batches}))


if __name__ == "__main__":
    main()
