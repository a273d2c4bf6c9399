// Run folders and checkpoints that somebody has changed.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "accrue_program.h"
#include "core/atomic_file.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class RunFolder : public AccrueProgram {
 protected:
  void SetUp() override {
    AccrueProgram::SetUp();
    write_small_run();
    fs::create_directories(folder_ / "second");
  }

  std::string file(const std::string& name) const {
    std::ifstream stream(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  void flip_a_bit(const std::string& name) const {
    std::string content = file(name);
    content[content.size() - 3] = static_cast<char>(content[content.size() - 3] ^ 1);
    write(name, content);
  }
};

TEST_F(RunFolder, AUsersFileInItsPlaceIsLeftAlone) {
  write("file", "a user's");
  fs::create_symlink("file", folder_ / "link");
  for (const char* out : {"file", "link"}) {
    const Program::Result result = accrue({"train", "run.toml", "--run.out=" + std::string(out)});
    EXPECT_EQ(result.status, 2) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr("a file"));
    EXPECT_EQ(file(out), "a user's");
  }
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
}

TEST_F(RunFolder, WhoseRunJsonChangedIsNotGoneOnWithAndNothingIsLost) {
  ASSERT_EQ(accrue({"train", "run.toml", "--run.threads=1"}).status, 0);
  const std::string whole = read_file(folder_ / "out/run.json");
  std::string changed = whole;
  const std::size_t place = changed.find("\"weight_decay\": 0.");
  ASSERT_NE(place, changed.npos);
  changed[place + 19] = '7';
  write("out/run.json", changed);
  for (const Words& words :
       {Words{"train", "--repeat", "out", "--run.out=again"},
        Words{"train", "run.toml", "--resume", "--run.steps=6"}, Words{"compare", "out", "out"}}) {
    const Program::Result refused = accrue(words);
    EXPECT_EQ(refused.status, 2) << refused.errors;
    EXPECT_THAT(refused.errors, HasSubstr("run.json"));
  }
  EXPECT_EQ(read_file(folder_ / "out/run.json"), changed);
  EXPECT_THAT(accrue({"runs", "."}).output, HasSubstr("run.json: it changed"));
  EXPECT_EQ(accrue({"checkpoint", "verify", "out"}).status, 1);
  fs::remove(folder_ / "out/run.json");
  EXPECT_EQ(accrue({"train", "run.toml", "--resume", "--run.steps=6"}).status, 0)
      << "as the refusal advises";
}

TEST_F(RunFolder, WhoseMetricsChangedIsNotCompared) {
  ASSERT_EQ(accrue({"train", "run.toml"}).status, 0);
  ASSERT_EQ(accrue({"compare", "out", "out"}).status, 0);
  std::string metrics = read_file(folder_ / "out/metrics.jsonl");
  const std::size_t place = metrics.rfind("\"eval_loss\":");
  ASSERT_NE(place, metrics.npos);
  metrics[place + 12] = metrics[place + 12] == '1' ? '2' : '1';
  write("out/metrics.jsonl", metrics);
  const Program::Result compared = accrue({"compare", "out", "out"});
  EXPECT_EQ(compared.status, 2) << compared.output;
  EXPECT_THAT(compared.errors, HasSubstr("metrics.jsonl: it is not as the run wrote it"));
  for (const Words& words : {Words{"runs", "."}, Words{"report", "out", "--out", "page.html"}}) {
    const Program::Result shown = accrue(words);
    EXPECT_EQ(shown.status, 0);
    EXPECT_THAT(shown.output + shown.errors, HasSubstr("it is not as the run wrote it"));
  }
}

TEST_F(RunFolder, CheckpointsAreVerifiedListedAndPruned) {
  ASSERT_EQ(accrue({"train", "run.toml", "--run.checkpoint_every=1", "--run.keep=9"}).status, 0);
  EXPECT_EQ(accrue({"checkpoint", "verify", "out"}).status, 0);

  flip_a_bit("out/checkpoints/step-00000002/optimizer.safetensors");
  const Program::Result verified = accrue({"checkpoint", "verify", "out", "--json"});
  EXPECT_EQ(verified.status, 1);
  const auto report = nlohmann::json::parse(verified.output);
  EXPECT_FALSE(report["whole"]);
  ASSERT_EQ(report["checkpoints"].size(), 4u);
  EXPECT_TRUE(report["checkpoints"][0]["whole"]);
  EXPECT_THAT(report["checkpoints"][1]["damage"].get<std::string>(),
              HasSubstr("optimizer.safetensors"));
  EXPECT_TRUE(report["checkpoints"][3].contains("best_eval_loss"));

  const Program::Result listed = accrue({"checkpoint", "list", "out"});
  EXPECT_EQ(listed.status, 0);
  EXPECT_THAT(listed.output, AllOf(HasSubstr("step 1 "), HasSubstr("step 4 "), HasSubstr("best")));

  EXPECT_EQ(accrue({"checkpoint", "prune", "out", "--keep", "1"}).status, 0);
  EXPECT_TRUE(fs::exists(folder_ / "out/checkpoints/step-00000002")) << "damaged ones stay";
  EXPECT_FALSE(fs::exists(folder_ / "out/checkpoints/step-00000003"));
  EXPECT_EQ(accrue({"checkpoint", "prune", "out", "--damaged"}).status, 0);
  EXPECT_FALSE(fs::exists(folder_ / "out/checkpoints/step-00000002"));
  EXPECT_EQ(accrue({"checkpoint", "verify", "out"}).status, 0);

  EXPECT_EQ(accrue({"checkpoint", "verify", "second"}).status, 2) << "it holds no run";
  EXPECT_EQ(accrue({"checkpoint"}).status, 2);
}

TEST_F(RunFolder, SamplingFromADamagedCheckpointNamesTheTensor) {
  ASSERT_EQ(accrue({"train", "run.toml"}).status, 0);
  flip_a_bit("out/checkpoints/step-00000004/model.safetensors");
  const Program::Result result = accrue({"sample", "out", "--prompt", "a"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.errors, AllOf(HasSubstr("model.safetensors"), HasSubstr("tensor \"")));
  EXPECT_EQ(accrue({"sample", "out", "--prompt", "a", "--checkpoint", "2"}).status, 0);
}

}  // namespace
}  // namespace accrue::testing
