// A loop of your own on several ranks, in micro-batches:
//
//   torchrun --no-python --nproc-per-node=2 your_loop_on_ranks      (or mpirun, or srun)
//
// your_loop_on_ranks_plain.cpp is the same in one process, in plain libtorch.
#include <torch/torch.h>

#include <algorithm>
#include <cstdio>

#include "accrue/accum/accumulator.h"
#include "accrue/distributed/group.h"

constexpr std::int64_t kBatch = 60, kMicroBatch = 8, kSteps = 60;

struct Batch {
  at::Tensor inputs, targets;
};

// Samples [begin, end) of a step's batch, the same on whichever rank.
Batch read(std::int64_t step, std::int64_t begin, std::int64_t end) {
  const at::Tensor all = torch::sin(torch::arange(kBatch * 4).view({kBatch, 4}) * (step + 1.7));
  return {all.slice(0, begin, end), all.slice(0, begin, end).sum(1, true).tanh()};
}

double train(const std::shared_ptr<accrue::distributed::Group>& group) {
  torch::manual_seed(1);  // all ranks begin with the same parameters
  torch::nn::Sequential model(torch::nn::Linear(4, 32), torch::nn::Tanh(),
                              torch::nn::Linear(32, 1));
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-2));
  accrue::Accumulator acc(model, {.batch = accrue::Samples{kBatch}, .group = group});
  accrue::StepReport report;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const accrue::accum::WindowShare mine = acc.share();  // this rank's part, by its speed
    for (std::int64_t begin = mine.begin; begin < mine.end; begin += kMicroBatch) {
      const std::int64_t end = std::min(begin + kMicroBatch, mine.end);
      const Batch batch = read(step, begin, end);
      const at::Tensor error = model->forward(batch.inputs) - batch.targets;
      acc.backward({error.square().sum(), static_cast<double>(end - begin)},
                   accrue::Samples{end - begin});
    }
    report = acc.step(optimizer);  // the same step on all ranks, of the mean over all samples
  }
  return report.loss.value();
}

int main() {
  torch::set_default_dtype(caffe2::TypeMeta::Make<double>());
  const auto group = accrue::distributed::join();  // null without a launcher
  double loss = 1;
  accrue::distributed::run_together(group.get(), [&] { loss = train(group); });
  std::printf("loss %.17g\n", loss);
  return loss < 0.05 ? 0 : 1;
}
