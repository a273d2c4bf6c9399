// One window in four forms: a loop with an accumulator, a scope, a wrapped optimizer and a
// function. Each takes the optimizer step of one pass over all samples, whose lengths differ; the
// loss / K of a plain loop does not.
#include <torch/torch.h>

#include <cstdio>
#include <vector>

#include "accrue/accum/accumulate.h"
#include "accrue/accum/accumulating_optimizer.h"
#include "accrue/accum/accumulator.h"

namespace {

constexpr std::int64_t kInputs = 8, kBatchTokens = 32 + 3 + 4 + 16;

struct Sequences {
  at::Tensor inputs;   // [tokens, kInputs]
  at::Tensor targets;  // [tokens, 1]
};
using Loader = std::vector<Sequences>;

accrue::Loss loss_of(torch::nn::Sequential& model, const Sequences& micro) {
  const at::Tensor error = model->forward(micro.inputs) - micro.targets;
  return {error.square().sum(), static_cast<double>(error.numel())};
}

void with_a_loop(torch::nn::Sequential& model, torch::optim::Optimizer& optimizer,
                 const Loader& loader) {
  accrue::Accumulator acc(model, {.batch = accrue::Tokens{kBatchTokens}});
  for (const Sequences& micro : loader) {
    acc.backward(loss_of(model, micro));  // was loss.backward()
    if (acc.full()) acc.step(optimizer);  // was optimizer.step() and optimizer.zero_grad()
  }
  acc.finish(optimizer);  // a short last window, rightly weighted
}

void with_a_scope(torch::nn::Sequential& model, torch::optim::Optimizer& optimizer,
                  const Loader& loader) {
  accrue::Accumulator acc(model);
  auto window = acc.window();
  for (const Sequences& micro : loader) window.backward(loss_of(model, micro));
  window.step(optimizer);  // a window that is left without it, by an exception too, is dropped
}

void with_a_wrapped_optimizer(torch::nn::Sequential& model, torch::optim::Optimizer& sgd,
                              const Loader& loader) {
  accrue::AccumulatingOptimizer optimizer(sgd, {.batch = accrue::Tokens{kBatchTokens}});
  for (const Sequences& micro : loader) {
    optimizer.zero_grad();                      // changes nothing
    optimizer.backward(loss_of(model, micro));  // was loss.backward()
    optimizer.step();                           // acts when the window is full
  }
  optimizer.finish();
}

void with_a_function(torch::nn::Sequential& model, torch::optim::Optimizer& optimizer,
                     const Loader& loader) {
  const accrue::Accumulated result = accrue::accumulate(model, loader, loss_of);
  auto parameters = model->named_parameters();
  for (const accrue::NamedParameter& gradient : result.gradients)
    parameters[gradient.name].mutable_grad() = gradient.tensor;
  optimizer.step();
}

// What each form has to come to.
void in_one_pass(torch::nn::Sequential& model, torch::optim::Optimizer& optimizer,
                 const Loader& loader) {
  std::vector<at::Tensor> inputs, targets;
  for (const Sequences& micro : loader) {
    inputs.push_back(micro.inputs);
    targets.push_back(micro.targets);
  }
  const accrue::Loss loss = loss_of(model, {torch::cat(inputs), torch::cat(targets)});
  (loss.sum / loss.weight).backward();
  optimizer.step();
}

void by_means_of_means(torch::nn::Sequential& model, torch::optim::Optimizer& optimizer,
                       const Loader& loader) {
  for (const Sequences& micro : loader) {
    const accrue::Loss loss = loss_of(model, micro);
    (loss.sum / loss.weight / static_cast<double>(loader.size())).backward();
  }
  optimizer.step();
}

using Form = void (*)(torch::nn::Sequential&, torch::optim::Optimizer&, const Loader&);

at::Tensor parameters_after(Form form, const Loader& loader) {
  torch::manual_seed(1);
  torch::nn::Sequential model(torch::nn::Linear(kInputs, 16), torch::nn::Tanh(),
                              torch::nn::Linear(16, 1));
  model->to(torch::kFloat64);
  // Its step is proportional to the gradient, where AdamW's first one is little but its sign.
  torch::optim::SGD sgd(model->parameters(), 0.1);
  form(model, sgd, loader);
  std::vector<at::Tensor> flat;
  for (const at::Tensor& parameter : model->parameters())
    flat.push_back(parameter.detach().flatten());
  return torch::cat(flat);
}

}  // namespace

int main() {
  torch::manual_seed(0);
  Loader loader;
  for (const std::int64_t tokens : {32, 3, 4, 16})
    loader.push_back({torch::randn({tokens, kInputs}, torch::kFloat64),
                      torch::randn({tokens, 1}, torch::kFloat64)});

  const at::Tensor expected = parameters_after(in_one_pass, loader);
  const auto difference = [&](const char* name, Form form) {
    const double largest = (parameters_after(form, loader) - expected).abs().max().item<double>();
    std::printf("%-20s differs from one pass by %.1e\n", name, largest);
    return largest;
  };
  // fp64 sums of 55 terms in another order; a mean of means is off by 4e-2.
  bool equal = true;
  equal &= difference("a loop", with_a_loop) < 1e-12;
  equal &= difference("a scope", with_a_scope) < 1e-12;
  equal &= difference("a wrapped optimizer", with_a_wrapped_optimizer) < 1e-12;
  equal &= difference("a function", with_a_function) < 1e-12;
  if (!equal) std::printf("a form does NOT take the step of one pass\n");
  const bool seen = difference("loss / K", by_means_of_means) > 1e-3;
  if (!seen) std::printf("the comparison does NOT see a mean of means\n");
  return equal && seen ? 0 : 1;
}
