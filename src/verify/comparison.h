#pragma once

#include <string>
#include <vector>

#include "accrue/verify/report.h"
#include "support/rounding.h"
#include "support/snapshot.h"
#include "verify/diagnosis.h"
#include "verify/noise.h"
#include "verify/subject.h"

namespace accrue::proof {

using accrue::l2_norm;
/// Of all tensors together; undefined ones are skipped.
double l2_norm(const std::vector<at::Tensor>& tensors);
std::vector<double> mean_norms(const Gradients& gradients);
/// Of the mean gradients of parameter `i`, in the actual one's dtype.
at::Tensor mean_difference(const Gradients& actual, const Gradients& reference, std::size_t i);

/// The measure of a difference.
enum class Measure {
  norm,      ///< its L2 norm
  gradient,  ///< its component along the gradient: shows a scaled gradient
  ones,      ///< its component along the vector of ones
};

/// One measure of one difference, with its bound from rounding.
struct Evidence {
  double error = 0;
  double bound = 0;
  Measure measure = Measure::norm;
  /// error / bound; infinite if either is not finite, or an error has no bound.
  double ratio() const;
  bool exceeds() const { return ratio() > 1; }
};

/// Of one parameter's mean gradients, or of all of them together.
struct ParameterComparison {
  Evidence norm;
  std::vector<Evidence> along;
  double scale = 1;           ///< the unit of errors and bounds
  double reference_norm = 0;  ///< of one parameter's mean reference gradient
  double factor = 1;  ///< the multiple of the reference that is nearest to the actual gradient

  /// The measure whose error is largest relative to its bound.
  const Evidence& worst() const;
  /// The norm, or the worst measure if a bound is exceeded, relative to `scale`.
  Evidence shown() const;
  /// Whether the reference gradient is far smaller than is usual for the other parameters.
  bool is_faint() const { return reference_norm < scale; }
};

struct Comparison {
  std::vector<ParameterComparison> parameters;
  ParameterComparison together;  ///< of all parameters, along the gradient only
  Evidence loss;                 ///< of the mean loss, relative
  Evidence weight;               ///< of the total weight, relative

  std::size_t worst() const;    ///< the parameter whose worst() exceeds its bound most
  std::size_t largest() const;  ///< by the relative norm
  bool exceeds() const { return difference().exceeds(); }
  /// The worst of all comparisons.
  Difference difference() const;
};

/// `noise` without draws: bounds are only those of the sums' rounding.
Comparison compare(const NamedParameters& parameters, const Gradients& actual,
                   const Gradients& reference, const Noise& noise);

/// Compares sums of gradients that rounded identically: only the summation may differ. Their terms
/// (Gradients::terms of the reference; a table's rows) may be added in another order, with an error
/// of half the root of their number.
Comparison compare_closely(const NamedParameters& parameters, Gradients actual,
                           const Gradients& reference);

/// A comparison whose bounds allow more than this fraction of the gradient proves nothing.
constexpr double most_conclusive_bound = 0.1;
/// The bounds of all parameters' norms together, relative to the gradient.
double joint_bound(const Comparison& comparison);

/// The parameter whose bound is largest beside its gradient, of those whose gradient is not faint.
LoosestBound loosest_bound(const NamedParameters& parameters, const Comparison& comparison);
/// "rounding may change 0.3 of the gradient, most in w (0.9 of its own)"; `joint` is of all
/// parameters (joint_bound).
std::string what_rounding_may_change(double joint, const LoosestBound& loosest);

/// Whether the bounds leave little enough: of all parameters together at most
/// most_conclusive_bound, and of each whose gradient is not faint less than that gradient itself.
bool are_conclusive(const Comparison& comparison);

/// |mean gradient - mean reference| / |mean reference|, all parameters together.
double relative_error(const Gradients& actual, const Gradients& reference);

/// Keeps copies of the parameters and restores those that changed.
class KeepParameters {
 public:
  explicit KeepParameters(const NamedParameters& parameters) : values_(parameters) {}
  ~KeepParameters() { values_.restore_moved(); }
  KeepParameters(const KeepParameters&) = delete;
  KeepParameters& operator=(const KeepParameters&) = delete;
  bool changed() const { return values_.moved(); }

 private:
  TensorSnapshot values_;
};

}  // namespace accrue::proof
