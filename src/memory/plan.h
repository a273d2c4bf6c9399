#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "accrue/core/recompute.h"

namespace accrue::memory {

/// A way to run a batch: the planner's choice.
struct PlanPoint {
  std::int64_t micro_batch = 1;  ///< samples
  Recompute recompute = Recompute::none;
  auto operator<=>(const PlanPoint&) const = default;
};

/// Memory and time of one micro-batch, forward and backward.
struct Measured {
  bool fits = true;  ///< false: it ran out of memory
  /// The most that the process held at once, including everything that stays between micro-batches.
  /// If it ran out of memory, this is the memory at that moment, less than it needs.
  std::int64_t peak_bytes = 0;
  double seconds = 0;  ///< 0 if it ran out of memory
  /// The part of `seconds` in which the micro-batch waited for offloaded state; at most that.
  double waited_seconds = 0;
  /// The possible error of `seconds` compared with those of the other points, relative to them; 0:
  /// none. A trial leaves it 0; `measure` determines it.
  double error = 0;
};

/// Runs one micro-batch and restores everything. Running out of memory is a result, not an
/// exception. It may be called for a point again, only for its time: the memory of other points'
/// trials may then still be held. The code that has a model provides it (train).
using Trial = std::function<Measured(const PlanPoint&)>;

struct Fact {
  PlanPoint point;
  Measured measured;
};

/// The memory held from step to step, in bytes.
struct Resident {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t cuts = 0;  ///< a whole window's, if it runs in layered order
  std::int64_t total() const { return parameters + gradients + optimizer + cuts; }
};

/// The parts of a peak, in bytes: `activations` grow with the micro-batch, `temporaries` (the rest,
/// including Resident::cuts) do not.
struct Breakdown {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t activations = 0;
  std::int64_t temporaries = 0;
  std::int64_t total() const {
    return parameters + gradients + optimizer + activations + temporaries;
  }
};

/// The question to the planner, with its limits.
struct PlanQuestion {
  std::int64_t window_samples = 1;  ///< samples of a full batch, >= 1
  /// The number of ranks that share the batch, in whole micro-batches; each counts as equally fast
  /// as this one.
  std::int64_t ranks = 1;
  std::int64_t limit_bytes = 0;  ///< for all tensors
  /// The part of the budget that the program takes outside tensors: the budget is the sum of
  /// limit_bytes and this.
  std::int64_t outside_bytes = 0;
  /// The budget as stated, if it is for all resident memory; 0 otherwise.
  std::int64_t stated_bytes = 0;
  /// Whether the limit is a budget that must be kept. Otherwise it is a preference: if nothing
  /// stays within it, the point with the least memory is selected.
  bool is_budget = true;
  /// The modes that may be selected, in the order in which they are tried; not empty.
  std::vector<Recompute> modes{Recompute::none};
  std::optional<std::int64_t> micro_batch;  ///< stated, so that only the mode is open
  /// The smallest micro-batch that the model can run, >= 1: no smaller one is tried or selected,
  /// unless the batch itself is smaller.
  std::int64_t least_micro_batch = 1;
  Resident resident;
  // These are for advice if nothing fits:
  std::string open_micro_batch = "batch.micro = \"auto\"";  ///< how to leave `micro_batch` open
  std::int64_t enough_bytes = 0;    ///< a budget that is enough by arithmetic; 0: unknown
  bool more_recomputation = false;  ///< the model has modes that the config does not allow
  bool may_be_offloaded = false;    ///< the state that `resident` counts could lie on a disk
  /// Why memory.offload = "auto" keeps the state in memory; empty if it was not asked to decide.
  std::string place_of_state;
  std::int64_t context = 0;  ///< tokens of a sample, in which its memory is linear; 0: none
  std::int64_t parameter_count = 0;
};

struct MeasureOptions {
  /// No micro-batch with a longer predicted time is tried, except the two smallest.
  double longest_seconds = 5;
  /// Tries all modes even if the first is not short of memory: to show the alternatives.
  bool all_modes = false;
  /// No round of repeated trials is started that would make the time of all trials exceed this.
  double most_seconds = 15;
};

/// Runs the trials that a plan needs: for each mode the smallest size that may be selected, twice
/// that, and one check point, the largest of its doublings that the limit, the batch and
/// `longest_seconds` allow according to these two (halved while it runs out of memory). A stated
/// micro-batch is tried alone. Modes after the first that is not limited by memory are left out,
/// since recomputation only costs time there.
///
/// Then all points that fit run again in turn, up to nine times, until the error of their relative
/// times is at most half of kPlanTolerance: other programs on the machine slow all points of a
/// round, or some of its trials, and medians over rounds are not affected. Measured::error is the
/// resulting error, 5% if there was no time for a second round.
std::vector<Fact> measure(const Trial& trial, const PlanQuestion& question,
                          const MeasureOptions& options = {});

struct PlanEntry {
  PlanPoint point;
  std::int64_t peak_bytes = 0;
  double micro_batch_seconds = 0;
  double window_seconds = 0;  ///< full micro-batches and the short last one, of a rank's share
  bool within_limit = true;
  bool measured = false;  ///< and not predicted from the sizes around it
};

struct Plan {
  PlanEntry chosen;
  std::int64_t micro_batches = 1;  ///< in a full batch
  Breakdown breakdown;             ///< sums to chosen.peak_bytes
  /// The other entries that none beats in both bytes and seconds, fastest first, also beyond the
  /// limit; each with at least 15% fewer bytes than the one before, and of several that are equally
  /// fast (to kPlanTolerance) the smallest.
  std::vector<PlanEntry> alternatives;
  std::string reason;  ///< for `chosen`, which it does not name
};

/// The part of the limit that a plan keeps free, because predictions are not exact. If no point
/// leaves it, one that was measured to fit is used without it.
inline constexpr double kPlanMargin = 0.03;
/// A plan takes less memory if that costs at most this fraction of the best time.
inline constexpr double kPlanTolerance = 0.01;

/// The fastest way to run the batch whose peak stays within the limit less kPlanMargin: in each
/// mode the smallest peak within kPlanTolerance of its best time, and recomputation only if it
/// gains more than kPlanTolerance. If times have a known error, a size only counts as that fast if
/// it is in spite of the error, compared with the largest that was measured: on a busy machine no
/// size is reduced by chance. Bytes and seconds are interpolated between the facts of a mode, and
/// extrapolated beyond the largest with its last slope; bytes are convex in the micro-batch (the
/// maximum of quantities that each grow linearly), so between facts the prediction is not too low.
/// The function is pure.
///
/// A size that ran out of memory is not selected, nor a larger one of its mode, even if a trial of
/// it fitted before. So repeating the question with the failure of the last choice terminates.
///
/// Throws a refused Error (exit status 3) with the bytes missing and what would fit, if nothing
/// does and the limit is a budget, or if all remaining points ran out of memory.
Plan plan(const std::vector<Fact>& facts, const PlanQuestion& question);

/// The micro-batches considered for a batch of `window_samples`: powers of two, and the sizes
/// that split it evenly into up to 16; ascending. Other sizes leave a short last micro-batch
/// and matrix shapes that run a few percent slower than interpolated for them
/// (docs/guide/plan.md).
std::vector<std::int64_t> micro_batch_candidates(std::int64_t window_samples);

/// For messages: "8 samples, full recomputation".
std::string describe(const PlanPoint& point);

}  // namespace accrue::memory
