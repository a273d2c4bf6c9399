// One optimizer step on a batch larger than what runs at once: the library's shortest use.
#include <accrue/accrue.h>
#include <torch/torch.h>

#include <cstdio>

int main() {
  torch::manual_seed(0);
  torch::nn::Sequential model(torch::nn::Linear(8, 32), torch::nn::GELU(),
                              torch::nn::Linear(32, 1));
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-2));
  const torch::Tensor inputs = torch::randn({64, 8});
  const std::vector<torch::Tensor> batch{inputs, inputs.sum(1, true)};

  const auto loss_fn = [](torch::nn::Sequential& m, const std::vector<torch::Tensor>& micro) {
    const torch::Tensor error = m->forward(micro[0]) - micro[1];
    return accrue::Loss{error.square().sum(), static_cast<double>(error.numel())};
  };
  accrue::StepReport first, last;
  for (int i = 0; i < 200; ++i) {
    last = accrue::step(model, optimizer, batch, loss_fn, {.clip_norm = 1.0, .micro_batch = 16});
    if (i == 0) first = last;
  }
  std::printf("loss %.4f -> %.4f in micro-batches of %lld\n", *first.loss, *last.loss,
              static_cast<long long>(*last.micro_batch));
  return *last.loss < 0.1 * *first.loss ? 0 : 1;
}
