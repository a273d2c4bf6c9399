#include "observe/history/run_history.h"

#include <gmock/gmock.h>

#include "observe/history/run_folder.h"
#include "support/errors.h"

namespace accrue::observe {
namespace {

using accrue::testing::usage_message;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RunHistoryTest : public RunFolder {
 protected:
  static std::vector<std::string> names_of(const std::vector<RunHistory>& runs) {
    std::vector<std::string> names;
    for (const RunHistory& run : runs) names.push_back(run.name);
    return names;
  }
};

TEST_F(RunHistoryTest, HasAllThatTheFolderTells) {
  write("first/run.json", R"({"total_steps":2,"seed":7})");
  write("first/config.toml", "[run]\nsteps = 9\n");
  write("first/metrics.jsonl",
        "{\"step\":1,\"loss\":3}\n{\"step\":2,\"loss\":2}\n{\"step\":2,\"eval_loss\":2.5}\n"
        "{\"step\":2,\"event\":\"plan\",\"reason\":\"because\"}\n");
  const RunHistory run = read_run(folder_ / "first/");
  EXPECT_EQ(run.name, "first");
  EXPECT_EQ(run.root, folder_ / "first/");
  EXPECT_EQ(run.state, RunState::done);
  EXPECT_EQ(run.total_steps, 2);
  EXPECT_THAT(run.run_json, HasSubstr("seed"));
  EXPECT_THAT(run.config_toml, HasSubstr("steps = 9"));
  EXPECT_THAT(*run.table.column("loss"), ElementsAre(3, 2));
  EXPECT_EQ(run.table.column("lr"), nullptr);
  EXPECT_EQ(run.evaluations.size(), 1U);
  EXPECT_EQ(run.events.size(), 1U);
  EXPECT_THAT(run.remarks, IsEmpty());
}

TEST_F(RunHistoryTest, TakesItsLengthFromTheConfigWhereRunJsonHasNone) {
  write("run.json", "{}");
  write("config.toml", "[run]\nsteps = 9\n");
  EXPECT_EQ(read_run(folder_).total_steps, 9);
  write("run.json", R"({"config":{"run":{"steps":8}}})");
  EXPECT_EQ(read_run(folder_).total_steps, 8);
}

TEST_F(RunHistoryTest, SaysWhatIsMissingOrBroken) {
  write("run/metrics.jsonl", "{\"step\":1,\"loss\":3}\n{\"st");
  EXPECT_THAT(read_run(folder_ / "run").remarks,
              ElementsAre("run.json: there is none",
                          "metrics.jsonl: the last line is half-written and left out"));
  write("run/run.json", "{\"seed\":");
  write("run/metrics.jsonl", "");
  const RunHistory run = read_run(folder_ / "run");
  EXPECT_EQ(run.run_json, "");
  EXPECT_EQ(run.state, RunState::stopped);
  EXPECT_THAT(run.remarks, ElementsAre("run.json: it is no JSON object, and left out",
                                       "metrics.jsonl: there is no step in it"));
  std::filesystem::remove(folder_ / "run/metrics.jsonl");
  write("run/run.json", "{}");
  EXPECT_THAT(read_run(folder_ / "run").remarks, ElementsAre("metrics.jsonl: there is none"));
}

TEST_F(RunHistoryTest, RefusesWhatIsNoRunFolder) {
  EXPECT_FALSE(is_run(folder_));
  EXPECT_THAT(usage_message([&] { read_run(folder_); }), HasSubstr("a folder without them"));
  EXPECT_THAT(usage_message([&] { read_run(folder_ / "nowhere"); }), HasSubstr("no such folder"));
  EXPECT_THAT(usage_message([&] { read_run(write("notes", "")); }), HasSubstr("received a file"));
  write("run/run.json", "{}");
  EXPECT_TRUE(is_run(folder_ / "run"));
  EXPECT_THAT(usage_message([&] {
                read_runs({folder_ / "run", folder_ / "other"});
              }),
              AllOf(HasSubstr("read run"), HasSubstr("other")));
}

TEST_F(RunHistoryTest, NamesTellRunsApart) {
  for (const char* run : {"a/x/run", "b/x/run", "b/y/run", "b/other"})
    write(std::string(run) + "/run.json", "{}");
  EXPECT_THAT(names_of(read_runs({folder_ / "a/x/run", folder_ / "b/other"})),
              ElementsAre("run", "other"));
  EXPECT_THAT(names_of(read_runs({folder_ / "a/x/run", folder_ / "b/y/run", folder_ / "b/other"})),
              ElementsAre("x/run", "y/run", "other"));
  EXPECT_THAT(names_of(read_runs({folder_ / "a/x/run", folder_ / "b/x/run", folder_ / "b/y/run"})),
              ElementsAre("a/x/run", "b/x/run", "y/run"));
  EXPECT_THAT(names_of(read_runs({folder_ / "a/x/run", folder_ / "a/x/../x/run"})),
              ElementsAre("run", "run"))
      << "one run twice has no other name";
}

TEST_F(RunHistoryTest, ReadsManyRunsAtOnceInTheirOrder) {
  std::vector<std::filesystem::path> roots;
  for (int i = 0; i < 40; ++i) {
    const std::string name = "run" + std::to_string(i);
    write(name + "/metrics.jsonl", "{\"step\":" + std::to_string(i + 1) + ",\"loss\":1}\n");
    roots.push_back(folder_ / name);
  }
  const std::vector<RunHistory> runs = read_runs(roots);
  ASSERT_EQ(runs.size(), roots.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(runs[i].root, roots[i]);
    EXPECT_THAT(runs[i].table.steps, ElementsAre(static_cast<std::int64_t>(i) + 1));
  }
}

}  // namespace
}  // namespace accrue::observe
