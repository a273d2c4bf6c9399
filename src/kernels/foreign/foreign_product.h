#pragma once

#include <ATen/core/Tensor.h>

namespace accrue::kernels {

/// The leaf that a product's factor is, or is the transpose of; undefined if it is something
/// else.
struct FactorOrigin {
  at::Tensor parameter;
  bool is_transposed = false;
};
/// Found by a recorded graph, also if autocasting rounded a leaf in fp32 to bf16; without a graph,
/// by the memory of the factor.
FactorOrigin origin_of_factor(const at::Tensor& factor);

/// x [M, K] · factor [K, N] + bias [N] (none if undefined), of one dtype. Backward writes the
/// gradients of the factor's parameter and the bias to their open slots; a parameter in fp32
/// receives the products of bf16 operands unrounded.
at::Tensor foreign_product(const at::Tensor& x, const at::Tensor& factor, const at::Tensor& bias);

}  // namespace accrue::kernels
