// Running out of memory at any point of a window costs a retry, never the window.
#include "memory/recovery.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include <random>

#include "accrue/core/error.h"
#include "accrue/memory/caching_allocator.h"
#include "accrue/models/gpt2.h"
#include "accrue/models/resnet.h"
#include "accrue/optim/optimizer.h"
#include "support/tolerance.h"
#include "train/driven_runner.h"
#include "train/formula_source.h"
#include "train/tiny_torchscript.h"
#include "train/window/layered/layered_runner.h"
#include "train/window/micro_batch_runner.h"

namespace accrue::train {
namespace {

using testing::DrivenRunner;
using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

constexpr std::int64_t kTextSamples = 14, kTextLength = 8, kTextVocab = 31, kPictureClasses = 4;

class InstalledAllocator : public ::testing::Environment {
 public:
  void SetUp() override { memory::install_caching_allocator(); }
};
const auto* const environment = ::testing::AddGlobalTestEnvironment(new InstalledAllocator);

/// Pseudorandom text, each sample with a few ignored labels.
class Text : public accrue::testing::FormulaSource {
 public:
  Text()
      : FormulaSource(
            kTextSamples, kTextLength, kTextVocab,
            [](std::int64_t sample, std::int64_t t) {
              return (sample * 11 + t * t * 5) % kTextVocab;
            },
            [](std::int64_t sample, std::int64_t t) {
              return t < sample % 4 ? -100 : (sample * 3 + t) % kTextVocab;
            }) {}
};

class Pictures : public Text {
 public:
  batch::MicroBatch fetch(std::span<const std::int64_t> indices) const override {
    const auto count = static_cast<std::int64_t>(indices.size());
    batch::MicroBatch micro{.inputs = at::empty({count, 1, 8, 8}),
                            .targets = at::empty({count}, at::kLong),
                            .tokens = count};
    for (std::int64_t row = 0; row < count; ++row) {
      const std::int64_t sample = indices[static_cast<std::size_t>(row)];
      micro.inputs[row] =
          at::sin(at::arange(64, at::kFloat) * (0.1 * double(sample + 1))).view({1, 8, 8});
      micro.targets[row] = sample % kPictureClasses;
    }
    return micro;
  }
};

std::unique_ptr<models::Trainable> make_gpt2() {
  return std::make_unique<models::Gpt2>(models::Gpt2Options{.layers = 2,
                                                            .heads = 2,
                                                            .width = 16,
                                                            .context = kTextLength,
                                                            .vocab = kTextVocab,
                                                            .dropout = 0.1});
}

std::unique_ptr<models::Trainable> make_resnet() {
  return std::make_unique<models::ResNet>(models::ResNetOptions{.layers = 8,
                                                                .width = 2,
                                                                .classes = kPictureClasses,
                                                                .image = {1, 8, 8},
                                                                .norm = models::Norm::batch});
}

struct Setting {
  const char* name;
  std::unique_ptr<models::Trainable> (*make)();
  std::shared_ptr<const data::Source> source;
  int trials = 20;
  bool layered = false;
  bool window_statistics = false;
};
const Setting kGpt2{"gpt2", make_gpt2, std::make_shared<Text>(), 200};
const Setting kMicroNorm{"batch norm by micro-batch", make_resnet, std::make_shared<Pictures>()};
const Setting kExactNorm{"batch norm by window",    make_resnet, std::make_shared<Pictures>(), 20,
                         /*layered=*/true,
                         /*window_statistics=*/true};
const Setting kLayered{"gpt2, layered", make_gpt2, std::make_shared<Text>(), 50, /*layered=*/true};
const Setting kLayeredMicroNorm{"batch norm by micro-batch, layered", make_resnet,
                                std::make_shared<Pictures>(), 20, /*layered=*/true};
const Setting kTorchScript{"torchscript", testing::tiny_torchscript, std::make_shared<Pictures>(),
                           50};

/// A model, and windows over the same samples with planted failures.
class Rig {
 public:
  explicit Rig(const Setting& setting, std::int64_t micro = 4, std::string no_split = {})
      : model(setting.make()),
        window(std::make_shared<accum::GradientBuffer>(model->parameters())),
        recovery({.planned = micro, .micro_batch = micro}, std::move(no_split)),
        loader(setting.source, batch::Sampler(kTextSamples, batch::Order::sequential, 0)) {
    const auto advice = [] { return std::string("something smaller"); };
    if (setting.layered)
      layered_runner = std::make_unique<DrivenRunner<LayeredRunner>>(
          *model, window, loader, 1, RunnerOptions{.window_statistics = setting.window_statistics},
          &recovery, advice);
    else
      runner = std::make_unique<DrivenRunner<MicroBatchRunner>>(*model, window, loader, 1,
                                                                RunnerOptions{}, &recovery, advice);
  }

  WindowRun run() { return run(recovery.state().micro_batch); }
  WindowRun run(std::int64_t micro) {
    return run(WindowRequest::even(3, {0, kTextSamples}, micro));
  }
  WindowRun run(WindowRequest request) {
    return runner ? runner->run(std::move(request)) : layered_runner->run(std::move(request));
  }
  std::vector<std::string> told() const {
    return runner ? runner->told("out_of_memory") : layered_runner->told("out_of_memory");
  }

  /// Sums and buffers after the last window.
  Tensors left() {
    Tensors result;
    for (const auto& entry : window.buffer()->entries()) result.push_back(entry.slot->main.clone());
    for (const NamedParameter& buffer : model->buffers()) result.push_back(buffer.tensor.clone());
    return result;
  }

  /// The micro-batches that make up the last window's sums.
  std::vector<batch::Range> partition() {
    std::vector<batch::Range> parts;
    for (const LedgerEntry& entry : window.ledger().entries)
      if (entry.status == MicroStatus::committed)
        parts.push_back({entry.micro.sample_ids.front(), entry.micro.sample_ids.back() + 1});
    return parts;
  }

  std::unique_ptr<models::Trainable> model;
  accum::Window window;
  memory::Recovery recovery;
  data::Loader loader;
  std::unique_ptr<DrivenRunner<MicroBatchRunner>> runner;
  std::unique_ptr<DrivenRunner<LayeredRunner>> layered_runner;
};

bool same_bits(const Tensors& a, const Tensors& b) {
  bool same = a.size() == b.size();
  for (std::size_t i = 0; same && i < a.size(); ++i) same = at::equal(a[i], b[i]);
  return same;
}

std::int64_t allocations_of(const std::function<void()>& work) {
  const std::int64_t before = memory::usage().allocations;
  work();
  return memory::usage().allocations - before;
}

class Faults : public ::testing::TestWithParam<Setting> {
 protected:
  void SetUp() override { at::set_num_threads(1); }
  void TearDown() override { at::set_num_threads(threads_); }

 private:
  int threads_ = at::get_num_threads();
};
INSTANTIATE_TEST_SUITE_P(Recovery, Faults,
                         ::testing::Values(kGpt2, kMicroNorm, kExactNorm, kTorchScript, kLayered,
                                           kLayeredMicroNorm),
                         [](const auto& setting) { return std::to_string(setting.index); });

TEST_P(Faults, AnyAllocationMayFailOnceAndTheWindowHasTheBitsOfAnUndisturbedOne) {
  SCOPED_TRACE(GetParam().name);
  Rig undisturbed(GetParam());
  ASSERT_TRUE(undisturbed.run().gradient);
  const Tensors expected = undisturbed.left();
  Rig counted(GetParam());
  const std::int64_t allocations = allocations_of([&] { counted.run(); });
  std::mt19937_64 random(17);
  std::int64_t hit = 0;
  for (int trial = 0; trial < GetParam().trials; ++trial) {
    Rig rig(GetParam());
    const auto point =
        1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(allocations));
    const memory::FailingAllocations failing(point);
    const WindowRun run = rig.run();
    ASSERT_TRUE(run.gradient) << point;
    ASSERT_EQ(run.out_of_memory, failing.failed()) << point;
    ASSERT_EQ(run.retries, failing.failed());
    ASSERT_EQ(std::ssize(rig.told()), failing.failed());
    ASSERT_EQ(rig.recovery.state().micro_batch, 4);
    ASSERT_TRUE(same_bits(rig.left(), expected)) << point;
    hit += failing.failed();
  }
  EXPECT_EQ(hit, GetParam().trials);
}

/// The second failure follows at once, so that the retry fails too.
TEST_P(Faults, WhatIsSplitHasTheBitsOfAWindowThatWasSplitSoFromTheStart) {
  SCOPED_TRACE(GetParam().name);
  Rig whole(GetParam());
  whole.run();
  const Tensors unsplit = whole.left();
  Rig counted(GetParam());
  const std::int64_t allocations = allocations_of([&] { counted.run(); });
  std::mt19937_64 random(29);
  int split = 0, other_bits = 0;
  // Not every second failure hits the retry, and their number differs from run to run: trials
  // continue until enough windows were split.
  const int enough = GetParam().trials / 4, most_trials = 4 * GetParam().trials;
  for (int trial = 0; trial < GetParam().trials || (split < enough && trial < most_trials);
       ++trial) {
    Rig rig(GetParam());
    const auto point =
        1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(allocations));
    const memory::FailingAllocations failing(point, 2);
    const WindowRun run = rig.run();
    ASSERT_TRUE(run.gradient) << point;
    if (rig.recovery.state().micro_batch == 4) continue;
    ++split;
    Rig planned(GetParam());
    if (GetParam().layered)
      planned.run(rig.recovery.state().micro_batch);
    else
      planned.run({.index = 3, .micro_batches = rig.partition()});
    ASSERT_EQ(run.weight, planned.window.weight());
    ASSERT_TRUE(same_bits(rig.left(), planned.left())) << point;
    other_bits += same_bits(rig.left(), unsplit) ? 0 : 1;
  }
  EXPECT_GE(split, enough);
  EXPECT_GT(other_bits, 0) << "the comparison tells no two splits apart";
}

TEST(Recovery, OnlyWhatWasNotDoneIsSplit) {
  Rig rig(kGpt2);
  const std::int64_t half = allocations_of([&] { rig.run(); }) / 2;
  WindowRun run;
  std::size_t already_told = 0;
  const auto wanted = [&] {
    return rig.recovery.state().micro_batch == 2 && rig.partition().front().size() == 4;
  };
  // If a replay was under way the whole window begins again: another point is tried.
  for (std::int64_t point = half; !wanted() && point < half + 300; ++point) {
    rig.recovery = memory::Recovery({.planned = 4, .micro_batch = 4});
    already_told = rig.told().size();
    const memory::FailingAllocations failing(point, 2);
    run = rig.run();
  }
  EXPECT_EQ(rig.partition().front(), (batch::Range{0, 4}));
  EXPECT_EQ(rig.partition().back(), (batch::Range{12, 14}));
  EXPECT_EQ(run.micro_batches, std::ssize(rig.partition()));
  EXPECT_EQ(run.tokens, kTextSamples * kTextLength);
  ASSERT_EQ(rig.told().size(), already_told + 1) << "one line a window";
  EXPECT_THAT(rig.told().back(), HasSubstr("micro-batches of 4 samples ran out of memory"));
  EXPECT_THAT(rig.told().back(), HasSubstr("from here on they have 2, and the batch stays"));
}

std::string refusal_of(Rig& rig) {
  try {
    const memory::FailingAllocations failing(50, 1'000'000);
    rig.run();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::refused);
    EXPECT_EQ(error.exit_code(), 3);
    return error.what();
  }
  ADD_FAILURE() << "it went through";
  return {};
}

TEST(Recovery, GivesUpWhereASingleSampleDoesNotFit) {
  Rig rig(kGpt2);
  const std::string message = refusal_of(rig);
  EXPECT_THAT(message, HasSubstr("a single sample does not fit"));
  EXPECT_THAT(message, HasSubstr("try something smaller"));
  EXPECT_FALSE(rig.window.is_open());
  // No state remains: the next window is as in a fresh process.
  Rig fresh(kGpt2, 1);
  fresh.run();
  rig.run(1);
  EXPECT_TRUE(same_bits(rig.left(), fresh.left()));
}

TEST(Recovery, DoesNotSplitWhatIsPartOfTheMathematics) {
  Rig rig(kGpt2, 4, "it is fixed");
  EXPECT_THAT(refusal_of(rig), HasSubstr("may not be split, since it is fixed"));
  EXPECT_EQ(rig.recovery.state().micro_batch, 4);
}

TEST(Recovery, WithoutADecisionTheErrorGoesToTheCaller) {
  Rig rig(kGpt2);
  DrivenRunner<MicroBatchRunner> plain(*rig.model, rig.window, rig.loader, 1);
  const memory::FailingAllocations failing(60);
  EXPECT_THROW(plain.run(3, {0, kTextSamples}, 4), c10::OutOfMemoryError);
  EXPECT_FALSE(rig.window.is_open());
}

/// Everything that a step needs was allocated before the first commit.
TEST(Recovery, TheOptimizerStepTakesNoMemory) {
  Rig rig(kGpt2);
  const auto optimizer = optim::make_adam(
      rig.model->parameters(), optim::default_groups(rig.model->parameters(), 0.1, false), {});
  for (int step = 0; step < 2; ++step) {
    WindowRun run = rig.run();
    const memory::FailingAllocations failing(1, 1'000);
    run.gradient->clip(0.1);
    optimizer->step(std::move(*run.gradient), 1e-3);
    EXPECT_EQ(failing.failed(), 0);
  }
}

}  // namespace
}  // namespace accrue::train
