#include "models/layers/adapter.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "accrue/kernels/dropout.h"
#include "accrue/models/adapter_options.h"
#include "kernels/blocks/block_matrix.h"
#include "kernels/operations.h"

namespace accrue::models {
namespace {

/// So few rows at a time that the temporaries are a small part of a layer's memory.
constexpr std::int64_t rows_at_once = 256;

}  // namespace

double AdapterOptions::scale() const {
  const auto r = static_cast<double>(rank);
  return alpha_or_usual() / (rank_stabilised ? std::sqrt(r) : r);
}

const at::Tensor& RowNorms::of(const at::Tensor& weight, const kernels::LowRank& factors) {
  const auto seen = [](const at::Tensor& tensor) {
    return Seen{tensor.const_data_ptr(), static_cast<std::int64_t>(tensor._version())};
  };
  const std::array now{seen(weight), seen(factors.a), seen(factors.b)};
  if (norms_.defined() && now == seen_) return norms_;
  const at::NoGradGuard no_grad;
  const at::ScalarType dtype = factors.a.scalar_type();
  at::Tensor norms = at::empty({weight.size(0)}, factors.a.options().requires_grad(false));
  for (std::int64_t row = 0; row < weight.size(0); row += rows_at_once) {
    const std::int64_t rows = std::min(rows_at_once, weight.size(0) - row);
    const at::Tensor adapted =
        at::addmm(kernels::unpacked(weight.narrow(0, row, rows), dtype),
                  factors.b.narrow(0, row, rows), factors.a, 1, factors.scale);
    norms.narrow(0, row, rows).copy_(adapted.norm(2, {1}));
  }
  norms_ = norms;
  seen_ = now;
  return norms_;
}

at::Tensor Adapter::dropped(const at::Tensor& x, const ForwardContext& context) const {
  if (!context.training || dropout == 0) return {};
  return kernels::operations_of(context).dropout(x, dropout, context, site);
}

kernels::Remake Adapter::remake_dropped(const at::Tensor& x, const kernels::Remake& remake_x,
                                        const ForwardContext& context) const {
  if (!context.training || dropout == 0) return remake_x;
  const auto drop = [p = dropout, at_site = site, context](const at::Tensor& input) {
    return kernels::dropout(input, p, context, at_site);
  };
  if (remake_x) return [drop, remake_x] { return drop(remake_x()); };
  return [drop, input = x.detach()] { return drop(input); };
}

at::Tensor Adapter::rescaled(const at::Tensor& y, const at::Tensor& weight,
                             const at::Tensor& bias) {
  at::Tensor result = y * (magnitude / norms.of(weight, factors));
  if (bias.defined()) result = result + bias;
  return result.to(y.scalar_type());
}

}  // namespace accrue::models
