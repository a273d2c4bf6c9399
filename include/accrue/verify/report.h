#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/core/enum_words.h"

namespace accrue::proof {

/// Why an accumulated gradient is not that of the full batch.
enum class Cause {
  none,
  batchnorm,                 ///< statistics of the micro-batch instead of the batch
  dropout,                   ///< masks drawn in the order of the passes
  weighting,                 ///< micro-batches count by something else than their weights
  normalization,             ///< a constant factor
  precision,                 ///< rounding beyond that of the parameters' dtype
  nondeterminism,            ///< the same pass twice gives two results
  batch_coupled_loss,        ///< a loss that is no sum over samples
  unknown,                   ///< none of the others; the evidence says what was ruled out
  zeroed_mid_window,         ///< gradients were cleared between the micro-batches of a window
  stepped_mid_window,        ///< parameters were changed between them
  schedule_per_micro_batch,  ///< the learning rate's schedule was stepped between them
  decay_per_micro_batch,     ///< parameters were decayed between them
  clip_per_micro_batch,      ///< gradients were clipped between them, or each by itself
  packing_leak,              ///< documents that share a row see each other
  last_window,               ///< a short last window: dropped, or divided by the length of others
  scaled_twice,              ///< divided by the number of micro-batches once too often
  last_micro_batch_only,     ///< of a window's micro-batches, only the last one reached `.grad`
  device_mean,               ///< the mean over ranks of their own means
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

/// Where a difference lies whose cause is `unknown`.
enum class Place {
  none,          ///< there is none
  window,        ///< what training makes of micro-batches that are sound each by itself
  operations,    ///< accrue's operations, beside ATen's operators
  sums,          ///< sums of the same gradients, taken by two ways
  steps,         ///< the optimizer's steps, from gradients that agree
  frozen,        ///< a parameter that is not trained
  data,          ///< which samples and labels a run takes
  not_finite,    ///< training's way gives what is not finite, a plain pass does not
  not_searched,  ///< the search for the cause was not finished
};

/// One parameter's error: that of all comparisons that came nearest to its bound or exceeds it
/// most. Both are relative to the norm of the parameter's reference gradient (or, where that all
/// but vanishes, to a thousandth of what is usual for an element of the model), L2.
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

/// The smallest fault of a kind that would have been noticed.
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
  std::string splits;  ///< "micro-batches of 4 and of 2, against torch::optim"
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

/// If a verification's time went, seconds.
struct VerifyTimes {
  double total = 0;
  double window = 0;     ///< the window once, as training runs it
  double windows = 0;    ///< what was planned for `total`, in windows of work; fp64 not counted
  double in_double = 0;  ///< of `total`, the part in fp64
};

struct Report {
  bool equal = true;
  /// Whether `equal` says something: a gradient that is off by 1% would have been noticed in any
  /// matrix, bias or norm, and rounding, by the bounds of all parameters together, may change less
  /// than a tenth of the gradient, or fp64 agrees; and rounding may change less than a tenth of the
  /// movement by the optimizer's steps.
  bool conclusive = true;
  /// Why it is not conclusive, with the parameter, and what to change; empty if it is.
  std::string inconclusive{};
  /// Whether splits, orders, optimizer steps and the ranks asked for were all compared; `left_out`
  /// says what was not.
  bool complete = true;
  /// On which samples, if that is not all: "splits, orders and steps on the first 4 of 64".
  std::string extent{};
  /// Largest of parameters[].relative_error. `bound` is that parameter's; where something is not
  /// equal, the bound of the parameter that exceeds its own most. So `equal` and
  /// max_relative_error <= bound agree.
  double max_relative_error = 0;
  double bound = 0;
  Cause cause = Cause::none;
  Place place = Place::none;          ///< of a difference whose cause is unknown
  std::vector<Cause> besides{};       ///< further causes that were found
  std::optional<double> factor{};     ///< of a loop's gradient that is so many times the true one
  std::vector<std::string> evidence;  ///< what was compared, and what told the cause from others
  std::vector<std::string> ruled_out{};         ///< other causes, each with what speaks against it
  std::vector<SmallestFault> smallest_fault{};  ///< what this run would have noticed
  std::vector<std::string> left_out{};          ///< what was not compared, and how to have it
  std::string reference;                        ///< "one pass over 64 samples"
  std::vector<ParameterError> parameters;
  std::vector<SplitResult> splits;
  std::vector<SkippedSplit> skipped{};  ///< splits that the model does not run
  std::optional<StepsResult> steps;
  std::optional<VerifyTimes> times;
};

/// `cause` and those besides it; empty if there is none.
std::vector<Cause> all_causes(const Report& report);

/// One sentence: the verdict and its reasons.
std::string conclusion(const Report& report);

/// What to do about each cause, in one line; empty if there is none.
std::string advice(const Report& report);

}  // namespace accrue::proof
