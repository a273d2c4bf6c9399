"""AdamW steps on whole batches by PyTorch, and the same training by accrue: what the golden tests of steps share."""
import torch
from transformers import GPT2Config, GPT2LMHeadModel

LR, BETAS, DECAY, CLIP = 3e-3, (0.9, 0.95), 0.1, 0.5
DTYPE = {"fp32": torch.float32, "fp64": torch.float64}
# Near-zero gradients make AdamW's quotient ill-conditioned in fp32, so eps is raised there.
EPS = {"fp32": 1e-5, "fp64": 1e-8}


def save_small_gpt2(folder, context):
    """A model of bytes."""
    torch.manual_seed(3)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=256, n_positions=context, n_embd=32, n_layer=2, n_head=2,
                                       embd_pdrop=0, resid_pdrop=0, attn_pdrop=0))
    with torch.no_grad():
        for parameter in model.parameters():  # away from 1 and 0, where mistakes would not show
            parameter.add_(0.05 * torch.randn_like(parameter))
    model.save_pretrained(folder)


def windows(count, batch):
    """Samples of each step: an epoch's last window is short."""
    while True:
        for begin in range(0, count, batch):
            yield slice(begin, min(begin + batch, count))


class Optimizer:
    """AdamW with decay of matrices alone, after clipping by the definition: torch.nn.utils.clip_grad_norm_ adds 1e-6 to
    the norm."""

    def __init__(self, model, compute):
        self.parameters = list(model.parameters())
        groups = [{"params": [p for p in self.parameters if p.dim() >= 2], "weight_decay": DECAY},
                  {"params": [p for p in self.parameters if p.dim() < 2], "weight_decay": 0.0}]
        self.adamw = torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS[compute])

    def step(self, loss):
        self.adamw.zero_grad()
        loss.backward()
        gradients = [p.grad for p in self.parameters]
        norm = torch.sqrt(sum(g.double().square().sum() for g in gradients)).item()
        for gradient in gradients:
            gradient.mul_(min(1.0, CLIP / norm))
        self.adamw.step()


def tensors_of(model):
    return {name: tensor.detach() for name, tensor in model.state_dict().items()}


def config(out, start, data, steps, batch, compute, more=""):
    """The same training as a config; `data` are lines of [data], `more` is further sections."""
    return f"""
        [run]
        out = "{out}"
        steps = {steps}
        [model]
        from = "{start}"
        [data]
        {data}
        order = "sequential"
        [batch]
        samples = {batch}
        [precision]
        compute = "{compute}"
        [optim]
        lr = {LR}
        betas = [{BETAS[0]}, {BETAS[1]}]
        eps = {EPS[compute]}
        weight_decay = {DECAY}
        clip = {CLIP}
        schedule = {{kind = "constant"}}
        [observe]
        progress = "off"
        {more}
        """


def worst_error(actual, expected):
    """Of all tensors, relative by their norms; a name that is not expected is a KeyError."""
    worst = 0.0
    for name, tensor in actual.items():
        other = expected[name if name in expected else "transformer." + name].double()
        worst = max(worst, ((tensor.double() - other).norm() / other.norm()).item())
    return worst
