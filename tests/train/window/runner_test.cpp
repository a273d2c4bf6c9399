// The model's buffers and the sums of losses after each kind of runner.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <set>
#include <string>

#include "accrue/core/error.h"
#include "accum/poison.h"
#include "train/driven_runner.h"
#include "train/window/layered/layered_runner.h"
#include "train/window/micro_batch_runner.h"

namespace accrue::train {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t number_count = 16;

/// Sample i is the number i.
class Numbers : public data::Source {
 public:
  std::int64_t size() const override { return number_count; }
  std::int64_t vocab() const override { return 0; }
  std::int64_t tokens(std::int64_t) const override { return 1; }
  std::optional<std::int64_t> uniform_tokens() const override { return 1; }
  std::string fingerprint() const override { return "numbers"; }
  batch::MicroBatch fetch(std::span<const std::int64_t> indices) const override {
    batch::MicroBatch micro{.tokens = std::ssize(indices)};
    micro.inputs = at::tensor(at::ArrayRef<std::int64_t>(indices.data(), indices.size()));
    micro.targets = at::zeros_like(micro.inputs);
    return micro;
  }
};

bool is_even(std::int64_t sample) { return sample % 2 == 0; }

double count_even(const batch::MicroBatch& micro) {
  return static_cast<double>(std::ranges::count_if(micro.sample_ids, is_even));
}

/// w x, with a running mean of x; the losses are the mean of all and of the even ones.
class Scale : public models::Trainable {
 public:
  NamedParameters parameters() const override { return {{"w", w}}; }
  NamedParameters buffers() const override { return {{"mean", mean}}; }
  std::vector<models::Segment> segments() override {
    return {{"scale", [this](const models::Activations&, const batch::MicroBatch& micro,
                             const ForwardContext&) {
               const at::Tensor x = micro.inputs.to(at::kDouble);
               mean.mul_(0.5).add_(x.mean());
               return models::Activations{w * x};
             }}};
  }
  std::vector<models::LossHead> losses() override {
    return {{.name = "all",
             .forward =
                 [this](const auto& y, const auto& micro, auto&, double) {
                   return Loss{all(y.at(0), micro), size_of(micro)};
                 },
             .weight = size_of,
             .coefficient = 0.5},
            {.name = "even",
             .forward =
                 [](const auto& y, const auto& micro, auto&, double) {
                   const at::Tensor even = micro.inputs.remainder(2).eq(0).to(at::kDouble);
                   return Loss{y.at(0).dot(even), count_even(micro)};
                 },
             .weight = count_even,
             .coefficient = 2}};
  }

  at::Tensor w = at::ones({1}, at::kDouble).requires_grad_(true);
  at::Tensor mean = at::zeros({}, at::kDouble);
  std::set<std::int64_t> bad_losses, bad_gradients;

 private:
  static double size_of(const batch::MicroBatch& micro) {
    return static_cast<double>(micro.inputs.size(0));
  }
  at::Tensor all(const at::Tensor& y, const batch::MicroBatch& micro) const {
    at::Tensor sum = y.sum();
    for (const std::int64_t id : micro.sample_ids) {
      if (bad_losses.contains(id)) sum = sum * std::numeric_limits<double>::quiet_NaN();
      if (bad_gradients.contains(id)) sum = sum + accrue::testing::Poison::apply(w);
    }
    return sum;
  }
};

struct RunnerFixture {
  template <class R>
  WindowRun run() {
    testing::DrivenRunner<R> runner(model, window, loader, 1);
    return runner.run(0, {0, number_count}, 4);
  }
  /// Runs until a signal asks it to stop after so many micro-batches.
  WindowRun run_until(int micro_batches) {
    memory::BudgetWatch budget("");
    const StopSignalWatch signals;
    testing::DrivenRunner<MicroBatchRunner> runner(model, window, loader, 1);
    runner.heed(budget, signals);
    runner.add_observer(std::make_shared<testing::SignalAfter>(micro_batches, SIGTERM));
    return runner.run(0, {0, number_count}, 4);
  }
  Scale model;
  accum::Window window{std::make_shared<accum::GradientBuffer>(model.parameters())};
  data::Loader loader{std::make_shared<Numbers>(),
                      batch::Sampler(number_count, batch::Order::sequential, 0)};
};

/// The running mean after micro-batches of four that begin at these samples.
double running_mean(const std::vector<int>& begins) {
  double mean = 0;
  for (const int begin : begins) mean = 0.5 * mean + begin + 1.5;
  return mean;
}

template <class R>
void expect_no_trace_of_a_quarantined_micro_batch() {
  for (const bool in_gradient : {false, true})
    for (const int bad : {0, 4, 12}) {
      RunnerFixture f;
      (in_gradient ? f.model.bad_gradients : f.model.bad_losses).insert(bad + 1);
      EXPECT_EQ(f.run<R>().quarantined, 1);
      std::vector<int> good{0, 4, 8, 12};
      EXPECT_NE(f.model.mean.item<double>(), running_mean(good)) << "moved by all of them";
      std::erase(good, bad);
      EXPECT_EQ(f.model.mean.item<double>(), running_mean(good)) << in_gradient << " " << bad;
    }
}

TEST(Runner, LeavesNoTraceOfAQuarantinedMicroBatchInTheBuffers) {
  expect_no_trace_of_a_quarantined_micro_batch<MicroBatchRunner>();
  expect_no_trace_of_a_quarantined_micro_batch<LayeredRunner>();
}

TEST(Runner, LeavesTheBuffersOfAWindowThatWasNotFinishedAlone) {
  RunnerFixture f;
  EXPECT_TRUE(f.run_until(2).interrupted);
  EXPECT_EQ(f.model.mean.item<double>(), 0);
  f.model.bad_losses = {5, 9};
  EXPECT_THROW(f.run<MicroBatchRunner>(), Error);
  EXPECT_EQ(f.model.mean.item<double>(), 0);
  f.model.bad_losses.clear();
  f.run<MicroBatchRunner>();
  EXPECT_EQ(f.model.mean.item<double>(), running_mean({0, 4, 8, 12}));
}

template <class R>
void expect_the_means_of_both_losses(std::set<std::int64_t> bad, double expected) {
  RunnerFixture f;
  f.model.bad_losses = std::move(bad);
  WindowRun run = f.run<R>();
  ASSERT_TRUE(run.gradient);
  run.gradient->materialize();
  EXPECT_DOUBLE_EQ(f.model.w.grad().item<double>(), expected);
}

TEST(Runner, AddsLossesByTheirOwnDenominators) {
  const double all = 0.5 * 7.5 + 2 * 7, without_the_second = 0.5 * 98 / 12 + 2 * 46.0 / 6;
  expect_the_means_of_both_losses<MicroBatchRunner>({}, all);
  expect_the_means_of_both_losses<LayeredRunner>({}, all);
  expect_the_means_of_both_losses<MicroBatchRunner>({6}, without_the_second);
  expect_the_means_of_both_losses<LayeredRunner>({6}, without_the_second);
}

using Means = std::map<std::string, double>;

TEST(Runner, TellsTheMeanOfEachLoss) {
  const Means all{{"all", 7.5}, {"even", 7}},
      without_the_second{{"all", 98.0 / 12}, {"even", 46.0 / 6}};
  RunnerFixture f;
  EXPECT_EQ(f.run<MicroBatchRunner>().losses, all);
  EXPECT_EQ(f.run<LayeredRunner>().losses, all);
  for (std::set<std::int64_t>* bad : {&f.model.bad_losses, &f.model.bad_gradients}) {
    *bad = {6};
    EXPECT_EQ(f.run<MicroBatchRunner>().losses, without_the_second);
    EXPECT_EQ(f.run<LayeredRunner>().losses, without_the_second);
    bad->clear();
  }
}

TEST(Runner, TellsTheTimeOfEachMicroBatchThatCounts) {
  RunnerFixture f;
  f.model.bad_losses = {6};
  const WindowRun run = f.run<MicroBatchRunner>();
  ASSERT_EQ(run.micro_batch_seconds.size(), 3U);
  double sum = 0;
  for (const double seconds : run.micro_batch_seconds) sum += seconds;
  EXPECT_GT(std::ranges::min(run.micro_batch_seconds), 0);
  EXPECT_LE(sum, run.seconds);
  EXPECT_TRUE(f.run<LayeredRunner>().micro_batch_seconds.empty()) << "they interleave";
}

TEST(Runner, StopsALayeredWindowWhereTooManyAreQuarantined) {
  RunnerFixture f;
  f.model.bad_losses = {1, 6, 9};
  try {
    f.run<LayeredRunner>();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::runtime);
    EXPECT_THAT(error.what(), HasSubstr("at most 1 of its 4 micro-batches"));
    EXPECT_THAT(error.what(), HasSubstr("samples 4 to 7"));
  }
  EXPECT_FALSE(f.window.is_open());
}

}  // namespace
}  // namespace accrue::train
