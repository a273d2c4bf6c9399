#include "models/layers/projection.h"

#include <ATen/ATen.h>

#include <cmath>

#include "kernels/operations.h"

namespace accrue::models {

at::Tensor Projection::operator()(const at::Tensor& x, const ForwardContext& context,
                                  const kernels::Remake& remake_x) {
  return kernels::operations_of(context).linear(x, weight, bias, prepared, remake_x);
}

Projection make_projection(ParameterBuilder& builder, const std::string& name, std::int64_t in,
                           std::int64_t out, double deviation, bool biased) {
  Projection made;
  made.weight = builder.normal(name + ".weight", {out, in}, deviation);
  if (biased) made.bias = builder.constant(name + ".bias", {out}, 0);
  return made;
}

double residual_deviation(std::int64_t layers) {
  return initial_deviation / std::sqrt(2.0 * static_cast<double>(layers));
}

std::int64_t packed_weight_bytes(const std::vector<Projection*>& projections,
                                 at::ScalarType activations) {
  constexpr std::int64_t operands = 2;  // the forward one and the data gradient's
  std::int64_t elements = 0;
  for (const Projection* projection : projections) elements += projection->weight.numel();
  return operands * elements * static_cast<std::int64_t>(c10::elementSize(activations));
}

void pack_weights(const std::vector<Projection*>& projections, bool wanted) {
  for (Projection* projection : projections) projection->prepared.pack(wanted);
}

}  // namespace accrue::models
