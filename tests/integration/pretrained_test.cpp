// A newcomer's steps with a pretrained model.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "accrue_program.h"
#include "core/atomic_file.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// A model that was trained on bytes and exported, as "base".
class Pretrained : public AccrueProgram {
 protected:
  void SetUp() override {
    AccrueProgram::SetUp();
    write_small_run();
    ASSERT_EQ(accrue({"train", "run.toml", "--run.out=first"}).status, 0);
    ASSERT_EQ(accrue({"export", "first", "--out", "base"}).status, 0);
    write("more.toml",
          "[run]\nout = \"out\"\nsteps = 2\nthreads = 1\n[data]\ntrain = [\"text.txt\"]\n"
          "[batch]\nsamples = 8\nmicro = 4\n[model]\nfrom = \"base\"\n");
  }

  Program::Result train(Words more = {}) const {
    more.insert(more.begin(), {"train", "more.toml"});
    return accrue(std::move(more));
  }
  std::string refusal(Words more = {}) const {
    const Program::Result result = train(std::move(more));
    EXPECT_EQ(result.status, 2) << result.errors;
    EXPECT_FALSE(fs::exists(folder_ / "out"));
    return result.errors;
  }
  void remove(const std::string& name) const { fs::remove_all(folder_ / name); }
};

TEST_F(Pretrained, OnBytesTakesText) {
  const Program::Result result = train();
  EXPECT_EQ(result.status, 0) << result.errors;
}

TEST_F(Pretrained, SaysWhereTheWeightsCameFrom) {
  for (const char* from : {"base", "first"}) {
    const Program::Result result = train({"--dry-run", "--model.from=" + std::string(from)});
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(result.output, AllOf(HasSubstr("the model starts as " + std::string(from)),
                                     HasSubstr(" has it: 21.5 k parameters")));
  }
  const Program::Result trained = train();
  EXPECT_THAT(trained.errors, HasSubstr("model: the model starts as base has it: "));
}

TEST_F(Pretrained, WithAnotherTokenizerRefusesText) {
  write("base/vocab.json", "{}");
  const std::string text = refusal();
  EXPECT_THAT(text, AllOf(HasSubstr("data.train"), HasSubstr("base/vocab.json"),
                          HasSubstr("data.format = \"tokens\""), HasSubstr("input_ids")));
  for (const char* verb : {"plan", "verify", "bench", "doctor"})
    EXPECT_EQ(accrue({verb, "more.toml"}).status, 2) << verb;

  write("lines.jsonl", "{\"prompt\": \"a\", \"completion\": \"b\"}\n");
  EXPECT_THAT(refusal({"--data.train=[\"lines.jsonl\"]"}), HasSubstr("base/vocab.json"));
  write("ids.jsonl", "{\"input_ids\": [1, 2, 3], \"labels\": [1, 2, 3]}\n");
  EXPECT_THAT(refusal({"--data.train=[\"ids.jsonl\"]", "--data.val=[\"text.txt\"]"}),
              AllOf(HasSubstr("data.val"), HasSubstr("base/vocab.json")));
  const Program::Result ids = train({"--data.train=[\"ids.jsonl\"]"});
  EXPECT_EQ(ids.status, 0) << "ids are made with that tokenizer: " << ids.errors;
}

TEST_F(Pretrained, WithoutATokenizerTakesTextWhereItsVocabularyIsThatOfBytes) {
  remove("base/tokenizer.json");
  remove("base/tokenizer_config.json");
  const Program::Result bytes = train();
  EXPECT_EQ(bytes.status, 0) << bytes.errors;

  remove("out");
  ASSERT_EQ(accrue({"train", "run.toml", "--run.out=wide", "--model.vocab=300"}).status, 0);
  ASSERT_EQ(accrue({"export", "wide", "--out", "words"}).status, 0);
  EXPECT_EQ(train({"--model.from=words"}).status, 0) << "it was trained on bytes";
  remove("words/tokenizer.json");
  remove("words/tokenizer_config.json");
  remove("out");
  EXPECT_THAT(refusal({"--model.from=words"}),
              AllOf(HasSubstr("vocabulary is 300"), HasSubstr("input_ids")));
}

TEST_F(Pretrained, IsARunFolderForEveryVerb) {
  const Program::Result result = train({"--model.from=first"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("first/checkpoints/step-00000004"));
  for (const char* verb : {"plan", "verify", "doctor"}) {
    const Program::Result other = accrue({verb, "more.toml", "--model.from=first"});
    EXPECT_EQ(other.status, 0) << verb << other.errors;
  }
  EXPECT_EQ(accrue({"bench", "more.toml", "--model.from=first", "--rounds", "1"}).status, 0);
  const Program::Result estimate =
      accrue({"plan", "more.toml", "--model.from=first", "--estimate", "--json"});
  EXPECT_EQ(nlohmann::json::parse(estimate.output)["parameters"],
            nlohmann::json::parse(read_file(folder_ / "first" / "run.json"))["parameters"])
      << "the shape is the run's";

  remove("out");
  EXPECT_THAT(refusal({"--model.from=first/checkpoints/step-00000099"}),
              HasSubstr("no such folder"));
  EXPECT_THAT(refusal({"--model.from=first", "--model.width=64"}),
              HasSubstr("expected model.width = 32, as the run in model.from has it"));
}

TEST_F(Pretrained, MayBeShortened) {
  const Program::Result result = train({"--model.context=8"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("model.context = 8 of the model's 16"));
  ASSERT_EQ(accrue({"export", "out", "--out", "shorter"}).status, 0);
  const auto config = nlohmann::json::parse(read_file(folder_ / "shorter/config.json"));
  EXPECT_EQ(config["n_positions"], 8);
  EXPECT_EQ(accrue({"train", "more.toml", "--model.context=8", "--resume"}).status, 0);
  EXPECT_THAT(accrue({"train", "more.toml", "--resume"}).errors,
              HasSubstr("model.context = not stated (was 8)"));
  remove("out");
  EXPECT_THAT(refusal({"--model.context=17"}), HasSubstr("16 positions"));
}

}  // namespace
}  // namespace accrue::testing
