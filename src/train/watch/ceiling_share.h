#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "accrue/core/clock.h"
#include "train/watch/machine_ceiling.h"

namespace accrue::train {

/// The share of the machine's ceiling that a run's arithmetic reaches.
///
/// A ceiling that is not known yet is measured in the middle of a run, after it has trained for a
/// minute: a run of that length can spare a quarter of a second, the machine is warm by then, and a
/// short run is not delayed. A ceiling that training exceeds was measured while other work ran, and
/// is measured again.
class CeilingShare {
 public:
  static constexpr double patience_seconds = 60;
  static constexpr double most_seconds = 0.25;

  struct Model {
    std::int64_t flops_per_sample = 0;  ///< 0: not known, and nothing is reported
    models::Compute compute = models::Compute::fp32;
  };
  /// Uses the present number of threads. `patience` is in seconds.
  CeilingShare(Model model, CeilingCache cache, double patience = patience_seconds);

  /// The share for `samples` that took `seconds`; none if the ceiling or the arithmetic is not
  /// known. At most 1: a faster run has shown a higher ceiling.
  std::optional<double> of(std::int64_t samples, double seconds);

  /// Measures the ceiling if that is due, in at most `spare_bytes` for tensors, and saves it for
  /// later runs. Call it between steps; returns a remark on it.
  std::optional<std::string> measure_if_due(std::int64_t spare_bytes);

 private:
  std::string told_of(double seconds, bool is_kept) const;

  Model model_;
  CeilingCache cache_;
  CeilingKey key_;
  double patience_;
  bool was_measured_ = false;
  std::optional<double> ceiling_;  ///< FLOP/s
  double fastest_ = 0;             ///< the highest rate seen in training, FLOP/s
  Stopwatch since_start_;
};

}  // namespace accrue::train
