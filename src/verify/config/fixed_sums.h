#pragma once

#include <optional>
#include <string>
#include <vector>

#include "accrue/accum/gradient_buffer.h"
#include "accrue/verify/report.h"
#include "verify/subject.h"

namespace accrue::proof {

/// A window's unscaled fixed-point sums, in units (docs/numerics.md, "Accumulation precisions").
struct FixedPoint {
  std::vector<at::Tensor> sums;  ///< fp64, exact
  std::vector<int> units;        ///< exponents of 2
};
/// From `buffer`, while it holds the sums of a closed window, accumulated in these `units`.
FixedPoint fixed_point_of(const accum::GradientBuffer& buffer, std::vector<int> units);

/// Adds up the gradients of separate micro-batches by the definition of fixed-point sums: each
/// contribution rounded to the nearest unit, ties to even, and the integers added.
class FixedSums {
 public:
  /// `shared` parameters (Trainable::shared_parameters) are left_out(): they get several
  /// contributions per micro-batch, of which only the sum is known here.
  FixedSums(FixedPoint of_training, const NamedParameters& parameters,
            const std::vector<std::string>& shared);
  /// Call for each of the window's micro-batches with its gradient in fp32.
  void add(const Gradients& part);
  /// Training's sums must equal these to the last unit. Nothing if all are left out.
  std::optional<SplitResult> result(std::int64_t samples) const;
  const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  double unit(std::size_t i) const;

  FixedPoint of_training_;
  const NamedParameters& parameters_;
  std::vector<std::size_t> compared_;  ///< indices of parameters
  std::vector<at::Tensor> sums_;       ///< in units, fp64, exact
  std::vector<std::string> left_out_;  ///< names
  std::int64_t parts_ = 0;
};

}  // namespace accrue::proof
