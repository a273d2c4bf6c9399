#include "distributed/schedule/outer_step.h"

#include <ATen/ATen.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "accrue/core/error.h"
#include "distributed/compress/named_state.h"

namespace accrue::distributed {
namespace {

const char* const kOuterStep = "outer step";

[[noreturn]] void refuse(const std::string& expected, const std::string& received) {
  throw usage_error(kOuterStep, expected, received, "another dist.local_steps or dist.outer");
}

void require_valid(const OuterOptions& options) {
  if (options.local_steps < 1) refuse("at least 1 local step", std::to_string(options.local_steps));
  if (!std::isfinite(options.lr) || options.lr <= 0)
    refuse("a learning rate above 0", std::to_string(options.lr));
  if (!(options.momentum >= 0 && options.momentum < 1))
    refuse("a momentum in [0, 1)", std::to_string(options.momentum));
}

void require_one_dtype(const NamedParameters& parameters) {
  if (parameters.empty()) refuse("at least one parameter", "none");
  const at::ScalarType dtype = parameters.front().tensor.scalar_type();
  for (const auto& [name, tensor] : parameters)
    if (tensor.scalar_type() != dtype || (dtype != at::kFloat && dtype != at::kDouble))
      throw usage_error(kOuterStep, "parameters all in fp32 or all in fp64",
                        name + " in " + at::toString(tensor.scalar_type()), "fp32 masters");
}

}  // namespace

OuterStep::OuterStep(NamedParameters parameters, const OuterOptions& options)
    : parameters_(std::move(parameters)), options_(options) {
  require_valid(options_);
  require_one_dtype(parameters_);
  start_ = flat_parameters();
  if (options_.momentum > 0) velocity_ = at::zeros_like(start_);
}

at::Tensor OuterStep::difference() const {
  const at::NoGradGuard no_grad;
  return flat_parameters().neg_().add_(start_);
}

void OuterStep::step(const at::Tensor& mean_difference) {
  if (mean_difference.sizes() != start_.sizes() ||
      mean_difference.scalar_type() != start_.scalar_type())
    refuse(in_words(start_.scalar_type(), start_.sizes()),
           in_words(mean_difference.scalar_type(), mean_difference.sizes()));
  const at::NoGradGuard no_grad;
  if (!at::isfinite(mean_difference).all().item<bool>())
    throw runtime_error(kOuterStep, "finite parameters on every rank", "a mean that is not finite",
                        "resuming from the last checkpoint");
  start_.sub_(mean_difference, options_.lr);
  if (velocity_.defined()) {
    velocity_.mul_(options_.momentum).add_(mean_difference);
    start_.sub_(velocity_, options_.lr * options_.momentum);
  }
  write_parameters(start_);
}

NamedParameters OuterStep::state() const {
  NamedParameters state{{"start", start_}};
  if (velocity_.defined()) state.push_back({"velocity", velocity_});
  return state;
}

void OuterStep::load_state(const StoredTensors& state) {
  load_by_name(this->state(), state, kOuterStep);
}

at::Tensor OuterStep::flat_parameters() const {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> flat;
  for (const NamedParameter& parameter : parameters_) flat.push_back(parameter.tensor.flatten());
  return at::cat(flat);
}

void OuterStep::write_parameters(const at::Tensor& flat) const {
  std::int64_t begin = 0;
  for (const auto& [name, tensor] : parameters_) {
    tensor.copy_(flat.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
    begin += tensor.numel();
  }
}

}  // namespace accrue::distributed
