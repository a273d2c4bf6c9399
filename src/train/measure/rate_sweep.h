#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "accrue/train/config.h"

namespace accrue::train {

struct SweptRate {
  double lr = 0;
  double loss = 0;      ///< of the batch before the step at this rate
  double smoothed = 0;  ///< over the steps so far, the last ten or so
};

/// A learning-rate range test (Smith, arXiv:1506.01186): one step at each of many rates, each a
/// little higher than the one before.
struct RateSweep {
  std::vector<SweptRate> rates;
  double stated = 0;     ///< optim.lr
  double lowest_at = 0;  ///< the rate with the lowest smoothed loss
  /// The rate at which the smoothed loss had risen above the start by more than its noise explains,
  /// or the loss was not finite; none: nowhere.
  std::optional<double> diverges_at;
  /// A tenth of `lowest_at`: at the rate with the lowest loss a single step gains nothing more, and
  /// many steps would not.
  double suggested = 0;
  std::string reason;  ///< for people
};

/// Takes one optimizer step at this rate and returns the mean loss of the batch before it; none if
/// losses or gradients are not finite.
using StepAtRate = std::function<std::optional<double>(double lr)>;

/// Takes `steps` steps (at least 10) by `step`, at rates from a hundredth to a hundred times
/// `stated`, and stops where the loss diverges. Throws a usage Error for fewer steps, and a runtime
/// Error if no loss is finite.
RateSweep sweep_rates(double stated, std::int64_t steps, const StepAtRate& step);

/// Runs `steps` steps (at least 10) at rates from a hundredth to a hundred times optim.lr, with the
/// config's batch. Throws a usage Error as a run would.
RateSweep sweep_rate(const Config& config, std::int64_t steps = 80);

}  // namespace accrue::train
