#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "accrue_program.h"
#include "core/atomic_file.h"

namespace accrue::testing {
namespace {

using ::testing::HasSubstr;

class ChangingBatchRun : public AccrueProgram {
 protected:
  void SetUp() override {
    AccrueProgram::SetUp();
    write_small_run();
  }
  nlohmann::json json_of(Words words) const {
    words.emplace_back("--json");
    const auto result = accrue(words);
    EXPECT_EQ(result.status, 0) << result.errors;
    return nlohmann::json::parse(result.output);
  }
  std::vector<nlohmann::json> lines(const std::string& key) const {
    std::vector<nlohmann::json> found;
    std::ifstream file(folder_ / "out" / "metrics.jsonl");
    for (std::string line; std::getline(file, line);)
      if (auto json = nlohmann::json::parse(line); json.contains(key)) found.push_back(json);
    return found;
  }
};

TEST_F(ChangingBatchRun, FollowsAScheduleThatIsStatedInMicroBatches) {
  const auto result = accrue({"train", "run.toml", "--run.steps=10", "--batch.micro=2",
                              "--batch.schedule=[{at = 0, micro_batches = 4}, {at = 8, "
                              "micro_batches = 8}]"});
  ASSERT_EQ(result.status, 0) << result.errors;
  const auto steps = lines("lr");
  ASSERT_EQ(steps.size(), 10U);
  for (std::size_t i = 0; i < steps.size(); ++i)
    EXPECT_EQ(steps[i]["micro_batches"], i < 8 ? 4 : 8) << "line " << i + 1;
  const auto events = lines("event");
  EXPECT_THAT(nlohmann::json(events).dump(), HasSubstr("from step 9 on 16 samples"));
  EXPECT_TRUE(steps.back().contains("noise_scale_low"));
}

TEST_F(ChangingBatchRun, IsChangedByHandAndRepeated) {
  const Words begin{"train", "run.toml", "--run.steps=3", "--precision.accumulate=fixed",
                    "--optim.schedule.kind=constant"};
  ASSERT_EQ(accrue(begin).status, 0);
  Words resume = begin;
  resume[2] = "--run.steps=6";
  resume.emplace_back("--batch.tokens=512");
  resume.emplace_back("--resume");
  Words preview = resume;
  preview.emplace_back("--dry-run");
  EXPECT_THAT(accrue(preview).output, HasSubstr("changed by hand: 512 from step 4 on"));
  const auto result = accrue(resume);
  ASSERT_EQ(result.status, 0) << result.errors;
  std::vector<int> tokens;
  for (const auto& step : lines("lr")) tokens.push_back(step["batch_tokens"].get<int>());
  EXPECT_EQ(tokens, (std::vector<int>{256, 256, 256, 512, 512, 512}));
  EXPECT_THAT(nlohmann::json(lines("event")).dump(),
              HasSubstr("from step 4 on 512 tokens in place of 256 tokens, changed by hand"));

  const auto repeated = accrue({"train", "--repeat", "out", "--run.out=second"});
  ASSERT_EQ(repeated.status, 0) << repeated.errors;
  const std::string model = "checkpoints/step-00000006/model.safetensors";
  EXPECT_EQ(read_file(folder_ / "second" / model), read_file(folder_ / "out" / model));
}

TEST_F(ChangingBatchRun, OfWhichTheOtherKeysStayIsNamedByTheOneThatDiffers) {
  ASSERT_EQ(accrue({"train", "run.toml"}).status, 0);
  const auto result =
      accrue({"train", "run.toml", "--resume", "--batch.tokens=512", "--optim.lr=0.5"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.errors, HasSubstr("received optim.lr = 0.5 (was 0.01); try "
                                       "optim.lr = 0.01, or a new run.out\n"));
}

TEST_F(ChangingBatchRun, SaysBeforehandHowTheBatchWillChange) {
  const auto result =
      accrue({"train", "run.toml", "--dry-run", "--batch.ramp={from = 64, over = \"50%\"}"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output + result.errors, HasSubstr("from 64 to 256 tokens, linearly"));
}

TEST_F(ChangingBatchRun, IsRefusedWithTheKeyWhereItContradictsItself) {
  const auto result = accrue({"train", "run.toml", "--adapt.batch=noise-scale", "--adapt.max=128"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.errors, HasSubstr("adapt.max"));
}

TEST_F(ChangingBatchRun, SweepsLearningRates) {
  const nlohmann::json sweep = json_of({"bench", "run.toml", "--sweep-lr"});
  EXPECT_GT(sweep.at("rates").size(), 10U);
  EXPECT_NEAR(sweep.at("rates")[0].at("lr").get<double>(), 1e-4, 1e-9);
  EXPECT_EQ(sweep.at("lr"), 1e-2);
  EXPECT_DOUBLE_EQ(sweep.at("suggested").get<double>(), sweep.at("lowest_at").get<double>() / 10);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
  EXPECT_THAT(accrue({"bench", "run.toml", "--sweep-lr"}).output, HasSubstr("suggested"));
  EXPECT_EQ(accrue({"bench", "run.toml", "--sweep-lr", "--profile"}).status, 2);
}

TEST_F(ChangingBatchRun, SweepsBatchesOnTheSameTokens) {
  const nlohmann::json sweep = json_of({"bench", "run.toml", "--sweep-batch"});
  const auto& batches = sweep.at("batches");
  ASSERT_EQ(batches.size(), 5U);
  for (const nlohmann::json& batch : batches) {
    EXPECT_DOUBLE_EQ(batch.at("batch").get<double>() * batch.at("steps").get<double>(),
                     sweep.at("trained_on").get<double>());
    EXPECT_LT(batch.at("loss").get<double>(), sweep.at("loss_before").get<double>());
  }
  EXPECT_EQ(batches[0].at("batch"), 64);
  EXPECT_EQ(batches[4].at("batch"), 1024);
  EXPECT_NEAR(batches[4].at("lr").get<double>(), 2e-2, 1e-9) << "by the root, of AdamW";
  EXPECT_EQ(sweep.at("unit"), "tokens");
  EXPECT_FALSE(sweep.at("reason").get<std::string>().empty());
}

TEST_F(ChangingBatchRun, IsSuspectedByTheDoctorWhereTheLossRises) {
  const nlohmann::json report = json_of({"doctor", "run.toml", "--optim.lr=30"});
  EXPECT_THAT(report.at("findings").dump(),
              ::testing::AnyOf(HasSubstr("first-steps-rise"), HasSubstr("first-steps-diverge")));
  EXPECT_THAT(json_of({"doctor", "run.toml"}).at("findings").dump(),
              ::testing::Not(HasSubstr("first-steps")));
}

}  // namespace
}  // namespace accrue::testing
