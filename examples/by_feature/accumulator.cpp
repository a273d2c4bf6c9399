// An existing libtorch loop with four lines changed, so that its optimisation batch of 512 tokens
// runs in micro-batches of two sequences. The model and the optimizer are plain torch::nn and
// torch::optim.
#include "accrue/accum/accumulator.h"

#include <torch/torch.h>

#include <cstdio>
#include <vector>

namespace {

constexpr std::int64_t kInputs = 8, kBatchTokens = 512, kSteps = 100;

struct Sequences {
  at::Tensor inputs;   // [tokens of all sequences, kInputs]
  at::Tensor targets;  // [tokens of all sequences, 1]
};

// Two sequences of uneven lengths: averaging micro-batch means would weigh short ones too much.
Sequences next_micro_batch(const at::Tensor& truth) {
  const std::int64_t tokens = torch::randint(2, 60, {2}).sum().item<std::int64_t>();
  const at::Tensor inputs = torch::randn({tokens, kInputs});
  return {inputs, torch::tanh(inputs.matmul(truth)) + 0.1 * torch::randn({tokens, 1})};
}

torch::nn::Sequential make_model() {
  return torch::nn::Sequential(torch::nn::Linear(kInputs, 32), torch::nn::Tanh(),
                               torch::nn::Linear(32, 1));
}

// Changed, 1 of 4: the sum and its number of terms, where there was a mean.
accrue::Loss loss_of(torch::nn::Sequential& model, const Sequences& micro) {
  return {(model->forward(micro.inputs) - micro.targets).square().sum(),
          static_cast<double>(micro.inputs.size(0))};
}

// What the window's gradient has to be: the mean over all its tokens at once.
double difference_from_full_batch(torch::nn::Sequential& model,
                                  const std::vector<Sequences>& window) {
  std::vector<at::Tensor> inputs, targets;
  for (const Sequences& micro : window) {
    inputs.push_back(micro.inputs);
    targets.push_back(micro.targets);
  }
  const accrue::Loss loss = loss_of(model, {torch::cat(inputs), torch::cat(targets)});
  const auto expected = torch::autograd::grad({loss.sum / loss.weight}, model->parameters());
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const at::Tensor difference = (model->parameters()[i].grad() - expected[i]).abs().max();
    worst = std::max(worst, (difference / expected[i].abs().max()).item<double>());
  }
  return worst;
}

}  // namespace

int main() {
  torch::manual_seed(1);
  const at::Tensor truth = torch::randn({kInputs, 1});
  torch::nn::Sequential model = make_model();
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-2));

  std::vector<Sequences> window;  // only to check the gradient below
  double worst = 0, first_loss = 0, last_loss = 0;
  accrue::AccumulatorOptions options{.batch = accrue::Tokens{kBatchTokens}};
  options.on_mean_gradient = [&](accrue::accum::MeanGradient&) {
    worst = std::max(worst, difference_from_full_batch(model, window));
    window.clear();
  };

  accrue::Accumulator acc(model,
                          options);  // Changed, 2 of 4: was optimizer.zero_grad()
  for (std::int64_t step = 0; step < kSteps;) {
    const Sequences micro = next_micro_batch(truth);
    window.push_back(micro);
    acc.backward(loss_of(model, micro));  // Changed, 3 of 4: was loss.backward()
    if (!acc.full()) continue;
    const accrue::StepReport report = acc.step(optimizer);  // Changed, 4 of 4: was optimizer.step()
    last_loss = report.loss.value();
    if (step++ == 0) first_loss = last_loss;
    if (step % 20 == 0)
      std::printf("step %3ld  loss %.4f  tokens %.0f in %ld micro-batches\n",
                  static_cast<long>(report.step), last_loss, report.weight,
                  static_cast<long>(report.micro_batches));
  }

  std::printf("largest relative difference from the full batch's gradient: %.1e\n", worst);
  // fp32 sums of about 600 terms in another order, which cancel more and more as the fit gets
  // better; a mean of micro-batch means would be off by 1e-1.
  const bool equal = worst < 1e-4, learned = last_loss < 0.2 * first_loss;
  if (!equal) std::printf("the gradient is NOT the full batch's\n");
  if (!learned) std::printf("the loss did not fall\n");
  return equal && learned ? 0 : 1;
}
