// A network and its loss in accrue::Trainer: micro-batches that fit the memory, checkpoints,
// resumption, evaluation and metrics, without a loop. own_model_plain.cpp is the same in plain
// libtorch.
//   own_model FOLDER
#include <accrue/core/error.h>
#include <accrue/data/own_source.h>
#include <accrue/train/trainer.h>
#include <torch/torch.h>

#include <cstdio>

namespace {

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
  torch::set_default_dtype(caffe2::TypeMeta::Make<double>());
  torch::manual_seed(1);
  const auto train = samples(4096), others = samples(256);
  Net net(torch::nn::Linear(8, 32), torch::nn::Tanh(), torch::nn::Linear(32, 1));
  accrue::train::Config config;
  config.run.out = argv[1];
  config.run.steps = 60;
  config.data.order = accrue::batch::Order::sequential;
  config.batch = {.samples = 512, .micro = 48};  // without micro it is measured what fits
  config.precision.compute = accrue::models::Compute::fp64;
  config.optim = {.kind = accrue::train::OptimizerKind::adam, .lr = 1e-2, .beta2 = 0.999};
  config.optim.weight_decay = config.optim.clip = 0;
  config.optim.schedule.kind = accrue::optim::ScheduleKind::constant;
  config.observe.progress = accrue::observe::ProgressStyle::off;
  try {
    accrue::Trainer trainer(config, net, loss_of, train, others);
    const accrue::train::RunResult result = trainer.run();
    std::printf("loss %.17g, of other samples %.17g\n", *result.loss, *result.eval_loss);
    return *result.loss < 0.2 && *result.eval_loss < 0.2 ? 0 : 1;
  } catch (const accrue::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return error.exit_code();
  }
}
