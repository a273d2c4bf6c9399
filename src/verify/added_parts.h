#pragma once

#include <optional>
#include <vector>

#include "verify/diagnosis.h"
#include "verify/fit.h"
#include "verify/subject.h"

namespace accrue::proof {

/// Gradients of the parts of a window, each from a separate pass, to explain the difference of
/// their accumulated gradient. Only a Sketch of each is kept.
class AddedParts {
 public:
  /// Expects this number of parts. `in_bf16`: their sum is computed in bf16 as well.
  explicit AddedParts(std::size_t parts, bool in_bf16 = false)
      : expected_(parts), in_bf16_(in_bf16) {}

  void add(const Gradients& part);
  /// The sum of the parts, in fp64.
  const Gradients& total() const { return total_; }
  /// The combination nearest to `gradient`; nothing if there are more parts than are kept, or too
  /// few elements to distinguish them.
  std::optional<Fit> fit_span(const Tensors& gradient, double tolerance,
                              std::vector<double>* coefficients = nullptr) const;
  /// The reason why `training` is not their sum, by measurements. `sum_roundoff` as in Subject.
  SumEvidence explain(const NamedParameters& parameters, const Gradients& training,
                      double sum_roundoff) const;

 private:
  double norms_of_sums() const;

  std::size_t expected_;
  bool in_bf16_;
  Gradients total_;
  double norms_ = 0;
  Tensors sum_in_bf16_;
  std::vector<at::Tensor> sketches_;
};

/// The residual allowed for fits: this multiple of the bounds, since several passes are combined,
/// and at most a twentieth of the gradient.
double tolerance_of_fits(double joint_bound);

}  // namespace accrue::proof
