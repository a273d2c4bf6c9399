// Memory that runs out in Accumulator::backward: what is undone, split and finished, and what is
// not.
#include <gmock/gmock.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/serialize/archive.h>

#include <limits>
#include <memory>
#include <sstream>

#include "accrue/accum/accumulator.h"
#include "accrue/accum/accumulator_archive.h"
#include "accrue/memory/caching_allocator.h"
#include "accum/problem.h"
#include "accum/runs_out.h"
#include "accum/taken.h"
#include "accum/three_losses.h"
#include "support/tolerance.h"

namespace accrue {
namespace {

using testing::error_of;
using testing::gradients_of;
using ::testing::HasSubstr;
using testing::kTake;
using testing::make_problem;
using testing::Problem;
using testing::RunsOut;
using testing::ThreeLosses;
using Ids = std::vector<std::int64_t>;

/// Of sums of a few terms in fp64; a sample that is lost or counted twice is off by 1e-2.
constexpr double kRounding = 1e-12;

/// The problem, of whose samples only `most` fit at once.
Loss loss_within(const Problem& problem, const Ids& samples, std::size_t most) {
  Problem scarce = problem;
  if (samples.size() > most)
    scarce.parameters[0].tensor = RunsOut::apply(problem.parameters[0].tensor);
  return scarce.loss(samples);
}

double largest_error(const std::vector<at::Tensor>& actual,
                     const std::vector<at::Tensor>& expected) {
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    worst = std::max(worst, testing::relative_error(actual[i], expected[i]));
  return worst;
}

const std::vector<Ids> kMicros{{0, 1}, {2, 3, 4, 5, 6}, {7, 8, 9, 10, 11}};

/// A loop over kMicros, whose replay may be set to do something else.
struct Loop {
  std::size_t most = 2;
  std::function<Loss(const MicroRef&)> replay = [this](const MicroRef& micro) {
    return loss_within(problem, micro.sample_ids, most);
  };
  Problem problem = make_problem(6, at::kDouble);
  std::vector<std::string> events;

  AccumulatorOptions options() {
    return {.replay = replay, .on_event = [this](const Event& event) {
              events.push_back(event.name + ": " + event.reason);
            }};
  }
  void fill(Accumulator& accumulator) {
    for (const Ids& micro : kMicros)
      accumulator.backward(loss_within(problem, micro, most), {}, micro);
  }
  StepReport run() {
    Accumulator accumulator(problem.parameters, options());
    fill(accumulator);
    return accumulator.step(kTake);
  }
  double error() { return largest_error(gradients_of(problem), problem.reference()); }
};

TEST(AccumulatorMemory, WhatRanOutIsSplitAndTheWindowIsThatOfTheWholeBatch) {
  for (const std::size_t most : {1U, 2U, 3U, 4U}) {
    Loop loop{.most = most};
    const StepReport report = loop.run();
    EXPECT_TRUE(report.stepped);
    EXPECT_LT(loop.error(), kRounding) << "at most " << most;
    EXPECT_GE(report.retries, 4) << "two micro-batches, each once more and then in parts";
    EXPECT_EQ(report.weight, static_cast<double>(loop.problem.rows));
    EXPECT_EQ(report.quarantined, 0);
    ASSERT_GE(loop.events.size(), 2U) << "one line for each micro-batch";
    EXPECT_THAT(loop.events.back(), HasSubstr("out_of_memory: micro-batch "));
    EXPECT_THAT(loop.events.back(), HasSubstr("(samples 7 to 11) ran out of memory (no memory for "
                                              "this many samples): it went through in parts of at "
                                              "most"));
  }
}

TEST(AccumulatorMemory, WhatFitsIsNotSplit) {
  Loop loop{.most = 5};
  EXPECT_EQ(loop.run().retries, 0);
  EXPECT_TRUE(loop.events.empty());
  EXPECT_LT(loop.error(), kRounding);
}

TEST(AccumulatorMemory, WhatRanOutOnceIsRunOnceMoreAsItWas) {
  Loop loop{.most = 5};
  Accumulator accumulator(loop.problem.parameters, loop.options());
  for (const Ids& micro : kMicros)
    accumulator.backward(loss_within(loop.problem, micro, micro.front() == 2 ? 1 : 5), {}, micro);
  const StepReport report = accumulator.step(kTake);
  EXPECT_EQ(report.retries, 1);
  EXPECT_EQ(report.micro_batches, 3);
  ASSERT_EQ(loop.events.size(), 1U);
  EXPECT_THAT(loop.events[0], HasSubstr("it went through when it was run once more"));
  EXPECT_LT(loop.error(), kRounding);
}

/// The comparison's control: half of each part's loss is lost unless the weights show it.
TEST(AccumulatorMemory, TheComparisonSeesAPartThatIsForgotten) {
  Loop loop;
  loop.replay = [&](const MicroRef& micro) {
    Loss loss = loss_within(loop.problem, micro.sample_ids, loop.most);
    if (micro.sample_ids.front() == 9) loss.sum = loss.sum * 0;
    return loss;
  };
  EXPECT_TRUE(loop.run().stepped);
  EXPECT_GT(loop.error(), 1e-3);
}

TEST(AccumulatorMemory, AReplayThatForgetsSamplesIsRefusedAndTheWindowLost) {
  Loop loop;
  loop.replay = [&](const MicroRef& micro) {
    const bool forgets = micro.sample_ids.front() >= kMicros[1].front();
    return loss_within(loop.problem, forgets ? Ids{micro.sample_ids.front()} : micro.sample_ids,
                       loop.most);
  };
  Accumulator accumulator(loop.problem.parameters, loop.options());
  const std::string message = error_of([&] { loop.fill(accumulator); }, Error::Kind::usage);
  EXPECT_THAT(message, HasSubstr("replay of a micro-batch in parts: expected weights that add up"));
  EXPECT_THAT(message, HasSubstr("exactly the samples of MicroRef::sample_ids"));
  EXPECT_TRUE(accumulator.full());
  EXPECT_FALSE(accumulator.step(kTake).stepped);
}

TEST(AccumulatorMemory, AReplayThatReturnsAMeanIsRefused) {
  Loop loop;
  loop.replay = [&](const MicroRef& micro) {
    const Loss loss = loss_within(loop.problem, micro.sample_ids, loop.most);
    return micro.sample_ids.front() == 0 ? loss : Loss{loss.sum / loss.weight, 1};
  };
  Accumulator accumulator(loop.problem.parameters, loop.options());
  EXPECT_THAT(error_of([&] { loop.fill(accumulator); }, Error::Kind::usage),
              HasSubstr("returns the sum, and not the mean"));
}

TEST(AccumulatorMemory, ASampleThatDoesNotFitIsRefusedWithWhatToTry) {
  Loop loop{.most = 0};
  Accumulator accumulator(loop.problem.parameters, loop.options());
  const std::string message = error_of([&] { loop.fill(accumulator); }, Error::Kind::refused);
  EXPECT_THAT(message, HasSubstr("a single sample does not fit"));
  EXPECT_THAT(message, HasSubstr("try a larger memory budget, smaller samples"));
  EXPECT_TRUE(accumulator.full());
  EXPECT_FALSE(accumulator.step(kTake).stepped);
  loop.most = 12;
  loop.fill(accumulator);
  EXPECT_TRUE(accumulator.step(kTake).stepped);
  EXPECT_LT(loop.error(), kRounding) << "nothing of the lost window is left";
}

TEST(AccumulatorMemory, WithoutAWayToSplitTheExceptionReachesTheCaller) {
  Loop loop;
  AccumulatorOptions off = loop.options();
  off.split_out_of_memory = false;
  const auto runs_out = [&](const AccumulatorOptions& options, const Ids& ids) {
    Accumulator accumulator(loop.problem.parameters, options);
    accumulator.backward(loss_within(loop.problem, kMicros[1], 2), {}, ids);
  };
  EXPECT_THROW(runs_out(off, kMicros[1]), c10::OutOfMemoryError);
  EXPECT_THROW(runs_out({}, kMicros[1]), c10::OutOfMemoryError) << "there is no replay";
  EXPECT_THROW(runs_out(loop.options(), {}), c10::OutOfMemoryError) << "there are no sample ids";
}

TEST(AccumulatorMemory, AMicroBatchCountsOnceHoweverItWasSplit) {
  Loop loop;
  AccumulatorOptions three = loop.options();
  three.micro_batches = 3;
  Accumulator accumulator(loop.problem.parameters, three);
  for (std::size_t i = 0; i < kMicros.size(); ++i) {
    EXPECT_FALSE(accumulator.full()) << i;
    accumulator.backward(loss_within(loop.problem, kMicros[i], 2), {}, kMicros[i]);
  }
  EXPECT_TRUE(accumulator.full());
  EXPECT_EQ(accumulator.step(kTake).micro_batches, 7) << "2, and 2 + 2 + 1 twice";
}

/// The third micro-batch fails half-way, so that the parts of the second run again.
TEST(AccumulatorMemory, APartThatIsQuarantinedLaterLeavesItsMicroBatchCounted) {
  Loop loop;
  bool is_bad = false;
  loop.replay = [&](const MicroRef& micro) {
    Loss loss = loss_within(loop.problem, micro.sample_ids, loop.most);
    if (is_bad && micro.sample_ids == Ids{2, 3})
      loss.sum = loss.sum * std::numeric_limits<double>::quiet_NaN();
    return loss;
  };
  AccumulatorOptions three = loop.options();
  three.micro_batches = 3;
  three.accumulate = accum::Accumulation::fixed;  // detects at once what is not finite
  Accumulator accumulator(loop.problem.parameters, three);
  for (const Ids& micro : kMicros) {
    EXPECT_FALSE(accumulator.full()) << micro.front();
    is_bad = micro.front() == 7;
    accumulator.backward(loss_within(loop.problem, micro, 2), {}, micro);
  }
  EXPECT_TRUE(accumulator.full());
  const StepReport report = accumulator.step(kTake);
  EXPECT_EQ(report.quarantined, 1);
  EXPECT_EQ(report.micro_batches, 6) << "1, 2 of 3, and 3";
}

TEST(AccumulatorMemory, StatedSizesOfPartsComeToTheWhole) {
  Loop loop;
  AccumulatorOptions stated = loop.options();
  stated.batch = Samples{12};
  Accumulator accumulator(loop.problem.parameters, stated);
  for (const Ids& micro : kMicros)
    accumulator.backward(loss_within(loop.problem, micro, 2), Samples{std::ssize(micro)}, micro);
  EXPECT_TRUE(accumulator.full());
  EXPECT_EQ(accumulator.step(kTake).samples, 12);
}

TEST(AccumulatorMemory, AWindowThatWasSplitIsSavedAndGoesOn) {
  Loop loop;
  AccumulatorOptions three = loop.options();
  three.micro_batches = 3;
  std::stringstream file;
  {
    Accumulator first(loop.problem.parameters, three);
    for (std::size_t i = 0; i < 2; ++i)
      first.backward(loss_within(loop.problem, kMicros[i], 2), {}, kMicros[i]);
    torch::serialize::OutputArchive archive;
    write(first.state(), archive);
    archive.save_to(file);
  }
  torch::serialize::InputArchive archive;
  archive.load_from(file);
  Accumulator second(loop.problem.parameters, three);
  second.load(read_accumulator_state(archive));
  EXPECT_FALSE(second.full());
  second.backward(loss_within(loop.problem, kMicros[2], 2), {}, kMicros[2]);
  EXPECT_TRUE(second.full());
  EXPECT_TRUE(second.step(kTake).stepped);
  EXPECT_LT(loop.error(), kRounding);
}

TEST(AccumulatorMemory, SeveralLossesKeepTheirDenominators) {
  ThreeLosses task(4);
  const auto losses = [&](const Ids& samples, std::size_t most) {
    ThreeLosses scarce = task;
    if (samples.size() > most)
      scarce.problem.parameters[0].tensor = RunsOut::apply(task.problem.parameters[0].tensor);
    return scarce.losses(samples);
  };
  Accumulator accumulator(task.problem.parameters, {.replay_losses = [&](const MicroRef& micro) {
                            return losses(micro.sample_ids, 2);
                          }});
  accumulator.expect(task.totals(task.problem.all()));
  for (const Ids& micro : kMicros) accumulator.backward(losses(micro, 2), {}, micro);
  const StepReport report = accumulator.step(kTake);
  EXPECT_TRUE(report.stepped);
  EXPECT_GE(report.retries, 4);
  EXPECT_LT(largest_error(gradients_of(task.problem), task.reference(task.problem.all())),
            kRounding);
}

/// A scalar in memory that is freed with the last tensor that refers to it.
at::Tensor scalar_in(const std::shared_ptr<double>& memory) {
  return at::from_blob(
      memory.get(), at::IntArrayRef{}, [memory](void*) {}, at::kDouble);
}

/// The replay needs the memory of the failed pass. The control keeps a copy of the losses.
TEST(AccumulatorMemory, TheGraphOfSeveralLossesIsGoneBeforeTheyRunAgain) {
  for (const bool keeps : {false, true}) {
    ThreeLosses task(4), scarce = task;
    auto memory = std::make_shared<double>(1);
    scarce.problem.parameters[0].tensor =
        RunsOut::apply(task.problem.parameters[0].tensor * scalar_in(memory));
    const std::weak_ptr<double> graph = memory;
    memory.reset();
    std::vector<bool> was_gone;
    Accumulator accumulator(task.problem.parameters, {.replay_losses = [&](const MicroRef& micro) {
                              was_gone.push_back(graph.expired());
                              return task.losses(micro.sample_ids);
                            }});
    accumulator.expect(task.totals(kMicros[1]));
    std::vector<Loss> losses = scarce.losses(kMicros[1]);
    scarce = task;
    const std::vector<Loss> kept = keeps ? losses : std::vector<Loss>{};
    accumulator.backward(std::move(losses), {}, kMicros[1]);
    EXPECT_EQ(was_gone, std::vector<bool>{!keeps});
    EXPECT_EQ(accumulator.step(kTake).retries, 1);
  }
}

TEST(AccumulatorMemory, WhatBatchNormalisationTakesItsStatisticsFromIsNotHalved) {
  at::manual_seed(3);
  torch::nn::Sequential model(torch::nn::Linear(4, 6), torch::nn::BatchNorm1d(6));
  const at::Tensor inputs = at::randn({8, 4});
  const auto loss = [&](const MicroRef& micro) {
    const at::Tensor rows = inputs.slice(0, micro.sample_ids.front(), micro.sample_ids.back() + 1);
    return Loss{RunsOut::apply(model->forward(rows)).sum(), static_cast<double>(rows.size(0))};
  };
  Accumulator accumulator(model, {.replay = loss});
  const Ids all{0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_THAT(error_of([&] { accumulator.backward(loss({.sample_ids = all}), {}, all); },
                       Error::Kind::refused),
              HasSubstr("batch normalisation takes the statistics of the micro-batch"));
}

/// Fails `count` allocations from the `first`-th of the second micro-batch's backward on.
TEST(AccumulatorMemory, WhereverAllocationsFailTheWindowIsThatOfTheWholeBatch) {
  memory::install_caching_allocator();
  for (const std::int64_t count : {1, 2}) {
    std::int64_t failed = 1, finished = 0;
    for (std::int64_t first = 1; failed > 0; ++first) {
      Loop loop{.most = 12};
      Accumulator accumulator(loop.problem.parameters, loop.options());
      accumulator.backward(loop.problem.loss(kMicros[0]), {}, kMicros[0]);
      Loss second = loop.problem.loss(kMicros[1]);
      try {
        const memory::FailingAllocations failing(first, count);
        accumulator.backward(std::move(second), {}, kMicros[1]);
        failed = failing.failed();
      } catch (const c10::OutOfMemoryError&) {
        EXPECT_TRUE(accumulator.current_window().is_lost()) << "the replay failed, too";
        failed = count;
        continue;
      }
      accumulator.backward(loop.problem.loss(kMicros[2]), {}, kMicros[2]);
      const StepReport report = accumulator.step(kTake);
      EXPECT_TRUE(report.stepped);
      EXPECT_LT(loop.error(), kRounding) << "allocation " << first;
      finished += failed > 0;
      EXPECT_EQ(report.retries > 0, failed > 0) << "allocation " << first;
    }
    EXPECT_GT(finished, 5);
  }
}

}  // namespace
}  // namespace accrue
