#include "models/layers/rotary_tables.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace accrue::models {
namespace {

/// base^(2i / width) for the pairs of channels i.
at::Tensor powers(double base, std::int64_t width) {
  const at::Tensor exponents =
      at::arange(0, width, 2, at::TensorOptions().dtype(at::kLong)).to(at::kFloat) / width;
  return at::pow(base, exponents);
}

at::Tensor llama3_frequencies(const RotaryOptions& options, const at::Tensor& plain) {
  const double turn = 2 * std::numbers::pi;
  const double longest_kept = options.original_context / options.high_frequency;
  const double shortest_divided = options.original_context / options.low_frequency;
  const at::Tensor lengths = plain.reciprocal() * turn;
  const at::Tensor scaled = at::where(lengths > shortest_divided, plain / options.factor, plain);
  const at::Tensor kept_share =
      (lengths.reciprocal() * options.original_context - options.low_frequency) /
      (options.high_frequency - options.low_frequency);
  const at::Tensor mixed = (1 - kept_share) * scaled / options.factor + kept_share * scaled;
  const at::Tensor is_between =
      at::logical_and(lengths >= longest_kept, lengths <= shortest_divided);
  return at::where(is_between, mixed, scaled);
}

/// The channel whose frequency makes so many turns in the original context.
double channel_of_turns(double turns, const RotaryOptions& options, std::int64_t width) {
  return static_cast<double>(width) *
         std::log(options.original_context / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(options.base));
}

at::Tensor yarn_frequencies(const RotaryOptions& options, std::int64_t width) {
  const at::Tensor all_powers = powers(options.base, width);
  double first = channel_of_turns(options.beta_fast, options, width);
  double last = channel_of_turns(options.beta_slow, options, width);
  if (options.whole_channels) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, static_cast<double>(width - 1));
  if (first == last) last += 0.001;  // a ramp has a length
  const at::Tensor channels = at::arange(width / 2, at::TensorOptions().dtype(at::kFloat));
  const at::Tensor ramp = at::clamp((channels - first) / (last - first), 0, 1);
  const at::Tensor kept_share = 1 - ramp;
  return (all_powers * options.factor).reciprocal() * (1 - kept_share) +
         all_powers.reciprocal() * kept_share;
}

at::Tensor frequencies(const RotaryOptions& options, std::int64_t width) {
  if (options.scaling == RotaryScaling::yarn) return yarn_frequencies(options, width);
  const at::Tensor plain = powers(options.base, width).reciprocal();
  if (options.scaling == RotaryScaling::llama3) return llama3_frequencies(options, plain);
  return options.scaling == RotaryScaling::linear ? plain / options.factor : plain;
}

}  // namespace

RotaryTables rotary_tables(const RotaryOptions& options, std::int64_t positions,
                           std::int64_t head_width, at::ScalarType dtype) {
  const at::Tensor angles =
      at::arange(positions, at::TensorOptions().dtype(at::kFloat)).unsqueeze(1) *
      frequencies(options, head_width);
  return {(angles.cos() * options.amplitude).to(dtype),
          (angles.sin() * options.amplitude).to(dtype)};
}

}  // namespace accrue::models
