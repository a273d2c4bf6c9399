// Runs that are interrupted, or inspected while they run, by their command line.
#include <gmock/gmock.h>
#include <signal.h>

#include <map>
#include <nlohmann/json.hpp>

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
using ::testing::StartsWith;

class InterruptedRun : public FaultyProgram {
 protected:
  json record_of(const std::string& run) const {
    return json::parse(read_file(folder_ / run / "run.json"));
  }
};

TEST_F(InterruptedRun, WritesACheckpointAndShowsHowToGoOn) {
  const auto result =
      accrue_with({{.at = "optimizer-step", .action = "INT", .step = 3}}, long_run("a b"));
  EXPECT_EQ(result.status, kInterrupted) << result.errors;
  EXPECT_THAT(result.errors,
              HasSubstr("accrue train run.toml --run.steps=1000000 '--run.out=a b' --resume"));
  EXPECT_THAT(result.output, HasSubstr("a b/checkpoints/step-00000003"));
  EXPECT_THAT(checkpoints_of("a b"), ElementsAre("step-00000002", "step-00000003"));
}

TEST_F(InterruptedRun, OfARepetitionIsResumedByTheConfigInItsOwnFolder) {
  ASSERT_EQ(accrue({"train", "run.toml", "--precision.accumulate=fixed"}).status, 0);
  const auto result =
      accrue_with({{.at = "optimizer-step", .action = "INT", .step = 3}},
                  {"train", "--repeat", "out", "--run.out=second", "--run.steps=1000000"});
  EXPECT_EQ(result.status, kInterrupted);
  EXPECT_THAT(result.errors,
              AllOf(HasSubstr("a checkpoint was written: second/checkpoints/step-00000003"),
                    HasSubstr("accrue train second/config.toml --resume")));
  EXPECT_EQ(record_of("second")["ended"]["state"], "interrupted");
  const Pause pause(folder_, "again");
  Program again = start_with({pauses_in_step(1, "again"), stops_in_step(2)},
                             {"train", "second/config.toml", "--resume", "--quiet"});
  pause.wait();
  EXPECT_FALSE(record_of("second").contains("ended"));
  pause.release();
  const auto resumed = again.wait();
  EXPECT_EQ(resumed.status, kInterrupted);
  EXPECT_THAT(resumed.errors, HasSubstr("interrupted after step 4"));
}

TEST_F(InterruptedRun, IsListedFromItsStartToItsEnd) {
  ASSERT_EQ(accrue({"train", "run.toml", "--run.out=runs/short"}).status, 0);
  const Pause pause(folder_, "long");
  Program train = start_with({pauses_in_step(3, "long")},
                             long_run("runs/long", {"--run.checkpoint_every=100000 steps"}));
  pause.wait();
  // The streams of two simultaneous programs need separate folders.
  fs::create_directories(folder_ / "streams");
  const Words list{ACCRUE_PROGRAM, "runs", (folder_ / "runs").string(), "--json"};
  const auto listed = [&] {
    std::map<std::string, json> by_name;
    const json all = json::parse(Program(folder_ / "streams", list).wait().output);
    for (const json& run : all["runs"])
      by_name[fs::path(run["path"].get<std::string>()).filename().string()] = run;
    return by_name;
  };
  std::map<std::string, json> runs = listed();
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs["long"]["state"], "running");
  EXPECT_EQ(runs["long"]["step"], 2);
  EXPECT_EQ(runs["long"]["total_steps"], 1'000'000);
  EXPECT_FALSE(runs["long"].contains("ended"));
  const json& done = runs["short"];
  EXPECT_EQ(done["state"], "done");
  EXPECT_EQ(done["step"], 4);
  EXPECT_EQ(done["total_steps"], 4);
  for (const char* name : {"loss", "eval_loss", "tokens_per_second", "peak_bytes"})
    EXPECT_GT(done[name].get<double>(), 0) << name;
  for (const char* name : {"started", "ended"})
    EXPECT_THAT(done[name].get<std::string>(), StartsWith("20")) << name;
  EXPECT_THAT(done["remarks"], IsEmpty());
  ::kill(train.process(), SIGKILL);
  train.wait();
  EXPECT_EQ(listed()["long"]["state"], "stopped");
}

}  // namespace
}  // namespace accrue::testing
