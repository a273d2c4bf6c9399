#pragma once

#include <cstdint>
#include <vector>

#include "memory/plan.h"

namespace accrue::memory {

/// A function that is linear between its points, and is extended beyond the last one with the last
/// slope, but never falls there.
class PiecewiseLinear {
 public:
  struct Point {
    double x = 0;
    double y = 0;
  };
  /// At least two points, x ascending.
  explicit PiecewiseLinear(std::vector<Point> points);
  double at(double x) const;
  /// The slope of the line that begins at `x` or contains it; beyond the last line, the slope of
  /// that one.
  double slope_at(double x) const;

 private:
  std::size_t segment_of(double x) const;
  double slope_of(std::size_t segment) const;

  std::vector<Point> points_;
};

/// Time and memory of a micro-batch of any size in one mode, from the facts of that mode. A
/// micro-batch of 0 samples takes no time, and the resident bytes.
class CostModel {
 public:
  /// `facts` are those of `mode`, at least one of which fits.
  CostModel(Recompute mode, const std::vector<Fact>& facts, const Resident& resident);

  Recompute mode() const { return mode_; }
  std::int64_t peak_bytes(std::int64_t micro_batch) const;
  double seconds(std::int64_t micro_batch) const;
  double window_seconds(std::int64_t window_samples, std::int64_t micro_batch) const;
  Breakdown breakdown(std::int64_t micro_batch) const;
  /// Whether trials allow the size: false from the smallest one on that ran out of memory.
  bool may_fit(std::int64_t micro_batch) const { return micro_batch < smallest_failed_; }
  bool was_measured(std::int64_t micro_batch) const;

 private:
  Recompute mode_;
  Resident resident_;
  std::vector<std::int64_t> measured_;
  std::int64_t smallest_failed_;
  PiecewiseLinear bytes_, seconds_;
};

/// `facts` without those that fitted although another trial of the mode, with as many samples or
/// fewer, ran out of memory.
std::vector<Fact> without_refuted(const std::vector<Fact>& facts);

/// Noise only adds to a time, so the smaller of two measured times also applies to the other point
/// if it was measured with more samples and more recomputation.
std::vector<Fact> without_impossible_times(std::vector<Fact> facts);

/// One model per mode with a trial that fits and is not refuted, in the question's order.
std::vector<CostModel> fit_models(const std::vector<Fact>& facts, const PlanQuestion& question);

}  // namespace accrue::memory
