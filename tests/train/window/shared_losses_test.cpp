// Several losses of windows that ranks share; the ranks are threads of this process.
#include <gmock/gmock.h>

#include "support/tolerance.h"
#include "train/ranks/single_process.h"
#include "train/run/run_window.h"
#include "train/thread_ranks.h"
#include "train/window/micro_batch_runner.h"
#include "train/window/one_graph.h"
#include "train/window/tokens_and_marks.h"

namespace accrue::train {
namespace {

using accrue::testing::relative_error;
using testing::kLossMicro;
using testing::kLossSamples;
using testing::make_samples;
using testing::TokensAndMarks;

struct LossOutcome {
  at::Tensor gradient;
  WindowRun run;
};

/// A window of ranks that run `parts`, with samples in `bad` whose loss is not finite.
std::vector<LossOutcome> run_parts(const std::vector<batch::Range>& parts,
                                   const std::set<std::int64_t>& bad) {
  std::vector<LossOutcome> outcomes(parts.size());
  std::vector<std::unique_ptr<TokensAndMarks>> models;
  for (std::size_t rank = 0; rank < parts.size(); ++rank)
    models.push_back(std::make_unique<TokensAndMarks>(bad));
  testing::run_thread_ranks(parts.size(), [&](std::size_t rank, const auto& group) {
    TokensAndMarks& model = *models[rank];
    const auto buffer = std::make_shared<accum::GradientBuffer>(model.parameters());
    distributed::DeferredReduce reduce(group, buffer);
    accum::Window window(buffer);
    window.set_reduction(&reduce);
    data::Loader loader = make_samples();
    testing::Told told;
    testing::SumOfRanks sums(reduce);
    MicroBatchRunner runner({model, window, loader, 1, told.log, told.control, told.retries},
                            {.max_quarantined = 0.5, .reduce = &reduce});
    for (const std::int64_t index : {0, 1}) {
      LossOutcome& outcome = outcomes[rank];
      outcome.run = run_window({window, runner, sums, told.retries, told.log},
                               WindowRequest::even(index, parts[rank], kLossMicro));
      ASSERT_TRUE(outcome.run.gradient) << outcome.run.lost_reason;
      outcome.run.gradient->materialize();
      outcome.gradient = buffer->entries()[0].slot->main.clone();
    }
    group->barrier("the end");
  });
  return outcomes;
}

testing::OneGraph one_graph(const std::vector<batch::Range>& ranges) {
  TokensAndMarks model({});
  return testing::one_graph(model, make_samples(), ranges);
}

void expect_means(const std::vector<LossOutcome>& ranks, const testing::OneGraph& expected) {
  for (const LossOutcome& rank : ranks) {
    EXPECT_LT(relative_error(rank.gradient, expected.gradients[0]), 1e-12);
    EXPECT_NEAR(rank.run.losses.at("tokens"), expected.means[0], 1e-12);
    EXPECT_NEAR(rank.run.losses.at("marks"), expected.means[1], 1e-12);
  }
}

TEST(SharedLosses, HaveTheirDenominatorsFromAllRanks) {
  const testing::OneGraph expected = one_graph({{0, kLossSamples}});
  for (const std::vector<batch::Range>& parts :
       {std::vector<batch::Range>{{0, 3}, {3, 12}}, {{0, 4}, {4, 12}, {12, 12}}})
    expect_means(run_parts(parts, {}), expected);
}

/// Its rank has different samples, so the factors change on it and on the others.
TEST(SharedLosses, ChangeTheirFactorsOnAllRanksWhereOneLeavesAMicroBatchOut) {
  const testing::OneGraph expected = one_graph({{0, 6}, {8, 12}});
  EXPECT_GT(relative_error(one_graph({{0, kLossSamples}}).gradients[0], expected.gradients[0]),
            1e-3);
  for (const std::vector<batch::Range>& parts :
       {std::vector<batch::Range>{{0, 4}, {4, 12}}, {{0, 4}, {4, 8}, {8, 12}}}) {
    const std::vector<LossOutcome> ranks = run_parts(parts, {6});
    expect_means(ranks, expected);
    for (const LossOutcome& rank : ranks) EXPECT_EQ(rank.run.quarantined, 1);
  }
}

}  // namespace
}  // namespace accrue::train
