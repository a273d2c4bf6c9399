#include "feedback_compressor.h"

#include <ATen/ATen.h>

#include <cmath>
#include <utility>

#include "accrue/core/error.h"
#include "named_state.h"

namespace accrue::dist {

FeedbackCompressor::FeedbackCompressor(std::string name, std::int64_t elements, std::int64_t world)
    : name_(std::move(name)), world_(world) {
  if (elements < 0) refuse("0 elements or more", std::to_string(elements));
  if (world < 1) refuse("a world size of at least 1", std::to_string(world));
  residual_ = at::zeros({elements}, at::kFloat);
  unit_ = at::zeros({}, at::kDouble);
  keep("residual", residual_);
  keep("unit", unit_);
}

CompressedSum FeedbackCompressor::sum(const at::Tensor& values, double unit, Exchange& exchange) {
  require(values, unit, exchange);
  const at::NoGradGuard no_grad;
  const double conversion = unit_.item<double>() / unit;
  values.add_(residual_, conversion);
  const CompressedSum result = sum_corrected(values, conversion, exchange);
  if (result.finite) unit_.fill_(unit);
  return result;
}

void FeedbackCompressor::load_state(const StoredTensors& state) {
  load_by_name(state_, state, operation());
}

void FeedbackCompressor::refuse(const std::string& expected, const std::string& received) const {
  throw usage_error(operation(), expected, received,
                    "the model, ranks and checkpoint that it was made for");
}

std::string FeedbackCompressor::operation() const { return "compress gradients with " + name_; }

void FeedbackCompressor::require(const at::Tensor& values, double unit,
                                 const Exchange& exchange) const {
  if (values.scalar_type() != at::kFloat || values.sizes() != residual_.sizes() ||
      !values.is_contiguous() || !values.device().is_cpu())
    refuse("contiguous values on the CPU, " + in_words(at::kFloat, residual_.sizes()),
           in_words(values.scalar_type(), values.sizes()));
  if (exchange.world() != world_)
    refuse(std::to_string(world_) + " ranks", std::to_string(exchange.world()));
  if (!std::isfinite(unit) || unit <= 0) refuse("a unit above 0", std::to_string(unit));
}

}  // namespace accrue::dist
