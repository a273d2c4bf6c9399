#include "accum/optimizer_options.h"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <optional>

namespace accrue::accum {
namespace {

using torch::optim::OptimizerOptions;

/// Makes `to` like `from`, unless `from` is like `unless`. Returns false if their types
/// differ.
template <class Options>
bool copied(const OptimizerOptions& from, OptimizerOptions& to, const OptimizerOptions* unless) {
  const auto* source = dynamic_cast<const Options*>(&from);
  auto* target = dynamic_cast<Options*>(&to);
  if (source == nullptr || target == nullptr) return false;
  const auto* known = dynamic_cast<const Options*>(unless);
  if (known == nullptr || !(*source == *known)) *target = *source;
  return true;
}

/// Options may have no learning rate, for which libtorch throws.
std::optional<double> rate_of(const OptimizerOptions& options) {
  try {
    return options.get_lr();
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

void copy_rate(const OptimizerOptions& from, OptimizerOptions& to, const OptimizerOptions* unless) {
  const std::optional<double> rate = rate_of(from);
  if (rate && (unless == nullptr || rate != rate_of(*unless))) to.set_lr(*rate);
}

void copy(const OptimizerOptions& from, OptimizerOptions& to,
          const OptimizerOptions* unless = nullptr) {
  using namespace torch::optim;
  const bool known =
      copied<SGDOptions>(from, to, unless) || copied<AdamOptions>(from, to, unless) ||
      copied<AdamWOptions>(from, to, unless) || copied<AdagradOptions>(from, to, unless) ||
      copied<RMSpropOptions>(from, to, unless) || copied<LBFGSOptions>(from, to, unless);
  if (!known) copy_rate(from, to, unless);
}

}  // namespace

void settle_options(OptimizerOptions& own, OptimizerOptions& inner, OptimizerOptions& settled) {
  copy(own, inner, &settled);
  copy(inner, own);
  copy(inner, settled);
}

}  // namespace accrue::accum
