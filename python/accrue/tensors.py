"""Functions on tensors that several modules use."""

import torch

IGNORED = -100  # labels with this value do not count


def norm(tensor: torch.Tensor) -> float:
    """Returns the L2 norm of a dense or sparse tensor, computed in fp64."""
    dense = tensor.detach().to_dense() if tensor.is_sparse else tensor.detach()
    return float(torch.linalg.vector_norm(dense, dtype=torch.float64))
