// A plain torch::nn network, as any libtorch program has one, whose linear layers, norms and GELU
// accrue does. Two lines are all it takes; the third keys dropout by sample, so that the masks,
// too, are the same however a batch is split.
#include "accrue/kernels/accelerate.h"

#include <torch/torch.h>

#include <cstdio>
#include <numeric>
#include <vector>

#include "accrue/accum/accumulator.h"

namespace {

torch::nn::Sequential make_network() {
  torch::manual_seed(1);
  return torch::nn::Sequential(
      torch::nn::Linear(8, 64), torch::nn::GELU(torch::nn::GELUOptions().approximate("tanh")),
      torch::nn::Dropout(0.1), torch::nn::LayerNorm(torch::nn::LayerNormOptions({64})),
      torch::nn::Linear(64, 1));
}

double loss_after_training(std::int64_t micro_batch) {
  torch::nn::Sequential model = make_network();
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-3));
  accrue::Accelerated accelerated = accrue::accelerate(model, {.seed = 7});  // added
  accrue::Accumulator acc(model, {.batch = accrue::Samples{64}});

  const at::Tensor inputs = torch::randn({640, 8}), targets = inputs.sin().sum(1, true);
  double loss = 0;
  for (std::int64_t sample = 0; sample < 640;) {
    const std::int64_t end = std::min(sample + micro_batch, (sample / 64 + 1) * 64);
    std::vector<std::int64_t> ids(static_cast<std::size_t>(end - sample));
    std::iota(ids.begin(), ids.end(), sample);
    accelerated.begin(ids);  // added: whose rows the next forward has
    const at::Tensor error =
        model->forward(inputs.slice(0, sample, end)) - targets.slice(0, sample, end);
    acc.backward({error.square().sum(), static_cast<double>(end - sample)},
                 accrue::Samples{end - sample});
    if (acc.full()) loss = acc.step(optimizer).loss.value();
    sample = end;
  }
  std::printf("micro-batches of %2ld: loss %.6f, %ld products and %ld dropouts by accrue\n",
              static_cast<long>(micro_batch), loss, static_cast<long>(accelerated.calls().products),
              static_cast<long>(accelerated.calls().dropouts));
  return loss;
}

}  // namespace

int main() {
  const double whole = loss_after_training(64), split = loss_after_training(5);
  return std::abs(whole - split) < 1e-4 * whole ? 0 : 1;
}
