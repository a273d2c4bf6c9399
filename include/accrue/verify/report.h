#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/core/enum_words.h"

namespace accrue::proof {

/// The reason why an accumulated gradient differs from that of the full batch.
enum class Cause {
  none,
  batchnorm,                 ///< statistics of the micro-batch instead of the batch
  dropout,                   ///< masks drawn in the order of the passes
  weighting,                 ///< micro-batches are weighted by something other than their weights
  normalization,             ///< a constant factor
  precision,                 ///< rounding beyond that of the parameters' dtype
  nondeterminism,            ///< the same pass gives two results
  batch_coupled_loss,        ///< a loss that is not a sum over samples
  unknown,                   ///< none of the others; the evidence lists what was ruled out
  zeroed_mid_window,         ///< gradients were cleared between the micro-batches of a window
  stepped_mid_window,        ///< parameters were changed between them
  schedule_per_micro_batch,  ///< the learning rate's schedule was stepped between them
  decay_per_micro_batch,     ///< parameters were decayed between them
  clip_per_micro_batch,      ///< gradients were clipped between them, or each separately
  packing_leak,              ///< documents that share a row see each other
  last_window,               ///< a short last window: dropped, or divided by the length of others
  scaled_twice,              ///< divided by the number of micro-batches once too often
  last_micro_batch_only,     ///< only the last micro-batch of a window reached `.grad`
  device_mean,               ///< the mean over ranks of their means
  carried_state,             ///< a forward pass leaves state that the next one reads
};

/// The names that the command line prints.
inline constexpr auto cause_words =
    enum_words<Cause>({{Cause::none, "none"},
                       {Cause::batchnorm, "batchnorm"},
                       {Cause::dropout, "dropout"},
                       {Cause::weighting, "weighting"},
                       {Cause::normalization, "normalization"},
                       {Cause::precision, "precision"},
                       {Cause::nondeterminism, "nondeterminism"},
                       {Cause::batch_coupled_loss, "batch-coupled-loss"},
                       {Cause::unknown, "unknown"},
                       {Cause::zeroed_mid_window, "zeroed-mid-window"},
                       {Cause::stepped_mid_window, "stepped-mid-window"},
                       {Cause::schedule_per_micro_batch, "schedule-per-micro-batch"},
                       {Cause::decay_per_micro_batch, "decay-per-micro-batch"},
                       {Cause::clip_per_micro_batch, "clip-per-micro-batch"},
                       {Cause::packing_leak, "packing-leak"},
                       {Cause::last_window, "last-window"},
                       {Cause::scaled_twice, "scaled-twice"},
                       {Cause::last_micro_batch_only, "last-micro-batch-only"},
                       {Cause::device_mean, "device-mean"},
                       {Cause::carried_state, "carried-state"}});
constexpr std::string_view to_string(Cause cause) { return cause_words.of(cause); }

/// The place of a difference whose cause is `unknown`.
enum class Place {
  none,          ///< there is no difference
  window,        ///< training's handling of micro-batches that are each correct
  operations,    ///< accrue's operations, compared with ATen's operators
  sums,          ///< sums of the same gradients, computed in two ways
  steps,         ///< the optimizer's steps, from gradients that agree
  frozen,        ///< a parameter that is not trained
  data,          ///< the samples and labels that a run takes
  not_finite,    ///< training gives values that are not finite, a plain pass does not
  not_searched,  ///< the search for the cause was not finished
};

/// The error of one parameter, in the comparison that came nearest to its bound or exceeded it
/// most. Both are L2 norms relative to the norm of the parameter's reference gradient (or, if that
/// is close to 0, to a thousandth of the model's usual value per element).
struct ParameterError {
  std::string name;
  double relative_error = 0;
  double bound = 0;  ///< of rounding (docs/numerics.md, "verify's bound")
};

/// One split of the batch, compared with one pass over the same samples.
struct SplitResult {
  std::string name;  ///< "micro-batches of 3, reversed"
  std::int64_t samples = 0;
  std::int64_t micro_batches = 0;
  std::string parameter;  ///< nearest to its bound, or farthest beyond it
  double relative_error = 0;
  double bound = 0;
  double largest_error = 0;  ///< relative, of the parameter that differs most
  double largest_bound = 0;  ///< the bound of that parameter
  bool equal = true;
};

/// A comparison that could not be run.
struct SkippedSplit {
  std::string name;
  std::int64_t samples = 0;
  std::string reason;
};

/// The smallest fault of a kind that would have been detected.
struct SmallestFault {
  std::string kind;     ///< "the gradient of a matrix scaled"
  double relative = 0;  ///< part of what is scaled, or share of the batch's weight
};

/// The parameter of which rounding may change most, by its bound.
struct LoosestBound {
  std::string parameter;  ///< "": none
  double relative = 0;    ///< part of its gradient, or of its movement by optimizer steps
};

/// Optimizer steps from the same start, as training takes them and by a reference of their own: how
/// far the parameters are apart, relative to how far they moved.
struct StepsResult {
  std::int64_t steps = 0;
  std::string splits;      ///< "micro-batches of 4 and of 2, against torch::optim"
  std::int64_t ranks = 1;  ///< that took the same steps together; 1: none did
  std::string stepper;     ///< who took the steps that differ most: "one process" or "rank 1 of 2"
  std::string parameter;
  double relative_error = 0;
  double bound = 0;  ///< from the same steps with the start perturbed by one unit of rounding
  double largest_error = 0;  ///< as in SplitResult
  double largest_bound = 0;
  bool equal = true;
  double joint_bound = 0;  ///< of all parameters together, relative to their movement
  LoosestBound loosest{};  ///< of one parameter, relative to its movement
  bool conclusive = true;  ///< whether joint_bound is at most a tenth
};

/// The time of a verification by part, in seconds.
struct VerifyTimes {
  double total = 0;
  double window = 0;     ///< the window once, as training runs it
  double windows = 0;    ///< planned for `total`, in windows of work; fp64 not counted
  double in_double = 0;  ///< the part of `total` in fp64
};

struct Report {
  bool equal = true;
  /// Whether `equal` is meaningful: a gradient error of 1% would have been detected in any matrix,
  /// bias or norm; and rounding, by the bounds of all parameters together, may change less than a
  /// tenth of the gradient, or fp64 agrees; and rounding may change less than a tenth of the
  /// movement by the optimizer's steps.
  bool conclusive = true;
  /// Why it is not conclusive, with the parameter, and what to change; empty if it is.
  std::string inconclusive{};
  /// Whether splits, orders, optimizer steps and the ranks asked for were all compared; `left_out`
  /// says what was not.
  bool complete = true;
  /// The samples compared, if not all: "splits, orders and steps on the first 4 of 64".
  std::string extent{};
  /// The largest of parameters[].relative_error. `bound` is that parameter's bound; if something is
  /// not equal, it is the bound of the parameter that exceeds its bound most. So `equal` and
  /// max_relative_error <= bound agree.
  double max_relative_error = 0;
  double bound = 0;
  Cause cause = Cause::none;
  Place place = Place::none;          ///< of a difference whose cause is unknown
  std::vector<Cause> besides{};       ///< further causes that were found
  std::optional<double> factor{};     ///< of a loop's gradient that is a multiple of the true one
  std::vector<std::string> evidence;  ///< comparisons made, and evidence for the cause
  std::vector<std::string> ruled_out{};         ///< other causes, each with the evidence against it
  std::vector<SmallestFault> smallest_fault{};  ///< what this run would have detected
  std::vector<std::string> left_out{};          ///< what was not compared, and how to compare it
  std::string reference;                        ///< "one pass over 64 samples"
  std::vector<ParameterError> parameters;
  std::vector<SplitResult> splits;
  std::vector<SkippedSplit> skipped{};  ///< splits that the model cannot run
  std::optional<StepsResult> steps;
  std::optional<VerifyTimes> times;
};

/// `cause` and further causes; empty if there is none.
std::vector<Cause> all_causes(const Report& report);

/// One sentence: the verdict and its reasons.
std::string conclusion(const Report& report);

/// The remedy for each cause, in one line; empty if there is none.
std::string advice(const Report& report);

}  // namespace accrue::proof
