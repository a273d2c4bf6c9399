#pragma once

#include <optional>
#include <vector>

#include "verify/diagnosis.h"
#include "verify/fit.h"
#include "verify/subject.h"

namespace accrue::proof {

/// Gradients of the parts of a window, each in a pass by itself, as they are needed to explain what
/// became of them together. Each is kept as a Sketch only.
class AddedParts {
 public:
  /// Expects so many parts. `in_bf16`: they are added up in bf16 as well.
  explicit AddedParts(std::size_t parts, bool in_bf16 = false)
      : expected_(parts), in_bf16_(in_bf16) {}

  void add(const Gradients& part);
  /// The sum of the parts, in fp64.
  const Gradients& total() const { return total_; }
  /// The combination nearest to `gradient`; nothing if there are more parts than are kept, or
  /// too few elements to tell them apart.
  std::optional<Fit> fit_span(const Tensors& gradient, double tolerance,
                              std::vector<double>* coefficients = nullptr) const;
  /// Why `training` is not their sum, by measurements. `sum_roundoff` as Subject's.
  AddedUp explain(const NamedParameters& parameters, const Gradients& training,
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

/// Fits leave this many times what the bounds allow, as several passes are combined, and no more
/// than a twentieth of the gradient.
double tolerance_of_fits(double joint_bound);

}  // namespace accrue::proof
