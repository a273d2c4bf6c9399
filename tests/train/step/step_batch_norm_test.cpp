// Batch normalisation in the functional forms: a warning if micro-batches change it.
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <torch/torch.h>

#include "accrue/train/step.h"
#include "train/tiny_torchscript.h"

namespace accrue {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Normalised {
  Normalised() {
    torch::manual_seed(3);
    model = torch::nn::Sequential(torch::nn::Linear(4, 6), torch::nn::BatchNorm1d(6),
                                  torch::nn::Tanh(), torch::nn::Linear(6, 1));
    batch = torch::randn({12, 4});
  }
  static Loss loss(torch::nn::Sequential& model, const torch::Tensor& slice) {
    return {model->forward(slice).square().sum(), static_cast<double>(slice.size(0))};
  }
  torch::nn::Sequential model{nullptr};
  torch::Tensor batch;
};

/// Collects libtorch's warnings while it exists.
class Warnings : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override { seen.push_back(warning.msg()); }
  std::vector<std::string> seen;

 private:
  c10::WarningUtils::WarningHandlerGuard guard_{this};
};

TEST(StepBatchNorm, IsToldOnceWhereTheBatchIsSplit) {
  Normalised n;
  torch::optim::SGD optimizer(n.model->parameters(), 0.1);
  std::vector<Event> events;
  Stepper stepper(n.model, optimizer,
                  {.micro_batch = 4, .on_event = [&](const Event& e) { events.push_back(e); }});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(stepper.step(n.batch, Normalised::loss).batchnorm, "micro");
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].name, "batchnorm");
  EXPECT_THAT(events[0].reason, AllOf(HasSubstr("'1'"), HasSubstr("statistics of each micro-batch"),
                                      HasSubstr("group normalisation")));
}

TEST(StepBatchNorm, OfAnUndividedBatchOrInEvaluationIsSilent) {
  Normalised n;
  torch::optim::SGD optimizer(n.model->parameters(), 0.1);
  Warnings warnings;
  EXPECT_FALSE(step(n.model, optimizer, n.batch, Normalised::loss, {.micro_batch = 12}).batchnorm);
  n.model[1]->as<torch::nn::BatchNorm1dImpl>()->eval();
  EXPECT_FALSE(step(n.model, optimizer, n.batch, Normalised::loss, {.micro_batch = 4}).batchnorm);
  EXPECT_TRUE(warnings.seen.empty());
}

TEST(StepBatchNorm, WarnsOnceForEachPlaceThatCalls) {
  Normalised n;
  torch::optim::SGD optimizer(n.model->parameters(), 0.1);
  Warnings warnings;
  const auto loss_fn = [](torch::nn::Sequential& m, const torch::Tensor& slice) {
    return Normalised::loss(m, slice);
  };
  for (int i = 0; i < 3; ++i) step(n.model, optimizer, n.batch, loss_fn, {.micro_batch = 4});
  EXPECT_EQ(warnings.seen.size(), 1U);
  const auto another = [](torch::nn::Sequential& m, const torch::Tensor& slice) {
    return Normalised::loss(m, slice);
  };
  step(n.model, optimizer, n.batch, another, {.micro_batch = 4});
  EXPECT_EQ(warnings.seen.size(), 2U);
}

TEST(StepBatchNorm, OfAnAccumulatorThatKnowsTheModelWarnsOnce) {
  Normalised n;
  torch::optim::SGD optimizer(n.model->parameters(), 0.1);
  Warnings warnings;
  Accumulator knows(n.model), does_not(n.model->parameters());
  const auto run = [&](Accumulator& accumulator) {
    for (const auto& micro : n.batch.split(4))
      accumulator.backward(Normalised::loss(n.model, micro));
    return accumulator.step(optimizer);
  };
  EXPECT_EQ(run(knows).batchnorm, "micro");
  EXPECT_EQ(run(knows).batchnorm, "micro");
  EXPECT_FALSE(run(does_not).batchnorm);
  EXPECT_EQ(warnings.seen.size(), 1U);
}

TEST(StepBatchNorm, OfAnAutomaticSizeThatFitsIsTheWholeBatchs) {
  Normalised split, whole;
  torch::optim::SGD a(split.model->parameters(), 0.1), b(whole.model->parameters(), 0.1);
  EXPECT_FALSE(step(split.model, a, split.batch, Normalised::loss).batchnorm);
  Normalised::loss(whole.model, whole.batch).sum.div(12).backward();
  b.step();
  for (std::size_t i = 0; i < split.model->parameters().size(); ++i)
    EXPECT_TRUE(at::allclose(split.model->parameters()[i], whole.model->parameters()[i]));
  // The trial's forward pass changed no statistics.
  EXPECT_TRUE(at::equal(split.model->buffers()[0], whole.model->buffers()[0]));
  EXPECT_EQ(split.model->buffers()[2].item<std::int64_t>(), 1);
}

/// A last micro-batch of one sample has no statistics, and libtorch refuses it.
TEST(StepBatchNorm, LeavesNoSampleAlone) {
  for (const auto& [samples, micro_batch, largest] :
       {std::tuple{9, 4, 3}, {10, 3, 3}, {12, 11, 6}, {4, 8, 4}}) {
    Normalised n;
    torch::optim::SGD optimizer(n.model->parameters(), 0.1);
    std::int64_t fewest = samples;
    const auto loss_fn = [&](torch::nn::Sequential& m, const torch::Tensor& slice) {
      fewest = std::min(fewest, slice.size(0));
      return Normalised::loss(m, slice);
    };
    const StepReport report =
        step(n.model, optimizer, torch::randn({samples, 4}), loss_fn, {.micro_batch = micro_batch});
    EXPECT_TRUE(report.stepped);
    EXPECT_EQ(report.micro_batch, largest);
    EXPECT_GE(fewest, 2);
  }
}

}  // namespace
}  // namespace accrue
