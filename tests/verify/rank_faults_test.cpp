// Ranks and the stages of a pipeline, as threads of this process: a fault in one of them is found.
#include <gmock/gmock.h>

#include <functional>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/memory/caching_allocator.h"
#include "compared_ranks.h"

namespace accrue::proof {
namespace {

using testing::ChangedModel;
using ::testing::HasSubstr;

/// Sample `id` adds nothing to the sum of losses, but its usual share to their weight.
ChangedModel::Fault loses_micro_batch_with(std::int64_t id) {
  return {.losses = [id](testing::LossHeads& heads) {
    heads.front().forward = [sound = heads.front().forward, id](
                                const models::Activations& x, const batch::MicroBatch& micro,
                                const ForwardContext& context, double gradient_scale) {
      if (std::ranges::find(micro.sample_ids, id) == micro.sample_ids.end())
        return sound(x, micro, context, gradient_scale);
      const double weight = sound({x.at(0).detach()}, micro, context, gradient_scale).weight;
      return Loss{(x.at(0) * 0).sum(at::kFloat), weight};
    };
  }};
}

/// The final normalisation is left out.
ChangedModel::Fault skips_its_norm() {
  return {.segments = [](testing::Segments& segments) {
    segments.back().forward = [sound = segments.back().forward](const models::Activations& x,
                                                                const batch::MicroBatch& micro,
                                                                const ForwardContext& context) {
      const at::ScalarType dtype = sound({x.at(0).detach()}, micro, context).at(0).scalar_type();
      return models::Activations{x.at(0).to(dtype, /*non_blocking=*/false, /*copy=*/true)};
    };
  }};
}

/// Training's parts, except that one rank of several takes other steps.
class StepsOfOneRank final : public TrainingParts {
 public:
  using Step = std::function<void(optim::Optimizer&, accum::MeanGradient&&, train::OptimConfig)>;
  StepsOfOneRank(std::int64_t rank, Step step) : rank_(rank), step_(std::move(step)) {}

  void step(optim::Optimizer& optimizer, accum::MeanGradient&& gradient,
            const train::OptimConfig& config, RankSlice rank) const override {
    if (rank.world == 1 || rank.rank != rank_) {
      TrainingParts::step(optimizer, std::move(gradient), config, rank);
    } else {
      step_(optimizer, std::move(gradient), config);
    }
  }

 private:
  std::int64_t rank_;
  Step step_;
};

class RankFaults : public testing::ComparedRanks {
 protected:
  static void expect_steps_equal(const train::Config& config) {
    const Report sound = verified_by_two(config, training_parts());
    EXPECT_TRUE(sound.equal) << why(sound);
  }
  /// Expects steps of rank 1 that differ to be the cause.
  static void expect_steps_found(const train::Config& config, const StepsOfOneRank::Step& step) {
    const Report broken = verified_by_two(config, StepsOfOneRank(1, step));
    EXPECT_FALSE(broken.equal);
    EXPECT_EQ(to_string(broken.cause), to_string(Cause::unknown)) << why(broken);
    ASSERT_TRUE(broken.steps);
    EXPECT_FALSE(broken.steps->equal) << why(broken);
    // The ranks have the same parameters again if each steps a part of them.
    const bool is_divided = config.dist.shard != train::Shard::none;
    EXPECT_EQ(broken.steps->stepper, is_divided ? "rank 0 of 2" : "rank 1 of 2") << why(broken);
  }
  static void expect_found(train::Config config, const ChangedModel::Fault& fault) {
    for (const models::Compute compute : {models::Compute::fp32, models::Compute::bf16}) {
      SCOPED_TRACE(to_string(compute));
      config.precision.compute = compute;
      const SplitResult broken = compared(config, fault);
      EXPECT_FALSE(broken.equal) << broken.relative_error << " of " << broken.bound;
      const SplitResult sound = compared(config, {});
      EXPECT_TRUE(sound.equal) << sound.relative_error << " of " << sound.bound;
    }
  }
  static const SplitResult* named(const Report& report, const std::string& name) {
    const auto found = std::ranges::find(report.splits, name, &SplitResult::name);
    return found == report.splits.end() ? nullptr : &*found;
  }
};

TEST_F(RankFaults, ARankThatLosesItsLastMicroBatchIsFound) {
  const train::Config config = of_text();
  expect_found(config, loses_micro_batch_with(*config.batch.samples - 1));
}

TEST_F(RankFaults, AStageThatSkipsItsNormIsFound) {
  train::Config config = of_text();
  config.dist.stages = 2;
  expect_found(config, skips_its_norm());
}

TEST_F(RankFaults, WhatOneRankThrowsEndsTheOthers) {
  const ChangedModel::Fault throws{.losses = [](testing::LossHeads& heads) {
    heads.front().forward = [](const models::Activations&, const batch::MicroBatch&,
                               const ForwardContext&,
                               double) -> Loss { throw std::runtime_error("planted"); };
  }};
  train::Config config = of_text();
  for (const std::int64_t stages : {1, 2}) {
    config.dist.stages = stages;
    try {
      compared(config, throws);
      ADD_FAILURE() << stages;
    } catch (const std::exception& error) {
      EXPECT_STREQ(error.what(), "planted");
    }
  }
}

TEST_F(RankFaults, SoundRanksAreEqualHoweverTheyAddUp) {
  train::Config config = of_text();
  using accum::Accumulation;
  for (const auto accumulate : {Accumulation::fp32, Accumulation::fp64, Accumulation::fixed})
    for (const auto reduce : {train::Reduce::overlap, train::Reduce::end})
      for (const auto shard : {train::Shard::none, train::Shard::optimizer}) {
        config.precision.accumulate = accumulate;
        config.dist.reduce = reduce;
        config.dist.shard = shard;
        SCOPED_TRACE(std::string(to_string(accumulate)) + ", " +
                     std::string(train::reduce_words.of(reduce)) + ", " +
                     std::string(to_string(shard)));
        const SplitResult result = compared(config, {});
        EXPECT_TRUE(result.equal) << result.relative_error << " of " << result.bound;
      }
}

TEST_F(RankFaults, StepsThatARankTakesOtherwiseAreFound) {
  train::Config config = of_text();
  config.optim.clip = 0.5;
  for (const auto shard : {train::Shard::none, train::Shard::optimizer}) {
    config.dist.shard = shard;
    SCOPED_TRACE(to_string(shard));
    expect_steps_equal(config);
    // As if it clipped by the norm of its own part.
    expect_steps_found(config, [](optim::Optimizer& optimizer, accum::MeanGradient&& gradient,
                                  const train::OptimConfig& of_run) {
      gradient.clip(of_run.clip * 0.7);
      optimizer.step(std::move(gradient), of_run.lr);
    });
    expect_steps_found(config, [](optim::Optimizer& optimizer, accum::MeanGradient&& gradient,
                                  const train::OptimConfig& of_run) {
      gradient.clip(of_run.clip);
      optimizer.step(std::move(gradient), of_run.lr * 1.1);
    });
  }
}

TEST_F(RankFaults, RanksThatDivideTheModelAreCompared) {
  memory::install_caching_allocator();
  train::Config config = of_divided_text();
  for (const auto accumulate :
       {accum::Accumulation::fp32, accum::Accumulation::fp64, accum::Accumulation::fixed}) {
    config.precision.accumulate = accumulate;
    SCOPED_TRACE(to_string(accumulate));
    const SplitResult sound = compared(config, {});
    EXPECT_TRUE(sound.equal) << sound.relative_error << " of " << sound.bound;
    EXPECT_GT(memory::shard_usage().most_in_memory, 0) << "nothing was divided";
    const SplitResult broken = compared(config, loses_micro_batch_with(*config.batch.samples - 1));
    EXPECT_FALSE(broken.equal) << broken.relative_error << " of " << broken.bound;
  }
}

TEST_F(RankFaults, StepsOfADividedModelThatARankTakesOtherwiseAreFound) {
  memory::install_caching_allocator();
  train::Config config = of_divided_text();
  config.optim.clip = 0.5;
  expect_steps_equal(config);
  expect_steps_found(config, [](optim::Optimizer& optimizer, accum::MeanGradient&& gradient,
                                const train::OptimConfig& of_run) {
    gradient.clip(of_run.clip * 0.7);
    optimizer.step(std::move(gradient), of_run.lr);
  });
}

TEST_F(RankFaults, ARankThatMissesAStepIsFound) {
  expect_steps_found(of_text(),
                     [missed = false](optim::Optimizer& optimizer, accum::MeanGradient&& gradient,
                                      const train::OptimConfig& of_run) mutable {
                       if (!std::exchange(missed, true)) return;
                       gradient.clip(of_run.clip);
                       optimizer.step(std::move(gradient), of_run.lr);
                     });
}

TEST_F(RankFaults, VerifyComparesRanksThatAreAskedForAndStagesOfTheConfig) {
  train::Config config = of_text();
  const Report of_ranks = verify_config(config, {.ranks = 3});
  EXPECT_TRUE(of_ranks.equal) << why(of_ranks);
  EXPECT_NE(named(of_ranks, "3 ranks, micro-batches of 4"), nullptr);
  ASSERT_TRUE(of_ranks.steps);
  EXPECT_THAT(of_ranks.steps->splits, HasSubstr("also by 3 ranks"));
  config.dist.stages = 2;
  config.memory.recompute = Recompute::full;
  const Report of_stages = verify_config(config);
  EXPECT_TRUE(of_stages.equal) << why(of_stages);
  EXPECT_NE(named(of_stages, "2 stages, micro-batches of 4"), nullptr);
}

TEST_F(RankFaults, WhatIsNotExactIsSkippedAndSaid) {
  train::Config config = of_text();
  const auto reason_of = [&] {
    const Report report = verify_config(config, {.ranks = 2});
    EXPECT_TRUE(report.equal) << why(report);
    EXPECT_EQ(report.skipped.size(), 1u);
    return report.skipped.empty() ? "" : report.skipped.front().reason;
  };
  config.dist.compress = distributed::Compression::int8;
  EXPECT_THAT(reason_of(), HasSubstr("dist.compress = \"int8\""));
  config.dist.compress = distributed::Compression::none;
  config.dist.local_steps = 4;
  EXPECT_THAT(reason_of(), HasSubstr("dist.local_steps"));
}

TEST_F(RankFaults, WhatTrainingByRanksRefusesIsRefused) {
  const auto refusal_of = [](const train::Config& config) -> std::string {
    try {
      verify_config(config, {.ranks = 2});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::usage);
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal_of(of_resnet(models::BatchNormPolicy::micro)),
              HasSubstr("model.batchnorm with 2 ranks"));
  train::Config config = of_text();
  config.dist.stages = 3;
  EXPECT_THAT(refusal_of(config), HasSubstr("as many stages as there are ranks"));
  // Before data are opened, which these have not.
  config.data.train = {"nowhere.txt"};
  EXPECT_THAT(refusal_of(config), HasSubstr("as many stages as there are ranks"));
  config.dist.stages = 2;
  EXPECT_THAT(refusal_of(config), HasSubstr("nowhere.txt"));
}

}  // namespace
}  // namespace accrue::proof
