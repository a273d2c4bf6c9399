#include "train/measure/trace.h"

#include <ATen/record_function.h>
#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "accrue/core/error.h"
#include "core/atomic_file.h"
#include "support/errors.h"
#include "train/tiny_run.h"

namespace accrue::train {
namespace {

using nlohmann::json;
using ::testing::IsSupersetOf;
using ::testing::UnorderedElementsAre;

class TraceFile : public testing::TinyRun {
 protected:
  std::filesystem::path file() const { return folder_ / "trace.json"; }
  json events() const { return json::parse(read_file(file())); }

  /// The names of the spans in each named row.
  static std::map<std::string, std::multiset<std::string>> rows_of(const json& events) {
    std::map<int, std::string> names;
    for (const json& event : events)
      if (event["ph"] == "M") names[event["tid"]] = event["args"]["name"];
    std::map<std::string, std::multiset<std::string>> rows;
    for (const json& event : events)
      if (event["ph"] == "X") rows[names.at(event["tid"])].insert(event["name"]);
    return rows;
  }
};

TEST_F(TraceFile, HasWhatEachThreadOfARunDidAndWaitedFor) {
  Config run = config();
  run.run.steps = 3;
  run.run.checkpoint_every = {1, Duration::Unit::steps};
  {
    const Trace trace(file());
    Trainer(run).run();
  }
  const auto rows = rows_of(events());
  constexpr std::size_t windows = 3, micro_batches = 4;
  const auto& training = rows.at("training");
  EXPECT_EQ(training.count("micro-batch"), windows * micro_batches);
  EXPECT_EQ(training.count("data: wait"), windows * micro_batches);
  EXPECT_EQ(training.count("optimizer step"), windows);
  EXPECT_EQ(training.count("close window"), windows);
  EXPECT_THAT(training, IsSupersetOf({"evaluation", "checkpoint: wait", "log"}));
  EXPECT_EQ(rows.at("data").count("data: load"), windows * micro_batches);
  EXPECT_EQ(rows.at("checkpoint").count("checkpoint: write"), windows);
  EXPECT_EQ(training.count("checkpoint: write"), 0U);
}

TEST_F(TraceFile, HasAUsersScopesAndNoneThatBeganOutsideOfIt) {
  { RECORD_USER_SCOPE("before"); }
  {
    const Trace trace(file());
    RECORD_USER_SCOPE("outer");
    std::thread([] { RECORD_USER_SCOPE("theirs: inner"); }).join();
  }
  { RECORD_USER_SCOPE("after"); }
  const json all = events();
  const auto rows = rows_of(all);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_THAT(rows.at("training"), UnorderedElementsAre("outer"));
  EXPECT_THAT(rows.at("theirs"), UnorderedElementsAre("theirs: inner"));
  std::map<std::string, json> spans;
  for (const json& event : all)
    if (event["ph"] == "X") spans[event["name"]] = event;
  const json &outer = spans["outer"], &inner = spans["theirs: inner"];
  EXPECT_LE(outer["ts"].get<double>(), inner["ts"].get<double>());
  EXPECT_GE(outer["ts"].get<double>() + outer["dur"].get<double>(),
            inner["ts"].get<double>() + inner["dur"].get<double>());
}

TEST_F(TraceFile, IsOneAtATimeAndNeedsAFile) {
  EXPECT_THROW(Trace(folder_ / "no" / "folder.json"), Error);
  const Trace trace(file());
  EXPECT_THROW(Trace(folder_ / "second.json"), Error);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "second.json"));
}

TEST_F(TraceFile, ReplacesNothing) {
  std::ofstream(folder_ / "notes") << "mine";
  std::filesystem::create_symlink("notes", folder_ / "link");
  std::filesystem::create_symlink("nowhere", folder_ / "dangling");
  for (const std::filesystem::path& taken :
       {folder_ / "notes", folder_ / "link", folder_ / "dangling",
        std::filesystem::path("/dev/null")})
    EXPECT_THAT(accrue::testing::usage_message([&] { const Trace trace(taken); }),
                ::testing::HasSubstr(taken.string()));
  EXPECT_EQ(read_file(folder_ / "notes"), "mine");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "nowhere"));
}

TEST_F(TraceFile, IsTakenBackWhereNothingHappened) {
  { const Trace trace(file()); }
  EXPECT_FALSE(std::filesystem::exists(file()));
}

}  // namespace
}  // namespace accrue::train
