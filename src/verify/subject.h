#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "accrue/core/parameter.h"
#include "batch/schedule.h"

namespace accrue::proof {

/// The ranges into which the samples of a batch are split, in the order in which they run.
using Parts = std::vector<batch::Range>;

enum class Mode { training, batch_norms_frozen, evaluation };

struct Conditions {
  Mode mode = Mode::training;
  std::uint64_t seed = 1;  ///< of the generator that foreign modules draw from
  /// The factor of losses and weights: the mean gradient stays the same, except for its rounding.
  /// Not supported by windows of exact batch normalisation.
  double weighting = 1;
};

/// The gradient of a sum of losses, with related values.
struct Gradients {
  std::vector<at::Tensor> sums;  ///< in order of Subject::parameters(); zero if unused
  double weight = 0;
  double loss_sum = 0;
  /// The number of terms that were added up, as far as it is known: labels, or samples.
  double terms = 1;
  /// The accumulation error of each of Subject::parameters() (RoundingTerms::accumulation).
  std::vector<double> accumulation_errors;
  /// Whether rounding of the sums may be biased (a bf16 sum that stalls).
  bool sums_are_biased = false;
  double loss_roundoff = 0;  ///< u of the dtype of a pass's loss
  /// u of the dtype in which the loss was scaled: all of the gradient has that rounding.
  double scaling_roundoff = 0;
  /// Whether weight and loss_sum are those of passes; a user's loop sets neither.
  bool has_totals = true;
};

/// Adds `more` to the sum, which is kept in fp64.
void add_to(Gradients& sum, const Gradients& more);

/// A model with its loss on a fixed batch. Passes restore parameters, buffers, `.grad` and
/// the generator. A loss or gradient that is not finite, or a total weight of 0, is a usage
/// Error.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual const NamedParameters& parameters() const = 0;  ///< trained ones, tied ones once
  virtual std::int64_t samples() const = 0;
  /// Over all of `part` in one forward and backward pass, by autograd and ATen's operators, without
  /// accrue's kernels, slots or windows. The reference of all comparisons.
  virtual Gradients one_pass(batch::Range part, const Conditions& conditions) = 0;
  /// one_pass() over several parts, added up in fp64, if one over all of them does not fit.
  virtual Gradients in_passes(const Parts& parts, const Conditions& conditions);
  /// Over all of `part` in one pass by training's operations, in separate sums.
  virtual Gradients native_pass(batch::Range part, const Conditions& conditions) {
    return accumulated({part}, conditions);
  }
  /// Over `parts`, accumulated by accrue.
  virtual Gradients accumulated(const Parts& parts, const Conditions& conditions) = 0;
  /// Names of batch normalisations that use the statistics of a part, if the model lists them.
  virtual std::vector<std::string> batch_norms() const = 0;
  /// Whether masks may come from a generator that continues from pass to pass.
  virtual bool draws_in_order() const { return true; }
  /// Names of the dropout layers that draw from one, if the model lists them.
  virtual std::vector<std::string> dropouts() const { return {}; }
  /// Whether a mode is available.
  virtual bool can(Mode mode) const = 0;
  /// Whether a pass in training mode has changed a buffer.
  virtual bool buffers_moved() const = 0;
  /// The dtype below the parameters' in which the loss was computed, or empty.
  virtual std::string low_precision() const { return {}; }
  /// The fraction of a gradient by which accumulated() may differ from one_pass() along one
  /// direction, because its operations round at other places.
  virtual double rounds_elsewhere() const { return 0; }
  /// u of the sums of accumulated(), if these have less than the parameters' precision;
  /// otherwise 0: rounding of sums then explains no excess over the bound. That of bf16, if it
  /// is unknown.
  virtual double sum_roundoff() const { return 0x1p-8; }
  /// Whether batch normalisation uses statistics over all parts together (exact).
  virtual bool takes_statistics_of_window() const { return false; }
  /// The subject in fp64, which lives as long as the result; null if not available.
  virtual std::unique_ptr<Subject> in_double() = 0;
};

}  // namespace accrue::proof
