// Runs that stop in the middle of a window, and continue there.
#include <gmock/gmock.h>

#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <thread>

#include "accrue/kernels/kernel_choice.h"
#include "accrue/models/safetensors.h"
#include "accrue/train/trainer.h"
#include "core/atomic_file.h"
#include "core/checksum.h"
#include "core/notice_signal.h"
#include "support/errors.h"
#include "support/tolerance.h"
#include "train/checkpoint/checkpoint_store.h"
#include "train/checkpoint/manifest.h"
#include "train/recorder.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
using accrue::testing::usage_message;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Recorder;
using testing::SignalAfter;

/// Counts micro-batches, each of which may take a while.
class Counting : public Recorder {
 public:
  explicit Counting(std::chrono::milliseconds pause = {}) : pause_(pause) {}
  void on_micro_batch(std::int64_t, std::int64_t) override {
    ++micro_batches;
    std::this_thread::sleep_for(pause_);
  }
  std::string told(const std::string& name, const std::string& part) const {
    for (const Event& event : events)
      if (event.name == name && event.reason.find(part) != std::string::npos) return event.reason;
    return {};
  }
  int micro_batches = 0;

 private:
  std::chrono::milliseconds pause_;
};

/// Copies a run's folder when a window was kept in its middle: the state that a process killed at
/// that point leaves.
class CopyWhereKept : public Observer {
 public:
  CopyWhereKept(fs::path from, fs::path to) : from_(std::move(from)), to_(std::move(to)) {}
  void on_event(const Event& event) override {
    if (event.name == "checkpoint" && event.reason.find("are kept") != std::string::npos &&
        !fs::exists(to_))
      fs::copy(from_, to_, fs::copy_options::recursive);
  }

 private:
  fs::path from_, to_;
};

/// Windows of seven samples in micro-batches of two: four of them, the last one short.
class KeptWindow : public testing::TinyRun {
 protected:
  static constexpr int kOfAWindow = 4, kStoppedAfter = 10;  // two micro-batches into step 3

  static std::shared_ptr<Counting> trained(const Config& c, const RunOptions& options = {},
                                           std::shared_ptr<Observer> other = nullptr) {
    const auto counting = std::make_shared<Counting>();
    Trainer trainer(c);
    trainer.add_observer(counting);
    if (other) trainer.add_observer(std::move(other));
    trainer.run(options);
    return counting;
  }
  static std::shared_ptr<Counting> stopped(const Config& c, int after = kStoppedAfter) {
    return trained(c, {}, std::make_shared<SignalAfter>(after, SIGTERM));
  }
  static fs::path checkpoint_of(const Config& c, std::int64_t step = 2) {
    return RunDirectory(c.run.out).checkpoint(step);
  }
  static json state_of(const fs::path& checkpoint) {
    return json::parse(read_file(checkpoint / "state.json"));
  }
  Config broken_as(const Config& straight, const std::string& out = "broken") const {
    Config broken = straight;
    broken.run.out = (folder_ / out).string();
    return broken;
  }
  static void expect_same_steps(const Recorder& first, const Recorder& rest,
                                const Recorder& straight) {
    std::vector<StepReport> steps = first.steps;
    steps.insert(steps.end(), rest.steps.begin(), rest.steps.end());
    ASSERT_EQ(steps.size(), straight.steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const StepReport &is = steps[i], &was = straight.steps[i];
      EXPECT_EQ(is.loss, was.loss) << i;
      EXPECT_EQ(is.grad_norm, was.grad_norm) << i;
      EXPECT_EQ(is.weight, was.weight) << i;
      EXPECT_EQ(is.tokens, was.tokens) << i;
      EXPECT_EQ(is.samples, was.samples) << i;
      EXPECT_EQ(is.micro_batches, was.micro_batches) << i;
      EXPECT_EQ(is.gradient_variance, was.gradient_variance) << i;
      EXPECT_EQ(is.noise_scale, was.noise_scale) << i;
      EXPECT_EQ(is.loss_scale, was.loss_scale) << i;
    }
  }
  void expect_goes_on_to_the_bit(const Config& straight) const {
    const auto whole = trained(straight);
    const Config broken = broken_as(straight);
    const auto first = stopped(broken);
    EXPECT_THAT(first->told("checkpoint", "are kept"),
                HasSubstr("2 of 4 micro-batches of step 3 are kept in the checkpoint of step 2"));
    const auto rest = trained(broken, {.resume = true});
    EXPECT_EQ(rest->micro_batches, whole->micro_batches - kStoppedAfter);
    EXPECT_THAT(rest->told("resume", "after step 2"), HasSubstr("2 of 4 micro-batches are done"));
    expect_same_steps(*first, *rest, *whole);
    expect_same_bits(parameters_of(broken), parameters_of(straight));
  }
  /// Replaces the checkpoint's state by `state`, with its checksum.
  static void replace_state(const fs::path& checkpoint, const json& state) {
    const std::string text = state.dump();
    std::ofstream(checkpoint / "state.json") << text;
    Manifest manifest = *read_manifest(checkpoint);
    manifest.files["state.json"] = {
        .bytes = std::ssize(text), .checksum = checksum_of(text), .tensors = {}};
    write_manifest(checkpoint, manifest);
  }
  static void flip_a_bit(const fs::path& file) {
    std::string content = read_file(file);
    content[content.size() - 3] = static_cast<char>(content[content.size() - 3] ^ 4);
    std::ofstream(file, std::ios::binary) << content;
  }
};

TEST_F(KeptWindow, GoesOnToTheBitBehindAnyMicroBatch) {
  Config straight = config("straight");
  straight.model.dropout = 0.1;
  const auto whole = trained(straight);
  for (const int after : {1, 2, 3, 9, 11}) {
    const Config broken = broken_as(straight, "broken" + std::to_string(after));
    stopped(broken, after);
    const auto rest = trained(broken, {.resume = true});
    EXPECT_EQ(rest->micro_batches, whole->micro_batches - after);
    expect_same_bits(parameters_of(broken), parameters_of(straight));
  }
}

TEST_F(KeptWindow, IsTheSameInAnyPrecisionOfTheSums) {
  using accum::Accumulation;
  for (const Accumulation kind : {Accumulation::fp64, Accumulation::bf16, Accumulation::bf16_kahan,
                                  Accumulation::bf16_stochastic, Accumulation::fixed}) {
    SCOPED_TRACE(static_cast<int>(kind));
    Config straight = config("straight");
    straight.precision.accumulate = kind;
    expect_goes_on_to_the_bit(straight);
    for (const char* run : {"straight", "broken"}) fs::remove_all(folder_ / run);
  }
}

TEST_F(KeptWindow, IsTheSameInBf16WithRecomputation) {
  Config narrow = config("straight");
  narrow.precision.compute = models::Compute::bf16;
  narrow.memory.recompute = Recompute::full;
  narrow.optim.kind = OptimizerKind::sgd;
  expect_goes_on_to_the_bit(narrow);
}

TEST_F(KeptWindow, IsTheSameWithALossScale) {
  const kernels::KernelScope generic(kernels::Kernels::generic);
  Config scaled = config("straight");
  scaled.run.kernels = kernels::Kernels::generic;
  scaled.precision.compute = models::Compute::fp16;
  expect_goes_on_to_the_bit(scaled);
}

/// The control: sums that do not belong to the done micro-batches.
TEST_F(KeptWindow, WithoutItsSumsIsAnotherRun) {
  const Config straight = config("straight"), broken = broken_as(straight);
  trained(straight);
  stopped(broken);
  const fs::path checkpoint = checkpoint_of(broken), file = checkpoint / "window.safetensors";
  models::TensorFile window = models::read_safetensors(file);
  for (NamedParameter& sum : window.tensors) sum.tensor.zero_();
  Manifest manifest = *read_manifest(checkpoint);
  manifest.files["window.safetensors"].tensors = models::write_safetensors(file, window.tensors);
  write_manifest(checkpoint, manifest);
  trained(broken, {.resume = true});
  EXPECT_FALSE(at::equal(parameters_of(broken)[0].tensor, parameters_of(straight)[0].tensor));
}

/// Memory is assumed to have run out since: the rest is split again.
TEST_F(KeptWindow, GoesOnInSmallerMicroBatchesWithinRounding) {
  const Config straight = config("straight"), broken = broken_as(straight);
  const auto whole = trained(straight);
  stopped(broken);
  json state = state_of(checkpoint_of(broken));
  ASSERT_EQ(state["plan"]["micro_batch_now"], 2);
  state["plan"]["micro_batch_now"] = 1;
  replace_state(checkpoint_of(broken), state);
  const auto rest = trained(broken, {.resume = true});
  ASSERT_EQ(rest->steps.size(), 4U);
  EXPECT_EQ(rest->steps[0].micro_batches, 2 + 3) << "three samples were left";
  EXPECT_EQ(rest->steps[1].micro_batches, 7);
  EXPECT_EQ(rest->steps[0].weight, whole->steps[2].weight);
  EXPECT_NEAR(*rest->steps[0].loss, *whole->steps[2].loss, 1e-6);
  EXPECT_NEAR(*rest->steps[0].grad_norm / *whole->steps[2].grad_norm, 1,
              accrue::testing::tolerance(at::kFloat).bound(7 * 16));
}

TEST_F(KeptWindow, StaysInTheCheckpointUntilItIsDone) {
  const Config straight = config("straight"), broken = broken_as(straight);
  trained(straight);
  stopped(broken);
  // Stopped again, before the run reaches its window and after one more micro-batch of it.
  class AtTheStart : public Observer {
    void on_start(const RunStart&) override { std::raise(SIGTERM); }
  };
  EXPECT_EQ(trained(broken, {.resume = true}, std::make_shared<AtTheStart>())->micro_batches, 0);
  EXPECT_EQ(state_of(checkpoint_of(broken))["middle"]["done"].size(), 2U);
  trained(broken, {.resume = true}, std::make_shared<SignalAfter>(1, SIGTERM));
  EXPECT_EQ(state_of(checkpoint_of(broken))["middle"]["done"].size(), 3U);
  EXPECT_EQ(trained(broken, {.resume = true})->micro_batches, 6 * kOfAWindow - kStoppedAfter - 1);
  expect_same_bits(parameters_of(broken), parameters_of(straight));
  EXPECT_FALSE(state_of(checkpoint_of(broken, 6)).contains("middle"));
  EXPECT_FALSE(fs::exists(checkpoint_of(broken, 6) / "window.safetensors"));
}

/// The rest of the program treats such a checkpoint as that of the step before.
TEST_F(KeptWindow, IsBesideTheModelOfTheLastStep) {
  Config c = config(), other = broken_as(c);
  c.run.checkpoint_every = {1, Duration::Unit::steps};
  c.run.keep = 9;
  trained(c);
  stopped(other);
  const auto listed = list_checkpoints(RunDirectory(other.run.out), Thoroughness::contents);
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].damage, "");
  EXPECT_EQ(listed[0].middle->in_words(), "2 of 4 micro-batches");
  const NamedParameters kept = load_model(RunDirectory(other.run.out), 2)->parameters();
  expect_same_bits(kept, load_model(RunDirectory(c.run.out), 2)->parameters());
}

TEST_F(KeptWindow, OfADamagedFileIsRefusedOrPassedOver) {
  Config straight = config("straight");
  straight.run.keep_best = false;
  trained(straight);
  Config c = broken_as(straight);
  stopped(c);
  flip_a_bit(checkpoint_of(c) / "window.safetensors");
  const auto names_the_tensor =
      AllOf(HasSubstr("window.safetensors as it was written"), HasSubstr("tensor \"sum."));
  EXPECT_THAT(usage_message([&] { Trainer(c).run({.resume = true}); }), names_the_tensor);
  EXPECT_THAT(usage_message([&] { Trainer(c).run({.resume = true, .checkpoint = "2"}); }),
              names_the_tensor);
  Config often = broken_as(straight, "often");
  often.run.checkpoint_every = {1, Duration::Unit::steps};
  stopped(often);
  flip_a_bit(checkpoint_of(often) / "window.safetensors");
  const auto rest = trained(often, {.resume = true});
  EXPECT_THAT(rest->told("checkpoint_skipped", ""), names_the_tensor);
  EXPECT_EQ(rest->micro_batches, 5 * kOfAWindow) << "from step 1 on";
  expect_same_bits(parameters_of(often), parameters_of(straight));
}

TEST_F(KeptWindow, MissingItsFileIsDamage) {
  const Config c = config();
  stopped(c);
  const fs::path checkpoint = checkpoint_of(c);
  fs::remove(checkpoint / "window.safetensors");
  EXPECT_THAT(usage_message([&] { Trainer(c).run({.resume = true}); }),
              HasSubstr("window.safetensors"));
  Manifest manifest = *read_manifest(checkpoint);
  manifest.files.erase("window.safetensors");
  write_manifest(checkpoint, manifest);
  EXPECT_THAT(usage_message([&] { Trainer(c).run({.resume = true}); }),
              HasSubstr("window.safetensors beside a window's middle"));
}

TEST_F(KeptWindow, IsWrittenWhereAWindowTakesLongerThanTheTimeBetweenCheckpoints) {
  Config straight = config("straight");
  trained(straight);
  Config slow = broken_as(straight);
  slow.run.checkpoint_every = {0.15, Duration::Unit::seconds};
  slow.run.steps = 6;
  const auto pausing = std::make_shared<Counting>(std::chrono::milliseconds(60));
  const fs::path copy = folder_ / "copy";
  Trainer trainer(slow);
  trainer.add_observer(pausing);
  trainer.add_observer(std::make_shared<CopyWhereKept>(slow.run.out, copy));
  trainer.run();
  EXPECT_NE(pausing->told("checkpoint", "are kept"), "");
  expect_same_bits(parameters_of(slow), parameters_of(straight));
  ASSERT_TRUE(fs::exists(copy));
  const Config killed = broken_as(straight, "copy");
  const auto rest = trained(killed, {.resume = true});
  EXPECT_NE(rest->told("resume", "micro-batches are done"), "");
  expect_same_bits(parameters_of(killed), parameters_of(straight));
}

TEST_F(KeptWindow, IsWrittenAtANoticeAndTheRunGoesOn) {
  const Config straight = config("straight");
  trained(straight);
  const Config noticed = broken_as(straight);
  const fs::path copy = folder_ / "copy";
  Trainer trainer(noticed);
  const auto counting = std::make_shared<Counting>();
  trainer.add_observer(counting);
  trainer.add_observer(std::make_shared<SignalAfter>(kStoppedAfter, SIGUSR2));
  trainer.add_observer(std::make_shared<CopyWhereKept>(noticed.run.out, copy));
  EXPECT_FALSE(trainer.run().interrupted);
  EXPECT_EQ(counting->micro_batches, 6 * kOfAWindow);
  EXPECT_NE(counting->told("checkpoint", "2 of 4 micro-batches of step 3 are kept"), "");
  expect_same_bits(parameters_of(noticed), parameters_of(straight));
  const Config killed = broken_as(straight, "copy");
  EXPECT_EQ(trained(killed, {.resume = true})->micro_batches, 6 * kOfAWindow - kStoppedAfter);
  expect_same_bits(parameters_of(killed), parameters_of(straight));
}

/// The command line watches while data are opened, which may take long.
TEST_F(KeptWindow, IsWrittenAtANoticeFromBeforeTheRun) {
  const NoticeWatch notice;
  notice.give();
  const auto counting = trained(config(), {.notice = &notice});
  EXPECT_NE(counting->told("checkpoint", "micro-batches of step 1 are kept"), "");
  EXPECT_FALSE(notice.is_given()) << "it is answered once";
  EXPECT_EQ(trained(config("other"), {.notice = &notice})->told("checkpoint", "are kept"), "");
}

/// The end of the last micro-batch is the end of the step: the notice is answered after it.
TEST_F(KeptWindow, IsNotNeededAtANoticeInAWindowsLastMicroBatch) {
  Config c = config();
  c.run.keep = 9;
  const auto counting = trained(c, {}, std::make_shared<SignalAfter>(2 * kOfAWindow, SIGUSR2));
  EXPECT_EQ(counting->told("checkpoint", "are kept"), "");
  EXPECT_TRUE(fs::exists(checkpoint_of(c, 2)));
}

TEST_F(KeptWindow, IsInTheReplica) {
  const Config straight = config("straight");
  trained(straight);
  Config broken = broken_as(straight);
  broken.run.replica = (folder_ / "replica").string();
  stopped(broken);
  fs::remove_all(broken.run.out);
  EXPECT_EQ(trained(broken, {.resume = true})->micro_batches, 6 * kOfAWindow - kStoppedAfter);
  expect_same_bits(parameters_of(broken), parameters_of(straight));
}

TEST_F(KeptWindow, BeginsAgainWithOtherDataAndSaysSo) {
  const Config c = config();
  stopped(c);
  std::string text = read_file(folder_ / "text.txt");
  text[0] = 'L';
  std::ofstream(folder_ / "text.txt") << text;
  const auto rest = trained(c, {.resume = true, .accept_data = true});
  EXPECT_THAT(rest->told("resume", "begins again"),
              AllOf(HasSubstr("step 3"), HasSubstr("other data")));
  EXPECT_EQ(rest->micro_batches, 4 * kOfAWindow);
}

/// A window whose gradients are folded is finished first; a run with outer steps ends after one.
TEST_F(KeptWindow, IsNotThereWhereAWindowIsFinishedFirst) {
  Config folded = config("folded"), outer = config("outer");
  folded.optim.kind = OptimizerKind::adama;
  folded.optim.clip = 0;
  outer.dist.outer_lr = 1;
  for (const Config* c : {&folded, &outer}) {
    const auto counting = stopped(*c);
    EXPECT_EQ(counting->told("checkpoint", "are kept"), "");
    EXPECT_EQ(counting->micro_batches, 3 * kOfAWindow);
    EXPECT_FALSE(state_of(checkpoint_of(*c, 3)).contains("middle"));
  }
}

}  // namespace
}  // namespace accrue::train
