// Memory in accrue::step and Stepper: the budget's micro-batch, and failed allocations.
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <cmath>

#include "accrue/memory/caching_allocator.h"
#include "accrue/train/step.h"
#include "support/errors.h"
#include "support/tolerance.h"
#include "train/regression.h"

namespace accrue {
namespace {

using ::testing::HasSubstr;
using testing::Regression;
using testing::weighted_error;
using Tensors = std::vector<torch::Tensor>;

Tensors copies(const Tensors& tensors) {
  Tensors all;
  for (const torch::Tensor& tensor : tensors) all.push_back(tensor.detach().clone());
  return all;
}

double largest_error(const Tensors& actual, const Tensors& expected) {
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    worst = std::max(worst, testing::relative_error(actual[i], expected[i]));
  return worst;
}

/// For sums of 13 terms in fp64; a slice that is lost or counted twice causes an error of 1e-2.
constexpr double kRounding = 1e-13;

Tensors after_one_pass() {
  Regression r;
  torch::optim::SGD optimizer(r.model->parameters(), 0.1);
  const Loss loss = weighted_error(r.model, r.batch());
  (loss.sum / loss.weight).backward();
  optimizer.step();
  return r.model->parameters();
}

class StepMemory : public ::testing::Test {
 protected:
  void SetUp() override { memory::install_caching_allocator(); }
  void TearDown() override { memory::set_budget(std::nullopt); }
};

/// Fails `count` allocations from the `first`-th of a step in slices of 7 and 6. Returns the
/// report; none if the exception reached the caller, who finds the parameters unchanged.
std::optional<StepReport> step_with_failures(Regression& r, std::int64_t first, std::int64_t count,
                                             std::int64_t& failed) {
  torch::optim::SGD optimizer(r.model->parameters(), 0.1);
  Stepper stepper(r.model, optimizer, {.micro_batch = 7});
  const Tensors before = copies(r.model->parameters());
  std::optional<StepReport> report;
  {
    const memory::FailingAllocations failing(first, count);
    try {
      report = stepper.step(r.batch(), weighted_error);
    } catch (const c10::OutOfMemoryError&) {
    }
    failed = failing.failed();
  }
  if (!report) {
    EXPECT_EQ(largest_error(r.model->parameters(), before), 0);
  }
  return report;
}

TEST_F(StepMemory, WhereverItRunsOutTheStepIsThatOfTheWholeBatch) {
  const Tensors expected = after_one_pass();
  for (const std::int64_t count : {1, 2}) {
    std::int64_t failed = 1, went_on = 0, split = 0;
    for (std::int64_t first = 1; failed > 0; ++first) {
      Regression r;
      const auto report = step_with_failures(r, first, count, failed);
      if (!report || failed == 0) continue;
      ++went_on;
      split += *report->micro_batch < 7;
      EXPECT_GE(report->retries, 1) << "allocation " << first;
      EXPECT_LT(largest_error(r.model->parameters(), expected), kRounding)
          << "allocation " << first;
    }
    EXPECT_GT(went_on, 20) << "most allocations of a step are those of its slices";
    if (count == 1) {
      EXPECT_EQ(split, 0) << "one failure is run once more as it was";
    }
  }
}

TEST_F(StepMemory, TheComparisonSeesASliceThatIsLost) {
  Regression r;
  torch::optim::SGD optimizer(r.model->parameters(), 0.1);
  Tensors part;
  for (const torch::Tensor& tensor : r.batch()) part.push_back(tensor.slice(0, 0, 12));
  step(r.model, optimizer, part, weighted_error, {.micro_batch = 4});
  EXPECT_GT(largest_error(r.model->parameters(), after_one_pass()), 1e-4);
}

/// A sample takes about half a MiB in a forward pass, and the parameters very little.
struct Wide {
  static constexpr std::int64_t kSamples = 32, kFeatures = 32 * 1024;
  Wide() {
    torch::manual_seed(2);
    weight = torch::rand({kFeatures}).requires_grad_();
    batch = torch::rand({kSamples, kFeatures});
  }
  std::vector<torch::Tensor> parameters() const { return {weight}; }
  static Loss loss(Wide& model, const torch::Tensor& slice) {
    const torch::Tensor all = (slice * model.weight).tanh().sin().exp();
    return {all.sum(), static_cast<double>(all.numel())};
  }
  torch::Tensor weight, batch;
};

StepReport step_within(Wide& wide, std::int64_t bytes, StepOptions options = {}) {
  torch::optim::SGD optimizer(wide.parameters(), 1.0);
  Stepper stepper(wide, optimizer, std::move(options));
  memory::release_cached();
  memory::set_budget(memory::usage().reserved + bytes);
  const StepReport report = stepper.step(wide.batch, Wide::loss);
  memory::set_budget(std::nullopt);
  return report;
}

torch::Tensor wide_weight_after_one_pass() {
  Wide wide;
  torch::optim::SGD optimizer(wide.parameters(), 1.0);
  const Loss loss = Wide::loss(wide, wide.batch);
  (loss.sum / loss.weight).backward();
  optimizer.step();
  return wide.weight;
}

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;

TEST_F(StepMemory, TheAutomaticSizeFollowsTheBudget) {
  const torch::Tensor expected = wide_weight_after_one_pass();
  std::int64_t before = 0;
  for (const std::int64_t budget : {6, 12, 200}) {
    Wide wide;
    std::vector<Event> events;
    const StepReport report = step_within(
        wide, budget * kMebibyte, {.on_event = [&](const Event& e) { events.push_back(e); }});
    EXPECT_GT(*report.micro_batch, before);
    EXPECT_EQ(report.retries, 0) << "nothing was too large at budget " << budget;
    ASSERT_EQ(events.size(), 1U);
    EXPECT_EQ(events[0].name, "micro_batch");
    EXPECT_THAT(events[0].reason, HasSubstr("that the budget leaves"));
    EXPECT_LT(testing::relative_error(wide.weight, expected), 1e-6);
    before = *report.micro_batch;
  }
  EXPECT_EQ(before, Wide::kSamples);
}

TEST_F(StepMemory, ASizeThatDoesNotFitIsHalvedUntilItDoes) {
  Wide wide;
  std::vector<Event> events;
  const StepReport report =
      step_within(wide, 6 * kMebibyte,
                  {.micro_batch = 32, .on_event = [&](const Event& e) { events.push_back(e); }});
  EXPECT_LE(*report.micro_batch, 8);
  EXPECT_GE(report.retries, 2);
  ASSERT_EQ(events.size(), 1U) << "one line, however often";
  EXPECT_EQ(events[0].name, "out_of_memory");
  EXPECT_THAT(events[0].reason, HasSubstr("micro-batches of 32 samples ran out of memory"));
  EXPECT_LT(testing::relative_error(wide.weight, wide_weight_after_one_pass()), 1e-6);
}

TEST_F(StepMemory, AStepperKeepsTheSizeThatFitted) {
  Wide wide;
  torch::optim::SGD optimizer(wide.parameters(), 1e-3);
  Stepper stepper(wide, optimizer, {.micro_batch = 32});
  memory::release_cached();
  memory::set_budget(memory::usage().reserved + 6 * kMebibyte);
  EXPECT_GT(stepper.step(wide.batch, Wide::loss).retries, 0);
  EXPECT_EQ(stepper.step(wide.batch, Wide::loss).retries, 0);
}

TEST_F(StepMemory, ASampleThatDoesNotFitIsRefusedAndNothingChanges) {
  Wide wide;
  const torch::Tensor before = wide.weight.detach().clone();
  const std::string message =
      testing::error_of([&] { step_within(wide, 200 * 1024); }, Error::Kind::refused);
  EXPECT_THAT(message, HasSubstr("a single sample does not fit"));
  EXPECT_TRUE(at::equal(wide.weight, before));
}

TEST_F(StepMemory, ASizeThatBatchNormalisationTakesItsStatisticsFromIsNotHalved) {
  torch::manual_seed(3);
  torch::nn::Sequential model(torch::nn::Linear(4, 6), torch::nn::BatchNorm1d(6));
  const torch::Tensor batch = torch::randn({12, 4});
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  const auto loss_fn = [](torch::nn::Sequential& m, const torch::Tensor& slice) {
    return Loss{m->forward(slice).pow(3).sum(), static_cast<double>(slice.size(0))};
  };
  Stepper stepper(model, optimizer, {.micro_batch = 4, .on_event = [](const Event&) {}});
  const memory::FailingAllocations failing(8, 1'000'000);
  EXPECT_THAT(testing::error_of([&] { stepper.step(batch, loss_fn); }, Error::Kind::refused),
              HasSubstr("batch normalisation takes the statistics of its micro_batch"));
}

}  // namespace
}  // namespace accrue
