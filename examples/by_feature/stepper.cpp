// A Stepper over many batches of a model with batch normalisation, and what its reports say of it:
// where a batch is split, the statistics are those of the micro-batches.
#include <torch/torch.h>

#include <cstdio>
#include <string>
#include <vector>

#include "accrue/train/step.h"

namespace {

using Batch = std::vector<at::Tensor>;  // inputs and targets

accrue::Loss loss_fn(torch::nn::Sequential& model, const Batch& slice) {
  const at::Tensor error = model->forward(slice[0]) - slice[1];
  return {error.square().sum(), static_cast<double>(error.numel())};
}

std::string steps_over(const std::vector<Batch>& loader, std::int64_t micro_batch) {
  torch::nn::Sequential model(torch::nn::Linear(8, 32), torch::nn::BatchNorm1d(32),
                              torch::nn::Linear(32, 1));
  torch::optim::SGD optimizer(model->parameters(), 0.01);
  const auto tell = [](const accrue::Event& event) { std::puts(event.reason.c_str()); };

  std::string statistics = "batch";
  accrue::Stepper stepper(model, optimizer, {.micro_batch = micro_batch, .on_event = tell});
  for (const Batch& batch : loader) {
    const accrue::StepReport report = stepper.step(batch, loss_fn);
    if (report.batchnorm) statistics = *report.batchnorm;  // "micro" if the batch was split
  }
  return statistics;
}

}  // namespace

int main() {
  torch::manual_seed(0);
  std::vector<Batch> loader;
  for (int i = 0; i < 3; ++i) {
    const at::Tensor inputs = torch::randn({64, 8});
    loader.push_back({inputs, inputs.sum(1, true)});
  }
  const std::string whole = steps_over(loader, 64), split = steps_over(loader, 16);
  std::printf("statistics of the %s, and where it is split of the %s\n", whole.c_str(),
              split.c_str());
  return whole == "batch" && split == "micro" ? 0 : 1;
}
