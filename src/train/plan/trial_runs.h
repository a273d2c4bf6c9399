#pragma once

#include <cstdint>
#include <functional>
#include <set>

#include "memory/plan.h"

namespace accrue::train {

/// Measures passes of one micro-batch each, as facts for memory::plan.
class TrialRuns {
 public:
  /// The time of a pass; `waited` is the part of it in which it waited for offloaded state.
  struct Seconds {
    double all = 0, waited = 0;
  };
  /// Runs once and returns the time it took.
  using Pass = std::function<Seconds()>;
  /// Creates what a pass needs; its memory counts.
  using Prepare = std::function<Pass()>;

  /// `resident` is held during all passes. `undo` restores what a pass changed, complete or not.
  TrialRuns(const memory::Resident& resident, std::function<void()> undo)
      : resident_bytes_(resident.total()), undo_(std::move(undo)) {}

  /// Runs a point. Its first run is preceded by a pass that is not timed, and begins without memory
  /// kept for reuse; the peak of a later run includes what other points left for reuse.
  memory::Measured run(const memory::PlanPoint& point, const Prepare& prepare);
  bool has_run(const memory::PlanPoint& point) const { return tried_.contains(point); }
  /// Makes the next run of the point count as its first.
  void forget(const memory::PlanPoint& point) { tried_.erase(point); }
  /// The peak while `pass` runs, with the time that it returns. Running out of memory is a valid
  /// result.
  memory::Measured attempt(const Pass& pass);

 private:
  memory::Measured out_of_memory();

  std::int64_t resident_bytes_;
  std::function<void()> undo_;
  std::set<memory::PlanPoint> tried_;
};

}  // namespace accrue::train
