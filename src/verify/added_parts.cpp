#include "verify/added_parts.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "verify/comparison.h"

namespace accrue::proof {
namespace {

constexpr double fit_allowance = 4;
constexpr double loosest_fit = 0.05;
/// Their inner products, and a matrix of these, take a second.
constexpr std::size_t most_parts_fitted = 512;

Fit fit_sum(const Tensors& gradient, const Gradients& sum, double scale, double tolerance) {
  Fit fit = fit_multiple(gradient, sum.sums, tolerance);
  fit.factor /= scale;
  return fit;
}

}  // namespace

double tolerance_of_fits(double joint_bound) {
  return std::min(loosest_fit, fit_allowance * joint_bound);
}

void AddedParts::add(const Gradients& part) {
  add_to(total_, part);
  norms_ += l2_norm(total_.sums);
  for (std::size_t i = 0; in_bf16_ && i < part.sums.size(); ++i) {
    if (sum_in_bf16_.size() <= i)
      sum_in_bf16_.push_back(at::zeros(part.sums[i].sizes(), at::kBFloat16));
    sum_in_bf16_[i].copy_(sum_in_bf16_[i].to(part.sums[i].scalar_type()) + part.sums[i]);
  }
  if (expected_ <= most_parts_fitted) sketches_.push_back(sketch_of(part.sums));
}

/// The sum of the norms of all partial sums, relative to the norm of the total.
double AddedParts::norms_of_sums() const { return norms_ / std::max(l2_norm(total_.sums), 1e-300); }

std::optional<Fit> AddedParts::fit_span(const Tensors& gradient, double tolerance,
                                        std::vector<double>* coefficients) const {
  if (sketches_.empty()) return std::nullopt;
  const at::Tensor sketch = sketch_of(gradient);
  if (sketch.numel() <= 2 * std::ssize(sketches_)) return std::nullopt;
  std::vector<Tensors> parts;
  for (const at::Tensor& part : sketches_) parts.push_back({part});
  return proof::fit_span({sketch}, parts, tolerance, coefficients);
}

SumEvidence AddedParts::explain(const NamedParameters& parameters, const Gradients& training,
                                double sum_roundoff) const {
  const Comparison close = compare_closely(parameters, training, total_);
  SumEvidence added{.residual = relative_error(training, total_),
                    .keeps_sums = sum_roundoff == 0,
                    .sum_rounding = sum_roundoff * norms_of_sums(),
                    .tolerance = tolerance_of_fits(joint_bound(close))};
  const double scale = training.weight / total_.weight;
  added.multiple = fit_sum(training.sums, total_, scale, added.tolerance);
  added.span = fit_span(training.sums, added.tolerance, &added.shares);
  for (double& share : added.shares) share /= scale;
  if (in_bf16_) {
    Gradients rounded{.sums = sum_in_bf16_, .weight = total_.weight};
    for (at::Tensor& sum : rounded.sums) sum = sum.to(at::kFloat);
    added.residual_in_bf16 = relative_error(training, rounded);
  }
  return added;
}

}  // namespace accrue::proof
