// A loop of your own, in plain libtorch, in one process with the whole batch at once.
// your_loop_on_ranks.cpp is the same on several ranks, in micro-batches.
#include <torch/torch.h>

#include <cstdio>

constexpr std::int64_t kBatch = 60, kSteps = 60;

struct Batch {
  at::Tensor inputs, targets;
};

// Samples [begin, end) of a step's batch.
Batch read(std::int64_t step, std::int64_t begin, std::int64_t end) {
  const at::Tensor all = torch::sin(torch::arange(kBatch * 4).view({kBatch, 4}) * (step + 1.7));
  return {all.slice(0, begin, end), all.slice(0, begin, end).sum(1, true).tanh()};
}

double train() {
  torch::manual_seed(1);
  torch::nn::Sequential model(torch::nn::Linear(4, 32), torch::nn::Tanh(),
                              torch::nn::Linear(32, 1));
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-2));
  at::Tensor loss;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const Batch batch = read(step, 0, kBatch);
    loss = torch::mse_loss(model->forward(batch.inputs), batch.targets);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  return loss.item<double>();
}

int main() {
  torch::set_default_dtype(caffe2::TypeMeta::Make<double>());
  const double loss = train();
  std::printf("loss %.17g\n", loss);
  return loss < 0.05 ? 0 : 1;
}
