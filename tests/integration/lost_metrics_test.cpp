// Lines of metrics.jsonl that are lost, damaged or cannot be written are noticed.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "core/atomic_file.h"
#include "faulty_program.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LostMetrics : public FaultyProgram {
 protected:
  fs::path file(const std::string& run) const { return folder_ / run / "metrics.jsonl"; }

  std::vector<json> lines_of(const std::string& run) const {
    std::vector<json> lines;
    std::istringstream content(read_file(file(run)));
    for (std::string line; std::getline(content, line);) lines.push_back(json::parse(line));
    return lines;
  }
  std::vector<std::string> events_of(const std::string& run) const {
    std::vector<std::string> reasons;
    for (const json& line : lines_of(run))
      if (line.value("event", "") == "metrics") reasons.push_back(line["reason"]);
    return reasons;
  }
  std::vector<int> steps_of(const std::string& run) const {
    std::vector<int> steps;
    for (const json& line : lines_of(run))
      if (line.contains("lr")) steps.push_back(line["step"]);
    return steps;
  }
  /// Continues `out` with a log of this content; returns the events about it.
  std::vector<std::string> gone_on_with(const std::string& content) {
    fs::remove_all(folder_ / "out");
    fs::copy(folder_ / "kept", folder_ / "out", fs::copy_options::recursive);
    if (content.empty())
      fs::remove(file("out"));
    else
      write_file_atomically(file("out"), content);
    const auto run = accrue({"train", "run.toml", "--resume", "--run.steps=5"});
    EXPECT_EQ(run.status, 0) << run.errors;
    EXPECT_EQ(steps_of("out").back(), 5);
    return events_of("out");
  }
};

TEST_F(LostMetrics, AreNamedAsTheRunGoesOn) {
  ASSERT_EQ(accrue({"train", "run.toml", "--run.out=kept"}).status, 0);
  const std::string whole = read_file(file("kept"));
  EXPECT_THAT(gone_on_with(whole), IsEmpty());
  EXPECT_THAT(gone_on_with(""), ElementsAre(HasSubstr("no line of steps 1 to 4;")));

  std::vector<std::size_t> begins{0};
  for (std::size_t feed = whole.find('\n'); feed + 1 < whole.size();
       feed = whole.find('\n', feed + 1))
    begins.push_back(feed + 1);
  for (const std::size_t begin : begins) {
    const std::string line = whole.substr(begin, whole.find('\n', begin) - begin);
    const json object = json::parse(line);
    SCOPED_TRACE(line);
    if (begin > 0) {
      EXPECT_THAT(gone_on_with(whole.substr(0, begin)), ElementsAre(HasSubstr("the run goes on")));
    }
    std::string other = whole;
    other[begin] = '#';
    EXPECT_THAT(gone_on_with(other), ElementsAre(HasSubstr("1 line that cannot be read")));
    if (!object.contains("lr")) continue;
    const std::string number = std::to_string(object["step"].get<int>());
    other = whole;
    EXPECT_THAT(gone_on_with(other.erase(begin, line.size() + 1)),
                ElementsAre(HasSubstr("no line of step " + number + ";")));
    other = whole;
    const std::size_t loss = other.find("\"loss\":", begin) + 7;
    other[loss] = other[loss] == '9' ? '1' : '9';
    EXPECT_THAT(gone_on_with(other), ElementsAre(HasSubstr("lines were changed")));
  }
}

TEST_F(LostMetrics, AreNamedWhereTheFileIsRemovedDuringTheRun) {
  const Pause pause(folder_, "here");
  Program run = start_with({pauses_in_step(3, "here")}, {"train", "run.toml"});
  pause.wait();
  fs::remove(file("out"));
  pause.release();
  const auto result = run.wait();
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("no line of steps 1 to 2;"));
  EXPECT_THAT(events_of("out"), ElementsAre(HasSubstr("no line of steps 1 to 2;")));
  EXPECT_THAT(steps_of("out"), ElementsAre(3, 4));
  ASSERT_EQ(accrue({"train", "run.toml", "--resume", "--run.steps=6"}).status, 0);
  EXPECT_EQ(events_of("out").size(), 1u) << "the checkpoint knows";
}

TEST_F(LostMetrics, AreNamedWhereTheFileIsCutDuringTheRun) {
  const Pause pause(folder_, "here");
  Program run = start_with({pauses_in_step(3, "here")}, {"train", "run.toml"});
  pause.wait();
  fs::resize_file(file("out"), 0);
  pause.release();
  EXPECT_EQ(run.wait().status, 0);
  EXPECT_THAT(events_of("out"), ElementsAre(HasSubstr("no line of steps 1 to 2;")));
}

/// Simulates a full disk. The limit is more than a checkpoint's files take, and less than the lines
/// of a thousand steps.
TEST_F(LostMetrics, EndARunByTheLimitOnFileSizesWithACheckpoint) {
  const std::string limited =
      "ulimit -f 700; exec '" + std::string(ACCRUE_PROGRAM) +
      "' train run.toml --run.steps=1000 --run.threads=1 --batch.tokens=32 --batch.micro=2 "
      "'--run.checkpoint_every=100000 steps' --model.width=16";
  const auto result = Program(folder_, {"/bin/sh", "-c", limited}).wait();
  EXPECT_EQ(result.status, 1) << result.errors;
  EXPECT_THAT(result.errors, AllOf(HasSubstr("metrics.jsonl"), HasSubstr("File too large"),
                                   HasSubstr("--resume")));
  const std::vector<int> steps = steps_of("out");
  const std::string last = std::to_string(steps.back() + 1);
  EXPECT_THAT(checkpoints_of("out").back(), HasSubstr("step-00000" + last));
  const auto resumed =
      accrue({"train", "run.toml", "--batch.tokens=32", "--batch.micro=2", "--model.width=16",
              "--resume", "--run.steps=" + std::to_string(steps.back() + 3)});
  EXPECT_EQ(resumed.status, 0) << resumed.errors;
  EXPECT_THAT(events_of("out"), ElementsAre(HasSubstr("no line of step " + last + ";")));
}

}  // namespace
}  // namespace accrue::testing
