// The text caches next to runs: a damaged one is made again, and training has the bits of a fresh
// cache.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "accrue_program.h"
#include "core/atomic_file.h"
#include "core/sealed_file.h"
#include "small_tokenizer.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// A way to damage a cached file.
struct Damage {
  std::string name;
  std::string bytes;
};

std::vector<Damage> damages_of(const std::string& whole) {
  constexpr std::size_t seal = 32;
  const auto flipped = [&](std::size_t at) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    return bytes;
  };
  return {{"its first byte", flipped(0)},
          {"its middle", flipped((whole.size() - seal) / 2)},
          {"its last byte", flipped(whole.size() - seal - 1)},
          {"the seal's magic number", flipped(whole.size() - seal)},
          {"the seal's length", flipped(whole.size() - seal + 8)},
          {"the seal's checksum", flipped(whole.size() - 1)},
          {"empty", ""},
          {"one byte less", whole.substr(0, whole.size() - 1)},
          {"without its seal", whole.substr(0, whole.size() - seal)},
          {"one byte more", whole + '\0'}};
}

class KeptText : public AccrueProgram, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    AccrueProgram::SetUp();
    write_small_run();
    fs::create_directories(folder_ / "words");
    write("words/tokenizer.json", small_tokenizer().dump());
    std::string lines;
    for (int i = 0; i < 60; ++i)
      lines += json{{"text", "the fox " + std::to_string(i * 7919 % 1000)}}.dump() + "\n";
    write("text.jsonl", lines);
  }

  Program::Result train(const std::string& out, const Words& more = {}) const {
    Words words{"train",
                "run.toml",
                "--data.tokenizer=words",
                "--run.out=" + out,
                "--batch.tokens=64",
                std::string("--data.train=") + GetParam()};
    words.insert(words.end(), more.begin(), more.end());
    return accrue(words);
  }
  std::string model_of(const std::string& out, int step = 4) const {
    return read_file(folder_ / out / ("checkpoints/step-0000000" + std::to_string(step)) /
                     "model.safetensors");
  }
  std::vector<fs::path> kept() const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder_ / ".accrue-text"))
      if (entry.path().filename() != ".lock") files.push_back(entry.path());
    return files;
  }
};

TEST_P(KeptText, IsMadeAgainWhereItIsDamaged) {
  ASSERT_EQ(train("fresh").status, 0);
  ASSERT_EQ(kept().size(), 1u);
  const fs::path file = kept().front();
  const std::string whole = read_file(file);
  for (const Damage& damage : damages_of(whole)) {
    write_file_atomically(file, damage.bytes);
    fs::remove_all(folder_ / "out");
    const Program::Result run = train("out");
    EXPECT_EQ(run.status, 0) << damage.name << run.errors;
    EXPECT_THAT(run.errors,
                AllOf(HasSubstr(file.filename().string()), HasSubstr("it is made again")))
        << damage.name;
    EXPECT_THAT(read_file(folder_ / "out/metrics.jsonl"), HasSubstr("it is made again"));
    EXPECT_TRUE(model_of("out") == model_of("fresh")) << damage.name;
    EXPECT_EQ(read_file(file), whole) << damage.name;
  }
}

TEST_P(KeptText, ThatIsWholeIsNotSpokenOf) {
  ASSERT_EQ(train("fresh").status, 0);
  EXPECT_THAT(train("out").errors, Not(HasSubstr("made again")));
}

TEST_P(KeptText, IsMadeAgainAsARunGoesOn) {
  ASSERT_EQ(train("whole", {"--run.steps=6", "--optim.schedule.kind=constant"}).status, 0);
  ASSERT_EQ(train("out", {"--optim.schedule.kind=constant"}).status, 0);
  const fs::path file = kept().front();
  std::string bytes = read_file(file);
  bytes[bytes.size() / 3] ^= 4;
  write_file_atomically(file, bytes);
  const Program::Result run =
      train("out", {"--resume", "--run.steps=6", "--optim.schedule.kind=constant"});
  EXPECT_EQ(run.status, 0) << run.errors;
  EXPECT_THAT(run.errors, HasSubstr("it is made again"));
  EXPECT_TRUE(model_of("out", 6) == model_of("whole", 6));
}

INSTANTIATE_TEST_SUITE_P(Kinds, KeptText, ::testing::Values("text.txt", "text.jsonl"),
                         [](const auto& test) {
                           return fs::path(test.param).extension().string().substr(1);
                         });

/// The comparison detects other tokens, if they are sealed as if they were genuine.
class OtherTokens : public KeptText {};

TEST_P(OtherTokens, GiveAnotherModel) {
  ASSERT_EQ(train("fresh").status, 0);
  const fs::path file = kept().front();
  std::string content = read_file(file).substr(0, fs::file_size(file) - 32);
  // The first of each eight bytes is the low byte of an id, whether ids take two bytes or four.
  for (std::size_t i = 0; i < content.size(); i += 8) content[i] ^= 1;
  SealedFile sealed(file);
  sealed.write(content);
  sealed.commit();
  ASSERT_EQ(train("out").status, 0);
  EXPECT_FALSE(model_of("out") == model_of("fresh"));
}

INSTANTIATE_TEST_SUITE_P(Kinds, OtherTokens, ::testing::Values("text.txt"));

}  // namespace
}  // namespace accrue::testing
