// The complete contents of metrics.jsonl: lost, damaged or changed lines are noticed.
#include "observe/metrics_account.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "core/atomic_file.h"
#include "observe/file_size_limit.h"
#include "observe/jsonl_sink.h"

namespace accrue::observe {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(StepRanges, AreAsFewAsThereAreGaps) {
  StepRanges steps;
  for (const std::int64_t step : {1, 2, 3, 7, 5, 6, 12, 2, 4}) steps.add(step);
  EXPECT_EQ(steps.ranges(), (std::vector<StepRanges::Range>{{1, 7}, {12, 12}}));
  EXPECT_EQ(steps.in_words(), "steps 1 to 7 and 12");
  EXPECT_EQ(StepRanges({{4, 4}}).in_words(), "step 4");
  StepRanges many;
  for (std::int64_t step = 0; step < 40; step += 2) many.add(step);
  EXPECT_THAT(many.in_words(), HasSubstr("14 and 12 more ranges"));
}

TEST(StepRanges, AreTakenFromOthers) {
  const StepRanges all({{1, 9}, {20, 20}});
  EXPECT_EQ(all.without({}), all);
  EXPECT_TRUE(all.without(all).is_empty());
  EXPECT_EQ(all.without(StepRanges({{0, 2}, {4, 5}, {9, 30}})), StepRanges({{3, 3}, {6, 8}}));
}

std::string step_line(int step) {
  return R"({"step":)" + std::to_string(step) + R"(,"loss":)" + std::to_string(7 * step) +
         R"(.5,"lr":0.1})" + "\n";
}
std::string event_line(int step) {
  return R"({"step":)" + std::to_string(step) + R"(,"event":"e","reason":""})" + "\n";
}

/// A log of 12 steps; a checkpoint records 10 of them.
class NotedMetrics : public ::testing::Test {
 protected:
  void SetUp() override {
    MetricsAccount account;
    for (int step = 1; step <= 12; ++step) {
      for (const std::string& line : {step_line(step), event_line(step)}) {
        account.add(lines_of_metrics(line).front());
        content_ += line;
        if (step <= 10) noted_content_ += line;
      }
      if (step == 11) noted_ = *account.as_of(10);
    }
    EXPECT_EQ(account.as_of(12)->lines, 24);
    EXPECT_FALSE(account.as_of(9)) << "lines of step 10 and later are between";
  }

  /// The remarks on a log of this content when the run continues from the checkpoint.
  std::vector<std::string> remarks_on(const std::string& content) const {
    MetricsAccount account;
    account.expect(noted_);
    account.begin(lines_of_metrics(content), 10);
    return account.take_remarks();
  }

  std::string content_, noted_content_;
  MetricsRecord noted_;
};

TEST_F(NotedMetrics, AreThoseUpToTheCheckpointsStep) {
  EXPECT_EQ(noted_.lines, 20);
  EXPECT_EQ(noted_.steps, StepRanges({{1, 10}}));
}

TEST_F(NotedMetrics, AreThereWithOrWithoutWhatCameLater) {
  EXPECT_THAT(remarks_on(content_), IsEmpty());
  EXPECT_THAT(remarks_on(noted_content_), IsEmpty());
  EXPECT_THAT(remarks_on(content_ + "{\"step\":13,\"lo"), IsEmpty()) << "a crash tears the last";
  EXPECT_THAT(remarks_on(noted_content_ + event_line(10)), IsEmpty()) << "another resumption";
}

TEST_F(NotedMetrics, AreMissedWhereverTheFileIsCut) {
  for (std::size_t length = 0; length < noted_content_.size() - 1; ++length)
    EXPECT_THAT(remarks_on(noted_content_.substr(0, length)),
                ElementsAre(HasSubstr("the run goes on")))
        << length;
  EXPECT_THAT(remarks_on(""), ElementsAre(HasSubstr("it has no line of steps 1 to 10;")));
  EXPECT_THAT(remarks_on(step_line(1) + event_line(1) + step_line(2)),
              ElementsAre(HasSubstr("it has no line of steps 3 to 10;")));
}

TEST_F(NotedMetrics, AreMissedWhereALineIsTakenOutDamagedOrChanged) {
  for (int step = 1; step <= 10; ++step) {
    const std::string line = step_line(step), number = std::to_string(step);
    const std::size_t at = content_.find(line);
    std::string other = content_;
    EXPECT_THAT(remarks_on(other.erase(at, line.size())),
                ElementsAre(HasSubstr("it has no line of step " + number + ";")));
    other = content_;
    other[at] = '#';
    EXPECT_THAT(remarks_on(other), ElementsAre(HasSubstr("it has no line of step " + number +
                                                         " and 1 line that cannot be read is")));
    other = content_;
    other[other.find(".5", at) + 1] = '4';
    EXPECT_THAT(remarks_on(other), ElementsAre(HasSubstr("lines were changed or taken out")));
  }
  std::string other = content_;
  EXPECT_THAT(remarks_on(other.erase(content_.find(event_line(4)), event_line(4).size())),
              ElementsAre(HasSubstr("lines were changed or taken out")));
}

TEST_F(NotedMetrics, AreMissedOnce) {
  MetricsAccount account;
  account.expect(noted_);
  account.begin(lines_of_metrics(step_line(1)), 10);
  EXPECT_EQ(account.take_remarks().size(), 1u);
  EXPECT_THAT(account.take_remarks(), IsEmpty());
  MetricsAccount next;
  next.expect(account.as_of(10));
  next.begin(lines_of_metrics(step_line(1)), 10);
  EXPECT_THAT(next.take_remarks(), IsEmpty()) << "the checkpoint behind it knows";
}

TEST_F(NotedMetrics, OfALineThatCouldNotBeWrittenAreMissed) {
  MetricsAccount account;
  account.begin({}, 0);
  const std::string one = step_line(1), two = step_line(2);
  account.add(lines_of_metrics(one).front());
  account.miss(lines_of_metrics(two).front(), "File too large");
  EXPECT_EQ(account.failure(), "File too large");
  MetricsAccount next;
  next.expect(account.as_of(2));
  next.begin(lines_of_metrics(one), 2);
  EXPECT_THAT(next.take_remarks(), ElementsAre(HasSubstr("it has no line of step 2;")));
}

/// A sink whose file is compared with its account.
class WatchedSink : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ("metrics_account_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    file_ = folder_ / "metrics.jsonl";
  }
  void TearDown() override { fs::remove_all(folder_); }

  static StepReport step(std::int64_t number) {
    StepReport report;
    report.step = number;
    return report;
  }

  fs::path folder_, file_;
  MetricsAccount account_;
};

TEST_F(WatchedSink, CountsWhatItWrites) {
  {
    JsonlSink sink(file_, 0, account_);
    for (int i = 1; i <= 3; ++i) sink.on_step(step(i));
    sink.on_event({.name = "e", .reason = "", .step = 4});
    EXPECT_EQ(account_.as_of(3)->lines, 3);
  }
  MetricsAccount next;
  next.expect(account_.as_of(3));
  const JsonlSink again(file_, 3, next);
  EXPECT_THAT(next.take_remarks(), IsEmpty());
  EXPECT_EQ(next.as_of(3), account_.as_of(3));
}

TEST_F(WatchedSink, SaysWhichStepsARemovedFileHad) {
  JsonlSink sink(file_, 0, account_);
  for (int i = 1; i <= 3; ++i) sink.on_step(step(i));
  fs::remove(file_);
  sink.on_step(step(4));
  EXPECT_THAT(account_.take_remarks(), ElementsAre(HasSubstr("it has no line of steps 1 to 3;")));
  sink.on_step(step(5));
  EXPECT_THAT(account_.take_remarks(), IsEmpty());
  EXPECT_EQ(account_.failure(), "");
  EXPECT_EQ(account_.as_of(5)->steps, StepRanges({{4, 5}}));
}

TEST_F(WatchedSink, SaysWhichStepsAFileThatWasCutHad) {
  JsonlSink sink(file_, 0, account_);
  for (int i = 1; i <= 3; ++i) sink.on_step(step(i));
  const std::string content = read_file(file_);
  fs::resize_file(file_, content.find('\n') + 1);
  sink.on_step(step(4));
  EXPECT_THAT(account_.take_remarks(), ElementsAre(HasSubstr("it has no line of steps 2 to 3;")));
}

TEST_F(WatchedSink, TellsWhyALineCannotBeWritten) {
  JsonlSink sink(file_, 0, account_);
  const testing::FileSizeLimit nothing(0);
  ::testing::internal::CaptureStderr();
  sink.on_step(step(1));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "") << "it is for whoever asks the account";
  EXPECT_THAT(account_.failure(), HasSubstr("File too large"));
}

TEST_F(WatchedSink, TakesAFileWhoseFirstLineIsDamagedForItsOwn) {
  write_file_atomically(file_, "#" + step_line(1) + step_line(2));
  EXPECT_ANY_THROW(JsonlSink(file_, 2, account_)) << "nothing says that it is this run's";
  account_.expect(MetricsRecord{.lines = 2, .digest = "", .steps = StepRanges({{1, 2}})});
  const JsonlSink sink(file_, 2, account_);
  EXPECT_THAT(account_.take_remarks(), ElementsAre(HasSubstr("no line of step 1 and 1 line")));
}

TEST_F(WatchedSink, LeavesAFileOfSomethingElseAloneInAnyCase) {
  write_file_atomically(file_, "my notes\nmore\n");
  account_.expect(MetricsRecord{.lines = 2, .digest = "", .steps = StepRanges({{1, 2}})});
  EXPECT_ANY_THROW(JsonlSink(file_, 2, account_));
  EXPECT_EQ(read_file(file_), "my notes\nmore\n");
}

}  // namespace
}  // namespace accrue::observe
