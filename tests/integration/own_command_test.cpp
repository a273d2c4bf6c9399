#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "accrue_program.h"

namespace accrue::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// The command line of a program that defines its model (examples/by_feature/own_command.cpp).
class OwnCommand : public AccrueProgram {
 protected:
  void SetUp() override {
    AccrueProgram::SetUp();
    write_small_run();
  }
  Program::Result own(Words arguments) const {
    arguments.insert(arguments.begin(), ACCRUE_OWN_COMMAND);
    return Program(folder_, std::move(arguments)).wait();
  }
  json own_json(Words arguments) const {
    const Program::Result result = own(std::move(arguments));
    EXPECT_EQ(result.status, 0) << result.errors;
    return json::parse(result.output);
  }
  std::vector<double> losses(const std::string& run) const {
    std::ifstream lines(folder_ / run / "metrics.jsonl");
    std::vector<double> found;
    for (std::string line; std::getline(lines, line);)
      if (const json step = json::parse(line); step.contains("loss"))
        found.push_back(step["loss"].get<double>());
    return found;
  }
};

TEST_F(OwnCommand, TrainsAndGoesOnWithTheSameBits) {
  const auto train = [&](const std::string& out, const std::string& steps, bool resume) {
    Words words{"train", "run.toml", "--run.out=" + out, "--run.steps=" + steps,
                "--optim.schedule.kind=constant"};
    if (resume) words.emplace_back("--resume");
    const Program::Result result = own(words);
    EXPECT_EQ(result.status, 0) << result.errors;
  };
  train("straight", "8", false);
  train("broken", "4", false);
  train("broken", "8", true);
  EXPECT_EQ(losses("broken").size(), 8U);
  EXPECT_EQ(losses("broken").back(), losses("straight").back());
  EXPECT_LT(losses("straight").back(), losses("straight").front());
}

TEST_F(OwnCommand, NeedsNoConfigFile) {
  const auto result = own({"train", "--data.train=text.txt", "--run.steps=2", "--run.out=out",
                           "--model.width=16", "--model.context=16", "--batch.samples=8"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(losses("out").size(), 2U);
}

TEST_F(OwnCommand, PlansProvesAndExamines) {
  EXPECT_GT(own_json({"plan", "run.toml", "--batch.micro=auto", "--json"})["micro_batch"], 0);
  const json proof = own_json({"verify", "run.toml", "--json"});
  EXPECT_TRUE(proof["equal"]) << proof.dump(1);
  EXPECT_TRUE(own_json({"doctor", "run.toml", "--json"}).is_object());
  EXPECT_TRUE(own_json({"bench", "run.toml", "--rounds", "1", "--json"}).is_object());
  ASSERT_EQ(own({"train", "run.toml"}).status, 0);
  EXPECT_EQ(own({"report", "out"}).status, 0);
}

TEST_F(OwnCommand, SaysWhetherAccrueDoesTheModelsOperations) {
  const auto decision = [&](const std::string& out) {
    std::ifstream lines(folder_ / out / "metrics.jsonl");
    for (std::string line; std::getline(lines, line);)
      if (const json event = json::parse(line); event.value("event", "") == "accelerate")
        return event["reason"].get<std::string>();
    return std::string("nothing");
  };
  const auto checked = own({"train", "run.toml", "--run.out=auto"});
  ASSERT_EQ(checked.status, 0) << checked.errors;
  EXPECT_THAT(decision("auto"), AllOf(HasSubstr("accrue does"), HasSubstr("product")));
  EXPECT_THAT(checked.errors + checked.output, HasSubstr("accrue does"));
  ASSERT_EQ(own({"train", "run.toml", "--run.out=off", "--model.accelerate=off"}).status, 0);
  EXPECT_THAT(decision("off"), HasSubstr("as model.accelerate says"));
  EXPECT_THAT(own({"train", "run.toml", "--run.out=no", "--model.accelerate=perhaps"}).errors,
              HasSubstr("\"auto\""));
  ASSERT_EQ(own({"train", "run.toml", "--run.out=bf16", "--precision.compute=bf16"}).status, 0);
  EXPECT_THAT(decision("bf16"), HasSubstr("accrue does"));
  ASSERT_EQ(own({"train", "--repeat", "auto", "--run.out=again"}).status, 0);
  EXPECT_THAT(decision("again"), HasSubstr("as auto had them"));
}

TEST_F(OwnCommand, HelpsByItsOwnName) {
  const auto help = own({"--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.output, AllOf(HasSubstr("own_command train"), HasSubstr("verify"),
                                 Not(HasSubstr("sample")), Not(HasSubstr("export"))));
}

TEST_F(OwnCommand, ItsRunIsNotForAccrueAlone) {
  ASSERT_EQ(own({"train", "run.toml"}).status, 0);
  const auto result =
      accrue({"train", "out/config.toml", "--run.steps=8", "--run.out=out", "--resume"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.errors, HasSubstr("expected the program that brings the model"));
  EXPECT_EQ(accrue({"report", "out"}).status, 0);
}

}  // namespace
}  // namespace accrue::testing
