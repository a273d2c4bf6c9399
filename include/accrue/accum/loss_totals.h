#pragma once

#include <cstddef>
#include <vector>

#include "accrue/core/loss.h"

namespace accrue {

/// Several losses of one window, each a mean over its own terms. The total is Σ c_i S_i / W_i, with
/// S_i and W_i summed over the whole window.
///
/// One gradient buffer holds Σ f_i ∇S_i with f_i = c_i W_r / W_i, and closing divides by W_r. The
/// reference r is the first loss that has weight. So the ratios of the total weights must be known
/// before the first backward, from the labels. A loss without weight in the whole window
/// contributes nothing.
class LossTotals {
 public:
  /// `totals`: W, one per loss, finite and >= 0. `coefficients`: c, finite, one per loss, or empty
  /// for 1 each. Throws a usage Error otherwise.
  LossTotals(std::vector<double> totals, std::vector<double> coefficients = {});

  std::size_t size() const { return totals_.size(); }
  const std::vector<double>& totals() const { return totals_; }
  const std::vector<double>& coefficients() const { return coefficients_; }
  std::size_t reference() const { return reference_; }
  const std::vector<double>& factors() const { return factors_; }

  /// Combines the losses of a micro-batch into {Σ f_i S_i, w_r}. The sum requires no gradient if
  /// none of them counts. Throws a usage Error if their number differs from size().
  Loss combine(const std::vector<Loss>& losses) const;

  /// Subtracts the weights of a micro-batch from the totals. Returns whether the factors changed:
  /// gradients accumulated with the old factors must then be computed again.
  bool quarantine(const std::vector<double>& weights);

  bool operator==(const LossTotals&) const = default;

 private:
  void derive_factors();

  std::vector<double> totals_, coefficients_, factors_;
  std::size_t reference_ = 0;
};

}  // namespace accrue
