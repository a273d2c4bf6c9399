// The outcome of a window when a gradient is not finite, overflows, or does not fit its sum.
#include <gmock/gmock.h>

#include <limits>
#include <set>

#include "accrue/accum/window.h"
#include "accum/poison.h"
#include "accum/window_fixture.h"

namespace accrue::accum {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::Ids;
using testing::kFirst;
using testing::kSecond;
using testing::kThird;
using testing::same_bits;

/// Micro-batches with a poisoned sample have a finite loss and a gradient that is not finite.
struct TransactionFixture : testing::WindowFixture {
  explicit TransactionFixture(Accumulation accumulation = Accumulation::fp32) {
    if (accumulation == Accumulation::fp32) return;
    staged = std::make_shared<GradientBuffer>(problem.parameters, accumulation);
    staged_window.emplace(staged);
    find_units();
  }
  Window& w() { return staged_window ? *staged_window : window; }

  /// The units of fixed-point sums follow the first window's gradients.
  void find_units() {
    replay();
    mean_gradient_of({kFirst, kSecond, kThird});
    w().set_replay({});
    replays = 0;
  }
  void replay() {
    w().set_replay([this](const MicroRef& micro) {
      ++replays;
      return run(micro.sample_ids);
    });
  }
  Loss run(const Ids& samples) {
    Loss loss = problem.loss(samples);
    for (const std::int64_t id : samples)
      if (poisoned.contains(id)) loss.sum = loss.sum + testing::Poison::apply(parameter(1));
    if (w().loss_scale() > overflow_above)
      loss.sum = loss.sum + testing::Poison::apply(parameter(0));
    torch::autograd::backward({loss.sum * w().loss_scale() * factor});
    return loss;
  }
  MicroStatus put(const Ids& samples) {
    const auto index = static_cast<std::int64_t>(w().ledger().entries.size());
    w().begin({index, samples, 0});
    const Loss loss = run(samples);
    return w().commit(loss.sum.item<double>(), loss.weight);
  }
  std::vector<at::Tensor> mean_gradient() {
    std::optional<MeanGradient> gradient = w().close();
    if (!gradient) return {};
    gradient->materialize();
    std::vector<at::Tensor> result;
    for (const auto& p : problem.parameters) result.push_back(p.tensor.grad().clone());
    return result;
  }
  std::vector<at::Tensor> mean_gradient_of(const std::vector<Ids>& micros) {
    w().open(0);
    for (const Ids& micro : micros) put(micro);
    return mean_gradient();
  }
  std::vector<MicroStatus> statuses() {
    std::vector<MicroStatus> result;
    for (const LedgerEntry& entry : w().ledger().entries) result.push_back(entry.status);
    return result;
  }

  std::set<std::int64_t> poisoned;
  double overflow_above = std::numeric_limits<double>::infinity();
  double factor = 1;
  int replays = 0;
  std::shared_ptr<GradientBuffer> staged;
  std::optional<Window> staged_window;
};

constexpr auto committed = MicroStatus::committed, quarantined = MicroStatus::quarantined,
               lost = MicroStatus::lost;

class Transaction : public ::testing::TestWithParam<Accumulation> {};

TEST_P(Transaction, LeavesTheBitsOfAWindowWithoutThePoisonedMicroBatches) {
  const std::vector<Ids> all{{0, 1}, {2}, {3, 4, 5}, {6, 7}, {8, 9, 10, 11}};
  for (const std::set<std::int64_t>& poisoned :
       std::vector<std::set<std::int64_t>>{{0}, {4}, {9}, {0, 2}, {2, 7}, {1, 4, 11}}) {
    std::vector<Ids> good;
    for (const Ids& micro : all)
      if (std::ranges::none_of(micro, [&](std::int64_t id) { return poisoned.contains(id); }))
        good.push_back(micro);
    TransactionFixture clean(GetParam()), f(GetParam());
    f.replay();
    f.poisoned = poisoned;
    const auto expected = clean.mean_gradient_of(good);
    const auto actual = f.mean_gradient_of(all);
    ASSERT_FALSE(actual.empty());
    EXPECT_TRUE(same_bits(actual, expected));
    EXPECT_EQ(f.w().ledger().count(committed), static_cast<std::int64_t>(good.size()));
    EXPECT_EQ(f.w().weight(), clean.w().weight());
    for (const LedgerEntry& entry : f.w().ledger().entries)
      if (entry.status == quarantined) {
        EXPECT_EQ(entry.reason, "the gradient of 'first.bias' is not finite");
      }
  }
}

TEST_P(Transaction, IsLostWithoutAReplayAndSaysWhy) {
  TransactionFixture f(GetParam());
  f.poisoned = {4};
  EXPECT_TRUE(f.mean_gradient_of({kFirst, kSecond, kThird}).empty());
  EXPECT_TRUE(f.w().is_lost());
  EXPECT_THAT(f.w().lost_reason(),
              ::testing::AllOf(HasSubstr("'first.bias'"), HasSubstr("no replay")));
  f.poisoned.clear();
  EXPECT_FALSE(f.mean_gradient_of({kFirst, kSecond}).empty());
}

INSTANTIATE_TEST_SUITE_P(Precisions, Transaction,
                         ::testing::Values(Accumulation::fp32, Accumulation::fp64,
                                           Accumulation::bf16_kahan, Accumulation::bf16_stochastic,
                                           Accumulation::fixed));

TEST(WindowTransaction, FindsThePoisonAtCommitWhereContributionsAreLookedAt) {
  TransactionFixture f(Accumulation::bf16_kahan);
  f.replay();
  f.poisoned = {4};
  f.w().open(0);
  EXPECT_EQ(f.put(kFirst), committed);
  EXPECT_EQ(f.put(kSecond), quarantined);
  EXPECT_EQ(f.replays, 1);
  EXPECT_EQ(f.put(kThird), committed);
  EXPECT_FALSE(f.mean_gradient().empty());
  EXPECT_EQ(f.replays, 1);
}

TEST(WindowTransaction, RunsAWindowAtMostTwiceToFindAllThatIsPoisoned) {
  TransactionFixture f;
  f.replay();
  f.poisoned = {1, 5, 9};
  std::vector<Ids> micros;
  for (std::int64_t id = 0; id < 12; ++id) micros.push_back({id});
  EXPECT_FALSE(f.mean_gradient_of(micros).empty());
  EXPECT_EQ(f.replays, 12 + 9);
}

TEST(WindowTransaction, KeepsAMicroBatchWhosePoisonDoesNotComeAgain) {
  TransactionFixture clean, f;
  f.w().set_replay([&](const MicroRef& micro) {
    f.poisoned.clear();
    return f.run(micro.sample_ids);
  });
  f.poisoned = {4};
  EXPECT_TRUE(same_bits(f.mean_gradient_of({kFirst, kSecond, kThird}),
                        clean.mean_gradient_of({kFirst, kSecond, kThird})));
}

TEST(WindowTransaction, ClosesToNothingWhereAllIsPoisoned) {
  TransactionFixture f;
  f.replay();
  f.poisoned = {0, 4, 6};
  EXPECT_TRUE(f.mean_gradient_of({kFirst, kSecond, kThird}).empty());
  EXPECT_FALSE(f.w().is_lost());
  EXPECT_EQ(f.w().ledger().count(quarantined), 3);
}

TEST(WindowTransaction, LooksAtNothingWhereItIsNotAskedTo) {
  TransactionFixture f;
  f.replay();
  f.poisoned = {0};
  f.w().open(0);
  f.put(kFirst);
  std::optional<MeanGradient> gradient = f.w().close(false);
  ASSERT_TRUE(gradient);
  EXPECT_FALSE(std::isfinite(gradient->norm()));
  EXPECT_EQ(f.replays, 0);
}

TEST(WindowTransaction, TellsOfEachMicroBatchLeftOutOnce) {
  TransactionFixture f;
  f.replay();
  f.poisoned = {4, 6};
  std::vector<std::int64_t> told;
  f.w().set_on_quarantine([&](const LedgerEntry& entry) {
    told.push_back(entry.micro.index);
    return false;
  });
  f.mean_gradient_of({kFirst, kSecond, kThird});
  EXPECT_THAT(told, ::testing::ElementsAre(1, 2));
}

TEST(WindowTransaction, TakesLossesAnewWhereALeftOutOneChangedTheirFactors) {
  TransactionFixture clean, f;
  clean.factor = f.factor = 3;
  f.w().set_replay([&](const MicroRef& micro) {
    const Loss loss = f.run(micro.sample_ids);
    return Loss{loss.sum * f.factor, loss.weight};
  });
  f.w().set_on_quarantine([&](const LedgerEntry&) {
    f.factor = 2;
    return true;
  });
  clean.factor = 2;
  const auto expected = clean.mean_gradient_of({kFirst, kThird});
  f.w().open(0);
  f.put(kFirst);
  f.w().begin({1, kSecond, 0});
  f.w().abort(quarantined, "its loss is not finite");
  f.put(kThird);
  const double loss_of_first = f.problem.loss(kFirst).sum.item<double>();
  EXPECT_FLOAT_EQ(f.w().ledger().entries[0].loss_sum, 2 * loss_of_first);
  EXPECT_TRUE(same_bits(f.mean_gradient(), expected));
}

TEST(WindowTransaction, EnlargesTheUnitsOfFixedPointSumsAndRunsAllAgain) {
  TransactionFixture f(Accumulation::fixed);
  f.replay();
  f.w().open(0);
  EXPECT_EQ(f.put(kFirst), committed);
  EXPECT_EQ(f.w().retries(), 0);
  f.factor = 1e30;
  EXPECT_EQ(f.put(kSecond), committed);
  EXPECT_GT(f.w().retries(), 0);
  EXPECT_GT(f.replays, 0);
  const auto gradient = f.mean_gradient();
  ASSERT_EQ(gradient.size(), 3u);
  const Ids both{0, 1, 2, 3, 4, 5};
  const Loss loss = f.problem.loss(both);
  const at::Tensor expected =
      torch::autograd::grad({loss.sum * (1e30 / loss.weight)}, {f.parameter(2)})[0];
  EXPECT_TRUE(testing::close(gradient[2], expected, at::kFloat, f.problem.rows));
}

TEST(WindowTransaction, LosesAWindowThatFitsNoUnitsWithoutAReplay) {
  TransactionFixture f(Accumulation::fixed);
  f.w().open(0);
  f.put(kFirst);
  f.factor = 1e30;
  EXPECT_EQ(f.put(kSecond), lost);
  EXPECT_THAT(f.w().lost_reason(), HasSubstr("too large"));
  EXPECT_TRUE(f.mean_gradient().empty());
  f.w().open(1);
  EXPECT_EQ(f.put(kSecond), committed);
  EXPECT_FALSE(f.mean_gradient().empty());
}

TEST(WindowTransaction, HalvesAnOverflowingLossScaleAndQuarantinesNothing) {
  TransactionFixture plain, f;
  f.replay();
  f.overflow_above = 4;
  f.w().open(0, 16);
  for (const Ids& micro : {kFirst, kSecond, kThird}) f.put(micro);
  const auto gradient = f.mean_gradient();
  EXPECT_EQ(f.w().retries(), 2);
  EXPECT_EQ(f.w().loss_scale(), 4);
  EXPECT_EQ(f.w().ledger().count(quarantined), 0);
  // A power of two rounds nothing, so the scale leaves no trace.
  EXPECT_TRUE(same_bits(gradient, plain.mean_gradient_of({kFirst, kSecond, kThird})));
}

TEST(WindowTransaction, QuarantinesWhatIsNotFiniteAtAnyLossScale) {
  TransactionFixture clean, f;
  f.replay();
  f.poisoned = {4};
  f.w().open(0, 8);
  for (const Ids& micro : {kFirst, kSecond, kThird}) f.put(micro);
  const auto gradient = f.mean_gradient();
  EXPECT_EQ(f.w().retries(), 3);
  EXPECT_THAT(f.statuses(), ::testing::ElementsAre(committed, quarantined, committed));
  EXPECT_TRUE(same_bits(gradient, clean.mean_gradient_of({kFirst, kThird})));
}

TEST(WindowTransaction, RefusesALossScaleThatIsNone) {
  TransactionFixture f;
  for (const double wrong : {0.0, 0.5, -1.0, std::numeric_limits<double>::infinity()})
    EXPECT_THAT(error_of([&] { f.w().open(0, wrong); }), HasSubstr("loss scale"));
}

/// A window whose losses stayed on a device: they have not been read when it is full.
TEST(SettledLosses, AreThoseOfTheLedger) {
  TransactionFixture f;
  f.w().open(0);
  for (const Ids& micro : {kFirst, kSecond}) {
    f.w().begin({static_cast<std::int64_t>(f.w().ledger().entries.size()), micro, 0});
    f.w().commit(0, f.run(micro).weight);
  }
  f.w().settle_losses({{.index = 1, .sum = 2.5}, {.index = 0, .sum = 1}});
  EXPECT_EQ(f.w().ledger().committed_loss_sum(), 3.5);
  EXPECT_EQ(f.w().ledger().entries[1].loss_sum, 2.5);
}

TEST(SettledLosses, ThatAreNotFiniteLeaveTheSumsOfTheOthers) {
  TransactionFixture sound, bad;
  const auto expected = sound.mean_gradient_of({kFirst, kThird});
  bad.replay();
  bad.w().open(0);
  for (const Ids& micro : {kFirst, kSecond, kThird}) {
    bad.w().begin({static_cast<std::int64_t>(bad.w().ledger().entries.size()), micro, 0});
    bad.w().commit(0, bad.run(micro).weight);
  }
  bad.w().settle_losses({{.index = 0, .sum = 1},
                         {.index = 1, .sum = std::numeric_limits<double>::quiet_NaN()},
                         {.index = 2, .sum = 1}});
  EXPECT_THAT(bad.statuses(), ::testing::ElementsAre(committed, quarantined, committed));
  EXPECT_EQ(bad.replays, 2);
  EXPECT_EQ(bad.w().ledger().committed_loss_sum(), 2);
  EXPECT_TRUE(same_bits(bad.mean_gradient(), expected));
}

}  // namespace
}  // namespace accrue::accum
