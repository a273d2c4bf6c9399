#include "verify/doctor/findings.h"

#include <gmock/gmock.h>

namespace accrue::proof {
namespace {

using ::testing::Contains;
using ::testing::Not;

/// A run without findings.
RunFacts healthy() {
  RunFacts facts;
  facts.config.run.steps = 1000;
  facts.config.run.eval_every = Duration{100, Duration::Unit::steps};
  facts.config.batch.samples = 64;
  facts.config.optim.schedule.warmup = {10, Duration::Unit::steps};
  facts.parameters = 1000;
  facts.train_samples = 6400;
  facts.val_samples = 100;
  facts.batch_samples = 64;
  facts.batch_tokens = 64 * 16;
  facts.micro_batch = 16;
  facts.micro_batches = 4;
  facts.steps_per_epoch = 100;
  facts.total_steps = 1000;
  facts.first_weight = 1000;
  facts.first_terms = 1024;
  facts.speed = Speed{16, 640};
  facts.larger_speed = Speed{64, 650};
  facts.fp32_samples_per_second = 640;
  facts.bf16_samples_per_second = 630;
  return facts;
}

std::vector<std::string> ids(const RunFacts& facts) {
  std::vector<std::string> found;
  for (const Finding& finding : examine(facts)) found.push_back(finding.id);
  return found;
}

const Finding* find(const std::vector<Finding>& findings, const std::string& id) {
  for (const Finding& finding : findings)
    if (finding.id == id) return &finding;
  return nullptr;
}

TEST(Findings, AHealthyRunHasNone) { EXPECT_THAT(ids(healthy()), ::testing::IsEmpty()); }

TEST(Findings, LimitsWithWhatTheyAreNow) {
  RunFacts facts = healthy();
  const train::Limit heat{.file = "/temp", .above = 85, .action = train::LimitAction::slow};
  facts.limits = {{heat, train::LimitReading{.value = 45, .trouble = {}}}};
  std::vector<Finding> findings = examine(facts);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].id, "limit");
  EXPECT_EQ(findings[0].severity, Severity::note);
  EXPECT_EQ(findings[0].message, "/temp above 85: slow until it is 80.75 or less; now /temp is 45");
  EXPECT_EQ(findings[0].evidence.front().second, 45);

  facts.limits[0].reading->value = 90;
  EXPECT_THAT(examine(facts)[0].message, ::testing::EndsWith("/temp is 90, so that it is met"));

  facts.limits[0].reading = train::LimitReading{.value = {}, .trouble = "it is no regular file"};
  findings = examine(facts);
  EXPECT_EQ(findings[0].id, "limit-unreadable");
  EXPECT_EQ(findings[0].severity, Severity::error);

  facts.limits = {
      {.limit = {.command = "true", .action = train::LimitAction::stop}, .reading = {}}};
  EXPECT_EQ(examine(facts)[0].message,
            "the command \"true\" ends with status 0: stop; the command is not run here");
}

TEST(Findings, BatchNormBySayingWhatThePolicyMakesOfIt) {
  RunFacts facts = healthy();
  facts.cut_batch_norms = {"bn1"};
  EXPECT_THAT(ids(facts), Contains("batchnorm-refused"));
  facts.config.model.batchnorm = models::BatchNormPolicy::micro;
  EXPECT_THAT(ids(facts), Contains("batchnorm-micro"));
  facts.config.model.batchnorm = models::BatchNormPolicy::exact;
  EXPECT_THAT(ids(facts), Contains("batchnorm-exact"));
  facts.uncut_batch_norms = {"inside"};
  EXPECT_THAT(ids(facts), Contains("batchnorm-refused")) << "exact needs cuts";
}

TEST(Findings, Bf16SumsByTheirNumberOfMicroBatches) {
  RunFacts facts = healthy();
  facts.config.precision.accumulate = accum::Accumulation::bf16;
  facts.micro_batches = 512;
  const auto many = examine(facts);
  ASSERT_NE(find(many, "bf16-sum"), nullptr);
  EXPECT_EQ(find(many, "bf16-sum")->severity, Severity::warning);
  facts.micro_batches = 4;
  EXPECT_EQ(find(examine(facts), "bf16-sum")->severity, Severity::advice);
  facts.micro_batches = 1;
  EXPECT_THAT(ids(facts), Not(Contains("bf16-sum")));
  facts.micro_batches = 512;
  facts.config.precision.accumulate = accum::Accumulation::bf16_kahan;
  EXPECT_THAT(ids(facts), Not(Contains("bf16-sum")));
}

TEST(Findings, WarmUpAndItsUnits) {
  RunFacts facts = healthy();
  facts.config.optim.schedule.warmup = {2'000'000, Duration::Unit::steps};
  const auto findings = examine(facts);
  const Finding* finding = find(findings, "warmup-longer-than-run");
  ASSERT_NE(finding, nullptr);
  EXPECT_THAT(finding->advice, ::testing::HasSubstr("tokens"));
  facts.config.optim.schedule.warmup = {600, Duration::Unit::steps};
  EXPECT_THAT(ids(facts), Contains("warmup-long"));
  facts.config.optim.schedule.warmup = {0, Duration::Unit::steps};
  EXPECT_THAT(ids(facts), Not(Contains("warmup-none"))) << "3e-4 starts well without";
  facts.config.optim.lr = 3e-3;
  EXPECT_EQ(find(examine(facts), "warmup-none")->advice, "optim.schedule.warmup = \"1%\"");
  facts.total_steps = 30;
  EXPECT_EQ(find(examine(facts), "warmup-none")->advice, "optim.schedule.warmup = 3");
  facts.config.optim.kind = train::OptimizerKind::sgd;
  EXPECT_THAT(ids(facts), Not(Contains("warmup-none")));
}

TEST(Findings, TheBatchBesideTheNoiseOfTheFirstSteps) {
  RunFacts facts = healthy();
  facts.noise = adapt::NoiseScale{.value = 1000, .low = 800, .high = 1300};
  facts.noise_batch = 8 * 1300;
  EXPECT_THAT(ids(facts), Not(Contains("batch-above-noise")));
  facts.noise_batch = 9 * 1300;
  const auto findings = examine(facts);
  const Finding* finding = find(findings, "batch-above-noise");
  ASSERT_NE(finding, nullptr);
  EXPECT_THAT(finding->message, ::testing::HasSubstr("11.7 times"));
  facts.noise->high.reset();
  EXPECT_THAT(ids(facts), Not(Contains("batch-above-noise"))) << "it may be any";
  facts.noise_batch = 101;
  EXPECT_THAT(ids(facts), Not(Contains("batch-below-noise")));
  facts.noise_batch = 100;
  EXPECT_THAT(ids(facts), Contains("batch-below-noise"));
}

TEST(Findings, FirstStepsThatRiseOrAreNotFinite) {
  RunFacts facts = healthy();
  facts.first_losses = {5, 4.9, 5.2, 5.4};
  EXPECT_THAT(ids(facts), Not(Contains("first-steps-rise")));
  facts.first_losses = {5, 4.9, 5.2, 5.6};
  EXPECT_THAT(ids(facts), Contains("first-steps-rise"));
  facts.first_steps_are_finite = false;
  EXPECT_THAT(ids(facts), Contains("first-steps-diverge"));
}

TEST(Findings, ALinearRateRuleOfAdam) {
  RunFacts facts = healthy();
  facts.config.optim.scale_lr = optim::ScaleRule::linear;
  facts.config.batch.tokens.reset();
  facts.config.batch.samples = 64;
  facts.config.optim.base_batch = 8;
  EXPECT_THAT(ids(facts), Contains("lr-rule-of-batch"));
  facts.config.optim.base_batch = 16;
  EXPECT_THAT(ids(facts), Not(Contains("lr-rule-of-batch")));
  facts.config.optim.base_batch = 8;
  facts.config.optim.kind = train::OptimizerKind::sgd;
  EXPECT_THAT(ids(facts), Not(Contains("lr-rule-of-batch")));
}

TEST(Findings, TheFloorOfTheRate) {
  RunFacts facts = healthy();
  facts.config.optim.schedule.min_lr = 3e-5;
  EXPECT_THAT(ids(facts), ::testing::IsEmpty());
  facts.config.optim.schedule.min_lr = 2e-4;
  EXPECT_THAT(ids(facts), Contains("min-lr-high"));
  facts.config.optim.schedule.kind = optim::ScheduleKind::constant;
  EXPECT_THAT(ids(facts), Not(Contains("min-lr-high")));
}

TEST(Findings, TheSecondMomentOfAdamA) {
  RunFacts facts = healthy();
  facts.config.optim.kind = train::OptimizerKind::adama;
  const auto findings = examine(facts);
  const Finding* finding = find(findings, "adama-second-moment");
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->evidence.at(1).second, 2) << "the root of 4 micro-batches";
  facts.micro_batches = 1;
  EXPECT_THAT(ids(facts), ::testing::IsEmpty());
}

TEST(Findings, LabelsThatDoNotCount) {
  RunFacts facts = healthy();
  facts.first_weight = 20;
  EXPECT_THAT(ids(facts), Contains("labels-few"));
  facts.first_weight = 0;
  EXPECT_EQ(find(examine(facts), "labels-none")->severity, Severity::warning);
}

TEST(Findings, EpochsAndBatches) {
  RunFacts facts = healthy();
  facts.config.batch.last = batch::LastWindow::drop;
  EXPECT_THAT(ids(facts), ::testing::IsEmpty());
  facts.train_samples = 6460;
  EXPECT_THAT(ids(facts), ::testing::IsEmpty()) << "0.9%";
  facts.steps_per_epoch = 50;
  EXPECT_THAT(ids(facts), Contains("last-window-dropped"));
  facts.train_samples = 50;
  EXPECT_THAT(ids(facts), Contains("batch-larger-than-epoch"));
}

TEST(Findings, SpeedAsMeasured) {
  RunFacts facts = healthy();
  facts.larger_speed = Speed{64, 900};
  facts.bf16_samples_per_second = 1280;
  const auto findings = examine(facts);
  ASSERT_NE(find(findings, "micro-batch-small"), nullptr);
  EXPECT_THAT(find(findings, "micro-batch-small")->message,
              ::testing::HasSubstr("needs no accumulation"));
  EXPECT_THAT(find(findings, "bf16-faster")->evidence,
              Contains(std::pair<std::string, double>("gain", 2.0)));
  facts.config.precision.compute = models::Compute::bf16;
  EXPECT_THAT(ids(facts), Not(Contains("bf16-faster")));
  facts.bf16_samples_per_second = 320;
  EXPECT_THAT(ids(facts), Contains("bf16-slower"));
}

TEST(Findings, EvaluationAndCheckpoints) {
  RunFacts facts = healthy();
  facts.config.run.eval_every.reset();
  EXPECT_THAT(ids(facts), Contains("eval-only-at-end"));
  facts.val_samples = 0;
  EXPECT_THAT(ids(facts), Contains("eval-never"));
  facts.total_steps = 100'000;  // 0.1 s each
  facts.config.run.checkpoint_every = {100'000, Duration::Unit::steps};
  EXPECT_THAT(ids(facts), Contains("checkpoint-never"));
  facts.config.run.checkpoint_every = {1, Duration::Unit::steps};
  EXPECT_THAT(ids(facts), Contains("checkpoint-often"));
}

TEST(Findings, ComeWorstFirst) {
  RunFacts facts = healthy();
  facts.val_samples = 0;
  facts.foreign_dropouts = {"drop"};
  facts.cut_batch_norms = {"bn1"};
  const std::vector<Finding> findings = examine(facts);
  ASSERT_EQ(findings.size(), 3u);
  EXPECT_EQ(findings[0].severity, Severity::error);
  EXPECT_EQ(findings[1].severity, Severity::warning);
  EXPECT_EQ(findings[2].severity, Severity::advice);
}

}  // namespace
}  // namespace accrue::proof
