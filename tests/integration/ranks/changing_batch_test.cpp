#include "integration/ranks/distributed_run.h"

namespace accrue::train {
namespace {

using testing::DistributedRun;

class ChangingBatchOfRanks : public DistributedRun {
 protected:
  /// In fixed point, whose bits do not depend on the ranks.
  Config fixed(const std::string& out) const {
    Config c = small(out);
    c.precision.accumulate = accum::Accumulation::fixed;
    return c;
  }

  /// Expects the same bits, and the same batch in each step, for 1, 2 and 3 ranks.
  void expect_alike_for_any_ranks(const Config& alone) const {
    expect_runs(alone, 1);
    const auto expected = steps_of(alone);
    for (const int world : {2, 3}) {
      Config c = alone;
      c.run.out = (folder_ / ("world" + std::to_string(world))).string();
      expect_runs(c, world);
      expect_same_bits(parameters_of(c), parameters_of(alone));
      const auto steps = steps_of(c);
      ASSERT_EQ(steps.size(), expected.size());
      for (std::size_t i = 0; i < steps.size(); ++i)
        for (const char* key : {"batch_samples", "micro_batches", "lr", "grad_norm", "noise_scale"})
          EXPECT_EQ(steps[i].value(key, nlohmann::json()), expected[i].value(key, nlohmann::json()))
              << "step " << i + 1 << ", " << key << ", " << world << " ranks";
    }
  }
};

TEST_F(ChangingBatchOfRanks, OfAScheduleHasTheBitsOfOneProcess) {
  Config c = fixed("alone");
  c.batch.tokens.reset();
  c.batch.samples = 4;
  c.batch.schedule_unit = BatchUnit::samples;
  c.batch.schedule = {{.at = {2}, .size = 7}, {.at = {4}, .size = 12}};
  expect_alike_for_any_ranks(c);
}

TEST_F(ChangingBatchOfRanks, ThatIsChangedByHandHasTheBitsOfOneProcess) {
  const auto changed = [&](int world) {
    Config c = fixed("world" + std::to_string(world));
    c.run.steps = 3;
    c.batch.tokens.reset();
    c.batch.samples = 4;
    expect_runs(c, world);
    expect_runs(c, world, {"--resume", "--run.steps=6", "--batch.samples=12"});
    std::vector<std::int64_t> samples;
    for (const auto& step : steps_of(c))
      samples.push_back(step["batch_samples"].get<std::int64_t>());
    EXPECT_EQ(samples, (std::vector<std::int64_t>{4, 4, 4, 12, 12, 12}));
    return c;
  };
  expect_same_bits(parameters_of(changed(2)), parameters_of(changed(1)));
}

TEST_F(ChangingBatchOfRanks, ThatFollowsTheNoiseHasTheBitsOfOneProcess) {
  Config c = fixed("alone");
  c.run.steps = 45;
  c.batch.tokens = 24 * 16;
  c.adapt.min = 6 * 16;
  c.optim.lr = 1e-5;  // so that the gradient hardly changes, and is far above its noise
  c.adapt.batch = adapt::BatchRule::noise_scale;
  c.adapt.lr_rule = adapt::RateRule::linear;
  c.run.checkpoint_every = {20, Duration::Unit::steps};
  expect_alike_for_any_ranks(c);
  EXPECT_FALSE(events_of("batch", c).empty()) << "something was decided";
}

/// Without fixed point each rank's first micro-batch counts; all ranks must make the same decision,
/// or their windows would differ and the run would stop.
TEST_F(ChangingBatchOfRanks, ThatFollowsTheNoiseIsOneDecisionOfAllRanks) {
  Config c = small("run");
  c.run.steps = 40;
  c.batch.tokens = 24 * 16;
  c.adapt.min = 6 * 16;
  c.adapt.batch = adapt::BatchRule::noise_scale;
  c.optim.kind = OptimizerKind::adamw;
  c.optim.lr = 1e-5;
  expect_runs(c, 2);
  const auto steps = steps_of(c);
  EXPECT_LT(steps.back()["batch_samples"], steps.front()["batch_samples"]);
  EXPECT_TRUE(steps.back().contains("noise_scale_in_geometry"));
}

}  // namespace
}  // namespace accrue::train
