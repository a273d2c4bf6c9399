"""What several parts do with tensors."""

import torch

IGNORED = -100  # of labels: those that count for nothing


def norm(tensor: torch.Tensor) -> float:
    """L2, in fp64; of sparse ones, too."""
    dense = tensor.detach().to_dense() if tensor.is_sparse else tensor.detach()
    return float(torch.linalg.vector_norm(dense, dtype=torch.float64))
