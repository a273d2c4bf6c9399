"""What several parts do with tensors: norms, and keeping them to put them back."""

import torch
from torch import nn

IGNORED = -100  # of labels: those that count for nothing

Kept = list[tuple[torch.Tensor, torch.Tensor]]


def norm(tensor: torch.Tensor) -> float:
    """L2, in fp64; of sparse ones, too."""
    dense = tensor.detach().to_dense() if tensor.is_sparse else tensor.detach()
    return float(torch.linalg.vector_norm(dense, dtype=torch.float64))


def kept(model: nn.Module) -> Kept:
    """A model's parameters and buffers, each with a copy of what it is now."""
    return [(tensor, tensor.detach().clone()) for tensor in (*model.parameters(), *model.buffers())]


def put_back(values: Kept) -> None:
    with torch.no_grad():
        for tensor, value in values:
            tensor.copy_(value)
