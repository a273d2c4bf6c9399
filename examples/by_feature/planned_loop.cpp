// A loop that asks how many samples fit. A micro-batch that runs out of memory all the same is
// undone, and its samples are run in parts by the replay.
#include <torch/torch.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <vector>

#include "accrue/accrue.h"

namespace {

constexpr std::int64_t kBatch = 128, kWidth = 64;
using Rows = std::vector<at::Tensor>;  // inputs and targets

accrue::Loss loss_of(torch::nn::Sequential& model, const Rows& micro) {
  const at::Tensor error = model->forward(micro[0]) - micro[1];
  return {error.square().sum(), static_cast<double>(error.numel())};
}

std::vector<std::int64_t> ids_of(std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(end - begin));
  std::iota(ids.begin(), ids.end(), begin);
  return ids;
}

}  // namespace

int main() {
  accrue::memory::install_caching_allocator();
  torch::manual_seed(0);
  torch::nn::Sequential model(torch::nn::Linear(kWidth, 512), torch::nn::Tanh(),
                              torch::nn::Linear(512, 1));
  torch::optim::SGD optimizer(model->parameters(), 0.01);
  const at::Tensor inputs = torch::randn({kBatch, kWidth}), targets = inputs.sum(1, true);
  const auto rows = [&](std::int64_t begin, std::int64_t end) {
    return Rows{inputs.slice(0, begin, end), targets.slice(0, begin, end)};
  };
  const auto replay = [&](const accrue::MicroRef& micro) {
    return loss_of(model, rows(micro.sample_ids.front(), micro.sample_ids.back() + 1));
  };

  accrue::Accumulator acc(model, {.batch = accrue::Samples{kBatch}, .replay = replay});
  const accrue::LoopPlan plan = acc.plan(model, rows(0, 8), loss_of, {.budget = "64MiB"});
  accrue::StepReport report;
  for (int step = 0; step < 20; ++step) {
    for (std::int64_t begin = 0; !acc.full(); begin += plan.micro_batch) {
      const std::int64_t end = std::min(begin + plan.micro_batch, kBatch);
      acc.backward(loss_of(model, rows(begin, end)), accrue::Samples{end - begin},
                   ids_of(begin, end));
    }
    report = acc.step(optimizer);
  }
  std::printf("%lld micro-batches of %lld samples: loss %.3f\n",
              static_cast<long long>(plan.micro_batches), static_cast<long long>(plan.micro_batch),
              report.loss.value_or(-1));
  return report.loss && *report.loss < 30 ? 0 : 1;
}
