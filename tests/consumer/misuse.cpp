// Does not compile: each call is a mistake, for which the compiler has to state in a sentence what
// is missing. check_misuse.cmake looks for these sentences.
#include <torch/torch.h>

#include <string>

#include "accrue/accum/accumulating_optimizer.h"
#include "accrue/accum/accumulator.h"
#include "accrue/train/coupled_step.h"
#include "accrue/train/step.h"

struct NoModel {};
struct NoBatch {};

void misuse(torch::nn::Sequential& model, torch::optim::Optimizer& optimizer,
            const torch::Tensor& batch) {
  const auto mean_loss = [](torch::nn::Sequential& m, const torch::Tensor& slice) {
    return m->forward(slice).mean();
  };
  accrue::step(model, optimizer, batch, mean_loss);

  const auto of_one_argument = [](const torch::Tensor& slice) {
    return accrue::Loss{slice.sum(), 1.0};
  };
  accrue::step(model, optimizer, batch, of_one_argument);

  NoModel no_model;
  accrue::step(no_model, optimizer, batch, mean_loss);

  accrue::step(model, optimizer, NoBatch{}, mean_loss);

  accrue::Accumulator accumulator(model);
  accumulator.backward(batch.mean());
  accumulator.window().backward(batch.mean(), accrue::Samples{8});
  accrue::AccumulatingOptimizer(optimizer, {}).backward(batch.mean());
}
