#include "train/watch/divergence.h"

#include <algorithm>

#include "core/digits.h"

namespace accrue::train {
std::optional<std::string> Divergence::observe(double loss) {
  std::optional<std::string> found = reason(loss);
  if (!first_) first_ = loss;
  lowest_ = std::min(lowest_.value_or(loss), loss);
  if (!alarm_.rings(found ? 1 : 0)) return std::nullopt;
  return found;
}

std::optional<std::string> Divergence::reason(double loss) const {
  const std::string what = "a loss of " + in_four_digits(loss);
  if (uniform_ && loss > far_above_uniform * *uniform_)
    return what + ", while a model that predicts all tokens alike has " + in_four_digits(*uniform_);
  const bool has_risen = first_ && *lowest_ > 0 && loss > rise * *lowest_ && loss > *first_;
  if (!has_risen) return std::nullopt;
  return what + ", after " + in_four_digits(*lowest_) + " at the lowest and " +
         in_four_digits(*first_) + " in the first step";
}

}  // namespace accrue::train
