#include "accrue/accum/accumulation.h"

#include <array>
#include <string>
#include <utility>

#include "accrue/core/error.h"

namespace accrue::accum {
namespace {

constexpr std::array<std::pair<Accumulation, std::string_view>, 6> kNames{{
    {Accumulation::fp32, "fp32"},
    {Accumulation::fp64, "fp64"},
    {Accumulation::bf16, "bf16"},
    {Accumulation::bf16_kahan, "bf16-kahan"},
    {Accumulation::bf16_stochastic, "bf16-stochastic"},
    {Accumulation::fixed, "fixed"},
}};

}  // namespace

std::string_view to_string(Accumulation accumulation) {
  for (const auto& [value, name] : kNames)
    if (value == accumulation) return name;
  return "unknown";
}

Accumulation parse_accumulation(std::string_view text) {
  for (const auto& [value, name] : kNames)
    if (name == text) return value;
  throw usage_error("accumulate", "one of fp32, fp64, bf16, bf16-kahan, bf16-stochastic, fixed",
                    "'" + std::string(text) + "'", "fp32, which costs no pass of its own");
}

}  // namespace accrue::accum
