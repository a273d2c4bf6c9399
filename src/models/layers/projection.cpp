#include "models/layers/projection.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "accrue/memory/offload_passes.h"
#include "core/name_pattern.h"
#include "kernels/blocks/block_matrix.h"
#include "kernels/operations.h"
#include "models/layers/adapter_names.h"
#include "models/layers/option_checks.h"

namespace accrue::models {
namespace {

/// An adapter's first factor is drawn with PEFT's deviation, whose values are uniform.
double deviation_of_factor(std::int64_t in) { return 1 / std::sqrt(3.0 * static_cast<double>(in)); }

void check_adapters(const char* operation, const AdapterOptions& options,
                    const std::vector<Projection*>& targets) {
  constexpr std::int64_t most_rank = 1 << 16;
  check_range(operation, "lora.rank", options.rank, 1, most_rank);
  check_fraction(operation, "lora.dropout", options.dropout);
  check_positive(operation, "lora.alpha", options.alpha_or_usual());
  double parameters = 0;
  for (const Projection* projection : targets)
    parameters += static_cast<double>(options.rank) *
                  static_cast<double>(projection->size().rows + projection->size().columns);
  check_parameters(operation, parameters);
}

}  // namespace

at::Tensor Projection::operator()(const at::Tensor& x, const ForwardContext& context,
                                  const kernels::Remake& remake_x) {
  if (adapter) return adapted(x, context, remake_x);
  return kernels::operations_of(context).linear(x, weight, bias, prepared, remake_x);
}

at::Tensor Projection::adapted(const at::Tensor& x, const ForwardContext& context,
                               const kernels::Remake& remake_x) {
  const bool rescales = adapter->magnitude.defined();
  const at::Tensor y = kernels::operations_of(context).adapted_linear(
      x, weight, rescales ? at::Tensor() : bias, prepared, adapter->factors,
      adapter->dropped(x, context), adapter->remake_dropped(x, remake_x, context));
  return rescales ? adapter->rescaled(y, weight, bias) : y;
}

std::vector<at::Tensor> Projection::weights() const {
  std::vector<at::Tensor> tensors = prepared.next_operands(weight);
  if (bias.defined()) tensors.push_back(bias);
  if (adapter) {
    tensors.insert(tensors.end(), {adapter->factors.a, adapter->factors.b});
    if (adapter->magnitude.defined()) tensors.push_back(adapter->magnitude);
  }
  return tensors;
}

Projection make_projection(ParameterBuilder& builder, const std::string& name, std::int64_t in,
                           std::int64_t out, double deviation, bool biased) {
  Projection made;
  made.name = name;
  made.weight = builder.weight(name + ".weight", out, in, deviation);
  if (biased) made.bias = builder.constant(name + ".bias", {out}, 0);
  return made;
}

double residual_deviation(std::int64_t layers) {
  return initial_deviation / std::sqrt(2.0 * static_cast<double>(layers));
}

void attach_adapters(const char* operation, ParameterBuilder& builder,
                     const std::vector<Projection*>& projections, const AdapterOptions& options,
                     std::int64_t first_site) {
  std::vector<std::string> names;
  for (const Projection* projection : projections) names.push_back(projection->name);
  check_patterns(std::string(operation) + ", lora.targets", options.targets, names);
  std::vector<Projection*> targets;
  for (Projection* projection : projections)
    if (options.targets.empty() || matches_any(options.targets, projection->name))
      targets.push_back(projection);
  check_adapters(operation, options, targets);
  for (std::size_t i = 0; i < projections.size(); ++i) {
    Projection& projection = *projections[i];
    if (std::find(targets.begin(), targets.end(), &projection) == targets.end()) continue;
    const auto [out, in] = projection.size();
    Adapter adapter;
    adapter.factors.a = builder.normal(projection.name + std::string(factor_a_end),
                                       {options.rank, in}, deviation_of_factor(in));
    adapter.factors.b =
        builder.constant(projection.name + std::string(factor_b_end), {out, options.rank}, 0);
    adapter.factors.scale = options.scale();
    if (options.kind == AdapterKind::dora)
      adapter.magnitude = builder.constant(projection.name + std::string(magnitude_end), {out}, 1);
    adapter.dropout = options.dropout;
    adapter.site = first_site + static_cast<std::int64_t>(i);
    projection.adapter = std::move(adapter);
  }
}

NamedParameters with_adapters(const char* operation, ParameterBuilder& builder,
                              const std::vector<Projection*>& projections,
                              const AdapterOptions& options, std::int64_t first_site,
                              std::uint64_t seed) {
  builder.fill(seed);
  builder.end_frozen();
  if (options.any()) attach_adapters(operation, builder, projections, options, first_site);
  builder.draw(seed);
  if (builder.makes_values()) restart_adapters(projections);
  return builder.take();
}

void restart_adapters(const std::vector<Projection*>& projections) {
  const at::NoGradGuard no_grad;
  for (Projection* projection : projections) {
    if (!projection->adapter) continue;
    Adapter& adapter = *projection->adapter;
    adapter.factors.b.zero_();
    if (!adapter.magnitude.defined()) continue;
    memory::keep_only(projection->weight);
    adapter.magnitude.copy_(adapter.norms.of(projection->weight, adapter.factors));
  }
}

std::int64_t packed_weight_bytes(const std::vector<Projection*>& projections,
                                 at::ScalarType activations) {
  constexpr std::int64_t operands = 2;  // the forward one and the data gradient's
  std::int64_t elements = 0;
  for (const Projection* projection : projections)
    if (!kernels::is_unpacked_by_products(projection->weight, activations))
      elements += projection->weight.numel();
  return operands * elements * static_cast<std::int64_t>(c10::elementSize(activations));
}

void pack_weights(const std::vector<Projection*>& projections, bool wanted) {
  for (Projection* projection : projections) projection->prepared.pack(wanted);
}

std::vector<at::Tensor> weights_of(const std::vector<Projection*>& projections) {
  std::vector<at::Tensor> all;
  for (const Projection* projection : projections) {
    const std::vector<at::Tensor> own = projection->weights();
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

}  // namespace accrue::models
