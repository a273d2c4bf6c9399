// A torch::nn module and a loss in accrue::Trainer: micro-batches that fit the memory, checkpoints,
// resumption, evaluation and metrics, without a loop.
//   own_model FOLDER
#include <accrue/core/error.h>
#include <accrue/data/own_source.h>
#include <accrue/train/trainer.h>
#include <torch/torch.h>

#include <cstdio>

namespace {

namespace F = torch::nn::functional;
using Net = torch::nn::Sequential;

accrue::Loss loss_of(Net& net, const accrue::batch::MicroBatch& micro) {
  const at::Tensor wrong = net->forward(micro.inputs) - micro.targets;
  return {.sum = wrong.square().sum(), .weight = static_cast<double>(wrong.numel())};
}

std::shared_ptr<const accrue::data::Source> samples(std::int64_t count) {
  const at::Tensor inputs = torch::randn({count, 8});
  return accrue::data::tensor_source(inputs, torch::sin(inputs.slice(1, 0, 1)));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
    return 2;
  }
  torch::manual_seed(1);
  Net net(torch::nn::Linear(8, 32), torch::nn::Tanh(), torch::nn::Linear(32, 1));
  accrue::train::Config config;
  config.run.out = argv[1];
  config.run.steps = 60;
  config.batch.samples = 512;
  config.optim.lr = 1e-2;
  config.observe.progress = accrue::observe::ProgressStyle::off;
  try {
    accrue::Trainer trainer(config, net, loss_of, samples(4096), samples(256));
    const accrue::train::RunResult result = trainer.run();
    std::printf("loss %.4f, of other samples %.4f\n", *result.loss, *result.eval_loss);
    return *result.loss < 0.2 && *result.eval_loss < 0.2 ? 0 : 1;
  } catch (const accrue::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return error.exit_code();
  }
}
