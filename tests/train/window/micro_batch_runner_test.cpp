#include "train/window/micro_batch_runner.h"

#include <gmock/gmock.h>

#include <set>

#include "support/errors.h"
#include "train/window/two_losses.h"

namespace accrue::train {
namespace {

using accrue::testing::error_of;
using ::testing::ElementsAre;
using testing::expect_equal;
using testing::expect_same_bits;
using ::testing::HasSubstr;
using testing::kWindowLength;
using testing::kWindowSamples;
using testing::label_count;
using testing::rated_count;
using testing::Tensors;
using testing::WindowRunnerFixture;

TEST(MicroBatchRunner, GivesLossesWithDenominatorsOfTheirOwnTheFullBatchsGradient) {
  WindowRunnerFixture f;
  const Tensors expected = f.reference();
  for (const std::int64_t micro : {1, 2, 3, 7, 16}) {
    WindowRun run = f.run(micro);
    EXPECT_EQ(run.weight, label_count(f.loader.fetch({0, kWindowSamples})));
    expect_equal(f.gradients(std::move(run.gradient)), expected);
  }
}

std::vector<std::int64_t> ids_of(const std::vector<batch::UnreadableSample>& unreadable) {
  std::vector<std::int64_t> ids;
  for (const batch::UnreadableSample& sample : unreadable) ids.push_back(sample.sample_id);
  return ids;
}

/// For any split, even if all samples of a micro-batch cannot be read.
TEST(MicroBatchRunner, LeavesOutSamplesThatCannotBeRead) {
  WindowRunnerFixture f({.max_quarantined = 0.25});
  const Tensors whole = f.reference();
  f.samples->damage({0, 5, 6, 15});
  const Tensors expected = f.reference();
  EXPECT_GT(accrue::testing::relative_error(whole[0], expected[0]), 1e-3) << "the control";
  for (const std::int64_t micro : {1, 2, 3, 16}) {
    WindowRun run = f.run(micro);
    EXPECT_THAT(ids_of(run.unreadable), ElementsAre(0, 5, 6, 15));
    EXPECT_EQ(run.unreadable[1].reason, "file 5 is damaged");
    EXPECT_EQ(run.quarantined, 0);
    EXPECT_EQ(run.tokens, 12 * kWindowLength);
    EXPECT_EQ(run.weight, label_count(f.loader.fetch({0, kWindowSamples})));
    expect_equal(f.gradients(std::move(run.gradient)), expected);
  }
}

/// A replay uses the rows of the first time, and reports the others once.
TEST(MicroBatchRunner, ReplaysAroundSamplesThatCannotBeRead) {
  for (const std::int64_t micro : {1, 4}) {
    WindowRunnerFixture f({.max_quarantined = 0.25});
    f.samples->damage({1, 2, 7});
    f.model.bad_gradients = {13};
    WindowRun run = f.run(micro);
    EXPECT_EQ(run.quarantined, 1);
    EXPECT_GT(std::ssize(f.model.contexts), kWindowSamples / micro) << "passes of the replay";
    EXPECT_THAT(ids_of(run.unreadable), ElementsAre(1, 2, 7));
    WindowRunnerFixture without({.max_quarantined = 0.5});
    without.samples->damage(micro == 1 ? std::set<std::int64_t>{1, 2, 7, 13}
                                       : std::set<std::int64_t>{1, 2, 7, 12, 13, 14, 15});
    expect_equal(f.gradients(std::move(run.gradient)), without.reference());
  }
}

TEST(MicroBatchRunner, EndsWhereTooManySamplesCannotBeRead) {
  for (const std::int64_t micro : {1, 4, 16}) {
    WindowRunnerFixture f({.max_quarantined = 0.125});
    f.samples->damage({3, 8});
    EXPECT_EQ(f.run(micro).unreadable.size(), 2);
    f.samples->damage({3, 8, 15});
    const std::string message = error_of([&] { f.run(micro); });
    EXPECT_THAT(message, HasSubstr("at most 2 of its 16 samples"));
    EXPECT_THAT(message, HasSubstr("sample 8: file 8 is damaged"));
    EXPECT_THAT(message, HasSubstr("data.exclude"));
    EXPECT_FALSE(f.window.is_open());
  }
}

TEST(MicroBatchRunner, FollowsALossScalerAndRunsAgainAtAnOverflow) {
  optim::LossScaler scaler({.initial_scale = 1024, .growth_interval = 2});
  WindowRunnerFixture f({.max_quarantined = 0, .loss_scaler = &scaler});
  f.model.overflow_above = 128;  // in the first loss, which counts half
  const Tensors expected = f.reference();
  WindowRun run = f.run(4);
  EXPECT_EQ(run.retries, 2);
  EXPECT_EQ(run.quarantined, 0);
  EXPECT_EQ(run.loss_scale, 256);
  expect_equal(f.gradients(std::move(run.gradient)), expected);
  EXPECT_EQ(f.run(4).retries, 0);
  EXPECT_EQ(scaler.scale(), 512);
}

TEST(MicroBatchRunner, ReportsTheTotalOfTheMeans) {
  WindowRunnerFixture f;
  const WindowRun one = f.run(16), many = f.run(3);
  EXPECT_NEAR(many.loss_sum / many.weight, one.loss_sum / one.weight, 1e-12);
  EXPECT_EQ(many.micro_batches, 6);
}

TEST(MicroBatchRunner, IsToldApartFromASumOfMicroBatchMeans) {
  WindowRunnerFixture f;
  const Tensors expected = f.reference();
  f.window.open(0);
  for (std::int64_t begin = 0; begin < kWindowSamples; begin += 4) {
    const batch::MicroBatch micro = f.loader.fetch({begin, begin + 4});
    const LossTotals own({label_count(micro), rated_count(micro)}, {0.5, 2});
    f.window.begin({.index = begin / 4, .sample_ids = micro.sample_ids});
    const PassResult pass =
        forward_backward(f.model, micro, batch::training_context(micro, 1, 3),
                         {.factors = own.factors(), .reference = own.reference()});
    f.window.commit(pass.loss_sum, pass.weight);
  }
  const Tensors wrong = f.gradients(f.window.close());
  EXPECT_GT(accrue::testing::relative_error(wrong[3], expected[3]), 1e-3);
}

TEST(MicroBatchRunner, NeedsToKnowTheWeightsOfSeveralLosses) {
  WindowRunnerFixture f;
  f.model.weights_known = false;
  EXPECT_THAT(error_of([&] { f.run(4); }, Error::Kind::usage), HasSubstr("LossHead::weight"));
  EXPECT_FALSE(f.window.is_open());
  f.model.weights_known = true;
  f.model.miscounted = 1;
  EXPECT_THAT(error_of([&] { f.run(4); }, Error::Kind::usage), HasSubstr("'rating'"));
  EXPECT_FALSE(f.window.is_open());
  f.model.miscounted = 0;
  EXPECT_TRUE(f.run(4).gradient);
}

/// The sums of micro-batches 0, 2 and 3 of four, in that order.
Tensors without_the_second(WindowRunnerFixture& f) {
  const std::vector<std::int64_t> begins{0, 8, 12};
  std::vector<double> totals(2, 0);
  for (const std::int64_t begin : begins) {
    const batch::MicroBatch micro = f.loader.fetch({begin, begin + 4});
    totals[0] += label_count(micro);
    totals[1] += rated_count(micro);
  }
  const LossTotals losses(totals, {0.5, 2});
  PassOptions options;
  if (!f.model.one_loss) options = {.factors = losses.factors(), .reference = losses.reference()};
  f.window.open(3);
  for (const std::int64_t begin : begins) {
    const batch::MicroBatch micro = f.loader.fetch({begin, begin + 4});
    f.window.begin({.index = begin / 4, .sample_ids = micro.sample_ids});
    const PassResult pass =
        forward_backward(f.model, micro, batch::training_context(micro, 1, 3), options);
    f.window.commit(pass.loss_sum, pass.weight);
  }
  return f.gradients(f.window.close());
}

TEST(MicroBatchRunner, LeavesTheBitsOfAWindowWithoutTheQuarantinedMicroBatch) {
  for (const bool one_loss : {true, false})
    for (const bool in_gradient : {true, false}) {
      WindowRunnerFixture f;
      f.model.one_loss = one_loss;
      (in_gradient ? f.model.bad_gradients : f.model.bad_losses).insert(6);
      WindowRun run = f.run(4);
      EXPECT_EQ(run.quarantined, 1);
      const std::vector<std::string> told = f.runner.told("quarantine");
      EXPECT_THAT(told, ElementsAre(HasSubstr("micro-batch 1 (samples 4 to 7) was left out: ")));
      EXPECT_THAT(told[0], HasSubstr(in_gradient ? "the gradient of 'middle' is not finite"
                                                 : "its loss is not finite"));
      const Tensors actual = f.gradients(std::move(run.gradient));
      expect_same_bits(actual, without_the_second(f));
    }
}

TEST(MicroBatchRunner, StopsWhereTooManyAreQuarantinedAndNamesTheirSamples) {
  WindowRunnerFixture f;
  f.model.bad_losses = {1};
  f.model.bad_gradients = {9};
  const std::string message = error_of([&] { f.run(4); }, Error::Kind::runtime);
  EXPECT_THAT(message, HasSubstr("at most 1 of its 4 micro-batches"));
  EXPECT_THAT(message, HasSubstr("samples 0 to 3): its loss is not finite"));
  EXPECT_THAT(message, HasSubstr("samples 8 to 11): the gradient of 'middle' is not finite"));
  EXPECT_FALSE(f.window.is_open());
  EXPECT_EQ(f.runner.told("quarantine").size(), 2u);

  WindowRunnerFixture generous({.max_quarantined = 0.5});
  generous.model.bad_losses = {1};
  generous.model.bad_gradients = {9};
  EXPECT_EQ(generous.run(4).quarantined, 2);

  WindowRunnerFixture strict({.max_quarantined = 0});
  strict.model.bad_losses = {1};
  EXPECT_THAT(error_of([&] { strict.run(4); }, Error::Kind::runtime), HasSubstr("at most 0"));
}

TEST(MicroBatchRunner, GivesTheModelTheContextOfItsMicroBatch) {
  WindowRunnerFixture f;
  f.run(10);
  ASSERT_EQ(f.model.contexts.size(), 2u);
  EXPECT_EQ(f.model.contexts[1].seed, 1u);
  EXPECT_EQ(f.model.contexts[1].window, 3);
  EXPECT_THAT(f.model.contexts[1].sample_ids, ElementsAre(10, 11, 12, 13, 14, 15));
}

}  // namespace
}  // namespace accrue::train
