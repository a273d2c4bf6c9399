"""Uses of a parameter in a pass over several samples: norms of each sample's gradient, and weighted sums, without a gradient for each sample.

A use has what its gradients are made of, by sample. In a product with the inputs A_i [T, in] and the gradients G_i [T, out] of its results, the
gradient of sample i is G_i^T A_i, so its squared norm is the sum of (A_i A_i^T) * (G_i G_i^T), of T x T elements (Li et al. 2021). If that is more
work than G_i^T A_i, one such product exists at a time (Bu et al. 2022).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch

# Matrices of intermediate results may have as many elements as what they are made of, or this number if that is more.
FEW_ELEMENTS = 2**20


def exact(values: torch.Tensor) -> torch.Tensor:
    """Returns the values with at least 32 bits each: norms of half precision would let gradients exceed the clip."""
    return values if values.dtype in (torch.float32, torch.float64) else values.float()


def _parts(samples: int, elements_of_one: int, at_most: int) -> Iterator[slice]:
    step = max(1, max(at_most, FEW_ELEMENTS) // max(elements_of_one, 1))
    return (slice(begin, begin + step) for begin in range(0, samples, step))


def _squares(by_sample: torch.Tensor) -> torch.Tensor:
    """The squared norm of each row, in double precision."""
    return by_sample.flatten(1).square().sum(1).double()


class Product:
    """Products with a matrix.

    Args:
        inputs: returns A, [samples, T, in].
        gradients: G, [samples, T, out].
        transposed: the parameter is [in, out]; else [out, in].
    """

    def __init__(self, inputs: Callable[[], torch.Tensor], gradients: torch.Tensor, transposed: bool):
        self._inputs, self._gradients, self.transposed = inputs, gradients, transposed

    def inputs(self) -> torch.Tensor:
        return exact(self._inputs())

    def gradients(self) -> torch.Tensor:
        return exact(self._gradients)

    def squared_norms(self) -> torch.Tensor:
        a, g = self.inputs(), self.gradients()
        samples, rows, ins = a.shape
        outs = g.shape[2]
        by_rows = rows * (ins + outs) <= ins * outs
        one = 2 * rows * rows if by_rows else ins * outs
        found = [torch.einsum("ist,ist->i", a[part] @ a[part].mT, g[part] @ g[part].mT).double() if by_rows else _squares(g[part].mT @ a[part])
                 for part in _parts(samples, one, min(a.numel(), g.numel()))]
        return torch.cat(found).clamp_(min=0)  # rounding can make a sum of products negative

    def of_sample(self, sample: int, shape: torch.Size) -> torch.Tensor:
        a, g = self.inputs()[sample], self.gradients()[sample]
        return (a.mT @ g if self.transposed else g.mT @ a).reshape(shape)

    def weighted_sum(self, weights: torch.Tensor, shape: torch.Size) -> torch.Tensor:
        a, g = self.inputs(), self.gradients()
        by_sample = weights.to(a).reshape(-1, 1, 1)
        a, g = (a * by_sample, g) if a.shape[2] <= g.shape[2] else (a, g * by_sample)
        a, g = a.flatten(0, 1), g.flatten(0, 1)
        return (a.mT @ g if self.transposed else g.mT @ a).reshape(shape)

    def kept(self, samples: torch.Tensor) -> Product:
        samples = samples.to(self._gradients.device)
        return Product(lambda: self._inputs()[samples], self._gradients[samples], self.transposed)


class Lookup:
    """Rows of a table that were looked up.

    Args:
        rows: their numbers, [samples, T].
        gradients: of what was found, [samples, T, width].
    """

    def __init__(self, rows: torch.Tensor, gradients: torch.Tensor):
        self.rows, self._gradients = rows, gradients

    def gradients(self) -> torch.Tensor:
        return exact(self._gradients)

    def squared_norms(self) -> torch.Tensor:
        samples, width = self.rows.shape[0], self._gradients.shape[2]
        numbers = torch.arange(samples, device=self.rows.device).unsqueeze(1)
        keys, places = torch.unique(self.rows * samples + numbers, return_inverse=True)
        gradients = self.gradients()
        sums = gradients.new_zeros(len(keys), width).index_add_(0, places.flatten(), gradients.flatten(0, 1))
        return torch.zeros(samples, dtype=torch.float64, device=keys.device).index_add_(0, keys % samples, _squares(sums))

    def of_sample(self, sample: int, shape: torch.Size) -> torch.Tensor:
        gradients = self.gradients()[sample]
        return gradients.new_zeros(shape).index_add_(0, self.rows[sample], gradients)

    def weighted_sum(self, weights: torch.Tensor, shape: torch.Size) -> torch.Tensor:
        gradients = self.gradients()
        gradients = gradients * weights.to(gradients).reshape(-1, 1, 1)
        return gradients.new_zeros(shape).index_add_(0, self.rows.flatten(), gradients.flatten(0, 1))

    def kept(self, samples: torch.Tensor) -> Lookup:
        samples = samples.to(self.rows.device)
        return Lookup(self.rows[samples], self._gradients[samples])


class Small:
    """Gradients that are there for each sample, [samples, elements]: those of biases, norms and other vectors."""

    def __init__(self, gradients: torch.Tensor):
        self.gradients = gradients

    def squared_norms(self) -> torch.Tensor:
        return _squares(self.gradients)

    def of_sample(self, sample: int, shape: torch.Size) -> torch.Tensor:
        return self.gradients[sample].reshape(shape)

    def weighted_sum(self, weights: torch.Tensor, shape: torch.Size) -> torch.Tensor:
        return (weights.to(self.gradients) @ self.gradients).reshape(shape)

    def kept(self, samples: torch.Tensor) -> Small:
        return Small(self.gradients[samples.to(self.gradients.device)])


Use = Product | Lookup | Small


def _joined(uses: Sequence[Use]) -> list[Use]:
    """The same uses, with those of a kind as one: the norm of a sum of gradients is not the sum of their norms."""
    products = {flag: [use for use in uses if isinstance(use, Product) and use.transposed == flag] for flag in (False, True)}
    lookups = [use for use in uses if isinstance(use, Lookup)]
    small = [use for use in uses if isinstance(use, Small)]
    joined: list[Use] = []
    for flag, some in products.items():
        if len(some) == 1:
            joined.append(some[0])
        elif some:
            inputs, gradients = torch.cat([use.inputs() for use in some], 1), torch.cat([use.gradients() for use in some], 1)
            joined.append(Product(lambda kept=inputs: kept, gradients, flag))
    if lookups:
        joined.append(lookups[0] if len(lookups) == 1 else Lookup(torch.cat([use.rows for use in lookups], 1),
                                                                  torch.cat([use.gradients() for use in lookups], 1)))
    if small:
        joined.append(small[0] if len(small) == 1 else Small(sum(use.gradients for use in small[1:]) + small[0].gradients))
    return joined


def cross_terms(product: Product, lookup: Lookup) -> torch.Tensor:
    """Returns the inner product of both gradients of each sample, if a table is the matrix of a product, too (an output head that is tied).

    Position t of the product has the gradient G_t A_t^T, position s of the lookup has the gradient H_s in row r_s: G_t[r_s] * (A_t . H_s).
    """
    a, g, h = product.inputs(), product.gradients(), lookup.gradients()
    found = []
    for part in _parts(a.shape[0], 2 * a.shape[1] * h.shape[1], min(a.numel(), g.numel())):
        rows = lookup.rows[part].unsqueeze(1).expand(-1, a.shape[1], -1)
        found.append(torch.einsum("its,its->i", g[part].gather(2, rows), a[part] @ h[part].mT).double())
    return torch.cat(found)


def squared_norms(uses: Sequence[Use], shape: torch.Size) -> torch.Tensor:
    """Returns the squared norm of each sample's gradient of a parameter with these uses, in double precision."""
    joined = _joined(uses)
    if len(joined) == 1:
        return joined[0].squared_norms()
    if len(joined) == 2 and isinstance(joined[0], Product) and not joined[0].transposed and isinstance(joined[1], Lookup):
        product, lookup = joined
        return (product.squared_norms() + lookup.squared_norms() + 2 * cross_terms(product, lookup)).clamp_(min=0)
    # An unusual pair: one gradient at a time.
    samples = _samples_of(uses[0])
    return torch.stack([sum(use.of_sample(sample, shape) for use in joined).square().sum().double() for sample in range(samples)])


def _samples_of(use: Use) -> int:
    return (use.gradients if isinstance(use, Small) else use.gradients()).shape[0]


def weighted_sum(uses: Iterable[Use], weights: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """Returns the sum of the samples' gradients, each times its weight."""
    first, *others = uses
    total = first.weighted_sum(weights, shape)
    for use in others:
        total += use.weighted_sum(weights, shape)
    return total
