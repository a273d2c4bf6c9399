// Text read by a tokenizer, from the first run to a model that others load.
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "accrue_program.h"
#include "core/atomic_file.h"
#include "small_tokenizer.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TokenizerRun : public AccrueProgram {
 protected:
  void SetUp() override {
    AccrueProgram::SetUp();
    write_small_run();
    fs::create_directories(folder_ / "words");
    write("words/tokenizer.json", small_tokenizer().dump());
    write("words/tokenizer_config.json", R"({"eos_token": "<end>"})");
  }

  Program::Result train(Words more) const {
    more.insert(more.begin(), {"train", "run.toml"});
    return accrue(std::move(more));
  }
  /// Writes a config without a model section, for runs that start from another model.
  void write_run_on(const std::string& name) const {
    write(name,
          "[run]\nout = \"runs/more\"\nsteps = 2\nthreads = 1\n[data]\ntrain = [\"text.txt\"]\n"
          "[batch]\nsamples = 8\nmicro = 4\n");
  }
  std::string file(const std::string& name) const { return read_file(folder_ / name); }
  /// The mean losses of a run's steps.
  std::vector<double> losses(const std::string& run) const {
    std::vector<double> losses;
    std::istringstream lines(file(run + "/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);)
      if (const json step = json::parse(line); step.contains("loss"))
        losses.push_back(step["loss"]);
    return losses;
  }
};

TEST_F(TokenizerRun, TrainsSamplesAndIsExportedWithItsTokenizer) {
  const Program::Result run = train({"--data.tokenizer=words", "--run.out=runs/a"});
  ASSERT_EQ(run.status, 0) << run.errors;
  EXPECT_EQ(file("runs/a/tokenizer/tokenizer.json"), file("words/tokenizer.json"));
  EXPECT_FALSE(fs::is_empty(folder_ / "runs/.accrue-text"));
  fs::remove_all(folder_ / "words");

  const Program::Result text =
      accrue({"sample", "runs/a", "--prompt", "the qu", "--tokens", "5", "--temperature", "0"});
  ASSERT_EQ(text.status, 0) << text.errors;
  EXPECT_THAT(text.output, ::testing::StartsWith("the qu"));

  ASSERT_EQ(accrue({"export", "runs/a", "--out", "model"}).status, 0);
  EXPECT_EQ(file("model/tokenizer.json"), file("runs/a/tokenizer/tokenizer.json"));
  EXPECT_TRUE(fs::exists(folder_ / "model/tokenizer_config.json"));
  EXPECT_EQ(json::parse(file("model/config.json"))["vocab_size"], 100);
  EXPECT_THAT(file("model/README.md"),
              AllOf(HasSubstr("`tokenizer.json` made tokens"), HasSubstr("AutoTokenizer")));
}

TEST_F(TokenizerRun, IsNotUsedWithATokenizerThatChangedSince) {
  ASSERT_EQ(train({"--data.tokenizer=words", "--run.out=runs/a"}).status, 0);
  EXPECT_EQ(accrue({"checkpoint", "verify", "runs/a"}).status, 0);
  write_run_on("more.toml");
  const std::string settings = "runs/a/tokenizer/tokenizer_config.json";
  std::string changed = file(settings);
  changed.replace(changed.find("<end>"), 5, "<and>");
  for (const char* damage : {"changed", "missing"}) {
    SCOPED_TRACE(damage);
    if (damage == std::string("changed"))
      write(settings, changed);
    else
      fs::remove(folder_ / settings);
    for (const Words& words : {Words{"sample", "runs/a", "--prompt", "the qu"},
                               Words{"export", "runs/a", "--out", "model"},
                               Words{"train", "more.toml", "--model.from=runs/a"}}) {
      const Program::Result refused = accrue(words);
      EXPECT_EQ(refused.status, 2) << words.front() << refused.errors;
      EXPECT_THAT(refused.errors, AllOf(HasSubstr("tokenizer_config.json as the run wrote it"),
                                        HasSubstr("try tokenizer_config.json of")));
    }
    EXPECT_FALSE(fs::exists(folder_ / "model"));
    EXPECT_EQ(accrue({"checkpoint", "verify", "runs/a"}).status, 1);
  }
  write(settings, file("words/tokenizer_config.json"));
  EXPECT_EQ(accrue({"sample", "runs/a", "--prompt", "the qu"}).status, 0);
}

TEST_F(TokenizerRun, GoesOnWithItsTokenizer) {
  ASSERT_EQ(train({"--data.tokenizer=words"}).status, 0);
  const Program::Result more = train({"--data.tokenizer=words", "--resume", "--run.steps=6"});
  EXPECT_EQ(more.status, 0) << more.errors;
  EXPECT_EQ(losses("out").size(), 6u);
  json other = small_tokenizer();
  other["model"]["merges"] = json::array({"t h", "th e"});
  write("words/tokenizer.json", other.dump());
  const Program::Result changed = train({"--data.tokenizer=words", "--resume", "--run.steps=8"});
  EXPECT_EQ(changed.status, 2) << "other tokens are other data";
  EXPECT_THAT(changed.errors, HasSubstr("expected tokenizer"));
}

TEST_F(TokenizerRun, OfAModelTakesTheModelsOwn) {
  ASSERT_EQ(train({"--data.tokenizer=words", "--run.out=runs/a"}).status, 0);
  ASSERT_EQ(accrue({"export", "runs/a", "--out", "model"}).status, 0);
  write_run_on("more.toml");
  for (const std::string from : {"model", "runs/a", "runs/a/checkpoints/step-00000004"}) {
    const Program::Result run = accrue({"train", "more.toml", "--model.from=" + from});
    EXPECT_EQ(run.status, 0) << from << run.errors;
    EXPECT_EQ(file("runs/more/tokenizer/tokenizer.json"), file("words/tokenizer.json")) << from;
    fs::remove_all(folder_ / "runs/more");
  }

  const auto refusal = [&](const std::string& tokenizer) {
    const Program::Result run =
        accrue({"train", "more.toml", "--model.from=model", "--data.tokenizer=" + tokenizer});
    EXPECT_EQ(run.status, 2) << run.errors;
    EXPECT_FALSE(fs::exists(folder_ / "runs/more"));
    return run.errors;
  };
  EXPECT_THAT(refusal("bytes"), HasSubstr("model/tokenizer.json"));
  json other = small_tokenizer();
  other["model"]["merges"] = json::array({"t h"});
  fs::create_directories(folder_ / "other");
  write("other/tokenizer.json", other.dump());
  EXPECT_THAT(refusal("other"), AllOf(HasSubstr("model/tokenizer.json"), HasSubstr("other")));
  EXPECT_THAT(refusal("nowhere.json"), HasSubstr("'nowhere.json', which is not there"));
  write("broken.json", "{");
  EXPECT_THAT(refusal("broken.json"), HasSubstr("no JSON object"));
}

TEST_F(TokenizerRun, OnTokenFilesIsTheRunOnText) {
  ASSERT_EQ(train({"--data.tokenizer=words", "--run.out=runs/text"}).status, 0);
  const Program::Result written =
      accrue({"tokenize", "run.toml", "--data.tokenizer=words", "--out", "ids", "--json"});
  ASSERT_EQ(written.status, 0) << written.errors;
  const json told = json::parse(written.output);
  EXPECT_EQ(told["vocab"], 100);
  ASSERT_EQ(told["files"].size(), 2u);
  std::int64_t tokens = 0;
  for (const json& one : told["files"]) {
    EXPECT_EQ(fs::file_size(folder_ / std::string(one["path"])),
              2 * one["tokens"].get<std::size_t>());
    tokens += one["tokens"].get<std::int64_t>();
  }
  EXPECT_EQ(told["tokens"], tokens);
  const Program::Result run =
      train({"--data.train=[\"ids/train.bin\"]", "--data.val=[\"ids/val.bin\"]",
             "--model.vocab=100", "--run.out=runs/ids"});
  ASSERT_EQ(run.status, 0) << run.errors;
  EXPECT_EQ(losses("runs/ids"), losses("runs/text"));

  const Program::Result again =
      accrue({"tokenize", "run.toml", "--data.tokenizer=words", "--out", "ids"});
  EXPECT_EQ(again.status, 2);
  EXPECT_THAT(again.errors, HasSubstr("train.bin"));
  const Program::Result of_ids = accrue({"tokenize", "run.toml", "--data.train=[\"ids/train.bin\"]",
                                         "--data.val=[\"ids/val.bin\"]", "--out", "more"});
  EXPECT_EQ(of_ids.status, 2);
  EXPECT_THAT(of_ids.errors, HasSubstr("tokens already"));
}

TEST_F(TokenizerRun, KeepsTokenFilesOutOfTheText) {
  fs::create_directory(folder_ / "texts");
  fs::copy_file(folder_ / "text.txt", folder_ / "texts/tale.txt");
  const auto tokenize = [&](const std::string& train, const std::string& out) {
    return accrue({"tokenize", "run.toml", "--data.train=[\"" + train + "\"]", "--out", out});
  };
  for (const char* out : {"texts", "texts/ids"}) {
    const Program::Result among = tokenize("texts/**", out);
    EXPECT_EQ(among.status, 2);
    EXPECT_THAT(among.errors, AllOf(HasSubstr("data.train = \"texts/**\", which would match " +
                                              std::string(out) + "/train.bin"),
                                    HasSubstr("another --out")));
  }
  EXPECT_FALSE(fs::exists(folder_ / "texts/ids"));
  EXPECT_FALSE(fs::exists(folder_ / "texts/train.bin"));

  EXPECT_EQ(tokenize("texts/*.txt", "texts").status, 0) << "the pattern leaves them out";
  EXPECT_TRUE(fs::exists(folder_ / "texts/train.bin"));
  for (const char* name : {"texts/train.bin", "texts/val.bin"}) fs::remove(folder_ / name);
  EXPECT_EQ(tokenize("texts/**", "ids").status, 0);
}

TEST_F(TokenizerRun, IsEvaluatedOnFilesAsDuringTraining) {
  write("held.txt", "the quick lazy dog jumps over the brown fox\nthe fox is quick, the dog not\n");
  ASSERT_EQ(
      train({"--data.tokenizer=words", "--data.val=[\"held.txt\"]", "--run.out=runs/a"}).status, 0);
  ASSERT_EQ(accrue({"export", "runs/a", "--out", "model"}).status, 0);
  double during = 0;
  std::istringstream lines(file("runs/a/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);)
    if (const json one = json::parse(line); one.contains("eval_loss")) during = one["eval_loss"];
  for (const std::string from : {"runs/a", "runs/a/checkpoints/step-00000004", "model"}) {
    const Program::Result result = accrue({"eval", from, "--data", "held.txt", "--json"});
    ASSERT_EQ(result.status, 0) << result.errors;
    const json told = json::parse(result.output);
    EXPECT_NEAR(told["loss"].get<double>(), during, 1e-6 * during) << from;
    EXPECT_NEAR(told["perplexity"].get<double>(), std::exp(told["loss"].get<double>()), 1e-9);
    EXPECT_EQ(told["tokens"], 16 * told["samples"].get<int>());
  }
  const Program::Result shorter =
      accrue({"eval", "model", "--data", "held.txt", "--context", "8", "--json"});
  EXPECT_EQ(json::parse(shorter.output)["tokens"],
            8 * json::parse(shorter.output)["samples"].get<int>());
  EXPECT_EQ(accrue({"eval", "nowhere", "--data", "held.txt"}).status, 2);
  EXPECT_EQ(accrue({"eval", "model", "--data", "nowhere.txt"}).status, 2);
  EXPECT_FALSE(fs::exists(folder_ / ".accrue-text"));
  write("short.txt", "the dog");
  const Program::Result all = accrue({"eval", "model", "--data", "short.txt", "--json"});
  ASSERT_EQ(all.status, 0) << all.errors;
  const json of_all = json::parse(all.output);
  EXPECT_EQ(of_all["samples"], 1);
  const std::string context = std::to_string(of_all["tokens"].get<int>());
  EXPECT_THAT(of_all["remarks"].dump(), HasSubstr("evaluated as with --context " + context));
  const Program::Result stated =
      accrue({"eval", "model", "--data", "short.txt", "--json", "--context", context});
  EXPECT_EQ(json::parse(stated.output)["loss"], of_all["loss"]);
  EXPECT_EQ(json::parse(stated.output)["remarks"].dump().find("--context"), std::string::npos);
  const Program::Result longer =
      accrue({"eval", "model", "--data", "short.txt", "--context", "16"});
  EXPECT_EQ(longer.status, 2);
  EXPECT_THAT(longer.errors,
              AllOf(HasSubstr("a context of 16"), HasSubstr("try --context " + context)));
  write("one.txt", "t");
  EXPECT_THAT(accrue({"eval", "model", "--data", "one.txt"}).errors,
              HasSubstr("try more text; --context"));
}

TEST_F(TokenizerRun, DataTellsWhatIsLearned) {
  write("lines.jsonl",
        "{\"prompt\": \"the quick\", \"completion\": \" fox\"}\n"
        "{\"text\": \"the fox\"}\n"
        "{\"prompt\": \"the quick\", \"completion\": \" fox\"}\n");
  const Words command{"data",
                      "run.toml",
                      "--data.tokenizer=words",
                      "--data.train=[\"lines.jsonl\"]",
                      "--data.val_fraction=0",
                      "--batch.samples=3",
                      "--batch.micro=3"};
  Words with_json = command;
  with_json.push_back("--json");
  const Program::Result result = accrue(with_json);
  ASSERT_EQ(result.status, 0) << result.errors;
  const json told = json::parse(result.output);
  const json& train = told["train"];
  EXPECT_EQ(train["samples"], 3);
  EXPECT_EQ(train["duplicates"], 1);
  // "the", "Ġ", "qu", "i", "c", "k" are given; "Ġ", "f", "o", "x" and the end are learned.
  EXPECT_EQ(train["lengths"]["most"], 10);
  const json& parts = train["shown"][0]["parts"];
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0], (json{{"text", "the quick"}, {"tokens", 6}, {"learned", false}}));
  EXPECT_EQ(parts[1], (json{{"text", " fox<end>"}, {"tokens", 5}, {"learned", true}}));
  EXPECT_EQ(train["learned_tokens"], 5 + 5 + 5);
  EXPECT_EQ(told["window"]["tokens"], train["tokens"]);
  EXPECT_NEAR(told["window"]["padding"].get<double>(), 1 - 25.0 / 30, 1e-12);
  const Program::Result read = accrue(command);
  EXPECT_THAT(read.output, AllOf(HasSubstr("given"), HasSubstr("\" fox<end>\"")));
}

TEST_F(TokenizerRun, IsProvedAndPlannedAsAnyOther) {
  for (const char* verb : {"verify", "plan", "doctor"}) {
    const Program::Result result = accrue({verb, "run.toml", "--data.tokenizer=words"});
    EXPECT_EQ(result.status, 0) << verb << result.errors;
  }
}

}  // namespace
}  // namespace accrue::testing
