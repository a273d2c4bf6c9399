#pragma once

#include <functional>
#include <vector>

#include "support/snapshot.h"
#include "verify/diagnosis.h"
#include "verify/subject.h"

namespace accrue::proof {

/// u of a dtype: half the distance from 1 to the next number.
double unit_roundoff(at::ScalarType dtype);

double l2_norm(const at::Tensor& tensor);

/// Per parameter, of mean gradients.
struct Comparison {
  std::vector<double> error;
  std::vector<double> bound;
  std::vector<double> scale;  ///< what both are relative to

  double relative_error(std::size_t i) const { return error[i] / scale[i]; }
  double relative_bound(std::size_t i) const { return bound[i] / scale[i]; }
  std::size_t worst() const;    ///< by error / bound
  std::size_t largest() const;  ///< by the relative error
  Difference difference() const;
};

/// Noise of the mean gradient, per parameter (RoundingTerms::noise / weight).
using Noise = std::vector<double>;

using ScaledPass = std::function<Gradients(double weighting)>;

/// One draw: every parameter is moved by a unit in the last place, up or down at random by `seed`,
/// the loss is scaled by drawn_scale(seed), and what `pass` gives is compared with `reference`,
/// which it gave before. Raises `noise` to what was found; a parameter whose draw was small by
/// chance is given the usual noise, relative to its gradient.
void draw_noise(Noise& noise, const NamedParameters& parameters, const ScaledPass& pass,
                const Gradients& reference, std::uint64_t seed);

/// Between 1/2 and 1, exact in every dtype, and no power of two: a loss that is scaled by it rounds
/// every product and every partial sum of its backward pass anew.
double drawn_scale(std::uint64_t seed);

Comparison compare(const NamedParameters& parameters, const Gradients& actual,
                   const Gradients& reference, const Noise& noise);

/// A comparison whose bounds allow more than this part of the gradient proves nothing.
constexpr double most_conclusive_bound = 0.1;
/// The bounds of all parameters together, relative to the gradient.
double joint_bound(const Comparison& comparison, const Gradients& reference);

/// |mean gradient - mean reference| / |mean reference|, all parameters together.
double relative_error(const Gradients& actual, const Gradients& reference);

/// Keeps copies of the parameters and puts back those that moved.
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

/// Moves every element by a unit in the last place, up or down at random.
void perturb(const NamedParameters& parameters, std::uint64_t seed);

}  // namespace accrue::proof
