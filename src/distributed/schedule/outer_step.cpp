#include "distributed/schedule/outer_step.h"

#include <ATen/ATen.h>

#include <string>
#include <utility>
#include <vector>

#include "accrue/core/error.h"
#include "distributed/compress/named_state.h"

namespace accrue::distributed {
namespace {

const char* const kOuterStep = "outer step";

void require_like(const at::Tensor& given, at::ScalarType dtype, std::int64_t elements) {
  const at::IntArrayRef shape(elements);
  if (given.sizes() == shape && given.scalar_type() == dtype) return;
  throw usage_error(kOuterStep, in_words(dtype, shape),
                    in_words(given.scalar_type(), given.sizes()), "a tensor as difference() gives");
}

void require_one_dtype(const NamedParameters& parameters) {
  if (parameters.empty())
    throw usage_error(kOuterStep, "at least one parameter", "none", "a model that is trained");
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
  parts_ = divide_in_parts(parameters_, options_.parts);
  start_ = flat({0, parameters_.size()});
  if (options_.momentum > 0) velocity_ = at::zeros_like(start_);
}

at::Tensor OuterStep::parameters(std::size_t part) const { return flat(parts_.at(part)); }

at::Tensor OuterStep::difference(const at::Tensor& parameters, std::size_t part) const {
  const OuterPart& of = parts_.at(part);
  require_like(parameters, start_.scalar_type(), of.elements);
  const at::NoGradGuard no_grad;
  return parameters.neg().add_(start_.narrow(0, of.begin, of.elements));
}

void OuterStep::step(const at::Tensor& mean_difference, std::size_t part, const at::Tensor& sent) {
  const OuterPart& of = parts_.at(part);
  require_like(mean_difference, start_.scalar_type(), of.elements);
  const at::NoGradGuard no_grad;
  if (!at::isfinite(mean_difference).all().item<bool>())
    throw runtime_error(kOuterStep, "finite parameters on every rank", "a mean that is not finite",
                        "resuming from the last checkpoint");
  const at::Tensor start = start_.narrow(0, of.begin, of.elements);
  start.sub_(mean_difference, options_.lr);
  if (velocity_.defined()) {
    const at::Tensor velocity = velocity_.narrow(0, of.begin, of.elements);
    velocity.mul_(options_.momentum).add_(mean_difference);
    start.sub_(velocity, options_.lr * options_.momentum);
  }
  write(sent.defined() ? flat(of).sub_(sent).add_(start) : start, of);
}

at::Tensor OuterStep::put_start_in_place() {
  at::Tensor parameters = flat(whole());
  write(start_, whole());
  return parameters;
}

void OuterStep::put_back(const at::Tensor& parameters) {
  require_like(parameters, start_.scalar_type(), start_.numel());
  write(parameters, whole());
}

NamedParameters OuterStep::state() const {
  NamedParameters state{{"start", start_}};
  if (velocity_.defined()) state.push_back({"velocity", velocity_});
  return state;
}

void OuterStep::load_state(const StoredTensors& state) {
  load_by_name(this->state(), state, kOuterStep);
}

at::Tensor OuterStep::flat(const OuterPart& part) const {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> flat;
  for (std::size_t i = part.first; i < part.last; ++i)
    flat.push_back(parameters_[i].tensor.flatten());
  return at::cat(flat);
}

void OuterStep::write(const at::Tensor& flat, const OuterPart& part) const {
  const at::NoGradGuard no_grad;
  std::int64_t begin = 0;
  for (std::size_t i = part.first; i < part.last; ++i) {
    const at::Tensor& tensor = parameters_[i].tensor;
    tensor.copy_(flat.narrow(0, begin, tensor.numel()).view(tensor.sizes()));
    begin += tensor.numel();
  }
}

}  // namespace accrue::distributed
