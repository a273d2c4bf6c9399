#include "distributed/compress/feedback_compressor.h"

#include <ATen/ATen.h>

#include <cmath>
#include <utility>

#include "accrue/core/error.h"
#include "distributed/compress/named_state.h"

namespace accrue::distributed {
namespace {

constexpr const char* kKept = "kept";
/// How many elements are summed at once, to bound the temporaries.
constexpr std::int64_t kPieceElements = 1 << 20;

}  // namespace

FeedbackCompressor::FeedbackCompressor(std::string name, std::int64_t elements, std::int64_t world)
    : name_(std::move(name)), world_(world) {
  if (elements < 0) refuse("0 elements or more", std::to_string(elements));
  if (world < 1) refuse("a world size of at least 1", std::to_string(world));
  residual_ = at::zeros({elements}, at::kFloat);
  unit_ = at::zeros({}, at::kDouble);
  share("unit", unit_);
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

NamedParameters FeedbackCompressor::state(Exchange& exchange) const {
  const at::NoGradGuard no_grad;
  const at::Tensor kept = residual_.clone();
  add_kept(kept, exchange.rank());
  for (const at::Tensor& piece : kept.split(kPieceElements)) ordered_sum(piece, exchange);
  NamedParameters state{{kKept, kept}};
  for (const auto& [name, tensor] : shared_) state.push_back({name, tensor.clone()});
  return state;
}

void FeedbackCompressor::load_state(const StoredTensors& state, std::int64_t rank) {
  const at::NoGradGuard no_grad;
  NamedParameters own = shared_;
  own.push_back({kKept, at::empty_like(residual_)});
  load_by_name(own, state, operation());
  take_kept(own.back().tensor, rank);
}

void FeedbackCompressor::add_kept(const at::Tensor&, std::int64_t) const {}

void FeedbackCompressor::take_kept(const at::Tensor& kept, std::int64_t rank) {
  residual_.zero_();
  if (rank == 0) residual_.copy_(kept);
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

}  // namespace accrue::distributed
