// accrue::plan and Accumulator::plan for users' loops: their choices, the state that they leave
// unchanged, and their refusals.
#include "accrue/train/loop_plan.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include "accrue/memory/budget.h"
#include "accrue/memory/caching_allocator.h"
#include "accrue/models/class_loss.h"
#include "accrue/models/gpt2.h"
#include "accrue/models/torch_module.h"
#include "support/errors.h"
#include "train/regression.h"

namespace accrue {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::Regression;
using testing::usage_message;
using testing::weighted_error;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

/// A sample takes about half a MiB in a forward pass, and the parameters very little.
struct PlannedNet {
  static constexpr std::int64_t kFeatures = 32 * 1024;
  PlannedNet() {
    torch::manual_seed(2);
    weight = torch::rand({kFeatures}).requires_grad_();
  }
  std::vector<torch::Tensor> parameters() const { return {weight}; }
  static Loss loss(PlannedNet& model, const torch::Tensor& slice) {
    const torch::Tensor all = (slice * model.weight).tanh().sin().exp();
    return {all.sum(), static_cast<double>(all.numel())};
  }
  torch::Tensor weight;
};

class LoopPlans : public ::testing::Test {
 protected:
  void SetUp() override { memory::install_caching_allocator(); }
  void TearDown() override { memory::set_budget(std::nullopt); }

  static std::string budget_beyond_now(std::int64_t mebibytes) {
    memory::release_cached();
    return std::to_string(memory::usage().reserved / kMiB + mebibytes) + "MiB";
  }
};

/// The choice among the sizes that fit depends on time, which no test compares.
TEST_F(LoopPlans, TheSizesThatAreTriedFollowTheBudgetAndTheChosenOneFitsIt) {
  const torch::Tensor batch = torch::rand({32, PlannedNet::kFeatures});
  std::int64_t before = 0;
  for (const std::int64_t budget : {6, 200}) {
    PlannedNet wide;
    std::vector<std::string> told;
    const std::string text = budget_beyond_now(budget);
    std::int64_t most = 0;
    const auto loss_fn = [&](PlannedNet& model, const torch::Tensor& slice) {
      if (at::GradMode::is_enabled()) most = std::max(most, slice.size(0));
      return PlannedNet::loss(model, slice);
    };
    const LoopPlan plan = accrue::plan(
        wide, batch, loss_fn,
        {.budget = text, .progress = [&](const std::string& what) { told.push_back(what); }});
    EXPECT_EQ(memory::budget(), std::nullopt) << "it holds during the trials alone";
    EXPECT_GT(most, before);
    EXPECT_EQ(plan.micro_batches, (32 + plan.micro_batch - 1) / plan.micro_batch);
    EXPECT_EQ(plan.batch_samples, 32);
    EXPECT_EQ(plan.recompute, Recompute::none);
    EXPECT_THAT(plan.recompute_reason, HasSubstr("no cuts"));
    EXPECT_FALSE(plan.reason.empty());
    EXPECT_GT(plan.seconds_per_sample, 0);
    EXPECT_TRUE(plan.within_limit);
    EXPECT_THAT(told, ::testing::Contains(HasSubstr("trying 1 sample")));
    before = most;

    const std::int64_t limit = *memory::resolve_budget(text);
    EXPECT_LE(plan.measured_peak_bytes, limit);
    EXPECT_LE(plan.predicted_peak_bytes, limit);
    memory::set_budget(limit);
    torch::optim::SGD optimizer(wide.parameters(), 1e-3);
    Stepper stepper(wide, optimizer, {.micro_batch = plan.micro_batch});
    EXPECT_EQ(stepper.step(batch, PlannedNet::loss).retries, 0)
        << plan.micro_batch << " samples fit";
    memory::set_budget(std::nullopt);
  }
  EXPECT_EQ(before, 32) << "with 200 MiB all samples run at once";
}

/// The prediction's control: twice the batch takes more than its prediction.
TEST_F(LoopPlans, ThePredictedPeakIsThatOfTheSizeAndNotOfAnother) {
  PlannedNet wide;
  const torch::Tensor more = torch::rand({64, PlannedNet::kFeatures}), batch = more.slice(0, 0, 32);
  const LoopPlan plan =
      accrue::plan(wide, batch, PlannedNet::loss, {.budget = budget_beyond_now(20)});
  memory::release_cached();
  const auto held = static_cast<double>(memory::usage().reserved);
  const auto peak_of = [&](std::int64_t samples) {
    memory::release_cached();
    const memory::PeakScope scope;
    const Loss loss = PlannedNet::loss(wide, more.slice(0, 0, samples));
    torch::autograd::grad({loss.sum}, {wide.weight});
    return static_cast<double>(scope.peak().reserved);
  };
  const auto predicted = static_cast<double>(plan.predicted_peak_bytes);
  EXPECT_NEAR(peak_of(plan.micro_batch) / predicted, 1, 0.15);
  EXPECT_GT((peak_of(2 * plan.micro_batch) - held) / (predicted - held), 1.2);
}

TEST_F(LoopPlans, ABudgetThatHoldsIsTakenAsItIs) {
  PlannedNet wide;
  const torch::Tensor batch = torch::rand({32, PlannedNet::kFeatures});
  memory::set_budget(*memory::resolve_budget(budget_beyond_now(6)));
  const std::optional<std::int64_t> budget = memory::budget();
  EXPECT_LT(accrue::plan(wide, batch, PlannedNet::loss).micro_batch, 32);
  EXPECT_EQ(memory::budget(), budget);
}

TEST_F(LoopPlans, WhatIsReservedIsNotPlannedAway) {
  PlannedNet wide;
  const torch::Tensor batch = torch::rand({32, PlannedNet::kFeatures});
  const std::string budget = budget_beyond_now(24);
  const auto most_tried = [&](std::int64_t reserve_bytes) {
    std::int64_t most = 0;
    const auto loss_fn = [&](PlannedNet& model, const torch::Tensor& slice) {
      if (at::GradMode::is_enabled()) most = std::max(most, slice.size(0));
      return PlannedNet::loss(model, slice);
    };
    accrue::plan(wide, batch, loss_fn, {.budget = budget, .reserve_bytes = reserve_bytes});
    return most;
  };
  EXPECT_LT(most_tried(18 * kMiB), most_tried(0));
}

TEST_F(LoopPlans, ASampleThatDoesNotFitIsRefusedWithWhatIsMissing) {
  PlannedNet wide;
  const torch::Tensor batch = torch::rand({32, PlannedNet::kFeatures}),
                      before = wide.weight.clone();
  memory::release_cached();
  memory::set_budget(memory::usage().reserved + 200 * 1024);
  const std::string message =
      error_of([&] { accrue::plan(wide, batch, PlannedNet::loss); }, Error::Kind::refused);
  EXPECT_THAT(message, HasSubstr("plan the micro-batch: expected memory for 1 sample"));
  EXPECT_THAT(message, HasSubstr("are missing"));
  EXPECT_TRUE(at::equal(wide.weight, before));
}

TEST_F(LoopPlans, AnAccumulatorPlansForItsBatch) {
  PlannedNet wide;
  const torch::Tensor one = torch::rand({1, PlannedNet::kFeatures});
  Accumulator by_samples(wide.parameters(), {.batch = Samples{24}});
  EXPECT_EQ(by_samples.plan(wide, one, PlannedNet::loss).batch_samples, 24)
      << "one sample is repeated as often as it takes";
  Accumulator by_tokens(wide.parameters(), {.batch = Tokens{10 * PlannedNet::kFeatures}});
  EXPECT_EQ(by_tokens.plan(wide, one, PlannedNet::loss).batch_samples, 10);
  Accumulator unstated(wide.parameters());
  EXPECT_EQ(unstated.plan(wide, one, PlannedNet::loss, {.batch_samples = 7}).batch_samples, 7);
  unstated.backward(PlannedNet::loss(wide, one));
  EXPECT_THAT(usage_message([&] { unstated.plan(wide, one, PlannedNet::loss); }),
              HasSubstr("no open window"));
  unstated.backward(PlannedNet::loss(wide, one));
  EXPECT_EQ(unstated.current_window().ledger().count(MicroStatus::committed), 2)
      << "the window goes on";
}

/// At most one sample fits in any pass.
TEST_F(LoopPlans, TokensAreCountedWithinMemory) {
  PlannedNet wide;
  const torch::Tensor batch = torch::rand({4, PlannedNet::kFeatures});
  Accumulator accumulator(wide.parameters(), {.batch = Tokens{10 * PlannedNet::kFeatures}});
  const auto plan_within = [&](std::int64_t samples) {
    return accumulator.plan(wide, batch, [&](PlannedNet& model, const torch::Tensor& slice) {
      TORCH_CHECK_WITH(OutOfMemoryError, slice.size(0) <= samples, "no memory");
      return PlannedNet::loss(model, slice);
    });
  };
  const LoopPlan one = plan_within(1);
  EXPECT_EQ(one.micro_batch, 1);
  EXPECT_EQ(one.batch_samples, 10);
  EXPECT_THAT(error_of([&] { plan_within(0); }, Error::Kind::refused),
              HasSubstr("plan the micro-batch: expected memory for 1 sample"));
}

TEST_F(LoopPlans, ABatchOfAnotherTypeIsNotRepeated) {
  PlannedNet wide;
  batch::MicroBatch batch;
  batch.inputs = torch::rand({3, PlannedNet::kFeatures});
  batch.targets = torch::zeros({3}, torch::kLong);
  batch.sample_ids = {0, 1, 2};
  const auto loss_fn = [](PlannedNet& model, const batch::MicroBatch& slice) {
    return PlannedNet::loss(model, slice.inputs);
  };
  const LoopPlan plan = accrue::plan(wide, batch, loss_fn, {.batch_samples = 12});
  EXPECT_LE(plan.micro_batch, 3);
  EXPECT_EQ(plan.micro_batches, (12 + plan.micro_batch - 1) / plan.micro_batch);
}

/// A single sample cannot run, and the memory of two does not give the cost of one more.
TEST_F(LoopPlans, BatchNormalisationIsTriedFromTwoSamplesAndWithinTheBudget) {
  constexpr std::int64_t kRows = 64, kBudget = 10;
  torch::nn::Sequential normalised(torch::nn::BatchNorm1d(PlannedNet::kFeatures),
                                   torch::nn::Tanh());
  const torch::Tensor batch = torch::rand({kRows, PlannedNet::kFeatures});
  std::int64_t least = kRows, most = 0;
  const auto loss_fn = [&](torch::nn::Sequential& model, const torch::Tensor& slice) {
    least = std::min(least, slice.size(0));
    most = std::max(most, slice.size(0));
    return Loss{model->forward(slice).sum(), static_cast<double>(slice.numel())};
  };
  const LoopPlan plan =
      accrue::plan(normalised, batch, loss_fn, {.budget = budget_beyond_now(kBudget)});
  EXPECT_EQ(least, 2);
  EXPECT_GE(plan.micro_batch, 2);
  const std::int64_t of_two_tensors =
      2 * most * PlannedNet::kFeatures * std::int64_t{sizeof(float)};
  EXPECT_LE(of_two_tensors, kBudget * kMiB) << "both are held by the backward pass";
  for (const LoopPlanEntry& other : plan.alternatives) EXPECT_GE(other.micro_batch, 2);
}

/// A model that draws random numbers and changes statistics.
struct Moving {
  Moving() {
    torch::manual_seed(4);
    model = torch::nn::Sequential(torch::nn::Linear(4, 6), torch::nn::BatchNorm1d(6),
                                  torch::nn::Dropout(0.5), torch::nn::Linear(6, 1));
    batch = torch::randn({12, 4});
    loss_of(model, batch).sum.backward();
  }
  static Loss loss_of(torch::nn::Sequential& model, const torch::Tensor& slice) {
    return {model->forward(slice).square().sum(), static_cast<double>(slice.size(0))};
  }
  std::vector<torch::Tensor> all() const {
    std::vector<torch::Tensor> all{at::globalContext().defaultGenerator(at::kCPU).get_state()};
    for (const torch::Tensor& p : model->parameters()) {
      all.push_back(p.detach().clone());
      all.push_back(p.grad().clone());
    }
    for (const torch::Tensor& b : model->buffers()) all.push_back(b.clone());
    return all;
  }
  torch::nn::Sequential model{nullptr};
  torch::Tensor batch;
};

TEST_F(LoopPlans, EverythingIsPutBack) {
  Moving moving;
  const std::vector<torch::Tensor> before = moving.all();
  EXPECT_GE(accrue::plan(moving.model, moving.batch, Moving::loss_of).micro_batch, 1);
  const std::vector<torch::Tensor> after = moving.all();
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(at::equal(after[i], before[i])) << i;
  Moving::loss_of(moving.model, moving.batch);
  EXPECT_FALSE(at::equal(moving.all().back(), before.back())) << "a pass of it does move them";
}

TEST_F(LoopPlans, ALossThatChangesTheModelIsRefusedAndItsChangeTakenBack) {
  Regression r;
  const torch::Tensor before = r.model->parameters()[2].detach().clone();
  const auto changes = [](torch::nn::Sequential& model, const std::vector<torch::Tensor>& micro) {
    const torch::NoGradGuard no_grad;
    model->named_parameters()["2.weight"].data().mul_(1.5);
    return weighted_error(model, micro);
  };
  EXPECT_THAT(usage_message([&] { accrue::plan(r.model, r.batch(), changes); }),
              HasSubstr("one that changed '2.weight', which is as before now"));
  EXPECT_TRUE(at::equal(r.model->parameters()[2], before));
}

TEST_F(LoopPlans, ALossThatIsNoSumIsRefused) {
  Regression r;
  using Batch = std::vector<torch::Tensor>;
  const auto message = [&](const auto& loss_fn) {
    return usage_message([&] { accrue::plan(r.model, r.batch(), loss_fn); });
  };
  EXPECT_THAT(message([](torch::nn::Sequential& model, const Batch& micro) {
                return Loss{(model->forward(micro[0]) - micro[1]).square().mean(), 1};
              }),
              HasSubstr("a loss whose weight adds up over the samples"));
  EXPECT_THAT(message([](torch::nn::Sequential& model, const Batch& micro) {
                const torch::Tensor error = (model->forward(micro[0]) - micro[1]).square();
                return Loss{error.mean(), static_cast<double>(error.numel())};
              }),
              HasSubstr("the sum of the terms in place of their mean"));
  EXPECT_THAT(message([](torch::nn::Sequential& model, const Batch& micro) {
                const torch::Tensor out = model->forward(micro[0]);
                return Loss{out.matmul(out.t()).sum(), static_cast<double>(out.size(0))};
              }),
              HasSubstr("accrue::coupled_step"));
}

/// Each of the three sums is rounded to 8 bits, two of them up and one down. The control: for a
/// mean they differ by as much in bf16 as in any other dtype.
TEST_F(LoopPlans, ALossIsMeasuredByTheRoundingOfItsDtype) {
  constexpr double kStep = 0x1p-7;  // of bf16 above 1; twice that above 2
  struct Scale {
    torch::Tensor weight = torch::ones({1}).requires_grad_();
    std::vector<torch::Tensor> parameters() const { return {weight}; }
  } scale;
  const torch::Tensor batch = torch::tensor({1.0, 0.55 * kStep, 1.0, 1.55 * kStep}).view({4, 1});
  const auto sum = [](Scale& model, const torch::Tensor& slice) {
    return Loss{(slice * model.weight).sum().to(torch::kBFloat16),
                static_cast<double>(slice.size(0))};
  };
  const auto mean = [](Scale& model, const torch::Tensor& slice) {
    return Loss{(slice * model.weight).mean().to(torch::kBFloat16),
                static_cast<double>(slice.size(0))};
  };
  EXPECT_GE(accrue::plan(scale, batch, sum).micro_batch, 1);
  EXPECT_THAT(usage_message([&] { accrue::plan(scale, batch, mean); }),
              HasSubstr("the sum of the terms in place of their mean"));
}

TEST_F(LoopPlans, ABatchWithoutSamplesIsNamed) {
  PlannedNet wide;
  EXPECT_THAT(usage_message([&] {
                accrue::plan(wide, torch::rand({0, PlannedNet::kFeatures}), PlannedNet::loss);
              }),
              HasSubstr("accrue::plan: expected a batch of at least one sample"));
}

TEST_F(LoopPlans, AChainWithBatchNormalisationIsTriedFromTwoSamples) {
  const torch::nn::Sequential net(torch::nn::Linear(4, 6), torch::nn::BatchNorm1d(6),
                                  torch::nn::Linear(6, 3));
  const auto model = models::from_sequential(net, models::class_cross_entropy, "net");
  batch::MicroBatch batch;
  batch.inputs = torch::rand({8, 4});
  batch.targets = torch::randint(3, {8}, torch::kLong);
  for (std::int64_t i = 0; i < 8; ++i) batch.sample_ids.push_back(i);
  batch.tokens = 8;
  const LoopPlan plan = accrue::plan(*model, batch);
  EXPECT_GE(plan.micro_batch, 2);
  for (const LoopPlanEntry& other : plan.alternatives) EXPECT_GE(other.micro_batch, 2);
}

/// There are many layers, so that activations are most of one sample's peak: the scratch memory of
/// a product's kernel differs with the machine and its threads, and recomputation saves none of it.
/// Fully recomputed, the model needs 51% (one thread) to 58% (two) of that peak.
TEST_F(LoopPlans, AChainIsRecomputedWhereThatMakesItFit) {
  models::Gpt2 model({.layers = 8, .heads = 2, .width = 32, .context = 128, .vocab = 64});
  batch::MicroBatch batch;
  batch.inputs = torch::randint(64, {16, 128}, torch::kLong);
  batch.targets = torch::randint(64, {16, 128}, torch::kLong);
  for (std::int64_t i = 0; i < 16; ++i) batch.sample_ids.push_back(i);
  batch.tokens = 16 * 128;
  const LoopPlan roomy = accrue::plan(model, batch);
  EXPECT_EQ(roomy.recompute, Recompute::none) << "which costs time alone where there is room";
  EXPECT_TRUE(roomy.recompute_reason.empty());
  std::int64_t single = 0;
  {
    memory::release_cached();
    const std::int64_t held = memory::usage().reserved;
    single = accrue::plan(model, batch_slice(batch, 0, 1)).measured_peak_bytes - held;
  }
  memory::release_cached();
  memory::set_budget(memory::usage().reserved + single * 4 / 5);
  EXPECT_NE(accrue::plan(model, batch).recompute, Recompute::none);
}

}  // namespace
}  // namespace accrue
