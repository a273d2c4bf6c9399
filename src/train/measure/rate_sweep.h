#pragma once

#include <cstdint>
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
  std::optional<double>
      diverges_at;  ///< rate at which it rose far beyond, or was not finite; none: nowhere
  /// A tenth of `lowest_at`: at the rate with the lowest loss a single step gains nothing more, and
  /// many steps would not.
  double suggested = 0;
  std::string reason;  ///< for people
};

/// Runs `steps` steps (at least 10) at rates from a hundredth to a hundred times optim.lr, with the
/// config's batch. Throws a usage Error as a run would.
RateSweep sweep_rate(const Config& config, std::int64_t steps = 80);

}  // namespace accrue::train
