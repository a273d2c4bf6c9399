#pragma once

#include <vector>

#include "accrue/verify/diagnosis.h"
#include "subject.h"

namespace accrue::proof {

/// u of a dtype: half the distance from 1 to the next number.
double unit_roundoff(at::ScalarType dtype);

double l2_norm(const at::Tensor& tensor);

/// Per parameter, of mean gradients.
struct Comparison {
  std::vector<double> error;
  std::vector<double> bound;
  std::vector<double> scale;  ///< what both are relative to

  std::size_t worst() const;  ///< by error / bound
  Difference difference() const;
};

/// Noise of the mean gradient, per parameter (RoundingTerms::noise / weight).
using Noise = std::vector<double>;

/// `draws` times: every parameter is moved by a unit in the last place, up or down at random, and
/// one pass over `part` compared with `reference`. A parameter whose draws were small by chance is
/// given the usual noise, relative to its gradient.
Noise measure_noise(Subject& subject, batch::Range part, const Gradients& reference, int draws);

Comparison compare(const NamedParameters& parameters, const Gradients& actual,
                   const Gradients& reference, const Noise& noise);

/// |mean gradient - mean reference| / |mean reference|, all parameters together.
double relative_error(const Gradients& actual, const Gradients& reference);

/// Keeps copies of the parameters and puts them back.
class KeepParameters {
 public:
  explicit KeepParameters(const NamedParameters& parameters);
  ~KeepParameters();
  KeepParameters(const KeepParameters&) = delete;
  KeepParameters& operator=(const KeepParameters&) = delete;
  bool changed() const;
  const std::vector<at::Tensor>& copies() const { return copies_; }

 private:
  std::vector<at::Tensor> tensors_, copies_;
};

/// Moves every element by a unit in the last place, up or down at random.
void perturb(const NamedParameters& parameters, std::uint64_t seed);

}  // namespace accrue::proof
