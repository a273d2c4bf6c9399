#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "accrue_program.h"
#include "core/atomic_file.h"

namespace accrue::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class TrainingRun : public AccrueProgram {
 protected:
  void SetUp() override {
    AccrueProgram::SetUp();
    write_small_run();
  }

  Program::Result succeed(const Words& arguments) const {
    auto result = accrue(arguments);
    EXPECT_EQ(result.status, 0) << result.errors;
    return result;
  }
  std::string refused(const Words& arguments) const {
    const auto result = accrue(arguments);
    EXPECT_EQ(result.status, 2) << result.output << result.errors;
    return result.errors;
  }
  std::string file(const std::string& name) const { return read_file(folder_ / name); }
  bool exists(const std::string& name) const { return std::filesystem::exists(folder_ / name); }

  std::vector<json> metrics(const std::string& run = "out") const {
    std::vector<json> lines;
    std::istringstream content(file(run + "/metrics.jsonl"));
    for (std::string line; std::getline(content, line);) lines.push_back(json::parse(line));
    return lines;
  }
  static std::vector<std::int64_t> steps_of(const std::vector<json>& lines) {
    std::vector<std::int64_t> steps;
    for (const json& line : lines)
      if (line.contains("lr")) steps.push_back(line["step"]);
    return steps;
  }
};

TEST_F(TrainingRun, LeavesWhatTheDesignSays) {
  const auto result = succeed({"train", "run.toml"});
  for (const char* name : {"out/config.toml", "out/run.json", "out/metrics.jsonl",
                           "out/checkpoints/step-00000004/model.safetensors",
                           "out/checkpoints/step-00000004/optimizer.safetensors",
                           "out/checkpoints/step-00000004/state.json"})
    EXPECT_TRUE(exists(name)) << name;
  for (const char* part :
       {"out/metrics.jsonl", "out/checkpoints/step-00000004", "loss  ", "eval_loss  "})
    EXPECT_THAT(result.output, HasSubstr(part));
  EXPECT_THAT(result.errors, HasSubstr("step 1/4  loss "));

  const auto lines = metrics();
  EXPECT_EQ(steps_of(lines), (std::vector<std::int64_t>{1, 2, 3, 4}));
  const json& last = *std::find_if(lines.rbegin(), lines.rend(),
                                   [](const json& line) { return line.contains("lr"); });
  EXPECT_EQ(last["micro_batch"], 4);
  EXPECT_EQ(last["micro_batches"], 4);
  EXPECT_EQ(last["batch_tokens"], 256);
  EXPECT_EQ(last["tokens"], 1024);
  EXPECT_EQ(last["samples"], 64);
  EXPECT_GT(last["loss"].get<double>(), 0);

  const json run = json::parse(file("out/run.json"));
  EXPECT_EQ(run["command"][1], "train");
}

TEST_F(TrainingRun, IsBegunOrGoneOnWithAsItIsThere) {
  const auto preview = [&] {
    return succeed({"train", "run.toml", "--resume", "auto", "--run.steps=6", "--dry-run"}).output;
  };
  EXPECT_THAT(preview(), Not(HasSubstr("resume ")));
  succeed({"train", "run.toml", "--resume", "auto", "--run.steps=3"});
  EXPECT_THAT(preview(), HasSubstr("after step 3, on to step 6"));
  succeed({"train", "run.toml", "--resume", "auto", "--run.steps=6"});
  EXPECT_EQ(steps_of(metrics()), (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6}));
}

TEST_F(TrainingRun, IsNeverOverwritten) {
  succeed({"train", "run.toml"});
  const std::string before = file("out/metrics.jsonl");
  EXPECT_THAT(refused({"train", "run.toml"}), HasSubstr("--resume"));
  EXPECT_EQ(file("out/metrics.jsonl"), before);
}

TEST_F(TrainingRun, ResumesToTheSameBits) {
  succeed({"train", "run.toml", "--run.out=whole"});
  succeed({"train", "run.toml"});
  std::filesystem::remove_all(folder_ / "out/checkpoints/step-00000004");
  // The word after --resume is the config if there is no other.
  succeed({"train", "--resume", "run.toml", "--run.keep=3"});
  const std::string model = "/checkpoints/step-00000004/model.safetensors";
  EXPECT_EQ(file("out" + model), file("whole" + model));
  EXPECT_EQ(steps_of(metrics()), (std::vector<std::int64_t>{1, 2, 3, 4}));
}

TEST_F(TrainingRun, ResumesFromANamedStep) {
  succeed({"train", "run.toml"});
  succeed({"train", "run.toml", "--resume", "2"});
  EXPECT_THAT(refused({"train", "run.toml", "--resume", "3"}), HasSubstr("3"));
  EXPECT_THAT(refused({"train", "run.toml", "--resume", "--optim.lr=1e-3"}), HasSubstr("optim.lr"));
  EXPECT_THAT(refused({"train", "run.toml", "--resume", "--run.out=elsewhere"}),
              HasSubstr("elsewhere"));
}

TEST_F(TrainingRun, IsSampledTheSameWayEachTime) {
  succeed({"train", "run.toml"});
  const Words words{"sample", "out", "--prompt", "the ", "--tokens", "20", "--seed", "5"};
  const std::string text = succeed(words).output;
  EXPECT_THAT(text, StartsWith("the "));
  EXPECT_EQ(text.size(), 4u + 20u + 1u);
  EXPECT_EQ(succeed(words).output, text);
  EXPECT_THAT(refused({"sample", "out", "--prompt", "a", "--checkpoint", "3"}), HasSubstr("3"));
  EXPECT_THAT(refused({"sample", "out", "--prompt", ""}), HasSubstr("prompt"));
}

TEST_F(TrainingRun, IsExportedWithItsTokenizerAndACard) {
  succeed({"train", "run.toml"});
  succeed({"export", "out", "--out", "model", "--checkpoint", "4"});
  EXPECT_EQ(json::parse(file("model/config.json"))["model_type"], "gpt2");
  const json tokenizer = json::parse(file("model/tokenizer.json"));
  EXPECT_EQ(tokenizer["model"]["vocab"].size(), 256u);
  EXPECT_EQ(tokenizer["model"]["vocab"]["A"], 65);
  EXPECT_EQ(tokenizer["model"]["vocab"]["\u0120"], 32);
  EXPECT_THAT(file("model/README.md"), HasSubstr("Tokens are bytes"));
  EXPECT_TRUE(exists("model/model.safetensors"));

  const std::string card = file("model/README.md");
  refused({"export", "out", "--out", "model"});
  EXPECT_EQ(file("model/README.md"), card);
}

TEST_F(TrainingRun, AnEvaluationThatIsNotFiniteIsAnEventAndNeverTheBest) {
  const auto result = succeed({"train", "run.toml", "--run.steps=1", "--optim.lr=1e20"});
  EXPECT_THAT(result.errors, HasSubstr("the loss of the evaluation after step 1 is"));
  EXPECT_THAT(result.output, ::testing::Not(HasSubstr("eval_loss")));
  int told = 0;
  for (const json& line : metrics()) {
    EXPECT_FALSE(line.contains("eval_loss")) << line;
    told += line.value("event", "") == "evaluation" ? 1 : 0;
  }
  EXPECT_EQ(told, 1);
  EXPECT_FALSE(json::parse(file("out/checkpoints/step-00000001/state.json")).contains("best"));
}

TEST_F(TrainingRun, ThatDivergesIsReportedOrEnds) {
  const Words diverging{"train", "run.toml", "--optim.lr=30", "--optim.clip=0", "--quiet"};
  succeed(diverging);
  const auto is_divergence = [](const json& line) {
    return line.value("event", "") == "divergence";
  };
  const std::vector<json> lines = metrics();
  EXPECT_EQ(std::ranges::count_if(lines, is_divergence), 1);

  Words stopping = diverging;
  stopping.insert(stopping.end(), {"--run.out=stopped", "--optim.on_divergence=stop"});
  const auto result = accrue(stopping);
  EXPECT_EQ(result.status, 1) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("a loss that does not diverge"));
  EXPECT_LT(steps_of(metrics("stopped")).size(), 4U);
}

TEST_F(TrainingRun, RefusesAKeyThatTheChosenKindsDoNotRead) {
  EXPECT_THAT(refused({"train", "run.toml", "--optim.momentum=0.5"}),
              HasSubstr("optim.kind = \"sgd\" or \"rmsprop\""));
  EXPECT_FALSE(exists("out"));
  succeed({"train", "run.toml"});
  EXPECT_THAT(file("out/config.toml"), ::testing::Not(HasSubstr("momentum")));
  // Earlier versions wrote all keys.
  std::string old = file("out/config.toml");
  old.insert(old.find("clip = "), "momentum = 0.9\n");
  write("out/config.toml", old);
  succeed({"train", "run.toml", "--resume"});
  succeed({"sample", "out", "--prompt=the"});
}

TEST_F(TrainingRun, IsMadeLongerWhenItIsResumed) {
  succeed({"train", "run.toml", "--run.out=straight", "--run.steps=9",
           "--optim.schedule.kind=constant"});
  const Words train{"train", "run.toml", "--optim.schedule.kind=constant"};
  const auto with = [&](const Words& more) {
    Words words = train;
    words.insert(words.end(), more.begin(), more.end());
    return accrue(words);
  };
  ASSERT_EQ(with({}).status, 0);
  const Program::Result longer = with({"--resume", "--run.steps=7"});
  EXPECT_EQ(longer.status, 0);
  EXPECT_THAT(longer.errors, HasSubstr("run.steps 4 -> 7: the learning rate of step 5 stays 0.01"));
  EXPECT_THAT(with({"--resume"}).errors, HasSubstr("not run.steps = 4 as the config file says"));
  EXPECT_THAT(with({"--resume", "--run.steps=6"}).errors, HasSubstr("at least the 7 steps"));
  // A changed config file has the same effect as the command line.
  const std::string config = read_file(folder_ / "run.toml");
  write("run.toml", std::regex_replace(config, std::regex("steps = 4"), "steps = 9"));
  EXPECT_EQ(with({"--resume"}).status, 0);
  const std::string model = "checkpoints/step-00000009/model.safetensors";
  EXPECT_EQ(read_file(folder_ / "out" / model), read_file(folder_ / "straight" / model));
  EXPECT_EQ(with({"--resume", "7", "--run.steps=8"}).status, 2) << "no such checkpoint is kept";
  EXPECT_EQ(with({"--resume", "8", "--run.steps=8"}).status, 0) << "the command makes it shorter";
  EXPECT_THAT(read_file(folder_ / "out/config.toml"), HasSubstr("steps = 8\n"));
}

}  // namespace
}  // namespace accrue::testing
