// The command line of accrue train --repeat.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "accrue_program.h"
#include "core/atomic_file.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Repeat : public AccrueProgram {
 protected:
  void SetUp() override {
    AccrueProgram::SetUp();
    write_small_run();
    ASSERT_EQ(accrue({"train", "run.toml", "--precision.accumulate=fixed"}).status, 0);
  }

  std::string model_of(const std::string& run) const {
    return read_file(folder_ / run / "checkpoints/step-00000004/model.safetensors");
  }
  std::string refusal_of(Words words) const {
    const Program::Result result = accrue(std::move(words));
    EXPECT_EQ(result.status, 2) << result.errors;
    EXPECT_EQ(std::ranges::count(result.errors, '\n'), 1) << result.errors;
    EXPECT_FALSE(fs::exists(folder_ / "second"));
    return result.errors;
  }
};

TEST_F(Repeat, TrainsTheSameModelFromTheRunAlone) {
  fs::remove(folder_ / "run.toml");
  const Program::Result result = accrue({"train", "--repeat", "out", "--run.out=second"});
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(model_of("second"), model_of("out"));
  EXPECT_THAT(result.errors, HasSubstr("the same bits are to be expected"));
  EXPECT_THAT(result.output, HasSubstr("second"));
  const auto config = [&](const std::string& run) {
    return nlohmann::json::parse(read_file(folder_ / run / "run.json"))["config"];
  };
  nlohmann::json expected = config("out");
  expected["run"]["out"] = "second";
  EXPECT_EQ(config("second"), expected);

  const Program::Result other =
      accrue({"train", "--repeat=out", "--run.out=third", "--optim.lr=2e-2"});
  ASSERT_EQ(other.status, 0) << other.errors;
  EXPECT_NE(model_of("third"), model_of("out")) << "the control";
  EXPECT_THAT(other.errors, HasSubstr("optim.lr = 0.02 (was 0.01)"));
}

TEST_F(Repeat, SaysBeforehandWhatItWouldBe) {
  const Program::Result result =
      accrue({"train", "--repeat", "out", "--run.out=second", "--run.seed=7", "--dry-run"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("by the plan that it had"), HasSubstr("run.seed = 7 (was 1337)"),
                    HasSubstr("because of: run.seed")));
  EXPECT_FALSE(fs::exists(folder_ / "second"));
}

TEST_F(Repeat, IsRefusedWithoutAFolderOfItsOwn) {
  EXPECT_THAT(refusal_of({"train", "--repeat", "out"}), HasSubstr("--run.out=NEW"));
  EXPECT_THAT(refusal_of({"train", "--repeat", "out", "--run.out=out"}),
              HasSubstr("holds a run already"));
  EXPECT_THAT(refusal_of({"train", "--repeat", "missing", "--run.out=second"}),
              HasSubstr("expected a run folder"));
  EXPECT_THAT(refusal_of({"train", "run.toml", "--repeat", "out", "--run.out=second"}),
              HasSubstr("--repeat"));
  EXPECT_THAT(refusal_of({"train", "--repeat", "out", "--resume", "--run.out=second"}),
              HasSubstr("--repeat"));
  EXPECT_THAT(refusal_of({"train", "--repeat", "out", "--run.out=second", "--optim.rate=1"}),
              HasSubstr("optim.rate"));
}

TEST_F(Repeat, OfARunOfAnEarlierVersionIsOneClearError) {
  write("out/run.json", R"({"command": ["accrue"], "machine": {"threads": 1}, "resumed": [],
    "seed": 1337, "started": "2026-01-01T00:00:00Z", "versions": {"accrue": "0.1.0"}})");
  EXPECT_THAT(refusal_of({"train", "--repeat", "out", "--run.out=second"}),
              AllOf(HasSubstr("an earlier version"), HasSubstr("accrue train out/config.toml")));
}

TEST_F(Repeat, NamesFilesThatAreNotWhatTheyWere) {
  const Words again{"train", "--repeat", "out", "--run.out=second"};
  std::ofstream(folder_ / "text.txt", std::ios::app) << "more";
  EXPECT_THAT(refusal_of(again), AllOf(HasSubstr("text.txt grew from 17,600 bytes to 17,604"),
                                       HasSubstr("--accept-data")));
  std::string text = read_file(folder_ / "text.txt");
  text.resize(17'600);
  text[100] = '#';
  write("text.txt", text);
  EXPECT_THAT(refusal_of(again), HasSubstr("text.txt has other content"));
  fs::rename(folder_ / "text.txt", folder_ / "other.txt");
  EXPECT_THAT(refusal_of(again), HasSubstr("text.txt"));
  EXPECT_THAT(
      refusal_of({"train", "--repeat", "out", "--run.out=second", "--data.train=[\"missing/*\"]"}),
      HasSubstr("missing/*"));
  Words accepted = again;
  accepted.insert(accepted.end(), {"--data.train=[\"other.txt\"]", "--accept-data"});
  const Program::Result result = accrue(accepted);
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.errors, AllOf(HasSubstr("text.txt is missing"), HasSubstr("other.txt is new"),
                                   HasSubstr("data.train")));
}

TEST_F(Repeat, SaysTheCommitOfTheWorkingDirectory) {
  const std::string git =
      "git -C '" + folder_.string() + "' -c user.name=test -c user.email=test@example.com ";
  const std::string commit = git + "init -q && " + git + "add text.txt && " + git + "commit -qm x";
  ASSERT_EQ(std::system(commit.c_str()), 0);
  ASSERT_EQ(accrue({"train", "run.toml", "--run.out=tracked"}).status, 0);
  const auto run = nlohmann::json::parse(read_file(folder_ / "tracked/run.json"));
  EXPECT_THAT(run["commit"].get<std::string>(), ::testing::MatchesRegex("[0-9a-f]{40}"));
  EXPECT_EQ(run["working_directory"], fs::canonical(folder_).string());
}

}  // namespace
}  // namespace accrue::testing
