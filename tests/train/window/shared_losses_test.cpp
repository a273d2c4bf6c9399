// Several losses of windows that ranks share; the ranks are threads of this process.
#include <gmock/gmock.h>

#include <set>

#include "support/tolerance.h"
#include "train/formula_source.h"
#include "train/ranks/alone.h"
#include "train/run/run_window.h"
#include "train/thread_ranks.h"
#include "train/window/micro_batch_runner.h"
#include "train/window/one_graph.h"

namespace accrue::train {
namespace {

using accrue::testing::relative_error;

constexpr std::int64_t kLossSamples = 12, kLossMicro = 2, kLossLength = 3, kLossVocab = 8;

std::int64_t marked_in(const batch::MicroBatch& micro) {
  return std::ranges::count_if(micro.sample_ids, [](std::int64_t id) { return id % 5 < 2; });
}

/// A table with a loss of each token, and one of the samples that are marked.
class TokensAndMarks : public models::Trainable {
 public:
  explicit TokensAndMarks(std::set<std::int64_t> bad) : bad_(std::move(bad)) {
    at::manual_seed(4);
    table_ = at::randn({kLossVocab, kLossVocab}, at::kDouble).requires_grad_(true);
  }
  NamedParameters parameters() const override { return {{"table", table_}}; }
  std::vector<models::Segment> segments() override {
    return {{"table", [this](const models::Activations&, const batch::MicroBatch& micro,
                             const ForwardContext&) {
               return models::Activations{at::embedding(table_, micro.inputs)};
             }}};
  }
  std::vector<models::LossHead> losses() override {
    models::LossHead tokens{.name = "tokens"}, marks{.name = "marks"};
    tokens.forward = [this](const auto& x, const batch::MicroBatch& micro, auto&, double) {
      at::Tensor sum = at::cross_entropy_loss(x.at(0).flatten(0, 1), micro.targets.flatten(), {},
                                              at::Reduction::Sum);
      for (const std::int64_t id : micro.sample_ids)
        if (bad_.contains(id)) sum = sum / 0.0;
      return Loss{sum, static_cast<double>(micro.targets.numel())};
    };
    tokens.weight = [](const batch::MicroBatch& micro) {
      return static_cast<double>(micro.targets.numel());
    };
    marks.forward = [](const auto& x, const batch::MicroBatch& micro, auto&, double) {
      at::Tensor sum = at::zeros({}, at::kDouble);
      for (std::size_t row = 0; row < micro.sample_ids.size(); ++row)
        if (micro.sample_ids[row] % 5 < 2)
          sum = sum + x.at(0)[static_cast<std::int64_t>(row)].square().sum();
      return Loss{sum, static_cast<double>(marked_in(micro))};
    };
    marks.weight = [](const batch::MicroBatch& micro) {
      return static_cast<double>(marked_in(micro));
    };
    marks.coefficient = 0.3;
    return {tokens, marks};
  }

 private:
  std::set<std::int64_t> bad_;
  at::Tensor table_;
};

data::Loader make_samples() {
  const auto token = [](std::int64_t sample, std::int64_t t) { return (sample * 7 + t) % 8; };
  return {std::make_shared<accrue::testing::FormulaSource>(kLossSamples, kLossLength, kLossVocab,
                                                           token, token),
          batch::Sampler(kLossSamples, batch::Order::sequential, 0)};
}

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

/// Its rank has other samples, so that the factors change there and on the other ones.
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
