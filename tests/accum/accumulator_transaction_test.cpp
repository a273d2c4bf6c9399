// How an Accumulator handles micro-batches that fail, or are not finite.
#include <gmock/gmock.h>

#include "accrue/accum/accumulator.h"
#include "accum/poison.h"
#include "accum/problem.h"
#include "accum/taken.h"
#include "support/tolerance.h"

namespace accrue {
namespace {

using testing::error_of;
using testing::gradients_of;
using ::testing::HasSubstr;
using testing::kTake;
using testing::make_problem;
using testing::nan_loss;
using testing::Problem;
using testing::same_bits;
using Ids = std::vector<std::int64_t>;

TEST(AccumulatorTransaction, LeavesOutAMicroBatchWithoutAFiniteLoss) {
  const Problem problem = make_problem(6, at::kFloat);
  std::vector<std::string> events;
  Accumulator accumulator(problem.parameters,
                          {.batch = Tokens{problem.rows}, .on_event = [&](const Event& event) {
                             events.push_back(event.name + ": " + event.reason);
                           }});
  accumulator.backward(problem.loss({0, 1, 2}));
  accumulator.backward(nan_loss(problem));
  EXPECT_FALSE(accumulator.full());
  accumulator.backward(problem.loss({3, 4, 5, 6, 7, 8, 9, 10, 11}));
  ASSERT_TRUE(accumulator.full());
  const StepReport report = accumulator.step(kTake);
  EXPECT_EQ(report.quarantined, 1);
  EXPECT_EQ(report.micro_batches, 2);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_THAT(events[0], HasSubstr("quarantined: micro-batch 1"));
  const auto expected = problem.reference();
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(testing::close(gradients_of(problem)[i], expected[i], at::kFloat, problem.rows));
}

TEST(AccumulatorTransaction, EndsALoopThatHasNoFiniteLossAnyMore) {
  const Problem problem = make_problem(6, at::kFloat);
  Accumulator accumulator(problem.parameters, {.batch = Tokens{10}, .max_quarantined = 2});
  accumulator.backward(nan_loss(problem));
  accumulator.backward(nan_loss(problem));
  EXPECT_THAT(error_of([&] { accumulator.backward(nan_loss(problem)); }),
              HasSubstr("without a finite loss"));
}

TEST(AccumulatorTransaction, DropsAWindowWhoseGradientIsNotFinite) {
  const at::Tensor w = at::zeros({2}).requires_grad_(true);
  std::string reason;
  Accumulator accumulator(std::vector<at::Tensor>{w},
                          {.on_event = [&](const Event& event) { reason = event.reason; }});
  bool called = false;
  const Accumulator::StepFunction take = [&](accum::MeanGradient&&) { called = true; };
  // d sqrt(x)/dx is infinite at 0, while the value is finite.
  accumulator.backward({at::sqrt(w).sum(), 2});
  const StepReport report = accumulator.step(take);
  EXPECT_FALSE(report.stepped);
  EXPECT_FALSE(called);
  EXPECT_EQ(report.step, 0);
  EXPECT_THAT(reason, HasSubstr("the gradient of '0' is not finite"));
  EXPECT_FALSE(w.grad().defined());
  accumulator.backward({w.sum(), 2});
  EXPECT_TRUE(accumulator.step(take).stepped);
}

TEST(AccumulatorTransaction, FindsByReplayTheMicroBatchWhoseGradientIsNotFinite) {
  const Problem problem = make_problem(6, at::kFloat);
  bool poisoned = true;
  const auto loss_of = [&](const Ids& samples) {
    Loss loss = problem.loss(samples);
    if (poisoned && samples.front() == 4)
      loss.sum = loss.sum + testing::Poison::apply(problem.parameters[0].tensor);
    return loss;
  };
  std::vector<std::string> events;
  Accumulator accumulator(
      problem.parameters,
      {.replay = [&](const MicroRef& micro) { return loss_of(micro.sample_ids); },
       .on_event = [&](const Event& event) { events.push_back(event.name + " " + event.reason); }});
  const std::vector<Ids> all{{0, 1, 2, 3}, {4, 5, 6}, {7, 8, 9, 10, 11}}, good{all[0], all[2]};
  for (const Ids& micro : all) accumulator.backward(loss_of(micro), BatchSize{}, micro);
  const StepReport report = accumulator.step(kTake);
  EXPECT_TRUE(report.stepped);
  EXPECT_EQ(report.quarantined, 1);
  EXPECT_EQ(report.micro_batches, 2);
  EXPECT_THAT(events, ::testing::ElementsAre("quarantined micro-batch 1: the gradient of "
                                             "'first.weight' is not finite"));
  const auto actual = gradients_of(problem);
  poisoned = false;
  for (const Ids& micro : good) accumulator.backward(loss_of(micro), BatchSize{}, micro);
  EXPECT_EQ(accumulator.step(kTake).loss, report.loss);
  EXPECT_TRUE(same_bits(actual, gradients_of(problem)));
}

/// Fails in backward, after the gradients of some parameters and before those of others.
struct FailingBackward : torch::autograd::Function<FailingBackward> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& input) {
    return input.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list&) {
    throw std::runtime_error("out of memory");
  }
};

Loss failing_loss(const Problem& problem) {
  const at::Tensor hidden =
      FailingBackward::apply(at::linear(problem.inputs[0], problem.parameters[0].tensor));
  return {at::linear(hidden, problem.parameters[2].tensor).sum(), 1};
}

TEST(AccumulatorTransaction, ReplaysAWindowWhoseBackwardFailed) {
  const Problem problem = make_problem(10, at::kFloat);
  const std::vector<Ids> micros{{0, 1, 2, 3}, {4, 5, 6}, {7, 8, 9, 10, 11}};
  const auto run = [&](bool with_failure) {
    Accumulator accumulator(problem.parameters, {.replay = [&](const MicroRef& micro) {
                              return problem.loss(micro.sample_ids);
                            }});
    for (std::size_t i = 0; i < micros.size(); ++i) {
      accumulator.backward(problem.loss(micros[i]), BatchSize{}, micros[i]);
      if (with_failure && i == 1) {
        EXPECT_THROW(accumulator.backward(failing_loss(problem)), std::runtime_error);
      }
    }
    EXPECT_TRUE(accumulator.step(kTake).stepped);
    return gradients_of(problem);
  };
  EXPECT_TRUE(same_bits(run(false), run(true)));
}

TEST(AccumulatorTransaction, IsFullAtOnceWhenItsWindowIsLost) {
  const Problem problem = make_problem(10, at::kFloat);
  Accumulator accumulator(problem.parameters, {.batch = Tokens{1000}});
  accumulator.backward(problem.loss({0}));
  EXPECT_THROW(accumulator.backward(failing_loss(problem)), std::runtime_error);
  EXPECT_TRUE(accumulator.full());
  accumulator.backward(problem.loss({1}));
  const StepReport report = accumulator.step(kTake);
  EXPECT_FALSE(report.stepped);
  EXPECT_FALSE(report.loss);
  accumulator.backward(problem.loss({0}));
  EXPECT_TRUE(accumulator.step(kTake).stepped);
}

}  // namespace
}  // namespace accrue
