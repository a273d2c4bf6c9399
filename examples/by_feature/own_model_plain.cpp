// A network and its loss, trained in plain libtorch on each batch at once. own_model.cpp is the
// same by accrue::Trainer.
#include <torch/torch.h>

#include <cstdio>

using Net = torch::nn::Sequential;

constexpr std::int64_t kSamples = 4096, kBatch = 512, kSteps = 60;

struct Samples {
  at::Tensor inputs, targets;
};

Samples samples(std::int64_t count) {
  const at::Tensor inputs = torch::randn({count, 8});
  return {inputs, torch::sin(inputs.slice(1, 0, 1))};
}

at::Tensor loss_of(Net& net, const Samples& batch) {
  return (net->forward(batch.inputs) - batch.targets).square().mean();
}

int main() {
  torch::set_default_dtype(caffe2::TypeMeta::Make<double>());
  torch::manual_seed(1);
  const Samples train = samples(kSamples), others = samples(256);
  Net net(torch::nn::Linear(8, 32), torch::nn::Tanh(), torch::nn::Linear(32, 1));
  torch::optim::Adam optimizer(net->parameters(), torch::optim::AdamOptions(1e-2));
  at::Tensor loss;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const std::int64_t begin = step * kBatch % kSamples, end = begin + kBatch;
    loss = loss_of(net, {train.inputs.slice(0, begin, end), train.targets.slice(0, begin, end)});
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  const auto eval_loss = loss_of(net, others).item<double>();
  std::printf("loss %.17g, of other samples %.17g\n", loss.item<double>(), eval_loss);
  return loss.item<double>() < 0.2 && eval_loss < 0.2 ? 0 : 1;
}
