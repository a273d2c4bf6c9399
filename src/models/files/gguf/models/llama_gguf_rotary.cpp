#include "models/files/gguf/models/llama_gguf_rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace accrue::models {
namespace {

double turns_a_position(double base, std::int64_t channel, std::int64_t channels) {
  return std::pow(base, -static_cast<double>(channel) / static_cast<double>(channels)) /
         (2 * std::numbers::pi);
}

bool are_alike(const std::vector<double>& a, const std::vector<double>& b) {
  constexpr double tolerance = 1e-4;
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](double x, double y) { return std::abs(x - y) <= tolerance * std::abs(y); });
}

}  // namespace

std::vector<double> llama3_factors(const RotaryOptions& rotary, std::int64_t head_width) {
  const std::int64_t channels = head_width / 2;
  std::vector<double> factors;
  for (std::int64_t i = 0; i < channels; ++i) {
    const double turns = turns_a_position(rotary.base, i, channels) * rotary.original_context;
    const double kept = std::clamp(
        (turns - rotary.low_frequency) / (rotary.high_frequency - rotary.low_frequency), 0.0, 1.0);
    factors.push_back(1 / ((1 - kept) / rotary.factor + kept));
  }
  return factors;
}

std::optional<RotaryOptions> llama3_of_factors(const std::vector<double>& factors, double base,
                                               std::int64_t stated_context) {
  if (factors.empty()) return std::nullopt;
  RotaryOptions rotary{.base = base, .scaling = RotaryScaling::llama3};
  rotary.factor = *std::max_element(factors.begin(), factors.end());
  for (const double context : {static_cast<double>(stated_context), rotary.original_context}) {
    if (context < 1) continue;
    rotary.original_context = context;
    if (are_alike(llama3_factors(rotary, 2 * std::ssize(factors)), factors)) return rotary;
  }
  return std::nullopt;
}

}  // namespace accrue::models
