#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "accrue/core/clock.h"
#include "train/watch/machine_ceiling.h"

namespace accrue::train {

/// What part of the machine's ceiling a run's arithmetic reaches.
///
/// A ceiling that is not known yet is measured in the middle of a run, once it has trained for a
/// minute: what lasts so long is worth a quarter of a second of a machine that is warm by then, and
/// a short run is not delayed by anything. So is one that training exceeds, since it was measured
/// beside other work.
class CeilingShare {
 public:
  static constexpr double patience_seconds = 60;
  static constexpr double most_seconds = 0.25;

  struct Model {
    std::int64_t flops_per_sample = 0;  ///< 0: not known, and nothing is told
    models::Compute compute = models::Compute::fp32;
  };
  /// The threads that are set now count. `patience` is in seconds.
  CeilingShare(Model model, CeilingCache cache, double patience = patience_seconds);

  /// The share of `samples` that took `seconds`; none if the ceiling or the arithmetic is not
  /// known. At most 1: whoever is faster has shown a higher ceiling.
  std::optional<double> of(std::int64_t samples, double seconds);

  /// Measures the ceiling where that is due, in at most `spare_bytes` for tensors, and keeps it for
  /// later runs. To be called between steps; returns what there is to tell of it.
  std::optional<std::string> measure_if_due(std::int64_t spare_bytes);

 private:
  std::string told_of(double seconds, bool is_kept) const;

  Model model_;
  CeilingCache cache_;
  CeilingKey key_;
  double patience_;
  bool was_measured_ = false;
  std::optional<double> ceiling_;  ///< FLOP/s
  double fastest_ = 0;             ///< that training was seen at, FLOP/s
  Stopwatch since_start_;
};

}  // namespace accrue::train
