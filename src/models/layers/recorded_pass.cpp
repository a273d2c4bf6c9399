#include "models/layers/recorded_pass.h"

#include <algorithm>

namespace accrue::models {
namespace {

bool can_be_repeated(const Projection* projection) {
  const std::optional<Adapter>& adapter = projection->adapter;
  return !adapter || (adapter->dropout == 0 && !adapter->magnitude.defined());
}

}  // namespace

std::optional<std::vector<at::Tensor>> prepare_recorded_pass(
    const std::vector<Projection*>& projections, TokenHead& head, at::ScalarType activations) {
  if (!head.fused || is_of_pairs(head.options.kind) ||
      !std::ranges::all_of(projections, can_be_repeated))
    return std::nullopt;
  std::vector<at::Tensor> operands{head.prepared.copy(head.weight, activations)};
  for (Projection* projection : projections) {
    const kernels::WeightOperands of =
        projection->prepared.operands(projection->weight, activations, /*data_gradient=*/true);
    operands.insert(operands.end(), {of.forward, of.data_gradient});
    if (!projection->adapter) continue;
    kernels::LowRank& factors = projection->adapter->factors;
    operands.push_back(factors.prepared_a.copy(factors.a, activations));
    operands.push_back(factors.prepared_b.copy(factors.b, activations));
  }
  return operands;
}

}  // namespace accrue::models
