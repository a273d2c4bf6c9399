// Runs that export a GGUF file, and runs that start from one.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "accrue_program.h"
#include "core/atomic_file.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// A llama that was trained on bytes and exported, as "model/model.gguf".
class GgufRun : public AccrueProgram {
 protected:
  void SetUp() override {
    AccrueProgram::SetUp();
    write_small_run();
    succeed({"train", "run.toml", "--run.out=first", "--model.kind=llama", "--run.steps=2"});
    succeed({"export", "first", "--format", "gguf", "--dtype", "f32", "--out", "model"});
    write("more.toml",
          "[run]\nout = \"out\"\nsteps = 2\nthreads = 1\n[data]\ntrain = [\"text.txt\"]\n"
          "[batch]\nsamples = 8\nmicro = 4\n[model]\nfrom = \"model/model.gguf\"\n");
  }

  std::string succeed(Words words) const {
    const Program::Result result = accrue(std::move(words));
    EXPECT_EQ(result.status, 0) << result.errors;
    return result.output;
  }
  std::string refused(Words words) const {
    const Program::Result result = accrue(std::move(words));
    EXPECT_EQ(result.status, 2) << result.output << result.errors;
    return result.errors;
  }
};

TEST_F(GgufRun, HasTheLossOfTheRunThatItCameFrom) {
  const auto loss_of = [&](const std::string& model) {
    return nlohmann::json::parse(succeed({"eval", model, "--data", "text.txt", "--json"}))["loss"];
  };
  EXPECT_EQ(loss_of("model/model.gguf"), loss_of("first"));
  succeed({"export", "first", "--format", "gguf", "--dtype", "q8_0", "--out", "small"});
  const double loss = loss_of("first"), packed = loss_of("small/model.gguf");
  EXPECT_NE(packed, loss);
  EXPECT_NEAR(packed, loss, 0.01 * loss);
}

TEST_F(GgufRun, SaysTheSameAsTheRun) {
  const auto text_of = [&](const std::string& model) {
    return succeed({"sample", model, "--prompt", "a", "--tokens", "8", "--temperature", "0"});
  };
  EXPECT_EQ(text_of("model/model.gguf"), text_of("first"));
}

TEST_F(GgufRun, IsTrainedOnWithTheTokenizerInIt) {
  succeed({"train", "more.toml"});
  EXPECT_TRUE(fs::exists(folder_ / "out/tokenizer/tokenizer.json"));
  succeed({"export", "out", "--format", "gguf", "--out", "again"});
  succeed({"sample", "out", "--prompt", "a", "--tokens", "4"});
  EXPECT_TRUE(fs::exists(folder_ / "again/README.md"));
}

TEST_F(GgufRun, OfADamagedFileIsRefusedBeforeItBegins) {
  const std::string whole = read_file(folder_ / "model/model.gguf");
  for (const std::size_t length :
       {std::size_t{3}, std::size_t{40}, whole.size() / 2, whole.size() - 64}) {
    write("cut.gguf", whole.substr(0, length));
    EXPECT_THAT(refused({"train", "more.toml", "--model.from=cut.gguf"}), HasSubstr("cut.gguf"));
    EXPECT_FALSE(fs::exists(folder_ / "out"));
  }
}

TEST_F(GgufRun, ExportSaysWhatGoesTogether) {
  EXPECT_THAT(refused({"export", "first", "--out", "m", "--dtype", "f16"}),
              HasSubstr("--dtype with --format gguf"));
  EXPECT_THAT(refused({"export", "first", "--out", "m", "--adapter"}),
              HasSubstr("--adapter with --format gguf"));
  EXPECT_THAT(refused({"export", "first", "--out", "m", "--format", "gguf", "--adapter"}),
              HasSubstr("a model that has adapters"));
  EXPECT_THAT(refused({"export", "first", "--out", "m", "--nearest-tokenizer"}),
              HasSubstr("--nearest-tokenizer with --format gguf"));
  EXPECT_THAT(refused({"train", "more.toml", "--model.kind=gpt2"}), HasSubstr("a GGUF file"));
}

TEST_F(GgufRun, ThatIsRefusedLeavesNothing) {
  fs::create_directory(folder_ / "empty");
  EXPECT_THAT(refused({"export", "first", "--out", "empty", "--format", "gguf", "--adapter"}),
              HasSubstr("a model that has adapters"));
  succeed({"train", "run.toml", "--run.out=narrow", "--model.width=24", "--model.heads=2",
           "--run.steps=1"});
  EXPECT_THAT(refused({"export", "narrow", "--out", "a/m", "--format", "gguf", "--dtype", "q8_0"}),
              HasSubstr("rows of a multiple of 32"));
  EXPECT_FALSE(fs::exists(folder_ / "a"));
  EXPECT_TRUE(fs::is_empty(folder_ / "empty"));
}

TEST_F(GgufRun, OfATokenizerThatGgufCannotStateIsRefusedOrTheNearest) {
  succeed({"export", "first", "--out", "hf"});
  nlohmann::json tokenizer = nlohmann::json::parse(read_file(folder_ / "hf/tokenizer.json"));
  tokenizer["normalizer"] = {{"type", "NFC"}};
  fs::create_directory(folder_ / "nfc");
  write("nfc/tokenizer.json", tokenizer.dump());
  succeed({"train", "run.toml", "--run.out=of-nfc", "--model.kind=llama", "--run.steps=1",
           "--data.tokenizer=nfc/tokenizer.json"});
  EXPECT_THAT(refused({"export", "of-nfc", "--format", "gguf", "--out", "m"}),
              AllOf(HasSubstr("NFC"), HasSubstr("--nearest-tokenizer")));
  EXPECT_FALSE(fs::exists(folder_ / "m"));
  const Program::Result nearest =
      accrue({"export", "of-nfc", "--format", "gguf", "--out", "m", "--nearest-tokenizer"});
  EXPECT_EQ(nearest.status, 0) << nearest.errors;
  EXPECT_THAT(nearest.errors, HasSubstr("note: text that is not in NFC becomes other tokens"));
  EXPECT_THAT(read_file(folder_ / "m/README.md"), HasSubstr("- text that is not in NFC"));
}

/// A GPT-2 is exported and imported: the file determines model.kind.
TEST_F(GgufRun, OfAGpt2IsTheSameModel) {
  succeed({"train", "run.toml", "--run.out=gpt2", "--run.steps=2"});
  succeed({"export", "gpt2", "--format", "gguf", "--dtype", "f32", "--out", "exported"});
  EXPECT_THAT(read_file(folder_ / "exported/README.md"), HasSubstr("A GPT-2 model"));
  const auto loss_of = [&](const std::string& model) {
    return nlohmann::json::parse(succeed({"eval", model, "--data", "text.txt", "--json"}))["loss"];
  };
  EXPECT_EQ(loss_of("exported/model.gguf"), loss_of("gpt2"));
  const auto text_of = [&](const std::string& model) {
    return succeed({"sample", model, "--prompt", "a", "--tokens", "8", "--temperature", "0"});
  };
  EXPECT_EQ(text_of("exported/model.gguf"), text_of("gpt2"));
  succeed({"train", "more.toml", "--model.from=exported/model.gguf"});
  succeed({"export", "out", "--format", "gguf", "--out", "again"});
  succeed({"train", "more.toml", "--run.out=shorter", "--model.from=exported/model.gguf",
           "--model.context=8"});
  EXPECT_THAT(refused({"train", "more.toml", "--run.out=x", "--model.kind=llama",
                       "--model.from=exported/model.gguf"}),
              HasSubstr("model.kind = \"gpt2\""));
}

TEST_F(GgufRun, OfAdaptersIsWrittenMergedOrApart) {
  succeed({"train", "more.toml", "--lora.rank=2"});
  succeed({"export", "out", "--format", "gguf", "--out", "merged"});
  succeed({"export", "out", "--format", "gguf", "--adapter", "--out", "apart"});
  EXPECT_LT(fs::file_size(folder_ / "apart/adapter.gguf"),
            fs::file_size(folder_ / "merged/model.gguf"));
}

}  // namespace
}  // namespace accrue::testing
