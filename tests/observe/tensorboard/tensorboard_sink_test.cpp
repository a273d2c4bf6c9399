#include "observe/tensorboard/tensorboard_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <sstream>

#include "core/atomic_file.h"
#include "observe/tensorboard/scalars.h"

namespace accrue::observe {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr double kNow = 1700000000.5;

class TensorboardSinkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(::testing::TempDir()) / ("tensorboard_" + std::string(info->name()));
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  TensorboardRun run(std::int64_t first_step = 0) const {
    return {.folder = folder_,
            .first_step = first_step,
            .hyper_parameters = {{"optim.lr", 0.5}},
            .texts = {{"plan", "all"}}};
  }
  void start(std::int64_t first_step = 0) {
    sink_.emplace(run(first_step), warnings_, [] { return kNow; });
    written_ = read_file(sink_->file());
  }
  /// The text that was written since the last call.
  std::string news() {
    const std::string all = read_file(sink_->file());
    const std::string fresh = all.substr(written_.size());
    written_ = all;
    return fresh;
  }

  fs::path folder_;
  std::ostringstream warnings_;
  std::optional<TensorboardSink> sink_;
  std::string written_;
};

TEST_F(TensorboardSinkTest, BeginsWithWhatTheRunIs) {
  start(7);
  EXPECT_EQ(written_, framed(version_event(kNow)) + framed(restart_event({kNow, 8})) +
                          framed(session_start_event({kNow, 8}, run().hyper_parameters)) +
                          framed(texts_event({kNow, 8}, run().texts)));
}

TEST_F(TensorboardSinkTest, WritesStepsAndEvaluations) {
  start();
  const StepReport report{.step = 3, .time = 5.25, .samples = 96, .loss = 2, .seconds = 4};
  sink_->on_step(report);
  std::vector<Scalar> scalars = scalars_of(report);
  scalars.push_back({"train/samples_per_second", 24});
  EXPECT_EQ(news(), framed(scalars_event({5.25, 3}, scalars)));

  const Evaluation evaluation{.step = 3, .loss = 2.5};
  sink_->on_evaluation(evaluation);
  EXPECT_EQ(news(), framed(scalars_event({kNow, 3}, scalars_of(evaluation))));
  EXPECT_EQ(warnings_.str(), "");
}

/// The number of samples of earlier steps is not known until the first step.
TEST_F(TensorboardSinkTest, KnowsTheSamplesOfAStepFromTheOneBefore) {
  start(2);
  sink_->on_step({.step = 3, .samples = 96, .seconds = 4});
  EXPECT_EQ(news().find("samples_per_second"), std::string::npos);
  sink_->on_step({.step = 4, .samples = 128, .seconds = 4});
  EXPECT_NE(news().find("samples_per_second"), std::string::npos);
  sink_->on_rollback(3);
  news();
  sink_->on_step({.step = 4, .samples = 128, .seconds = 4});
  EXPECT_EQ(news().find("samples_per_second"), std::string::npos);
}

TEST_F(TensorboardSinkTest, LeavesOutAWindowWithoutAStep) {
  start();
  sink_->on_step({.step = 3, .samples = 96, .seconds = 4, .stepped = false});
  EXPECT_EQ(news(), "");
}

TEST_F(TensorboardSinkTest, TakesBackWhatARollbackTakesBack) {
  start();
  sink_->on_rollback(4);
  EXPECT_EQ(news(), framed(restart_event({kNow, 5})));
}

TEST_F(TensorboardSinkTest, SaysAgainWhatTheRunIsWhereItGoesBackToItsBeginning) {
  start(7);
  const std::string beginning = written_;
  sink_->on_rollback(7);
  EXPECT_EQ(framed(version_event(kNow)) + news(), beginning);
}

TEST_F(TensorboardSinkTest, WritesHistograms) {
  start();
  StepHistograms histograms{.step = 6,
                            .weights = {{"w", {.count = 1, .limits = {1}, .counts = {1}}}}};
  sink_->on_histograms(histograms);
  EXPECT_EQ(news(), framed(histograms_event({kNow, 6}, "weights/", histograms.weights)));
  histograms.gradients = histograms.weights;
  sink_->on_histograms(histograms);
  EXPECT_EQ(news(), framed(histograms_event({kNow, 6}, "gradients/", histograms.gradients)) +
                        framed(histograms_event({kNow, 6}, "weights/", histograms.weights)));
}

TEST_F(TensorboardSinkTest, EndsOnlyARunThatIsDone) {
  start();
  sink_->on_end({.step = 3, .interrupted = true});
  sink_->on_end({.step = 3, .failed = true});
  EXPECT_EQ(news(), "");
  sink_->on_end({.step = 9});
  EXPECT_EQ(news(), framed(session_done_event({kNow, 9})));
}

TEST_F(TensorboardSinkTest, BeginsANewFileForEachAttempt) {
  start();
  const fs::path first = sink_->file();
  start(2);
  EXPECT_LT(first, sink_->file());
  EXPECT_TRUE(fs::exists(first));
}

TEST_F(TensorboardSinkTest, WarnsOnceAndGoesOnWhereThereIsNoPlace) {
  write_file_atomically(folder_, "a file in its place");
  sink_.emplace(run(), warnings_, [] { return kNow; });
  sink_->on_step({.step = 1, .seconds = 1});
  sink_->on_end({.step = 1});
  EXPECT_THAT(warnings_.str(), AllOf(HasSubstr("warning: write " + folder_.string()),
                                     HasSubstr("training goes on")));
  EXPECT_EQ(warnings_.str().find("warning", 1), std::string::npos);
  EXPECT_EQ(read_file(folder_), "a file in its place");
}

TEST_F(TensorboardSinkTest, WarnsOnceWhereItsFolderIsTakenAway) {
  start();
  fs::remove_all(folder_);
  sink_->on_step({.step = 1, .seconds = 1});
  sink_->on_step({.step = 2, .seconds = 1});
  EXPECT_THAT(warnings_.str(), HasSubstr("the file was removed"));
  EXPECT_EQ(warnings_.str().find("warning", 1), std::string::npos);
}

}  // namespace
}  // namespace accrue::observe
