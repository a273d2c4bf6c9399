#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "accrue/core/recompute.h"

namespace accrue::memory {

/// How a batch may be run: what the planner decides.
struct PlanPoint {
  std::int64_t micro_batch = 1;  ///< samples
  Recompute recompute = Recompute::none;
  auto operator<=>(const PlanPoint&) const = default;
};

/// What one micro-batch took, forward and backward.
struct Measured {
  bool fits = true;  ///< false: it ran out of memory
  /// The most that the process held at once, all that stays between micro-batches included. Where
  /// it ran out of memory, it is what it had by then, less than what it needs.
  std::int64_t peak_bytes = 0;
  double seconds = 0;  ///< 0 if it ran out of memory
  /// How far off `seconds` may be beside those of the other points, relative to them; 0: not at
  /// all. A trial leaves it 0; `measure` finds it out.
  double error = 0;
};

/// Runs one micro-batch and leaves everything as it was. Running out of memory is an answer, not an
/// exception. It may be asked for a point again, for its time alone: the memory of other points'
/// trials may be kept then. Whoever has a model gives it (train).
using Trial = std::function<Measured(const PlanPoint&)>;

struct Fact {
  PlanPoint point;
  Measured measured;
};

/// What is held from step to step, in bytes.
struct Resident {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t cuts = 0;  ///< a whole window's, where exact batch normalisation keeps them
  std::int64_t total() const { return parameters + gradients + optimizer + cuts; }
};

/// What a peak is made of, in bytes: `activations` grow with the micro-batch, `temporaries` (all
/// that is left, Resident::cuts among it) do not.
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

/// What is to be planned, and within which limits.
struct PlanQuestion {
  std::int64_t window_samples = 1;  ///< samples of a full batch, >= 1
  /// How many ranks share the batch, in whole micro-batches; each is taken to be as fast as this
  /// one.
  std::int64_t ranks = 1;
  std::int64_t limit_bytes = 0;  ///< for all that tensors take
  /// What of the budget the program itself takes outside tensors: the budget is limit_bytes and
  /// this.
  std::int64_t outside_bytes = 0;
  /// The budget as it was stated, where it is for all that is resident; 0 for others.
  std::int64_t stated_bytes = 0;
  /// Whether the limit is a budget that must hold. A limit that is none is a preference: where
  /// nothing stays within it, what takes the least memory is chosen.
  bool is_budget = true;
  /// The modes that may be chosen, in the order in which they are tried; not empty.
  std::vector<Recompute> modes{Recompute::none};
  std::optional<std::int64_t> micro_batch;  ///< stated, so that only the mode is open
  /// The smallest micro-batch that the model can run, >= 1: none below it is tried or chosen but
  /// a batch that is smaller itself.
  std::int64_t least_micro_batch = 1;
  Resident resident;
  // These are for advice if nothing fits:
  std::string open_micro_batch = "batch.micro = \"auto\"";  ///< how to leave `micro_batch` open
  std::int64_t enough_bytes = 0;    ///< a budget that is enough by arithmetic; 0: not known
  bool more_recomputation = false;  ///< the model has modes that the config does not allow
  std::int64_t context = 0;         ///< tokens of a sample, which its memory is linear in; 0: none
  std::int64_t parameter_count = 0;
};

struct MeasureOptions {
  /// No micro-batch that is predicted to take longer is tried beyond the two smallest.
  double longest_seconds = 5;
  /// Tries all modes even if the first is not short of memory: for showing the alternatives.
  bool all_modes = false;
  /// No round of repeated trials is begun that would make all trials' times exceed this.
  double most_seconds = 15;
};

/// Runs the trials that a plan needs: for each mode the smallest size that may be chosen, twice
/// that and one check point, the largest of its doublings that the limit, the batch and
/// `longest_seconds` allow by what these two took (halved while it runs out of memory). A stated
/// micro-batch is tried alone. Modes after the first that memory does not hold back are left out,
/// since recomputation only costs time there.
///
/// Then all points that fit run again in turn, up to nine times, until their times relative to each
/// other are known to half of kPlanTolerance: what else runs on the machine slows all points of a
/// round, or some of its trials, and medians over rounds see neither. Measured::error is what they
/// are known to, 5% if there was no time for a second round.
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
  /// The other entries that nothing beats in both bytes and seconds, fastest first, also beyond the
  /// limit; each with at least 15% fewer bytes than the one before, and where several are as fast
  /// (to kPlanTolerance) the smallest.
  std::vector<PlanEntry> alternatives;
  std::string reason;  ///< why `chosen`, which it does not name
};

/// What a plan keeps free of its limit, as predictions are not exact. If nothing leaves it, a
/// point that was measured to fit is taken without.
inline constexpr double kPlanMargin = 0.03;
/// A plan takes less memory where that costs no more than this part of the best time.
inline constexpr double kPlanTolerance = 0.01;

/// The fastest way to run the batch whose peak stays within the limit less kPlanMargin: in each
/// mode the smallest peak within kPlanTolerance of its best time, and recomputation only if it
/// gains more than kPlanTolerance. If times are known to an error, a size counts as that fast
/// only if it is in spite of the error, compared with the largest that was measured: on a busy
/// machine nothing becomes smaller by chance. Bytes and seconds are interpolated between the facts
/// of a mode, and extended beyond the largest by its last slope; bytes are convex in the
/// micro-batch (the most of quantities that each grow linearly), so that between facts the
/// prediction is not too low. The function is pure.
///
/// A size that ran out of memory is not chosen, nor a larger one of its mode, even if a trial of
/// it fitted before. So asking again with the failure of what was chosen comes to an end.
///
/// Throws a refused Error (exit status 3) with the bytes missing and what would fit, if nothing
/// does and the limit is a budget; and where all that is left ran out of memory.
Plan plan(const std::vector<Fact>& facts, const PlanQuestion& question);

/// The micro-batches that are considered for a batch of `window_samples`: powers of two, and the
/// sizes that split it evenly into up to 16; ascending. Other sizes leave a short last micro-batch
/// and matrix shapes that run a few percent slower than what is interpolated for them
/// (docs/guide/plan.md).
std::vector<std::int64_t> micro_batch_candidates(std::int64_t window_samples);

/// For messages: "8 samples, full recomputation".
std::string describe(const PlanPoint& point);

}  // namespace accrue::memory
