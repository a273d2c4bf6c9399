// masked_lm_plain.cpp with accrue: the same steps, each in micro-batches of seven texts.
// `diff masked_lm_plain.cpp masked_lm.cpp` shows all that changes.
#include <torch/torch.h>

#include <cstdio>
#include <vector>

#include "accrue/train/step.h"

namespace {

namespace nn = torch::nn;
constexpr std::int64_t kLetters = 26, kMask = 26, kIgnored = -100, kLength = 24, kWidth = 32;

struct Encoder : nn::Module {
  nn::Embedding words = register_module("words", nn::Embedding(kLetters + 1, kWidth));
  nn::Embedding positions = register_module("positions", nn::Embedding(kLength, kWidth));
  nn::TransformerEncoderLayerOptions layer =
      nn::TransformerEncoderLayerOptions(kWidth, 4).dim_feedforward(64).dropout(0);
  nn::TransformerEncoder blocks =
      register_module("blocks", nn::TransformerEncoder(nn::TransformerEncoderOptions(layer, 2)));
  nn::Linear head = register_module("head", nn::Linear(kWidth, kLetters));

  // Logits of the hidden letters alone.
  torch::Tensor forward(const torch::Tensor& letters, const torch::Tensor& hidden) {
    const torch::Tensor x = words(letters) + positions(torch::arange(letters.size(1)));
    return head(blocks(x.transpose(0, 1)).transpose(0, 1).index({hidden}));
  }
};

using Batch = std::vector<torch::Tensor>;  // letters [B, T], and what is hidden of them

// Texts of one letter each, of which some places are hidden: the others tell what stands there.
Batch next_batch(std::int64_t texts) {
  const torch::Tensor letters =
      torch::randint(kLetters, {texts, 1}, torch::kLong).repeat({1, kLength});
  const torch::Tensor hidden = torch::rand(letters.sizes()) < 0.15;
  return {letters.masked_fill(hidden, kMask), letters.masked_fill(~hidden, kIgnored)};
}

accrue::Loss loss_fn(Encoder& model, const Batch& batch) {
  const torch::Tensor hidden = batch[1] != kIgnored;
  return {nn::functional::cross_entropy(
              model.forward(batch[0], hidden), batch[1].index({hidden}),
              nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum)),
          hidden.sum().item<double>()};
}

}  // namespace

int main() {
  torch::manual_seed(1);
  Encoder model;
  model.to(torch::kDouble);
  torch::optim::AdamW optimizer(model.parameters(), torch::optim::AdamWOptions(3e-3));
  accrue::Stepper stepper(model, optimizer, {.micro_batch = 7});
  for (int step = 0; step < 40; ++step)
    std::printf("%.15f\n", stepper.step(next_batch(96), loss_fn).loss.value());
}
