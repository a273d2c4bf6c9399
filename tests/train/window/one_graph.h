#pragma once

#include <torch/csrc/autograd/autograd.h>

#include <vector>

#include "accrue/models/trainable.h"
#include "data/loader.h"

namespace accrue::train::testing {

struct OneGraph {
  std::vector<at::Tensor> gradients;  ///< of the total, by parameter
  std::vector<double> means;          ///< by loss
};

/// The gradients and means of a model's losses over the samples of `ranges` in one graph of
/// libtorch.
inline OneGraph one_graph(models::Trainable& model, const data::Loader& loader,
                          const std::vector<batch::Range>& ranges) {
  OneGraph result;
  at::Tensor total = at::zeros({}, at::kDouble);
  for (const models::LossHead& head : model.losses()) {
    at::Tensor sum = at::zeros({}, at::kDouble);
    double weight = 0;
    for (const batch::Range& range : ranges) {
      const batch::MicroBatch micro = loader.fetch(range);
      const ForwardContext context = batch::training_context(micro, 1, 0);
      const Loss loss =
          head.forward(models::run_segments(model, micro, context), micro, context, 1);
      sum = sum + loss.sum;
      weight += loss.weight;
    }
    total = total + sum * (head.coefficient / weight);
    result.means.push_back(sum.item<double>() / weight);
  }
  torch::autograd::variable_list leaves;
  for (const NamedParameter& parameter : model.parameters()) leaves.push_back(parameter.tensor);
  result.gradients = torch::autograd::grad({total}, leaves);
  return result;
}

}  // namespace accrue::train::testing
