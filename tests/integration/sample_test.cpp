// The texts of a trained model, by `accrue sample`.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "accrue_program.h"
#include "core/atomic_file.h"

namespace accrue::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

/// A model of bytes that has learned the text a little: a run "out", exported as "model".
class Sample : public AccrueProgram {
 protected:
  void SetUp() override {
    AccrueProgram::SetUp();
    write_small_run();
    ASSERT_EQ(accrue({"train", "run.toml", "--run.steps=30"}).status, 0);
    ASSERT_EQ(accrue({"export", "out", "--out", "model"}).status, 0);
  }

  Program::Result sample(const std::string& from, Words more) const {
    more.insert(more.begin(), {"sample", from});
    return accrue(std::move(more));
  }
  std::string said(const std::string& from, Words more) const {
    const Program::Result result = sample(from, std::move(more));
    EXPECT_EQ(result.status, 0) << result.errors;
    // Nothing but the model's loading, which is shown when it takes longer than a second.
    EXPECT_THAT(result.errors, MatchesRegex("(loading [^\n]*\n)*"));
    return result.output;
  }
  json answer(const std::string& from, Words more) const {
    more.emplace_back("--json");
    return json::parse(said(from, std::move(more)));
  }
  std::string refusal(const std::string& from, Words more) const {
    const Program::Result result = sample(from, std::move(more));
    EXPECT_EQ(result.status, 2) << result.errors;
    EXPECT_EQ(result.output, "");
    return result.errors;
  }
};

TEST_F(Sample, OfARunAndOfItsExportedFolderIsTheSame) {
  const Words words{"--prompt", "the q", "--tokens", "40", "--seed", "3"};
  const std::string text = said("out", words);
  EXPECT_THAT(text, StartsWith("the q"));
  EXPECT_EQ(text.size(), 5u + 40u + 1u);
  EXPECT_EQ(said("model", words), text);
  EXPECT_EQ(said("out", words), text);
  EXPECT_NE(said("out", {"--prompt", "the q", "--tokens", "40", "--seed", "4"}), text);
  EXPECT_THAT(refusal("model", {"--prompt", "a", "--checkpoint", "4"}), HasSubstr("run folder"));
}

TEST_F(Sample, TellsOneObject) {
  const Words words{"--prompt", "the q", "--tokens", "7", "--seed", "3"};
  const json told = answer("out", words);
  EXPECT_EQ("the q" + told["text"].get<std::string>() + "\n", said("out", words));
  EXPECT_EQ(told["tokens"], 7);
  EXPECT_EQ(told["prompt_tokens"], 5);
  EXPECT_EQ(told["stopped"], "length");
  EXPECT_EQ(told["seed"], 3);
  EXPECT_GT(told["tokens_per_second"], 0);
  EXPECT_EQ(told.size(), 6u);
  const json nothing = answer("out", {"--prompt", "a", "--tokens", "0"});
  EXPECT_EQ(nothing["text"], "");
  EXPECT_FALSE(nothing.contains("tokens_per_second")) << "nothing was measured";
}

TEST_F(Sample, EndsBeforeAStopThatTokensDivide) {
  const Words words{"--prompt", "the q", "--tokens", "40", "--temperature", "0"};
  const std::string whole = answer("out", words)["text"];
  const std::string stop = whole.substr(9, 3);
  Words stopping = words;
  stopping.insert(stopping.end(), {"--stop", "no such text", "--stop", stop});
  const json told = answer("out", stopping);
  EXPECT_EQ(told["text"], whole.substr(0, whole.find(stop)));
  EXPECT_EQ(told["stopped"], "stop");
  EXPECT_THAT(refusal("out", {"--prompt", "a", "--stop", ""}), HasSubstr("--stop"));
}

TEST_F(Sample, EndsBeforeAnyEndTokenOfTheModel) {
  const Words words{"--prompt", "the q", "--tokens", "40", "--temperature", "0"};
  const std::string whole = answer("model", words)["text"];
  const char end = whole[8];
  write("model/generation_config.json",
        json{{"eos_token_id", {255, static_cast<unsigned char>(end)}}}.dump());
  const json told = answer("model", words);
  EXPECT_EQ(told["text"], whole.substr(0, whole.find(end)));
  EXPECT_EQ(told["stopped"], "eos");
  write("model/generation_config.json", R"({"eos_token_id": "end"})");
  EXPECT_THAT(refusal("model", words), HasSubstr("eos_token_id"));
}

TEST_F(Sample, RefusesWhatIsOutOfRangeOrDoesNotGoTogether) {
  const auto refused = [&](Words more) {
    more.insert(more.begin(), {"--prompt", "a"});
    return refusal("out", more);
  };
  EXPECT_THAT(refused({"--top-p", "0"}), HasSubstr("top_p"));
  EXPECT_THAT(refused({"--top-p", "1.5"}), HasSubstr("top_p"));
  EXPECT_THAT(refused({"--repetition-penalty", "0"}), HasSubstr("repetition_penalty"));
  EXPECT_THAT(refused({"--temperature", "nan"}), HasSubstr("temperature"));
  EXPECT_THAT(refused({"--tokens", "-1"}), HasSubstr("max_tokens"));
  EXPECT_THAT(refused({"--system", "be brief"}), HasSubstr("--chat"));
  EXPECT_THAT(refused({"--compute", "fp8"}), HasSubstr("--compute"));
  EXPECT_THAT(refused({"--chat"}), HasSubstr("chat template"));
  EXPECT_THAT(refusal("out", {}), HasSubstr("--prompt"));
  EXPECT_THAT(refusal("out", {"--chat", "--json"}), HasSubstr("--prompt"));
}

TEST_F(Sample, InAnotherPrecisionSaysTheSameOfAPlainText) {
  const Words words{"--prompt", "the q", "--tokens", "8", "--temperature", "0", "--compute"};
  const auto in = [&](const std::string& compute) {
    Words with = words;
    with.push_back(compute);
    return said("out", with);
  };
  EXPECT_EQ(in("fp64"), in("fp32"));
  EXPECT_EQ(in("bf16").size(), in("fp32").size());
}

TEST_F(Sample, BeyondTheContextSaysWhatIsSeen) {
  const Program::Result result =
      sample("out", {"--prompt", "the quick brown fox jumps", "--tokens", "20"});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.errors, HasSubstr("of 25 tokens the model sees the last 16"));
}

}  // namespace
}  // namespace accrue::testing
