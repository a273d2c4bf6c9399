#include "train/plan/trial_runs.h"

#include <optional>

#include "accrue/memory/budget.h"
#include "accrue/memory/caching_allocator.h"
#include "memory/out_of_memory.h"
#include "memory/thread_meter.h"

namespace accrue::train {
namespace {

constexpr int kMostRepeats = 3;
constexpr double kEnoughSeconds = 0.02;  ///< of all repetitions

/// Finds the most memory held while it exists: by the allocator's count, or without the allocator
/// the resident memory plus what tensors took since.
class HeldPeak {
 public:
  explicit HeldPeak(std::int64_t resident_bytes) : resident_bytes_(resident_bytes) {
    if (memory::counts_allocations()) {
      scope_.emplace();
    } else {
      meter_.emplace();
    }
  }
  std::int64_t bytes() const {
    return scope_ ? scope_->peak().reserved : resident_bytes_ + meter_->peak();
  }

 private:
  std::int64_t resident_bytes_;
  std::optional<memory::PeakScope> scope_;
  std::optional<memory::ThreadMeter> meter_;
};

/// The time of one pass: the mean of several if one is too short for a clock.
TrialRuns::Seconds seconds_of(const TrialRuns::Pass& pass) {
  TrialRuns::Seconds total;
  int done = 0;
  do {
    const TrialRuns::Seconds one = pass();
    total.all += one.all;
    total.waited += one.waited;
    ++done;
  } while (done < kMostRepeats && total.all < kEnoughSeconds);
  return {.all = total.all / done, .waited = total.waited / done};
}

}  // namespace

memory::Measured TrialRuns::run(const memory::PlanPoint& point, const Prepare& prepare) {
  const bool is_first = tried_.insert(point).second;
  // The peak has to be that of the point alone; times are those of a process that already has its
  // memory.
  if (is_first) memory::release_cached();
  return attempt([&] {
    const Pass pass = prepare();
    if (is_first) pass();
    return seconds_of(pass);
  });
}

memory::Measured TrialRuns::attempt(const Pass& pass) {
  try {
    const HeldPeak peak(resident_bytes_);
    const Seconds seconds = pass();
    undo_();
    memory::measure_outside();
    return {.peak_bytes = peak.bytes(), .seconds = seconds.all, .waited_seconds = seconds.waited};
  } catch (const std::exception& error) {
    if (!memory::is_out_of_memory(error)) throw;
    return out_of_memory();
  }
}

memory::Measured TrialRuns::out_of_memory() {
  undo_();
  memory::release_cached();
  memory::measure_outside();
  const std::int64_t limit = memory::tensor_budget().value_or(resident_bytes_);
  return {.fits = false, .peak_bytes = limit + memory::last_missing_bytes()};
}

}  // namespace accrue::train
