#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "accrue/core/parameter.h"
#include "batch/schedule.h"

namespace accrue::proof {

/// How the samples of a batch are cut, in the order in which the parts are run.
using Parts = std::vector<batch::Range>;

enum class Mode { training, batch_norms_frozen, evaluation };

struct Conditions {
  Mode mode = Mode::training;
  std::uint64_t seed = 1;  ///< of the generator that foreign modules draw from
  /// Multiplies losses and weights alike: the mean gradient stays, but for its rounding. Windows of
  /// exact batch normalisation take none.
  double weighting = 1;
};

/// The gradient of a sum of losses, and what belongs to it.
struct Gradients {
  std::vector<at::Tensor> sums;  ///< as Subject::parameters(); zero if unused
  double weight = 0;
  double loss_sum = 0;
  /// How many terms were added up, as far as it is known: labels, or samples.
  double terms = 1;
  /// What adding up may have lost of each of Subject::parameters() (RoundingTerms::accumulation).
  std::vector<double> accumulation_errors;
  /// Whether rounding of the sums may go one way (a bf16 sum that stalls).
  bool sums_are_biased = false;
  double loss_roundoff = 0;  ///< u of the dtype that a pass had its loss in
  /// u of the dtype in which somebody scaled the loss: all of the gradient has that rounding.
  double scaling_roundoff = 0;
  /// Whether weight and loss_sum are those of passes; a user's loop leaves neither.
  bool has_totals = true;
};

/// `more` joins the sum, which is kept in fp64.
void add_to(Gradients& sum, const Gradients& more);

/// A model with its loss on a fixed batch. Passes leave parameters, buffers, `.grad` and the
/// generator as they were. A loss or gradient that is not finite, or a total weight of 0, is a
/// usage Error.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual const NamedParameters& parameters() const = 0;  ///< that are trained, tied ones once
  virtual std::int64_t samples() const = 0;
  /// Over all of `part` in one forward and backward pass, by autograd and ATen's operators: none of
  /// accrue's kernels, slots or windows take part. What all else is compared with.
  virtual Gradients one_pass(batch::Range part, const Conditions& conditions) = 0;
  /// one_pass() over several parts, added up in fp64, where one over all of them does not fit.
  virtual Gradients in_passes(const Parts& parts, const Conditions& conditions);
  /// Over all of `part` in one pass by the operations that training takes, in sums of its own.
  virtual Gradients native_pass(batch::Range part, const Conditions& conditions) {
    return accumulated({part}, conditions);
  }
  /// Over `parts`, added up as accrue does.
  virtual Gradients accumulated(const Parts& parts, const Conditions& conditions) = 0;
  /// Names of batch normalisations that take the statistics of a part, where the model tells them.
  virtual std::vector<std::string> batch_norms() const = 0;
  /// Whether masks may come from a generator that goes on from pass to pass.
  virtual bool draws_in_order() const { return true; }
  /// Names of the dropout layers that draw from one, where the model tells them.
  virtual std::vector<std::string> dropouts() const { return {}; }
  /// Whether a mode can be had.
  virtual bool can(Mode mode) const = 0;
  /// Whether a pass in training mode has moved a buffer.
  virtual bool buffers_moved() const = 0;
  /// The dtype below the parameters' that the loss was computed in, or empty.
  virtual std::string low_precision() const { return {}; }
  /// By which part of a gradient accumulated() may differ from one_pass() along one direction,
  /// since its operations round at other places.
  virtual double rounds_elsewhere() const { return 0; }
  /// u of the sums that accumulated() keeps, where these have less than the parameters' precision;
  /// 0 elsewhere: no rounding of them explains what exceeds its bound then. bf16's, if it is not
  /// known.
  virtual double sum_roundoff() const { return 0x1p-8; }
  /// Whether batch normalisation takes its statistics over all parts together (exact).
  virtual bool takes_statistics_of_window() const { return false; }
  /// The subject in fp64, which lives as long as the result; null if that cannot be had.
  virtual std::unique_ptr<Subject> in_double() = 0;
};

}  // namespace accrue::proof
