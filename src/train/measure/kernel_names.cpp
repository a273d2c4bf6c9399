#include "train/measure/kernel_names.h"

#include <algorithm>
#include <array>

namespace accrue::train {
namespace {

/// A word in a kernel's name, and the part of training that it indicates.
struct Sign {
  std::string_view word, part;
  bool has_passes = true;  ///< forward and backward are distinguished
};

/// The first one that a name contains counts.
constexpr std::array<Sign, 21> kSigns{{
    {"optimizer", "optimizer", false},
    {"gradient_norm", "optimizer", false},
    {"cross_entropy", "loss", false},
    {"nll_loss", "loss", false},
    {"log_softmax", "loss", false},
    {"attention", "attention"},
    {"rotate", "attention"},
    {"embed", "embedding"},
    {"norm", "norms"},
    {"dropout", "dropout"},
    {"gelu", "activation functions"},
    {"gate", "activation functions"},
    {"relu", "activation functions"},
    {"threshold", "activation functions"},
    {"conv", "convolutions"},
    {"pool", "pooling"},
    {"matmul", "linear"},
    {"addmm", "linear"},
    {"column_sum", "linear"},
    {"pack", "linear"},
    {"AccumulateGrad", "sums of gradients", false},
}};

constexpr std::string_view kBackward = "Backward";

}  // namespace

std::string readable_kernel(std::string_view name) {
  name = name.substr(0, name.find_last_not_of('>') + 1);
  if (const std::size_t colon = name.rfind("::"); colon != std::string_view::npos)
    name.remove_prefix(colon + 2);
  const std::size_t digits = name.find_last_not_of("0123456789") + 1;
  if (name.substr(0, digits).ends_with(kBackward))
    return std::string(name.substr(0, digits - kBackward.size())) + " backward";
  return std::string(name);
}

std::string part_of(std::string_view kernel, bool in_backward) {
  const auto* const sign = std::ranges::find_if(
      kSigns, [&](const Sign& s) { return kernel.find(s.word) != std::string_view::npos; });
  const char* const pass = in_backward ? " backward" : " forward";
  if (sign == kSigns.end()) return std::string("other operations") + pass;
  return std::string(sign->part) + (sign->has_passes ? pass : "");
}

}  // namespace accrue::train
