// GPT-2 as a careful user trains it on libtorch alone: torch::nn, fused attention, cross-entropy
// over all logits, torch::optim::AdamW, loss / K. What accrue is measured against; it uses nothing
// of accrue. Prints one JSON object: per_second, the tokens of each optimizer step after a warm-up
// step.
#include "plain_gpt2.h"

namespace {

namespace F = torch::nn::functional;

double run_step(plain::Gpt2& model, torch::optim::AdamW& optimizer, int64_t micro, int64_t count,
                const plain::Shape& shape) {
  optimizer.zero_grad();
  double loss_value = 0;
  for (int64_t k = 0; k < count; ++k) {
    const auto ids = torch::randint(shape.vocab, {micro, shape.context + 1}, torch::kInt64);
    const auto logits = model(ids.narrow(1, 0, shape.context));
    const auto loss = F::cross_entropy(logits.view({-1, shape.vocab}),
                                       ids.narrow(1, 1, shape.context).reshape({-1}));
    (loss / static_cast<double>(count)).backward();
    loss_value += loss.item<double>() / static_cast<double>(count);
  }
  torch::nn::utils::clip_grad_norm_(model->parameters(), 1.0);
  optimizer.step();
  return loss_value;
}

}  // namespace

int main(int argc, char** argv) {
  auto v = plain::parse(argc, argv);
  const plain::Shape shape = plain::shape_of(v);
  at::set_num_threads(static_cast<int>(v["threads"]));
  torch::manual_seed(1337);
  plain::Gpt2 model(shape);
  torch::optim::AdamW optimizer(
      model->parameters(), torch::optim::AdamWOptions(3e-4).betas({0.9, 0.95}).weight_decay(0.1));
  plain::measure(v, v["micro"] * v["count"] * v["context"],
                 [&] { return run_step(model, optimizer, v["micro"], v["count"], shape); });
}
