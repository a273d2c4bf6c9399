#include "accrue/accum/accumulating_optimizer.h"

#include <torch/serialize/archive.h>

#include <string>

#include "accrue/accum/accumulator_archive.h"
#include "accrue/core/error.h"
#include "accum/batch_size.h"
#include "accum/optimizer_options.h"

namespace accrue {
namespace {

std::vector<at::Tensor> parameters_of(const torch::optim::Optimizer& optimizer) {
  std::vector<at::Tensor> parameters;
  for (const auto& group : optimizer.param_groups())
    parameters.insert(parameters.end(), group.params().begin(), group.params().end());
  return parameters;
}

}  // namespace

AccumulatorOptions detail::with_window_size(AccumulatorOptions options) {
  if (!is_stated(options.batch) && options.micro_batches == 0)
    throw usage_error("AccumulatingOptimizer", "the size of a window",
                      "neither batch nor micro_batches",
                      "{.micro_batches = 8}, or {.batch = Samples{256}}");
  return options;
}

AccumulatorOptions detail::with_micro_batches(AccumulatorOptions options,
                                              std::int64_t micro_batches) {
  if (micro_batches < 1)
    throw usage_error("accumulating", "at least 1 micro-batch a step",
                      std::to_string(micro_batches), "accumulating(model, optimizer, 8)");
  options.micro_batches = micro_batches;
  return options;
}

AccumulatingOptimizer::AccumulatingOptimizer(torch::optim::Optimizer& inner,
                                             AccumulatorOptions options)
    : torch::optim::Optimizer(std::vector<torch::optim::OptimizerParamGroup>{}, nullptr),
      inner_(inner),
      accumulator_(parameters_of(inner), detail::with_window_size(std::move(options))) {
  take_groups();
}

void AccumulatingOptimizer::take_groups() {
  param_groups_.clear();
  settled_.clear();
  settle_groups();
}

/// Also takes groups that were added to the inner optimizer since.
void AccumulatingOptimizer::settle_groups() const {
  std::vector<torch::optim::OptimizerParamGroup>& groups = inner_.param_groups();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (i == settled_.size()) {
      settled_.push_back(groups[i].has_options() ? groups[i].options().clone() : nullptr);
      groups_.emplace_back(std::vector<at::Tensor>{}, settled_[i] ? settled_[i]->clone() : nullptr);
    } else if (settled_[i]) {
      accum::settle_options(groups_[i].options(), groups[i].options(), *settled_[i]);
    }
  }
}

StepReport AccumulatingOptimizer::finish() {
  settle_groups();
  return accumulator_.finish(inner_);
}

at::Tensor AccumulatingOptimizer::step(LossClosure closure) {
  if (closure)
    throw usage_error("step", "no closure", "one",
                      "an optimizer that takes none: a closure would evaluate part of the batch");
  if (!accumulator_.pending())
    throw usage_error("step", "a backward() of this optimizer before it", "none",
                      "optimizer.backward(Loss{sum, weight}) instead of loss.backward()");
  last_report_.stepped = false;
  if (accumulator_.full()) {
    settle_groups();
    last_report_ = accumulator_.step(inner_);
  }
  return {};
}

void AccumulatingOptimizer::save(torch::serialize::OutputArchive& archive) const {
  torch::serialize::OutputArchive inner, accumulator;
  settle_groups();
  inner_.save(inner);
  write(accumulator_.state(), accumulator);
  archive.write("inner", inner);
  archive.write("accumulator", accumulator);
}

void AccumulatingOptimizer::load(torch::serialize::InputArchive& archive) {
  torch::serialize::InputArchive inner, accumulator;
  archive.read("inner", inner);
  archive.read("accumulator", accumulator);
  inner_.load(inner);
  take_groups();
  accumulator_.load(read_accumulator_state(accumulator));
}

}  // namespace accrue
