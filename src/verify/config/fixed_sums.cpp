#include "verify/config/fixed_sums.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "verify/comparison.h"

namespace accrue::proof {

FixedPoint fixed_point_of(const accum::GradientBuffer& buffer, std::vector<int> units) {
  FixedPoint result{.units = std::move(units)};
  for (const accum::GradientBuffer::Entry& entry : buffer.entries()) {
    at::Tensor sum = at::empty(entry.parameter.sizes(), at::kDouble);
    accum::source_of(entry).read(0, sum.numel(), sum.mutable_data_ptr<double>());
    result.sums.push_back(std::move(sum));
  }
  return result;
}

FixedSums::FixedSums(FixedPoint of_training, const NamedParameters& parameters,
                     const std::vector<std::string>& shared)
    : of_training_(std::move(of_training)), parameters_(parameters) {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    sums_.push_back(at::zeros(parameters[i].tensor.sizes(), at::kDouble));
    if (std::ranges::find(shared, parameters[i].name) == shared.end())
      compared_.push_back(i);
    else
      left_out_.push_back(parameters[i].name);
  }
}

double FixedSums::unit(std::size_t i) const { return std::ldexp(1.0, of_training_.units[i]); }

void FixedSums::add(const Gradients& part) {
  ++parts_;
  for (const std::size_t i : compared_)
    sums_[i].add_(at::round(part.sums[i].to(at::kDouble) / unit(i)));  // ties to even
}

std::optional<SplitResult> FixedSums::result(std::int64_t samples) const {
  if (compared_.empty()) return std::nullopt;
  SplitResult result{.name = "fixed-point sums, to the unit",
                     .samples = samples,
                     .micro_batches = parts_,
                     .parameter = parameters_[compared_.front()].name};
  for (const std::size_t i : compared_) {
    const double off = (of_training_.sums[i] / unit(i) - sums_[i]).abs().max().item<double>();
    const double relative = off / std::max(1.0, sums_[i].abs().max().item<double>());
    if (!(relative > result.largest_error) && !std::isnan(relative)) continue;
    result.parameter = parameters_[i].name;
    result.relative_error = result.largest_error = relative;
    result.equal = false;
  }
  return result;
}

}  // namespace accrue::proof
