#include "train/plan/plan.h"

#include <gmock/gmock.h>

#include "accrue/core/error.h"
#include "train/plan/plan_choice.h"
#include "train/plan/setup.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

using ::testing::HasSubstr;

class PlanRun : public testing::TinyRun {
 protected:
  Config open_config() const {
    Config c = config();
    c.batch.micro.reset();
    c.batch.tokens = 32 * 16;
    return c;
  }
};

TEST_F(PlanRun, AStatedSizeIsNotTried) {
  Config c = open_config();
  c.batch.micro = 5;
  const Workload work = open_workload(c);
  EXPECT_TRUE(is_decided(plan_question(work)));
  const MicroDecision decision = choose_micro_batch(work);
  EXPECT_EQ(decision.samples, 5);
  EXPECT_EQ(decision.recompute, Recompute::none);
  EXPECT_EQ(decision.reason, "as batch.micro says");
  c.batch.micro = 500;
  EXPECT_EQ(choose_micro_batch(open_workload(c)).samples, 32) << "no more than the batch";
  c.memory.recompute = Recompute::full;
  EXPECT_EQ(choose_micro_batch(open_workload(c)).recompute, Recompute::full);
}

TEST_F(PlanRun, ABudgetLeavesTheRecomputationOfAStatedSizeOpen) {
  Config c = open_config();
  c.batch.micro = 4;
  c.memory.budget = "1GiB";
  const memory::PlanQuestion question = plan_question(open_workload(c));
  EXPECT_FALSE(is_decided(question));
  EXPECT_EQ(question.modes.size(), 3U);
  EXPECT_TRUE(question.is_budget);
  EXPECT_EQ(question.limit_bytes, std::int64_t{1} << 30);
  const MicroDecision decision = choose_micro_batch(open_workload(c));
  EXPECT_EQ(decision.samples, 4);
  EXPECT_EQ(decision.recompute, Recompute::none) << decision.reason;
}

TEST_F(PlanRun, TrialsLeaveTheModelAsItWas) {
  const Workload work = open_workload(open_config());
  NamedParameters before;
  for (const NamedParameter& p : work.model->parameters())
    before.push_back({p.name, p.tensor.detach().clone()});
  const MicroDecision decision = choose_micro_batch(work);
  EXPECT_GE(decision.samples, 1);
  EXPECT_LE(decision.samples, 32);
  const NamedParameters after = work.model->parameters();
  expect_same_bits(before, after);
  for (const NamedParameter& p : after) EXPECT_FALSE(p.tensor.grad().defined()) << p.name;
}

TEST_F(PlanRun, RecomputationIsTakenAsTheConfigSays) {
  Config c = open_config();
  c.memory.recompute = Recompute::selective;
  const MicroDecision decision = choose_micro_batch(open_workload(c));
  EXPECT_EQ(decision.recompute, Recompute::selective);
  EXPECT_THAT(decision.reason, HasSubstr("as memory.recompute says"));
}

TEST_F(PlanRun, ABudgetThatHoldsNothingIsRefusedWithTheBytesMissing) {
  Config c = open_config();
  c.memory.budget = "64KiB";
  try {
    choose_micro_batch(open_workload(c));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 3);
    EXPECT_THAT(error.received(), HasSubstr("missing"));
    EXPECT_THAT(error.suggestion(), HasSubstr("parameters"));
  }
}

TEST_F(PlanRun, TrialsOfMoreSamplesHoldMoreAndRecomputationLess) {
  Config c = open_config();
  c.model.layers = 6;
  const Workload work = open_workload(c);
  memory::PlanQuestion question = plan_question(work);
  const auto trials = begin_trials(work, question);
  const auto bytes = [&](std::int64_t samples, Recompute recompute) {
    const memory::Measured measured = trials->run({samples, recompute});
    EXPECT_TRUE(measured.fits);
    EXPECT_GT(measured.seconds, 0);
    return measured.peak_bytes;
  };
  const std::int64_t one = bytes(1, Recompute::none), sixteen = bytes(16, Recompute::none);
  EXPECT_GT(one, question.resident.total());
  EXPECT_GT(sixteen, one);
  EXPECT_LT(bytes(16, Recompute::full), sixteen);
}

TEST_F(PlanRun, MayBePlannedWhatLeavesTheMargin) {
  Config c = open_config();
  const auto peak_of = [&](std::int64_t samples) {
    const Workload work = open_workload(c);
    memory::PlanQuestion question = plan_question(work);
    return begin_trials(work, question)->run({samples, Recompute::none}).peak_bytes;
  };
  const std::int64_t one = peak_of(1), all = peak_of(32);
  ASSERT_GT(all, one + one / 2);
  const auto may_be_planned_in = [&](std::int64_t bytes, std::int64_t samples) {
    c.memory.budget = std::to_string(bytes) + " B";
    return may_be_planned(open_workload(c), {samples, Recompute::none});
  };
  const std::int64_t between = (one + all) / 2;
  EXPECT_TRUE(may_be_planned_in(between, 1));
  EXPECT_FALSE(may_be_planned_in(between, 32));
  EXPECT_TRUE(may_be_planned_in(2 * all, 32));
  EXPECT_FALSE(may_be_planned_in(1000, 1)) << "not even the state fits";
}

/// A window ends if its epoch does.
TEST_F(PlanRun, ABatchBeyondTheDataIsTheData) {
  Config c = open_config();
  c.batch.micro = 2;
  const std::int64_t there = open_workload(c).data.train->size();
  const auto remarks_of_data = [](const PlanReport& report) {
    std::string told;
    for (const std::string& remark : report.remarks) told += remark + "\n";
    return told;
  };
  c.batch.tokens = there * 16;
  EXPECT_THAT(remarks_of_data(plan_run(c)),
              ::testing::Not(HasSubstr("more than the training data")));
  c.batch.tokens = 1'000'000'000 * std::int64_t{16};
  PlanReport report = plan_run(c);
  EXPECT_EQ(report.question.window_samples, there);
  EXPECT_EQ(report.plan.micro_batches, (there + 1) / 2);
  EXPECT_EQ(report.batch_tokens, there * 16);
  EXPECT_THAT(remarks_of_data(report),
              HasSubstr("batch.tokens (16,000,000,000) is more than the training data have"));
  c.batch = {.samples = 1'000'000'000, .micro = 2};
  report = plan_run(c);
  EXPECT_EQ(report.question.window_samples, there);
  EXPECT_THAT(remarks_of_data(report),
              HasSubstr("(" + std::to_string(there) + " samples): each step is an epoch"));
  EXPECT_EQ(Trainer(c).plan().batch_samples, there);
  c.batch.last = batch::LastWindow::drop;
  EXPECT_THROW(plan_run(c), Error);
}

TEST_F(PlanRun, ReportsWhatItMeasuredBesideWhatItPredicted) {
  const PlanReport report = plan_run(open_config());
  EXPECT_EQ(report.question.window_samples, 32);
  EXPECT_EQ(report.batch_tokens, 32 * 16);
  EXPECT_GT(report.measured.seconds, 0);
  EXPECT_GT(report.closing_seconds.value_or(0), 0);
  EXPECT_GE(report.seconds_per_step(), report.plan.chosen.window_seconds);
  EXPECT_EQ(report.plan.breakdown.total(), report.plan.chosen.peak_bytes);
  EXPECT_GE(report.measured.peak_bytes, report.question.resident.total());
  const auto peak_of = [&](std::int64_t samples) {
    return std::ranges::find(report.facts, memory::PlanPoint{samples, Recompute::none},
                             &memory::Fact::point)
        ->measured.peak_bytes;
  };
  EXPECT_LT(peak_of(1), peak_of(32)) << "a peak has nothing of larger micro-batches before it";
  ASSERT_TRUE(report.bf16.has_value());
  EXPECT_GT(report.bf16->micro_batch_seconds, 0);
  Config narrow = open_config();
  narrow.precision.compute = models::Compute::bf16;
  EXPECT_FALSE(plan_run(narrow).bf16.has_value()) << "it is what was asked for";
}

}  // namespace
}  // namespace accrue::train
