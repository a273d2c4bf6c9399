// Several losses of windows that ranks share; the ranks are threads of this process.
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include <set>
#include <thread>

#include "distributed/ranks.h"
#include "support/tolerance.h"
#include "train/formula_source.h"
#include "train/ranks/alone.h"
#include "train/recorder.h"
#include "train/run/run_window.h"
#include "train/window/close_window.h"
#include "train/window/micro_batch_runner.h"

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

/// Adds up the sums of ranks.
class Parts final : public Parallelism {
 public:
  explicit Parts(distributed::DeferredReduce& reduce) : reduce_(reduce) {}
  batch::Range share(batch::Range window) override { return window; }
  void close(accum::Window& window, WindowRun& run) override {
    close_shared_window(window, reduce_, false, {}, run);
  }
  std::vector<RankRecord> records() const override { return {}; }

 private:
  distributed::DeferredReduce& reduce_;
};

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
  const std::uint16_t port = accrue::testing::free_port();
  const auto run_rank = [&](std::size_t rank) {
    const auto group = distributed::connect({.rank = static_cast<int>(rank),
                                             .world = static_cast<int>(parts.size()),
                                             .master_addr = "127.0.0.1",
                                             .master_port = port},
                                            {.timeout = std::chrono::seconds(120)});
    TokensAndMarks& model = *models[rank];
    const auto buffer = std::make_shared<accum::GradientBuffer>(model.parameters());
    distributed::DeferredReduce reduce(group, buffer);
    accum::Window window(buffer);
    window.set_reduction(&reduce);
    data::Loader loader = make_samples();
    const auto recorder = std::make_shared<testing::Recorder>();
    RunLog::Observers observers{recorder};
    TrainState state;
    RunLog log(observers, state, true);
    RunControl control;
    memory::Retries retries;
    Parts sums(reduce);
    MicroBatchRunner runner({model, window, loader, 1, log, control, retries},
                            {.max_quarantined = 0.5, .reduce = &reduce});
    for (const std::int64_t index : {0, 1}) {
      LossOutcome& outcome = outcomes[rank];
      outcome.run = run_window({window, runner, sums, retries, log},
                               WindowRequest::even(index, parts[rank], kLossMicro));
      ASSERT_TRUE(outcome.run.gradient) << outcome.run.lost_reason;
      outcome.run.gradient->materialize();
      outcome.gradient = buffer->entries()[0].slot->main.clone();
    }
    group->barrier("the end");
  };
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < parts.size(); ++rank) threads.emplace_back(run_rank, rank);
  threads.clear();
  return outcomes;
}

/// The gradient of both means over the samples of `ranges`, from one graph, and the means.
std::pair<at::Tensor, std::vector<double>> one_graph(const std::vector<batch::Range>& ranges) {
  TokensAndMarks model({});
  data::Loader loader = make_samples();
  at::Tensor total = at::zeros({}, at::kDouble);
  std::vector<double> means;
  for (const models::LossHead& head : model.losses()) {
    at::Tensor sum = at::zeros({}, at::kDouble);
    double weight = 0;
    for (const batch::Range& range : ranges) {
      const batch::MicroBatch micro = loader.fetch(range);
      const ForwardContext context = batch::training_context(micro, 1, 0);
      const Loss loss =
          head.forward(models::run_segments(model, micro, context), micro, context, 1);
      sum = sum + loss.sum;
      weight += loss.weight;
    }
    total = total + sum * (head.coefficient / weight);
    means.push_back(sum.item<double>() / weight);
  }
  return {torch::autograd::grad({total}, {model.parameters()[0].tensor})[0], means};
}

void expect_means(const std::vector<LossOutcome>& ranks,
                  const std::pair<at::Tensor, std::vector<double>>& expected) {
  for (const LossOutcome& rank : ranks) {
    EXPECT_LT(relative_error(rank.gradient, expected.first), 1e-12);
    EXPECT_NEAR(rank.run.losses.at("tokens"), expected.second[0], 1e-12);
    EXPECT_NEAR(rank.run.losses.at("marks"), expected.second[1], 1e-12);
  }
}

TEST(SharedLosses, HaveTheirDenominatorsFromAllRanks) {
  const auto expected = one_graph({{0, kLossSamples}});
  for (const std::vector<batch::Range>& parts :
       {std::vector<batch::Range>{{0, 3}, {3, 12}}, {{0, 4}, {4, 12}, {12, 12}}})
    expect_means(run_parts(parts, {}), expected);
}

/// Its rank has other samples, so that the factors change there and on the other ones.
TEST(SharedLosses, ChangeTheirFactorsOnAllRanksWhereOneLeavesAMicroBatchOut) {
  const auto expected = one_graph({{0, 6}, {8, 12}});
  EXPECT_GT(relative_error(one_graph({{0, kLossSamples}}).first, expected.first), 1e-3);
  for (const std::vector<batch::Range>& parts :
       {std::vector<batch::Range>{{0, 4}, {4, 12}}, {{0, 4}, {4, 8}, {8, 12}}}) {
    const std::vector<LossOutcome> ranks = run_parts(parts, {6});
    expect_means(ranks, expected);
    for (const LossOutcome& rank : ranks) EXPECT_EQ(rank.run.quarantined, 1);
  }
}

}  // namespace
}  // namespace accrue::train
