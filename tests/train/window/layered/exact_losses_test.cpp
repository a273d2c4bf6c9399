// Several losses with exact batch normalisation, in windows that ranks share: the statistics and
// the losses' denominators are those of all ranks. The ranks are threads of this process.
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <numeric>
#include <set>

#include "accrue/data/own_source.h"
#include "accrue/models/torch_module.h"
#include "support/tolerance.h"
#include "train/ranks/single_process.h"
#include "train/run/run_window.h"
#include "train/thread_ranks.h"
#include "train/window/layered/layered_runner.h"

namespace accrue::train {
namespace {

using accrue::testing::relative_error;

constexpr std::int64_t kExactRows = 12, kRowsAtOnce = 2, kExactFeatures = 4, kExactClasses = 3;

/// For sums in double through one layer's statistics.
constexpr double kSameToRounding = 1e-12;

/// The faults in a rank's losses that the comparison must detect.
enum class Planted { nothing, divided_by_its_count, one_forgotten };

bool counts_as_marked(std::int64_t id) { return id % 5 < 2; }

double marks_of(const batch::MicroBatch& micro) {
  return static_cast<double>(std::ranges::count_if(micro.sample_ids, counts_as_marked));
}

/// A network cut at its batch normalisation, with a loss of each sample and one of some samples.
class NormalisedWithTwoLosses : public models::Trainable {
 public:
  NormalisedWithTwoLosses(std::set<std::int64_t> bad, Planted planted)
      : bad_(std::move(bad)), planted_(planted) {
    at::manual_seed(4);
    net_ = torch::nn::Sequential(torch::nn::Linear(kExactFeatures, 6), torch::nn::BatchNorm1d(6),
                                 torch::nn::Linear(6, kExactClasses));
    net_->to(at::kDouble);
    chain_ = models::from_sequential(
        net_, [](const at::Tensor&, const batch::MicroBatch&) { return Loss{}; }, "net");
  }
  NamedParameters parameters() const override { return chain_->parameters(); }
  NamedParameters buffers() const override { return chain_->buffers(); }
  std::vector<models::Segment> segments() override { return chain_->segments(); }
  std::vector<models::LossHead> losses() override {
    models::LossHead classes{.name = "classes"}, marks{.name = "marks"};
    classes.forward = [this](const auto& x, const batch::MicroBatch& micro, auto&, double) {
      return classes_loss(x.at(0), micro);
    };
    classes.weight = [](const batch::MicroBatch& micro) {
      return static_cast<double>(micro.targets.numel());
    };
    marks.forward = [this](const auto& x, const batch::MicroBatch& micro, auto&, double) {
      return marks_loss(x.at(0), micro);
    };
    marks.weight = marks_of;
    marks.coefficient = 0.3;
    return {classes, marks};
  }
  /// The network itself, as libtorch runs it over a whole batch.
  torch::nn::Sequential& net() { return net_; }

  Loss classes_loss(const at::Tensor& out, const batch::MicroBatch& micro) const {
    at::Tensor sum = at::cross_entropy_loss(out, micro.targets, {}, at::Reduction::Sum);
    for (const std::int64_t id : micro.sample_ids)
      if (bad_.contains(id)) sum = sum / 0.0;
    return {sum, static_cast<double>(micro.targets.numel())};
  }
  Loss marks_loss(const at::Tensor& out, const batch::MicroBatch& micro) const {
    at::Tensor sum = at::zeros({}, at::kDouble);
    for (std::size_t row = 0; row < micro.sample_ids.size(); ++row)
      if (counts_as_marked(micro.sample_ids[row]))
        sum = sum + out[static_cast<std::int64_t>(row)].pow(3).sum();
    const double count = marks_of(micro);
    if (planted_ == Planted::one_forgotten) sum = sum * 0;
    if (planted_ == Planted::divided_by_its_count && count > 0) sum = sum / count;
    return {sum, count};
  }

 private:
  std::set<std::int64_t> bad_;
  Planted planted_;
  torch::nn::Sequential net_{nullptr};
  std::unique_ptr<models::Trainable> chain_;
};

at::Tensor rows_of_data() {
  return at::arange(kExactRows * kExactFeatures, at::kDouble)
      .mul(0.37)
      .sin()
      .view({kExactRows, kExactFeatures});
}
at::Tensor targets_of_data() { return at::arange(kExactRows).mul(7).remainder(kExactClasses); }

data::Loader make_rows() {
  return {data::tensor_source(rows_of_data(), targets_of_data()),
          batch::Sampler(kExactRows, batch::Order::sequential, 0)};
}

struct TwoLossesOutcome {
  std::vector<at::Tensor> gradients;
  WindowRun run;
};

void take_outcome(const accum::Window& window, WindowRun run, TwoLossesOutcome& outcome) {
  outcome.run = std::move(run);
  ASSERT_TRUE(outcome.run.gradient) << outcome.run.lost_reason;
  outcome.run.gradient->materialize();
  outcome.gradients.clear();
  for (const auto& entry : window.buffer()->entries())
    outcome.gradients.push_back(entry.slot->main.clone());
}

/// Two windows of ranks that run `parts`, with samples in `bad` whose loss is not finite; the last
/// rank's losses have the planted fault.
std::vector<TwoLossesOutcome> run_exact_parts(const std::vector<batch::Range>& parts,
                                              const std::set<std::int64_t>& bad = {},
                                              Planted planted = Planted::nothing) {
  std::vector<TwoLossesOutcome> outcomes(parts.size());
  std::vector<std::unique_ptr<NormalisedWithTwoLosses>> models;
  for (std::size_t rank = 0; rank < parts.size(); ++rank)
    models.push_back(std::make_unique<NormalisedWithTwoLosses>(
        bad, rank + 1 == parts.size() ? planted : Planted::nothing));
  testing::run_thread_ranks(parts.size(), [&](std::size_t rank, const auto& group) {
    NormalisedWithTwoLosses& model = *models[rank];
    const auto buffer = std::make_shared<accum::GradientBuffer>(model.parameters());
    distributed::DeferredReduce reduce(group, buffer);
    accum::Window window(buffer);
    window.set_reduction(&reduce);
    data::Loader loader = make_rows();
    testing::Told told;
    testing::SumOfRanks sums(reduce);
    LayeredRunner runner({model, window, loader, 1, told.log, told.control, told.retries},
                         {.max_quarantined = 0.5, .window_statistics = true, .reduce = &reduce});
    for (const std::int64_t index : {0, 1})
      take_outcome(window,
                   run_window({window, runner, sums, told.retries, told.log},
                              WindowRequest::even(index, parts[rank], kRowsAtOnce)),
                   outcomes[rank]);
    group->barrier("the end");
  });
  return outcomes;
}

/// One process, without a group.
TwoLossesOutcome run_exact_alone() {
  NormalisedWithTwoLosses model({}, Planted::nothing);
  accum::Window window(std::make_shared<accum::GradientBuffer>(model.parameters()));
  data::Loader loader = make_rows();
  RunLog log;
  RunControl control;
  memory::Retries retries;
  SingleProcess alone;
  LayeredRunner runner({model, window, loader, 1, log, control, retries},
                       {.window_statistics = true});
  TwoLossesOutcome outcome;
  take_outcome(window,
               run_window({window, runner, alone, retries, log},
                          WindowRequest::even(0, {0, kExactRows}, kRowsAtOnce)),
               outcome);
  return outcome;
}

struct OneGraph {
  std::vector<at::Tensor> gradients;
  double classes = 0, marks = 0;
};

/// With libtorch's own batch norm and autograd, over samples `ids` in one graph.
OneGraph one_graph_of(const std::vector<std::int64_t>& ids) {
  NormalisedWithTwoLosses model({}, Planted::nothing);
  const at::Tensor places = at::tensor(ids, at::kLong);
  batch::MicroBatch all;
  all.targets = targets_of_data().index_select(0, places);
  all.sample_ids = ids;
  const at::Tensor out = model.net()->forward(rows_of_data().index_select(0, places));
  const Loss classes = model.classes_loss(out, all), marks = model.marks_loss(out, all);
  const at::Tensor total = classes.sum / classes.weight + marks.sum * (0.3 / marks.weight);
  torch::autograd::variable_list leaves;
  for (const NamedParameter& parameter : model.parameters()) leaves.push_back(parameter.tensor);
  return {torch::autograd::grad({total}, leaves), classes.sum.item<double>() / classes.weight,
          marks.sum.item<double>() / marks.weight};
}

std::vector<std::int64_t> ids_between(std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(end - begin));
  std::iota(ids.begin(), ids.end(), begin);
  return ids;
}

/// A bias before a normalisation has a gradient that is zero except for rounding, which is measured
/// relative to others.
double gradient_error(const std::vector<at::Tensor>& actual,
                      const std::vector<at::Tensor>& expected) {
  double worst = 0, scale = 0;
  for (const at::Tensor& gradient : expected)
    scale = std::max(scale, gradient.abs().max().item<double>());
  for (std::size_t i = 0; i < expected.size(); ++i)
    worst = std::max(worst, (actual.at(i) - expected[i]).abs().max().item<double>() / scale);
  return worst;
}

void expect_one_graph(const TwoLossesOutcome& outcome, const OneGraph& expected) {
  EXPECT_LT(gradient_error(outcome.gradients, expected.gradients), kSameToRounding);
  EXPECT_NEAR(outcome.run.losses.at("classes"), expected.classes, kSameToRounding);
  EXPECT_NEAR(outcome.run.losses.at("marks"), expected.marks, kSameToRounding);
}

const std::vector<std::vector<batch::Range>> kParts{
    {{0, 3}, {3, 12}}, {{0, 4}, {4, 12}, {12, 12}}, {{0, 5}, {5, 6}, {6, 12}}};

TEST(ExactLosses, AreThoseOfOneGraphOverTheWholeBatch) {
  const OneGraph expected = one_graph_of(ids_between(0, kExactRows));
  expect_one_graph(run_exact_alone(), expected);
  for (const std::vector<batch::Range>& parts : kParts)
    for (const TwoLossesOutcome& rank : run_exact_parts(parts)) expect_one_graph(rank, expected);
}

/// Statistics and denominators then exclude the micro-batch, on all ranks.
TEST(ExactLosses, ChangeTheirFactorsOnAllRanksWhereOneLeavesAMicroBatchOut) {
  std::vector<std::int64_t> ids = ids_between(0, 6);
  for (const std::int64_t id : ids_between(8, kExactRows)) ids.push_back(id);
  const OneGraph expected = one_graph_of(ids);
  EXPECT_GT(gradient_error(one_graph_of(ids_between(0, kExactRows)).gradients, expected.gradients),
            1e-3);
  for (const std::vector<batch::Range>& parts :
       {std::vector<batch::Range>{{0, 4}, {4, 12}}, {{0, 4}, {4, 8}, {8, 12}}})
    for (const TwoLossesOutcome& rank : run_exact_parts(parts, {6})) {
      expect_one_graph(rank, expected);
      EXPECT_EQ(rank.run.quarantined, 1);
    }
}

TEST(ExactLosses, TheComparisonSeesWhatOneRankDoesWrong) {
  const OneGraph expected = one_graph_of(ids_between(0, kExactRows));
  for (const Planted planted : {Planted::divided_by_its_count, Planted::one_forgotten})
    for (const TwoLossesOutcome& rank : run_exact_parts(kParts.front(), {}, planted))
      EXPECT_GT(gradient_error(rank.gradients, expected.gradients), 1e-3);
}

}  // namespace
}  // namespace accrue::train
