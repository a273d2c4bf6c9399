#include "verify/running_errors.h"

#include <ATen/ATen.h>

#include <cmath>
#include <utility>

#include "verify/comparison.h"

namespace accrue::proof {
namespace {

using accum::Accumulation;

double worst_case_roundoff(Accumulation accumulation, at::ScalarType parameter) {
  if (accumulation == Accumulation::fp64) return 0x1p-53;
  if (accumulation == Accumulation::bf16_kahan) return roundoff_of(accumulation);
  return unit_roundoff(parameter == at::kDouble ? at::kDouble : at::kFloat);
}

}  // namespace

double roundoff_of(Accumulation accumulation) {
  return accumulation == Accumulation::bf16_kahan ? 0x1p-16 : 0x1p-8;
}

at::Tensor sum_of(const accum::GradientBuffer::Entry& entry) {
  if (entry.slot->fresh) return at::zeros_like(entry.parameter.detach());
  return entry.staged ? accum::source_of(entry).scaled_copy(1, entry.parameter)
                      : entry.slot->main.clone();
}

at::Tensor part_of_sum(const accum::GradientBuffer::Entry& entry, const ElementRange& part) {
  const auto part_of = [&part](const at::Tensor& whole) {
    return whole.detach().view({-1}).narrow(0, part.begin, part.elements);
  };
  if (entry.slot->fresh) return at::zeros_like(part_of(entry.parameter));
  if (!entry.staged) return part_of(entry.slot->main);
  return accum::source_of(entry).part(part).scaled_copy(1, part_of(entry.parameter));
}

RunningErrors::RunningErrors(const accum::GradientBuffer& buffer, std::vector<bool> divided,
                             RankSlice slice)
    : buffer_(buffer),
      divided_(std::move(divided)),
      slice_(slice),
      norms_(buffer.entries().size()),
      squares_(buffer.entries().size()) {}

/// The sum, or this rank's part of it.
at::Tensor RunningErrors::present_sum(std::size_t i) const {
  const accum::GradientBuffer::Entry& entry = buffer_.entries()[i];
  if (!divided_.empty() && divided_[i])
    return part_of_sum(entry, element_range_of(entry.parameter.numel(), i, slice_));
  return entry.staged ? sum_of(entry) : entry.slot->main;
}

void RunningErrors::added(std::int64_t micro_batches) {
  const auto times = static_cast<double>(micro_batches);
  count_ += times;
  units_ = buffer_.units();
  for (std::size_t i = 0; i < norms_.size(); ++i) {
    const accum::GradientBuffer::Entry& entry = buffer_.entries()[i];
    if (entry.slot->fresh) continue;
    const double norm = l2_norm(present_sum(i));
    if (!std::isfinite(norm) && not_finite_.empty()) not_finite_ = entry.name;
    norms_[i] += times * norm;
    squares_[i] += times * norm * norm;
  }
}

std::vector<double> RunningErrors::bounds() const {
  const Accumulation accumulation = buffer_.accumulation();
  std::vector<double> bounds;
  for (std::size_t i = 0; i < norms_.size(); ++i) {
    const at::Tensor& parameter = buffer_.entries()[i].parameter;
    if (accumulation == Accumulation::bf16_stochastic) {
      // Independent roundings, 6.5 sigma with the bound's factor of 4.
      bounds.push_back(6.5 / 4 * 0x1p-8 * std::sqrt(squares_[i]));
      continue;
    }
    bounds.push_back(worst_case_roundoff(accumulation, parameter.scalar_type()) * norms_[i]);
    if (i < units_.size())  // half a unit for each contribution
      bounds.back() +=
          count_ * std::ldexp(0.5, units_[i]) * std::sqrt(static_cast<double>(parameter.numel()));
  }
  return bounds;
}

}  // namespace accrue::proof
