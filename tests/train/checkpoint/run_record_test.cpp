#include "train/checkpoint/run_record.h"

#include <gmock/gmock.h>

#include "support/errors.h"
#include "train/checkpoint/run_record_fixture.h"

namespace accrue::train {
namespace {

using accrue::testing::usage_message;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::RunRecordTest;

TEST_F(RunRecordTest, HasTheKeysThatReadersGoBy) {
  write(describe_run(info()));
  const json run = written();
  EXPECT_EQ(run["versions"]["libtorch"], "2");
  EXPECT_EQ(run["machine"]["processor"], "A");
  EXPECT_EQ(run["machine"]["threads"], 3);
  EXPECT_EQ(run["ranks"], 2);
  EXPECT_EQ(run["seed"], 1337);
  EXPECT_EQ(run["command"][0], "accrue");
  EXPECT_EQ(run["config"]["batch"]["samples"], 8);
  EXPECT_EQ(run["plan"], plan_);
  EXPECT_EQ(run["total_steps"], 6);
  EXPECT_EQ(run["parameters"], 1000);
  EXPECT_EQ(run["unit"], "tokens");
  EXPECT_EQ(run["data"]["train"][0]["path"], "data/a.txt");
  EXPECT_EQ(run["data"]["train"][0]["bytes"], 100);
  EXPECT_EQ(run["data"]["train"][0]["fingerprint"], text_.fingerprint);
  EXPECT_EQ(run["data"]["val"], json::array());
  EXPECT_EQ(run["working_directory"], "/work");
  EXPECT_EQ(run["commit"], "c0ffee");
  EXPECT_EQ(run["resumed"], json::array());
  EXPECT_FALSE(run.contains("ended"));
  EXPECT_FALSE(run.contains("repeats"));
  environment_.commit.reset();
  EXPECT_FALSE(json::parse(describe_run(info())).contains("commit"));
}

TEST_F(RunRecordTest, ReadsBackWhatWasWritten) {
  write(describe_run(info()));
  const auto record = read_run_record(run());
  EXPECT_EQ(record->environment.libraries, environment_.libraries);
  EXPECT_EQ(record->environment.threads, 3);
  EXPECT_EQ(record->environment.commit, "c0ffee");
  EXPECT_EQ(record->data.train, std::vector{text_});
  ASSERT_EQ(record->ranks.size(), 2U);
  EXPECT_EQ(record->ranks[0].micro_batch, 4);
  EXPECT_EQ(record->ranks[0].recompute, Recompute::full);
  EXPECT_EQ(record->plan_reason, "it is fast");
  const Config config = config_to_repeat(*record);
  ASSERT_EQ(differences(config_, config).size(), 1U);
  EXPECT_EQ(config.run.threads, 3) << "as many as it had, and not what this machine grants";
  EXPECT_EQ(config_to_repeat(*record, {"run.threads=0"}).run.threads, 0);
}

std::string resumed_at(const std::string& run_json, std::int64_t step) {
  const Config config;
  return add_resumption(run_json, {.step = step, .config = config, .environment = {}, .data = {}});
}

TEST_F(RunRecordTest, EndsAndGoesOn) {
  write(add_end(describe_run(info()), 6, false));
  EXPECT_EQ(written()["ended"]["step"], 6);
  EXPECT_EQ(written()["ended"]["state"], "done");
  EXPECT_EQ(written()["ended"]["time"].get<std::string>().size(),
            written()["started"].get<std::string>().size());
  config_.run.steps = 9;
  write(add_resumption(read_file(run().run_file()), {.step = 6,
                                                     .command = {"accrue"},
                                                     .config = config_,
                                                     .changes = {{"run.steps", "6", "9"}},
                                                     .environment = environment_,
                                                     .data = {.train = {text_}}}));
  EXPECT_FALSE(written().contains("ended"));
  EXPECT_EQ(written()["config"]["run"]["steps"], 9);
  const auto record = read_run_record(run());
  ASSERT_EQ(record->resumed.size(), 1U);
  EXPECT_EQ(record->resumed[0].step, 6);
  EXPECT_EQ(record->resumed[0].changes[0].key, "run.steps");
  write(add_end(read_file(run().run_file()), 7, true));
  EXPECT_EQ(written()["ended"]["state"], "interrupted");
}

TEST_F(RunRecordTest, HasTheScheduleOfTheRun) {
  using enum optim::ScheduleVersion;
  const std::string begun = describe_run(info());
  write(begun);
  EXPECT_EQ(recorded_schedule(run()), min_after_last_step);
  json former = json::parse(begun);
  former.erase("checksum");
  former.erase("schedule");
  write(former.dump());
  EXPECT_EQ(recorded_schedule(run()), min_in_last_step) << "of an earlier version";
  write(add_resumption(
      begun, {.config = config_, .environment = environment_, .schedule = min_in_last_step}));
  EXPECT_EQ(recorded_schedule(run()), min_in_last_step) << "that it went on with";
  former["schedule"] = 3;
  write(former.dump());
  EXPECT_THAT(usage_message([&] { recorded_schedule(run()); }), HasSubstr("schedule"));
  write("{\"torn");
  EXPECT_THAT(usage_message([&] { recorded_schedule(run()); }), HasSubstr("damaged"));
}

TEST_F(RunRecordTest, NoticesAnyValueThatChanged) {
  std::string text = describe_run(info());
  const json whole = json::parse(text);
  write(whole.dump());
  EXPECT_NO_THROW(read_run_record(run())) << "laid out otherwise";
  for (const auto& [name, value] : whole.items()) {
    json other = whole;
    other[name] = value.is_string() ? json(value.get<std::string>() + "x") : json("other");
    EXPECT_FALSE(is_run_json(other.dump())) << name;
    write(other.dump());
    EXPECT_THAT(usage_message([&] { read_run_record(run()); }), HasSubstr("changed since")) << name;
    EXPECT_THAT(usage_message([&] { recorded(run()); }), HasSubstr("a copy of the run")) << name;
  }
  for (const std::string& later : {add_end(text, 6, false), resumed_at(text, 3)})
    EXPECT_TRUE(is_run_json(later));
}

TEST_F(RunRecordTest, HasTheDigestsOfTheTokenizer) {
  EXPECT_THAT(recorded_tokenizer(run()), IsEmpty()) << "of a folder without run.json";
  write(describe_run(info()));
  EXPECT_THAT(recorded_tokenizer(run()), IsEmpty());
  RunInfo with = info();
  with.tokenizer = {{"tokenizer.json", "sha256:1"}};
  write(describe_run(with));
  EXPECT_EQ(recorded_tokenizer(run()), with.tokenizer);
}

TEST_F(RunRecordTest, SaysInOneSentenceWhatItIsMissing) {
  EXPECT_THAT(usage_message([&] { read_run_record(RunDirectory(folder_ / "none")); }),
              AllOf(HasSubstr("expected a run folder"), HasSubstr("none")));
  write("{\"seed\": 1");
  EXPECT_THAT(usage_message([&] { read_run_record(run()); }), HasSubstr("damaged"));
  for (const char* const key : {"config", "plan", "data", "start", "libraries", "resumed"}) {
    json old = json::parse(describe_run(info()));
    old.erase("checksum");
    old.erase(key);
    write(old.dump());
    EXPECT_THAT(usage_message([&] { read_run_record(run()); }),
                AllOf(HasSubstr("an earlier version"), HasSubstr(key),
                      HasSubstr("config.toml --run.out=NEW")));
  }
  json odd = json::parse(describe_run(info()));
  odd.erase("checksum");
  odd["plan"]["ranks"] = json::array();
  write(odd.dump());
  EXPECT_THAT(usage_message([&] { read_run_record(run()); }), HasSubstr("plan.ranks"));
  odd["plan"]["ranks"] = json::array({json{{"micro_batch", 1e30}, {"recompute", "full"}}});
  write(odd.dump());
  EXPECT_THAT(usage_message([&] { read_run_record(run()); }), HasSubstr("micro_batch"));
  odd["plan"]["ranks"] = json::array({json{{"micro_batch", 4}, {"recompute", "half"}}});
  write(odd.dump());
  EXPECT_THAT(usage_message([&] { read_run_record(run()); }), HasSubstr("plan.ranks.recompute"));
}

TEST_F(RunRecordTest, OfAnEarlierVersionStaysOneWhereItIsResumed) {
  const json before{{"seed", 1}, {"resumed", json::array()}};
  write(add_resumption(before.dump(), {.step = 2, .config = config_, .environment = environment_}));
  EXPECT_EQ(written()["resumed"][0]["step"], 2);
  EXPECT_THAT(usage_message([&] { read_run_record(run()); }), HasSubstr("earlier version"));
  write(add_resumption("{\"torn", {.step = 2, .config = config_, .environment = environment_}));
  EXPECT_EQ(written()["resumed"][0]["step"], 2);
}

TEST_F(RunRecordTest, TellsARunFromOthersByItsStart) {
  const std::string begun = describe_run(info());
  EXPECT_TRUE(are_of_one_run(begun, resumed_at(add_end(begun, 6, true), 6)));
  RunInfo other = info();
  other.start = "another";
  EXPECT_FALSE(are_of_one_run(begun, describe_run(other)));
  EXPECT_TRUE(is_run_json(begun));
  EXPECT_FALSE(is_run_json(begun.substr(1)));
  EXPECT_FALSE(is_run_json(""));
}

TEST_F(RunRecordTest, TellsWhichStepARunWentBackToSince) {
  const std::string begun = describe_run(info());
  const std::string once = resumed_at(begun, 200), twice = resumed_at(once, 150);
  EXPECT_EQ(step_gone_back_to(begun, begun), std::nullopt);
  EXPECT_EQ(step_gone_back_to(once, once), std::nullopt);
  EXPECT_EQ(step_gone_back_to(once, begun), 200);
  EXPECT_EQ(step_gone_back_to(twice, begun), 150);
  EXPECT_EQ(step_gone_back_to(resumed_at(twice, 300), begun), 150);
  EXPECT_EQ(step_gone_back_to(resumed_at(twice, 300), twice), 300);
  EXPECT_EQ(step_gone_back_to(begun, once), std::nullopt) << "the other one is behind";
  EXPECT_EQ(step_gone_back_to("{\"resumed\": 3}", "damaged"), std::nullopt);
}

TEST_F(RunRecordTest, ARepetitionDoesNotCopyIntoTheReplicaOfTheRun) {
  config_.run.replica = "copies";
  config_.run.limits = {{.command = "touch was-here", .action = LimitAction::stop}};
  write(describe_run(info()));
  const auto record = read_run_record(run());
  EXPECT_EQ(config_to_repeat(*record).run.replica, "");
  EXPECT_EQ(config_to_repeat(*record, {"run.replica=others"}).run.replica, "others");
  EXPECT_THAT(config_to_repeat(*record).run.limits, ::testing::IsEmpty());
  const std::string limits = R"(run.limits=[{file = "heat", above = 9, do = "slow"}])";
  EXPECT_EQ(config_to_repeat(*record, {limits}).run.limits.size(), 1U);
}

}  // namespace
}  // namespace accrue::train
