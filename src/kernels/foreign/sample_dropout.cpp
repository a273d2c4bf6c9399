#include "kernels/foreign/sample_dropout.h"

#include <ATen/ATen.h>

#include <vector>

#include "kernels/operations.h"

namespace accrue::kernels {
namespace {

/// Dropout of a tensor whose first dimension is divided equally among the samples, in order.
at::Tensor drop_shares(const at::Tensor& x, double probability, const ForwardContext& context,
                       std::int64_t site) {
  const auto samples = static_cast<std::int64_t>(context.sample_ids.size());
  const std::int64_t columns = x.dim() > 1 ? x.size(-1) : 1;
  ForwardContext training = context;
  training.training = true;
  return operations_of(context)
      .dropout(x.reshape({samples, -1, columns}), probability, training, site)
      .reshape(x.sizes())
      .to(x.scalar_type());
}

}  // namespace

SampleLayout sample_layout(const at::Tensor& x, std::int64_t samples) {
  if (x.dim() == 0 || samples == 0) return SampleLayout::unknown;
  if (x.size(0) == samples) return SampleLayout::first;
  if (x.dim() >= 3 && x.size(1) == samples) return SampleLayout::second;
  if (x.dim() >= 2 && x.size(0) % samples == 0) return SampleLayout::shares;
  return SampleLayout::unknown;
}

bool is_layout_ambiguous(const at::Tensor& x, std::int64_t samples) {
  return samples > 1 && x.dim() >= 3 && x.size(0) == samples && x.size(1) == samples;
}

std::int64_t rows_of_sample(const at::Tensor& x, std::int64_t samples) {
  return sample_layout(x, samples) == SampleLayout::second ? 0 : x.size(0) / samples;
}

at::Tensor sample_dropout(const at::Tensor& x, double probability, const ForwardContext& context,
                          std::int64_t site) {
  const auto samples = static_cast<std::int64_t>(context.sample_ids.size());
  if (sample_layout(x, samples) != SampleLayout::second)
    return drop_shares(x, probability, context, site);
  return drop_shares(x.transpose(0, 1), probability, context, site).transpose(0, 1);
}

at::Tensor sample_factors(const at::Tensor& x, double probability, const ForwardContext& context,
                          std::int64_t site) {
  const at::NoGradGuard constant;
  return sample_dropout(at::ones(x.sizes(), x.options()), probability, context, site);
}

at::Tensor feature_factors(const at::Tensor& x, double probability, const ForwardContext& context,
                           std::int64_t site) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(x.dim()), 1);
  sizes[0] = x.size(0);
  sizes[1] = x.size(1);
  return sample_factors(at::empty({x.size(0), x.size(1)}, x.options()), probability, context, site)
      .view(sizes);
}

}  // namespace accrue::kernels
