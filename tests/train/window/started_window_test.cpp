// Windows that are kept in their middle, and continue from a checkpoint.
#include "train/window/started_window.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "accrue/kernels/kernel_choice.h"
#include "accrue/models/safetensors.h"
#include "support/errors.h"
#include "train/checkpoint/state_reader.h"
#include "train/window/two_losses.h"

namespace accrue::train {
namespace {

using accum::Accumulation;
using testing::expect_equal;
using testing::expect_same_bits;
using ::testing::HasSubstr;
using testing::kWindowSamples;
using testing::Tensors;
using testing::TwoLosses;
using testing::WindowRunnerFixtureOf;

constexpr std::int64_t kMicro = 3;  // micro-batches of a window: 6, the last one short

/// Two losses, and a statistic that each forward pass moves, as batch normalisation's.
class TwoLossesWithStatistic : public TwoLosses {
 public:
  NamedParameters buffers() const override { return {{"seen", seen}}; }
  std::vector<models::Segment> segments() override {
    std::vector<models::Segment> segments = TwoLosses::segments();
    segments[0].forward = [this, embed = segments[0].forward](const models::Activations& x,
                                                              const batch::MicroBatch& micro,
                                                              const ForwardContext& context) {
      models::Activations out = embed(x, micro, context);
      seen.mul_(0.5).add_(out.at(0).detach().sum());
      return out;
    };
    return segments;
  }
  at::Tensor seen = at::zeros({}, at::kDouble);
};

using Fixture = WindowRunnerFixtureOf<TwoLossesWithStatistic>;

/// Writes and reads it as a checkpoint does: the numbers as JSON, the tensors as a file.
StartedWindow through_files(const StartedWindow& kept) {
  const std::filesystem::path file =
      std::filesystem::path(::testing::TempDir()) /
      ("accrue_window_" + std::to_string(::getpid()) + ".safetensors");
  models::write_stored_safetensors(file, kept.tensors);
  const std::string operation = "read a test's window", text = to_json(kept.middle).dump();
  const nlohmann::json json = nlohmann::json::parse(text);
  StartedWindow read{window_middle_from_json({json, "middle.", operation}, kept.middle.window),
                     stored(models::read_safetensors(file).tensors)};
  std::filesystem::remove(file);
  return read;
}

/// Keeps a window once, after `after` of its micro-batches.
struct Keeping {
  explicit Keeping(int after) : left(after) {}
  WindowKeeper keeper() {
    return {.is_due = [this](double) { return --left == 0; },
            .keep =
                [this](const StartedWindow& started) {
                  if (look) look();
                  kept = through_files(started);
                }};
  }
  int left;
  std::optional<StartedWindow> kept;
  std::function<void()> look = {};
};

/// The result of a window.
struct Outcome {
  Tensors gradient;
  at::Tensor seen;
  WindowRun run;
  std::size_t passes = 0;
  std::vector<std::string> quarantines;
};

template <class Prepare>
Outcome outcome_of(Accumulation accumulation, WindowKeeper keeper,
                   const std::optional<StartedWindow>& started, const Prepare& prepare,
                   std::int64_t micro_batch = kMicro) {
  Fixture f({.max_quarantined = 0.4, .keeper = std::move(keeper)}, accumulation);
  prepare(f);
  WindowRequest request = WindowRequest::even(3, {0, kWindowSamples}, micro_batch);
  if (started) request.go_on_from(*started, micro_batch);
  WindowRun run = f.runner.run(std::move(request));
  auto gradient = std::move(run.gradient);
  run.gradient.reset();
  return {f.gradients(std::move(gradient)), f.model.seen, std::move(run), f.model.contexts.size(),
          f.runner.told("quarantine")};
}

void expect_same(const Outcome& actual, const Outcome& expected) {
  expect_same_bits(actual.gradient, expected.gradient);
  EXPECT_TRUE(at::equal(actual.seen, expected.seen));
  EXPECT_EQ(actual.run.losses, expected.run.losses);
  EXPECT_EQ(actual.run.loss_sum, expected.run.loss_sum);
  EXPECT_EQ(actual.run.weight, expected.run.weight);
  EXPECT_EQ(actual.run.tokens, expected.run.tokens);
  EXPECT_EQ(actual.run.micro_batches, expected.run.micro_batches);
  EXPECT_EQ(actual.run.quarantined, expected.run.quarantined);
  EXPECT_EQ(actual.run.unreadable.size(), expected.run.unreadable.size());
  EXPECT_EQ(actual.quarantines, expected.quarantines);
}

constexpr auto untouched = [](Fixture&) {};

class StartedWindowOf : public ::testing::TestWithParam<Accumulation> {};

TEST_P(StartedWindowOf, GoesOnToTheSameBitsBehindAnyMicroBatch) {
  const Outcome whole = outcome_of(GetParam(), {}, {}, untouched);
  ASSERT_FALSE(whole.gradient.empty());
  EXPECT_EQ(whole.passes, 6U);
  for (int after = 1; after < 6; ++after) {
    Keeping keeping(after);
    expect_same(outcome_of(GetParam(), keeping.keeper(), {}, untouched), whole);
    ASSERT_TRUE(keeping.kept);
    EXPECT_EQ(keeping.kept->middle.in_words(), std::to_string(after) + " of 6 micro-batches");
    const Outcome rest = outcome_of(GetParam(), {}, keeping.kept, untouched);
    expect_same(rest, whole);
    EXPECT_EQ(rest.passes, 6U - static_cast<unsigned>(after)) << "what was done is not done again";
  }
}

INSTANTIATE_TEST_SUITE_P(Accumulations, StartedWindowOf,
                         ::testing::Values(Accumulation::fp32, Accumulation::bf16,
                                           Accumulation::bf16_kahan, Accumulation::bf16_stochastic,
                                           Accumulation::fixed));

TEST(StartedWindow, WithoutItsSumsOrItsLedgerIsAnotherWindow) {
  const Outcome whole = outcome_of(Accumulation::fp32, {}, {}, untouched);
  Keeping keeping(3);
  outcome_of(Accumulation::fp32, keeping.keeper(), {}, untouched);
  StartedWindow without_sums = *keeping.kept;
  std::erase_if(without_sums.tensors,
                [](const StoredTensor& t) { return t.name.starts_with(sum_prefix); });
  EXPECT_THAT(accrue::testing::usage_message(
                  [&] { outcome_of(Accumulation::fp32, {}, without_sums, untouched); }),
              HasSubstr("4 gradient sums, received 0"));
  StartedWindow with_zeros = *keeping.kept;
  for (StoredTensor& tensor : with_zeros.tensors)
    if (tensor.name.starts_with(sum_prefix))
      tensor.copy_to = [](const at::Tensor& target) { target.zero_(); };
  const Outcome wrong = outcome_of(Accumulation::fp32, {}, with_zeros, untouched);
  EXPECT_GT(accrue::testing::relative_error(wrong.gradient[1], whole.gradient[1]), 1e-2);
  StartedWindow without_weights = *keeping.kept;
  for (DoneMicroBatch& done : without_weights.middle.done) done.entry.micro.weight = 0;
  const Outcome heavy = outcome_of(Accumulation::fp32, {}, without_weights, untouched);
  EXPECT_GT(accrue::testing::relative_error(heavy.gradient[1], whole.gradient[1]), 1e-2);
}

TEST(StartedWindow, GoesOnInMicroBatchesOfAnotherSizeWithWhatIsLeft) {
  Fixture f;
  const Tensors expected = f.reference();
  Keeping keeping(2);
  outcome_of(Accumulation::fp32, keeping.keeper(), {}, untouched);
  keeping.kept->middle.micro_batch = kMicro;
  for (const std::int64_t micro_batch : {1, 2, 4, 16}) {
    const Outcome rest = outcome_of(Accumulation::fp32, {}, keeping.kept, untouched, micro_batch);
    const std::int64_t left = (kWindowSamples - 2 * kMicro + micro_batch - 1) / micro_batch;
    EXPECT_EQ(static_cast<std::int64_t>(rest.passes), left);
    EXPECT_EQ(rest.run.micro_batches, 2 + left);
    expect_equal(rest.gradient, expected);
  }
}

/// A quarantine stays and is reported again, and a later one needs a replay: the micro-batches that
/// were done before then run again, from the buffers at the window's start.
TEST(StartedWindow, KeepsWhatIsQuarantinedAndReplaysWhatWasDone) {
  for (const Accumulation accumulation : {Accumulation::fp32, Accumulation::fixed})
    for (const auto& [bad_loss, bad_gradient] : {std::pair{4, 7}, {4, 13}, {13, 1}, {13, 10}}) {
      const auto plant = [&](Fixture& f) {
        f.model.bad_losses = {bad_loss};
        f.model.bad_gradients = {bad_gradient};
      };
      const Outcome whole = outcome_of(accumulation, {}, {}, plant);
      EXPECT_EQ(whole.run.quarantined, 2);
      Keeping keeping(3);
      expect_same(outcome_of(accumulation, keeping.keeper(), {}, plant), whole);
      ASSERT_TRUE(keeping.kept);
      expect_same(outcome_of(accumulation, {}, keeping.kept, plant), whole);
    }
}

/// Losses that stay on a device until the window is kept are only then found to be bad.
TEST(StartedWindow, HasNoMarksOfAFirstMicroBatchThatIsLeftOut) {
  const kernels::KernelScope generic(kernels::Kernels::generic);
  const auto bad_first = [](Fixture& f) { f.model.bad_losses = {1}; };
  const Outcome whole = outcome_of(Accumulation::fp32, {}, {}, bad_first);
  EXPECT_EQ(whole.run.quarantined, 1);
  Keeping keeping(1);
  expect_same(outcome_of(Accumulation::fp32, keeping.keeper(), {}, bad_first), whole);
  ASSERT_TRUE(keeping.kept);
  expect_same(outcome_of(Accumulation::fp32, {}, keeping.kept, bad_first), whole);
}

TEST(StartedWindow, KnowsSamplesThatCouldNotBeRead) {
  const auto damage = [](Fixture& f) { f.samples->damage({0, 5, 11}); };
  const Outcome whole = outcome_of(Accumulation::fp32, {}, {}, damage);
  Keeping keeping(3);
  outcome_of(Accumulation::fp32, keeping.keeper(), {}, damage);
  const Outcome rest = outcome_of(Accumulation::fp32, {}, keeping.kept, damage);
  expect_same(rest, whole);
  EXPECT_EQ(rest.run.unreadable.at(1).sample_id, 5);
  EXPECT_EQ(rest.run.unreadable.at(1).reason, "file 5 is damaged");
}

/// An overflow that was found at a commit lowered the scale, and the sums have the lower one; one
/// that is found at the close lowers it then, and the done micro-batches run again, too.
TEST(StartedWindow, HasTheLossScaleThatAnOverflowLeft) {
  struct Scaled {
    Tensors gradient;
    WindowRun run;
    double scale_afterwards;
  };
  const auto scaled = [](Accumulation accumulation, WindowKeeper keeper,
                         const std::optional<StartedWindow>& started) {
    optim::LossScaler scaler({.initial_scale = 1024});
    Fixture f({.loss_scaler = &scaler, .keeper = std::move(keeper)}, accumulation);
    f.model.overflow_above = 300;
    WindowRequest request = WindowRequest::even(3, {0, kWindowSamples}, kMicro);
    if (started) request.go_on_from(*started, kMicro);
    WindowRun run = f.runner.run(std::move(request));
    auto gradient = std::move(run.gradient);
    run.gradient.reset();
    return Scaled{f.gradients(std::move(gradient)), std::move(run), scaler.scale()};
  };
  for (const Accumulation accumulation : {Accumulation::fp32, Accumulation::bf16}) {
    const bool at_commit = accumulation == Accumulation::bf16;
    const Scaled whole = scaled(accumulation, {}, {});
    EXPECT_GT(whole.run.retries, 0);
    EXPECT_LT(whole.run.loss_scale, 1024);
    Keeping keeping(3);
    scaled(accumulation, keeping.keeper(), {});
    ASSERT_TRUE(keeping.kept);
    EXPECT_EQ(keeping.kept->middle.loss_scale < 1024, at_commit);
    const Scaled rest = scaled(accumulation, {}, keeping.kept);
    EXPECT_EQ(rest.run.retries > 0, !at_commit);
    EXPECT_EQ(rest.run.loss_scale, whole.run.loss_scale);
    EXPECT_EQ(rest.scale_afterwards, whole.scale_afterwards);
    expect_same_bits(rest.gradient, whole.gradient);
  }
}

/// A checkpoint's model is that of the last step, whatever the window has changed since.
TEST(StartedWindow, IsKeptBesideTheBuffersThatItFound) {
  Keeping keeping(4);
  Fixture f({.keeper = keeping.keeper()});
  f.model.seen.fill_(7);
  keeping.look = [&] { EXPECT_EQ(f.model.seen.item<double>(), 7); };
  f.run(kMicro);
  ASSERT_TRUE(keeping.kept);
  EXPECT_NE(f.model.seen.item<double>(), 7);
  const auto seen = std::ranges::find(keeping.kept->tensors, "buffer.seen", &StoredTensor::name);
  ASSERT_NE(seen, keeping.kept->tensors.end());
  EXPECT_NE(seen->read().item<double>(), 7);
}

TEST(StartedWindow, OfAnotherModelIsRefusedByName) {
  Keeping keeping(2);
  outcome_of(Accumulation::fp32, keeping.keeper(), {}, untouched);
  StartedWindow without_buffer = *keeping.kept;
  std::erase_if(without_buffer.tensors,
                [](const StoredTensor& t) { return t.name.starts_with(buffer_prefix); });
  EXPECT_THAT(accrue::testing::error_of(
                  [&] { outcome_of(Accumulation::fp32, {}, without_buffer, untouched); }),
              HasSubstr("'seen'"));
  StartedWindow other = *keeping.kept;
  for (StoredTensor& tensor : other.tensors)
    if (tensor.name == "sum.middle") tensor.name = "sum.center";
  EXPECT_THAT(
      accrue::testing::error_of([&] { outcome_of(Accumulation::fp32, {}, other, untouched); }),
      HasSubstr("'center'"));
}

}  // namespace
}  // namespace accrue::train
