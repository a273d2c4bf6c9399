#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "accrue_program.h"

namespace accrue::testing {
namespace {

class Doctor : public AccrueProgram {
 protected:
  void SetUp() override {
    AccrueProgram::SetUp();
    write_small_run();
  }
  nlohmann::json doctor(Words more = {}) const {
    Words words{"doctor", "run.toml", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const auto result = accrue(words);
    EXPECT_EQ(result.status, 0) << result.errors;
    return nlohmann::json::parse(result.output);
  }
  void write_long_text() const {
    std::string text;
    for (int line = 0; line < 20'000; ++line)
      text += "line " + std::to_string(line * 7919 % 10'007) + " of a text that is long enough\n";
    write("text.txt", text);
  }
  static const nlohmann::json* find(const nlohmann::json& report, const std::string& id) {
    for (const nlohmann::json& finding : report.at("findings"))
      if (finding.at("id") == id) return &finding;
    return nullptr;
  }
};

TEST_F(Doctor, SaysWhatEachFindingRestsOnAndWritesNothing) {
  const nlohmann::json report = doctor();
  const nlohmann::json* finding = find(report, "warmup-none");
  ASSERT_NE(finding, nullptr) << report.dump(1);
  EXPECT_EQ(finding->at("severity"), "advice");
  EXPECT_EQ(finding->at("evidence").at("lr"), 1e-2);
  EXPECT_FALSE(finding->at("advice").get<std::string>().empty());
  EXPECT_GT(report.at("samples_per_second").get<double>(), 0);
  EXPECT_EQ(report.at("micro_batches"), 4);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

TEST_F(Doctor, FindsWhatTheConfigAndDataHold) {
  EXPECT_NE(find(doctor(), "warmup-none"), nullptr) << "the run's lr is 1e-2";
  EXPECT_EQ(find(doctor({"--optim.lr=1e-4"}), "warmup-none"), nullptr);
  EXPECT_NE(find(doctor({"--precision.accumulate=bf16", "--batch.micro=1"}), "bf16-sum"), nullptr);
  EXPECT_NE(find(doctor({"--data.val_fraction=0"}), "eval-never"), nullptr);
}

TEST_F(Doctor, KeepsToTheBudget) {
  write_long_text();
  // The whole batch is far too large; train plans a micro-batch that fits, and so does doctor.
  const Words tight{"--model.layers=2", "--model.width=128", "--model.context=256",
                    "--batch.tokens=65536", "--memory.budget=512MiB"};
  Words train{"train", "run.toml", "--run.steps=1", "--quiet"};
  train.insert(train.end(), tight.begin(), tight.end());
  train.push_back("--batch.micro=auto");
  ASSERT_EQ(accrue(train).status, 0);
  Words more = tight;
  more.push_back("--batch.micro=auto");
  EXPECT_EQ(find(doctor(more), "micro-batch-small"), nullptr) << "the plan has tried larger ones";
  more.back() = "--batch.micro=2";
  doctor(more);
}

TEST_F(Doctor, ReadsForPeopleAndRefusesAWrongConfig) {
  const auto result = accrue({"doctor", "run.toml"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, ::testing::HasSubstr("warmup-none"));
  EXPECT_EQ(accrue({"doctor", "run.toml", "--optim.lrr=1"}).status, 2);
  EXPECT_EQ(accrue({"doctor", "run.toml", "--data.train=nothing"}).status, 2);
}

}  // namespace
}  // namespace accrue::testing
