#pragma once

#include <optional>
#include <string>

#include "train/watch/alarm.h"

namespace accrue::train {

/// Finds a run whose loss has diverged, from its first step on: the loss is far above that of a
/// model that predicts all tokens alike, or has risen to ten times the lowest loss and above the
/// first one. A loss that rises from almost nothing, as of a model that has memorized its data, is
/// below the first one and is not reported.
class Divergence {
 public:
  /// This many times the loss of a model that predicts all tokens alike.
  static constexpr double far_above_uniform = 3;
  /// This many times the lowest loss.
  static constexpr double rise = 10;

  /// `uniform` is the loss of a model that predicts all tokens alike, the logarithm of their
  /// number; none if no such loss is known.
  explicit Divergence(std::optional<double> uniform) : uniform_(uniform) {}

  /// The suggestion for a loss that has diverged.
  static constexpr const char* advice =
      "a lower optim.lr, a longer optim.schedule.warmup or a lower optim.clip";
  /// Call it with the loss of each step. Returns the reason if the loss has diverged ("a loss of
  /// 2248, while ..."), once until it is normal again.
  std::optional<std::string> observe(double loss);

 private:
  std::optional<std::string> reason(double loss) const;

  std::optional<double> uniform_;
  std::optional<double> first_, lowest_;
  Alarm alarm_{1, 0.5};
};

}  // namespace accrue::train
