#include "accrue/train/trainer.h"

#include <csignal>

#include "accrue/core/error.h"
#include "accrue/models/gpt2_io.h"
#include "core/atomic_file.h"
#include "support/errors.h"
#include "support/tolerance.h"
#include "train/recorder.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

namespace fs = std::filesystem;
using accrue::testing::error_of;
using accrue::testing::usage_message;
using testing::AfterStep;
using testing::Recorder;
using testing::TinyRun;
using TrainerTest = TinyRun;

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
    // over the six steps; the bound allows a thousand times the rounding of one gradient.
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

TEST_F(TrainerTest, KeepsTheNewestCheckpoints) {
  Config c = config();
  c.run.checkpoint_every = {1, Duration::Unit::steps};
  c.run.keep = 2;
  c.run.keep_best = false;
  Trainer(c).run();
  EXPECT_EQ(RunDirectory(c.run.out).checkpoint_steps(), (std::vector<std::int64_t>{5, 6}));
}

TEST_F(TrainerTest, KeepsTheBestCheckpointHoweverOldItIs) {
  Config c = config();
  c.run.checkpoint_every = {1, Duration::Unit::steps};
  c.run.eval_every = {1, Duration::Unit::steps};
  c.run.keep = 2;
  c.optim.lr = 100;  // each step makes the loss worse
  c.optim.schedule.kind = optim::ScheduleKind::constant;
  Trainer trainer(c);
  const auto recorder = std::make_shared<testing::Recorder>();
  trainer.add_observer(recorder);
  trainer.run();
  const auto best = std::ranges::min_element(recorder->evaluations, {}, &Evaluation::loss);
  ASSERT_LT(best->step, 5) << "else it is among the newest";
  EXPECT_EQ(RunDirectory(c.run.out).checkpoint_steps(),
            (std::vector<std::int64_t>{best->step, 5, 6}));
}

TEST_F(TrainerTest, AnErrorInTheMiddleLosesNoStep) {
  Config c = config();
  c.run.steps = 20;
  Trainer trainer(c);
  trainer.add_observer(
      std::make_shared<AfterStep>(8, [&] { fs::resize_file(folder_ / "text.txt", 100); }));
  const std::string message = error_of([&] { trainer.run(); }, Error::Kind::runtime);
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
  usage_message([&] { Trainer(c).run(); });
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
  EXPECT_NE(usage_message([&] { Trainer(c).run(); }).find("--resume"), std::string::npos);
  EXPECT_EQ(read_file(fs::path(c.run.out) / "metrics.jsonl"), before);
}

TEST_F(TrainerTest, RefusesABatchThatNoSequenceFitsInto) {
  Config c = config();
  c.batch.tokens = 7 * 16 + 1;
  const std::string message = usage_message([&] { Trainer{c}; });
  EXPECT_NE(message.find("112"), std::string::npos) << message;
  EXPECT_NE(message.find("128"), std::string::npos) << message;
  EXPECT_FALSE(fs::exists(c.run.out));
}

TEST_F(TrainerTest, NamesAPlaceThatCannotBeWritten) {
  Config c = config();
  c.run.out = "/proc/accrue/run";
  EXPECT_NE(usage_message([&] { Trainer(c).run(); }).find("/proc/accrue/run"), std::string::npos);
}

TEST_F(TrainerTest, APreviewIsRefusedAsTheRunIsAndWritesNothing) {
  const Config c = config();
  EXPECT_EQ(Trainer(c).preview().plan.total_steps, 6);
  EXPECT_FALSE(fs::exists(c.run.out));
  const auto refused_alike = [&](const RunOptions& options) {
    const std::string said = usage_message([&] { Trainer(c).preview(options); });
    EXPECT_EQ(said, usage_message([&] { Trainer(c).run(options); }));
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

}  // namespace
}  // namespace accrue::train
