#include "accrue/train/trainer.h"

#include <csignal>

#include "accrue/core/error.h"
#include "accrue/models/gpt2_io.h"
#include "core/atomic_file.h"
#include "support/tolerance.h"
#include "train/recorder.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
using testing::AfterStep;
using testing::Recorder;
using testing::TinyRun;
using TrainerTest = TinyRun;
using ResumeTest = TinyRun;

/// Raises a signal after a given number of micro-batches, as a scheduler does in the middle of a
/// window.
class SignalAfter : public Observer {
 public:
  SignalAfter(int micro_batches, int signal) : left_(micro_batches), signal_(signal) {}
  void on_micro_batch(std::int64_t, std::int64_t) override {
    if (--left_ == 0) std::raise(signal_);
  }

 private:
  int left_;
  int signal_;
};

std::string message_of(const std::function<void()>& action, int exit_code = 2) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), exit_code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST_F(TrainerTest, LearnsAndReportsEveryStep) {
  Config c = config();
  c.run.steps = 20;
  const auto recorder = std::make_shared<Recorder>();
  Trainer trainer(c);
  trainer.add_observer(recorder);
  const RunResult result = trainer.run();
  EXPECT_EQ(result.step, 20);
  EXPECT_FALSE(result.interrupted);
  ASSERT_EQ(recorder->steps.size(), 20u);
  EXPECT_NEAR(*recorder->steps.front().loss, std::log(256), 0.3);
  EXPECT_LT(*recorder->steps.back().loss, 3.5);
  EXPECT_EQ(recorder->steps.back().tokens, 20 * 7 * 16);
  EXPECT_EQ(recorder->steps.back().samples, 20 * 7);
  EXPECT_EQ(recorder->steps.back().micro_batches, 4);
  EXPECT_DOUBLE_EQ(recorder->steps.back().weight, 7 * 16);
  ASSERT_EQ(recorder->evaluations.size(), 1u);
  EXPECT_LT(recorder->evaluations[0].loss, 4);
  for (const char* file : {"config.toml", "run.json", "metrics.jsonl"})
    EXPECT_TRUE(fs::exists(fs::path(c.run.out) / file)) << file;
}

TEST_F(TrainerTest, TheSplitDoesNotChangeTheResult) {
  Config whole = config("whole");
  whole.precision.compute = models::Compute::fp64;
  whole.batch.micro = 7;
  whole.model.dropout = 0.1;
  Trainer(whole).run();
  const NamedParameters expected = parameters_of(whole);
  for (const std::int64_t micro : {1, 2, 3}) {
    Config split = whole;
    split.run.out = (folder_ / std::to_string(micro)).string();
    split.batch.micro = micro;
    Trainer(split).run();
    const NamedParameters actual = parameters_of(split);
    // AdamW turns a gradient's sign into a step, so rounding of near-zero gradients is amplified
    // over the six steps; the bound allows a thousand times that of one gradient.
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_LT(accrue::testing::relative_error(actual[i].tensor, expected[i].tensor), 1e-9)
          << expected[i].name;
  }
  Config other = whole;
  other.run.out = (folder_ / "other").string();
  other.batch.tokens = 6 * 16;
  Trainer(other).run();
  EXPECT_GT(accrue::testing::relative_error(parameters_of(other)[0].tensor, expected[0].tensor),
            1e-6)
      << "a different batch must be told apart";
}

TEST_F(TrainerTest, TheGradientHookSeesTheMeanGradient) {
  Config c = config();
  c.optim.clip = 0;
  c.run.steps = 2;
  Trainer trainer(c);
  const auto recorder = std::make_shared<Recorder>();
  trainer.add_observer(recorder);
  trainer.set_gradient_hook([](accum::MeanGradient& gradient) {
    EXPECT_DOUBLE_EQ(gradient.scale(), 1);
    for (const at::Tensor& flat : gradient.buffer().flat()) flat.zero_();
  });
  trainer.run();
  EXPECT_EQ(*recorder->steps.back().grad_norm, 0);
}

TEST_F(TrainerTest, ABatchInMicroBatchesIsTheirProduct) {
  Config c = config();
  c.batch.tokens.reset();
  c.batch.micro_batches = 3;
  const RunPlan plan = Trainer(c).plan();
  EXPECT_EQ(plan.batch_samples, 6);
  EXPECT_EQ(plan.micro_batch, 2);
  EXPECT_EQ(plan.micro_batches, 3);
}

TEST_F(TrainerTest, AutoMicroBatchIsDecidedAndExplained) {
  Config c = config();
  c.batch.micro.reset();
  Trainer trainer(c);
  const RunPlan& plan = trainer.plan();
  EXPECT_GE(plan.micro_batch, 1);
  EXPECT_LE(plan.micro_batch, 7) << "no more than the batch";
  EXPECT_EQ(plan.micro_batches, (7 + plan.micro_batch - 1) / plan.micro_batch);
  EXPECT_EQ(plan.recompute, Recompute::none) << "memory is not short";
  EXPECT_NE(plan.micro_reason.find("limit"), std::string::npos) << plan.micro_reason;
  EXPECT_FALSE(fs::exists(c.run.out)) << "a plan writes nothing";
}

TEST_F(TrainerTest, AnEpochEndsWithAShortWindow) {
  Config c = config();
  c.run.steps.reset();
  c.run.epochs = 1;
  Trainer trainer(c);
  const auto recorder = std::make_shared<Recorder>();
  trainer.add_observer(recorder);
  const RunPlan plan = trainer.plan();
  ASSERT_NE(plan.train_samples % 7, 0);
  trainer.run();
  EXPECT_EQ(recorder->steps.back().samples, plan.train_samples);
  EXPECT_DOUBLE_EQ(recorder->steps.back().weight, plan.train_samples % 7 * 16);
}

TEST_F(TrainerTest, KeepsTheNewestCheckpointsAndTheBest) {
  Config c = config();
  c.run.checkpoint_every = {1, Duration::Unit::steps};
  c.run.keep = 2;
  c.run.keep_best = false;
  Trainer(c).run();
  EXPECT_EQ(RunDirectory(c.run.out).checkpoint_steps(), (std::vector<std::int64_t>{5, 6}));
}

TEST_F(TrainerTest, AnErrorInTheMiddleLosesNoStep) {
  Config c = config();
  c.run.steps = 20;
  Trainer trainer(c);
  trainer.add_observer(
      std::make_shared<AfterStep>(8, [&] { fs::resize_file(folder_ / "text.txt", 100); }));
  const std::string message = message_of([&] { trainer.run(); }, 1);
  EXPECT_NE(message.find("100 bytes"), std::string::npos) << message;
  EXPECT_EQ(RunDirectory(c.run.out).checkpoint_steps(), (std::vector<std::int64_t>{8}));
}

TEST_F(TrainerTest, WrongDataInTheFirstWindowLeavesNothingBehind) {
  std::ofstream tokens(folder_ / "tokens.bin", std::ios::binary);
  for (int i = 0; i < 1000; ++i) tokens.write("\xff\xff", 2);
  tokens.close();
  Config c = config();
  c.data = {.train = {(folder_ / "tokens.bin").string()}};
  c.model.vocab = 50;
  message_of([&] { Trainer(c).run(); });
  EXPECT_FALSE(fs::exists(c.run.out)) << "the corrected run must not be refused";
}

TEST_F(TrainerTest, AHookThatLooksAtTheNormAndThenChangesTheGradientIsSeen) {
  Config c = config();
  c.run.steps = 1;
  Trainer trainer(c);
  const auto recorder = std::make_shared<Recorder>();
  trainer.add_observer(recorder);
  trainer.set_gradient_hook([](accum::MeanGradient& gradient) {
    EXPECT_GT(gradient.norm(), 0);
    for (const at::Tensor& flat : gradient.buffer().flat()) flat.zero_();
  });
  trainer.run();
  EXPECT_EQ(*recorder->steps.back().grad_norm, 0);
}

TEST_F(TrainerTest, RefusesADirectoryThatHoldsARun) {
  const Config c = config();
  Trainer(c).run();
  const std::string before = read_file(fs::path(c.run.out) / "metrics.jsonl");
  EXPECT_NE(message_of([&] { Trainer(c).run(); }).find("--resume"), std::string::npos);
  EXPECT_EQ(read_file(fs::path(c.run.out) / "metrics.jsonl"), before);
}

TEST_F(TrainerTest, RefusesABatchThatNoSequenceFitsInto) {
  Config c = config();
  c.batch.tokens = 7 * 16 + 1;
  const std::string message = message_of([&] { Trainer{c}; });
  EXPECT_NE(message.find("112"), std::string::npos) << message;
  EXPECT_NE(message.find("128"), std::string::npos) << message;
  EXPECT_FALSE(fs::exists(c.run.out));
}

TEST_F(TrainerTest, NamesAPlaceThatCannotBeWritten) {
  Config c = config();
  c.run.out = "/proc/accrue/run";
  EXPECT_NE(message_of([&] { Trainer(c).run(); }).find("/proc/accrue/run"), std::string::npos);
}

TEST_F(ResumeTest, ContinuesToTheBitAfterAnySignalAtAnyMicroBatch) {
  Config straight = config("straight");
  straight.model.dropout = 0.1;
  Trainer(straight).run();
  for (const auto& [micro_batches, signal] : {std::pair{1, SIGINT}, {10, SIGTERM}, {12, SIGINT}}) {
    Config broken = straight;
    broken.run.out = (folder_ / ("broken" + std::to_string(micro_batches))).string();
    Trainer first(broken);
    first.add_observer(std::make_shared<SignalAfter>(micro_batches, signal));
    const RunResult result = first.run();
    EXPECT_TRUE(result.interrupted);
    // A window has four micro-batches; a signal during its last one still lets the step be taken.
    EXPECT_EQ(result.step, micro_batches / 4);
    const RunResult end = Trainer(broken).run({.resume = true});
    EXPECT_EQ(end.step, 6);
    expect_same_bits(parameters_of(broken), parameters_of(straight));
  }
}

TEST_F(ResumeTest, DoesNotMeasureTheMicroBatchAgain) {
  Config c = config();
  c.batch.micro.reset();
  Trainer first(c);
  first.add_observer(std::make_shared<SignalAfter>(3, SIGINT));
  first.run();
  Trainer second(c);
  second.run({.resume = true});
  EXPECT_EQ(second.plan().micro_reason, "as the checkpoint says");
}

TEST_F(TrainerTest, APreviewIsRefusedAsTheRunIsAndWritesNothing) {
  const Config c = config();
  EXPECT_EQ(Trainer(c).preview().plan.total_steps, 6);
  EXPECT_FALSE(fs::exists(c.run.out));
  const auto refused_alike = [&](const RunOptions& options) {
    const std::string said = message_of([&] { Trainer(c).preview(options); });
    EXPECT_EQ(said, message_of([&] { Trainer(c).run(options); }));
    return said;
  };
  EXPECT_NE(refused_alike({.resume = true}).find("a run to resume"), std::string::npos);
  std::ofstream(c.run.out) << "a user's";
  EXPECT_NE(refused_alike({}).find("a file"), std::string::npos);
  fs::remove(c.run.out);
  fs::create_directories(c.run.out);
  std::ofstream(c.run.out + "/thesis.tex") << "a user's";
  EXPECT_NE(refused_alike({}).find("one that holds thesis.tex"), std::string::npos);
  fs::rename(c.run.out + "/thesis.tex", c.run.out + "/train.log");
  Trainer(c).run();
  EXPECT_NE(refused_alike({}).find("one that holds a run already"), std::string::npos);
}

TEST_F(ResumeTest, APreviewSaysFromWhereToWhereItGoesOn) {
  Config c = config();
  Trainer first(c);
  first.add_observer(std::make_shared<SignalAfter>(10, SIGINT));
  const std::int64_t done = first.run().step;
  const Preview same = Trainer(c).preview({.resume = true});
  EXPECT_EQ(same.step, done);
  EXPECT_EQ(same.plan.total_steps, 6);
  EXPECT_EQ(same.plan.micro_reason, "as the checkpoint says");
  EXPECT_EQ(same.length + same.done, "");
  c.run.steps = 9;
  const Preview longer = Trainer(c).preview({.resume = true});
  EXPECT_EQ(longer.plan.total_steps, 9);
  EXPECT_EQ(longer.length.find("run.steps 6 -> 9: the learning rate of step "), 0U)
      << longer.length;
  EXPECT_EQ(*RunDirectory(c.run.out).config().run.steps, 6) << "nothing was written";
  Config other = c;
  other.optim.lr = 1;
  EXPECT_NE(message_of([&] { Trainer(other).preview({.resume = true}); }).find("optim.lr"),
            std::string::npos);
}

TEST_F(ResumeTest, OfAFinishedRunSaysHowToGoOn) {
  const Config c = config();
  Trainer(c).run();
  const std::string how = "done at step 6; to go on longer: --resume --run.steps=12";
  EXPECT_EQ(Trainer(c).preview({.resume = true}).done, how);
  Trainer again(c);
  const auto recorder = std::make_shared<Recorder>();
  again.add_observer(recorder);
  EXPECT_EQ(again.run({.resume = true}).step, 6);
  EXPECT_TRUE(std::ranges::any_of(recorder->events, [&](const Event& event) {
    return event.name == "resume" && event.reason.ends_with(": " + how);
  }));
}

TEST_F(ResumeTest, UsesThePreviousCheckpointWhereTheNewestWasCutShort) {
  Config c = config();
  c.run.checkpoint_every = {2, Duration::Unit::steps};
  c.run.keep_best = false;
  Trainer(c).run();
  const NamedParameters expected = parameters_of(c);
  const RunDirectory run(c.run.out);
  ASSERT_EQ(run.checkpoint_steps(), (std::vector<std::int64_t>{4, 6}));
  const fs::path file = run.checkpoint(6) / "optimizer.safetensors";
  fs::resize_file(file, fs::file_size(file) - 1);
  Trainer trainer(c);
  const auto recorder = std::make_shared<Recorder>();
  trainer.add_observer(recorder);
  trainer.run({.resume = true});
  EXPECT_TRUE(recorder->has_event("checkpoint_skipped"));
  EXPECT_EQ(recorder->steps.size(), 2u);
  expect_same_bits(parameters_of(c), expected);
}

TEST_F(ResumeTest, StartsAgainWhereThereIsNoCheckpoint) {
  const Config c = config();
  Trainer(c).run();
  const NamedParameters expected = parameters_of(c);
  fs::remove_all(RunDirectory(c.run.out).checkpoints());
  EXPECT_EQ(Trainer(c).run({.resume = true}).step, 6);
  expect_same_bits(parameters_of(c), expected);
}

TEST_F(ResumeTest, DoesNotEvaluateAgainWhereItStands) {
  const Config c = config();
  const RunResult ended = Trainer(c).run();
  Trainer trainer(c);
  const auto recorder = std::make_shared<Recorder>();
  trainer.add_observer(recorder);
  const RunResult result = trainer.run({.resume = true});
  EXPECT_TRUE(recorder->evaluations.empty());
  EXPECT_TRUE(recorder->steps.empty());
  EXPECT_EQ(result.eval_loss, ended.eval_loss);
}

/// Wherever the signal came: the reports are those of a run that nobody stopped.
TEST_F(ResumeTest, MakesTheEvaluationThatItWasStoppedIn) {
  Config c = config();
  c.run.eval_every = Duration{1, Duration::Unit::steps};
  Trainer first(c);
  const auto before = std::make_shared<Recorder>(), after = std::make_shared<Recorder>();
  first.add_observer(before);
  first.add_observer(std::make_shared<AfterStep>(3, [] { std::raise(SIGINT); }));
  EXPECT_EQ(first.run().step, 3);
  EXPECT_EQ(before->evaluations.back().step, 2) << "the control";
  Trainer second(c);
  second.add_observer(after);
  second.run({.resume = true});
  ASSERT_EQ(after->evaluations.size(), 4);
  for (std::size_t i = 0; i < after->evaluations.size(); ++i)
    EXPECT_EQ(after->evaluations[i].step, 3 + static_cast<std::int64_t>(i));
}

TEST_F(ResumeTest, RefusesAnotherModelAndListsWhatMayChange) {
  Config c = config();
  Trainer(c).run();
  c.model.width = 64;
  c.run.keep = 5;
  const std::string message = message_of([&] { Trainer(c).run({.resume = true}); });
  EXPECT_NE(message.find("model.width = 64 (was 32)"), std::string::npos) << message;
  EXPECT_EQ(message.find("run.keep ="), std::string::npos) << message;
}

TEST_F(ResumeTest, RefusesOtherData) {
  const Config c = config();
  Trainer(c).run();
  std::ofstream(folder_ / "text.txt", std::ios::app) << "one more line that was not there before\n";
  EXPECT_NE(message_of([&] { Trainer(c).run({.resume = true}); }).find("other data"),
            std::string::npos);
}

TEST_F(ResumeTest, KeepsTheShapeOfTheModelItStartedFrom) {
  const std::string base = (folder_ / "base").string();
  models::save_gpt2_folder(
      base, models::Gpt2({.layers = 1, .heads = 2, .width = 16, .context = 8, .vocab = 256}));
  Config c = config();
  c.model = {};
  c.model.from = base;
  c.batch.tokens = 7 * 8;
  Trainer first(c);
  first.add_observer(std::make_shared<SignalAfter>(6, SIGINT));
  first.run();
  EXPECT_EQ(Trainer(c).run({.resume = true}).step, 6);
  fs::remove_all(base);
  EXPECT_EQ(parameters_of(c).front().tensor.size(1), 16)
      << "a run does not need the folder it started from";
}

TEST_F(ResumeTest, FromAnEarlierStepGivesUpTheLaterCheckpoints) {
  Config c = config();
  c.run.checkpoint_every = {1, Duration::Unit::steps};
  c.run.keep = 4;
  c.run.keep_best = false;
  Trainer(c).run();
  const NamedParameters expected = parameters_of(c);
  Trainer again(c);
  again.add_observer(std::make_shared<SignalAfter>(5, SIGINT));
  const RunResult result = again.run({.resume = true, .checkpoint = "3"});
  EXPECT_EQ(result.step, 4);
  EXPECT_TRUE(fs::exists(result.checkpoint));
  EXPECT_EQ(RunDirectory(c.run.out).checkpoint_steps(), (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(Trainer(c).run({.resume = true}).step, 6);
  expect_same_bits(parameters_of(c), expected);
}

TEST_F(ResumeTest, RefusesADirectoryWithoutARun) {
  EXPECT_NE(message_of([&] { Trainer(config()).run({.resume = true}); }).find("none"),
            std::string::npos);
}

}  // namespace
}  // namespace accrue::train
