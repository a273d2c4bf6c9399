// Contrastive training of two encoders with 256 in-batch negatives, in the memory of 32 samples: a
// loss that couples the whole batch, so accumulating micro-batch losses would train on 31
// negatives.
#include <torch/torch.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "accrue/train/coupled_step.h"

namespace {

using Tensors = std::vector<at::Tensor>;
namespace F = torch::nn::functional;

constexpr std::int64_t kBatch = 256, kMicroBatch = 32, kSteps = 60, kHidden = 6;

struct TwoTowersImpl : torch::nn::Module {
  TwoTowersImpl() {
    left = register_module("left", tower(20));
    right = register_module("right", tower(30));
    log_scale = register_parameter("log_scale", torch::ones({}));
  }
  static torch::nn::Sequential tower(std::int64_t inputs) {
    return torch::nn::Sequential(torch::nn::Linear(inputs, 64), torch::nn::GELU(),
                                 torch::nn::Linear(64, 16));
  }
  torch::nn::Sequential left{nullptr}, right{nullptr};
  at::Tensor log_scale;
};
TORCH_MODULE(TwoTowers);

// Two views of the same hidden causes, each through its own map and noise.
struct Views {
  at::Tensor to_left = torch::randn({kHidden, 20}), to_right = torch::randn({kHidden, 30});

  Tensors draw(std::int64_t samples) const {
    const at::Tensor causes = torch::randn({samples, kHidden});
    return {torch::tanh(causes.matmul(to_left)) + 0.1 * torch::randn({samples, 20}),
            torch::tanh(causes.matmul(to_right)) + 0.1 * torch::randn({samples, 30})};
  }
};

Tensors encode(TwoTowers& model, const Tensors& views) {
  const auto unit = F::NormalizeFuncOptions().dim(1);
  return {F::normalize(model->left->forward(views[0]), unit),
          F::normalize(model->right->forward(views[1]), unit)};
}

// Each left view is to find its right view among those of the whole batch, and the reverse.
at::Tensor contrastive_loss(const Tensors& r, const at::Tensor& log_scale) {
  const at::Tensor logits = r[0].matmul(r[1].t()) * log_scale.exp();
  const at::Tensor own = torch::arange(logits.size(0));
  return (F::cross_entropy(logits, own) + F::cross_entropy(logits.t(), own)) / 2;
}

double difference_from_full_batch(TwoTowers& model, const Tensors& expected) {
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const at::Tensor difference = (model->parameters()[i].grad() - expected[i]).abs().max();
    worst = std::max(worst, (difference / expected[i].abs().max()).item<double>());
  }
  return worst;
}

double share_found(TwoTowers& model, const Tensors& views) {
  const torch::NoGradGuard no_grad;
  const Tensors r = encode(model, views);
  const at::Tensor found = r[0].matmul(r[1].t()).argmax(1);
  return (found == torch::arange(found.size(0))).to(torch::kDouble).mean().item<double>();
}

}  // namespace

int main() {
  torch::manual_seed(1);
  const Views views;
  const Tensors held_out = views.draw(kBatch);
  TwoTowers model;
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(3e-3));
  const auto loss = [&](const Tensors& r) { return contrastive_loss(r, model->log_scale); };

  double worst = 0;
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    const Tensors batch = views.draw(kBatch);
    const bool check = step % 20 == 0;
    Tensors expected;  // by one pass over the whole batch, only to check
    if (check) expected = torch::autograd::grad({loss(encode(model, batch))}, model->parameters());

    const accrue::StepReport report =
        accrue::coupled_step(model, optimizer, batch, encode, loss, {.micro_batch = kMicroBatch});

    if (!check) continue;
    worst = std::max(worst, difference_from_full_batch(model, expected));
    std::printf("step %2ld  loss %.4f  in %ld micro-batches; own view found: %.0f%% of held-out\n",
                static_cast<long>(step), report.loss.value(),
                static_cast<long>(report.micro_batches), 100 * share_found(model, held_out));
  }
  std::printf("largest relative difference from the full batch's gradient: %.1e\n", worst);
  const bool equal = worst<1e-4, learned = share_found(model, held_out)> 0.8;
  if (!equal) std::printf("the gradient is NOT the full batch's\n");
  if (!learned) std::printf("the views were not found\n");
  return equal && learned ? 0 : 1;
}
