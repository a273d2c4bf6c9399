#include "train/step/optimizer_steps.h"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>

#include <algorithm>

namespace accrue::train {
namespace {

template <class State>
void count(const torch::optim::OptimizerParamState& state, std::optional<std::int64_t>& steps) {
  if (const auto* counted = dynamic_cast<const State*>(&state))
    steps = std::max(steps.value_or(0), counted->step());
}

}  // namespace

std::optional<std::int64_t> steps_taken(const torch::optim::Optimizer& optimizer) {
  std::optional<std::int64_t> steps;
  for (const auto& [parameter, state] : optimizer.state()) {
    count<torch::optim::AdamParamState>(*state, steps);
    count<torch::optim::AdamWParamState>(*state, steps);
    count<torch::optim::RMSpropParamState>(*state, steps);
    count<torch::optim::AdagradParamState>(*state, steps);
  }
  return steps;
}

}  // namespace accrue::train
