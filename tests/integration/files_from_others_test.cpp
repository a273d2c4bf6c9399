// Files that others made: links out of a run, pipes, text that would control the terminal.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "accrue_program.h"
#include "core/atomic_file.h"

namespace accrue::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// Colours, a bell, a carriage return, a clear by C1, a change of the writing direction.
const std::string kEvil = "x\x1b[31m\x07\r\u009b2J\u202e\x7fy";

class FilesFromOthers : public AccrueProgram {
 protected:
  void SetUp() override {
    AccrueProgram::SetUp();
    write_small_run();
  }

  /// Expects that the output of a call that prints kEvil contains no terminal control.
  void expect_escaped(const Words& words, const std::string& source) const {
    const Program::Result result = accrue(words);
    const std::string all = result.output + result.errors;
    for (const char byte : all)
      EXPECT_TRUE(static_cast<unsigned char>(byte) >= ' ' || byte == '\n' || byte == '\t')
          << source << ": " << int{byte};
    for (const char* steers : {"\x7f", "\u009b", "\u202e"})
      EXPECT_EQ(all.find(steers), std::string::npos) << source;
    EXPECT_THAT(all, HasSubstr("[31m")) << source << ": the control: it is there";
  }

  std::string target() const { return (folder_ / "target").string(); }
  std::string in_run(const std::string& name) const { return (folder_ / "out" / name).string(); }
};

TEST_F(FilesFromOthers, EscapesTextOfEachSource) {
  write("evil.toml",
        "[run]\nout = \"out\"\nsteps = 1\n[model]\nkind = "
        "\"x\\u001b[31m\\u0007\\r\\u009b2J\\u202E\\u007Fy\"\n");
  expect_escaped({"train", "evil.toml"}, "a config's value");
  expect_escaped(
      {"train", "run.toml", "--data.train=[\"" + std::string("x\\u001b[31m\\u202E") + "*.txt\"]"},
      "a glob");
  expect_escaped({"report", kEvil}, "a run's name");
  fs::create_directories(folder_ / "base");
  write("base/config.json", nlohmann::json{{"model_type", kEvil}}.dump());
  write("from.toml",
        "[run]\nout = \"out\"\nsteps = 4\n[model]\nfrom = \"base\"\n"
        "[data]\ntrain = [\"text.txt\"]\n[batch]\nsamples = 4\n");
  expect_escaped({"train", "from.toml"}, "model_type");
}

/// Text after a line feed would look like a message of the program.
TEST_F(FilesFromOthers, HaveNoLinesOfTheirOwnInMessages) {
  const std::string forged = "\nerror: forged";
  fs::create_directories(folder_ / "base");
  write("base/config.json", nlohmann::json{{"model_type", "x" + forged}}.dump());
  for (const Words& words : {Words{"sample", "base", "--prompt", "x"},
                             Words{"train", "no.toml" + forged}, Words{"report", "no" + forged}}) {
    const Program::Result refused = accrue(words);
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.errors, HasSubstr("error: forged")) << "the control: it is there";
    EXPECT_EQ(refused.errors.find(forged), std::string::npos) << refused.errors;
  }
  const Program::Result written = accrue({"init", "text.txt", "--out", "a" + forged});
  ASSERT_EQ(written.status, 0) << written.errors;
  EXPECT_THAT(written.output, HasSubstr("error: forged"));
  EXPECT_EQ(written.output.find(forged), std::string::npos) << written.output;
}

TEST_F(FilesFromOthers, EscapesWhatARunFolderHas) {
  ASSERT_EQ(accrue({"train", "run.toml", "--quiet"}).status, 0);
  fs::create_directories(folder_ / "runs");
  fs::rename(folder_ / "out", folder_ / "runs" / kEvil);
  expect_escaped({"runs", "runs"}, "a run's name in a table");
  expect_escaped({"runs", "runs", "--json"}, "a run's name in JSON");
  expect_escaped({"checkpoint", "list", "runs/" + kEvil + "no"}, "a folder's name");
}

TEST_F(FilesFromOthers, WritesNothingThroughLinksOutOfTheRun) {
  ASSERT_EQ(accrue({"train", "run.toml", "--quiet"}).status, 0);
  write("target", "somebody else's");
  for (const char* name : {"run.json", "config.toml", "metrics.jsonl"}) {
    const std::string content = read_file(in_run(name));
    write("kept", content);
    fs::remove(in_run(name));
    fs::create_symlink(folder_ / "kept", in_run(name));
    const auto refused = accrue({"train", "run.toml", "--run.steps=6", "--resume", "--quiet"});
    EXPECT_EQ(refused.status, 2) << refused.errors;
    EXPECT_THAT(refused.errors, HasSubstr(name));
    EXPECT_EQ(read_file(folder_ / "kept"), content);
    fs::remove(in_run(name));
    write_file_atomically(in_run(name), content);
  }
  fs::create_hard_link(target(), in_run(".accrue-lock"));
  EXPECT_EQ(accrue({"train", "run.toml", "--run.steps=6", "--resume", "--quiet"}).status, 2);
  fs::remove(in_run(".accrue-lock"));
  fs::create_symlink(target(), in_run("report.html"));
  EXPECT_EQ(accrue({"report", "out"}).status, 2);
  EXPECT_EQ(read_file(target()), "somebody else's");
  fs::remove(in_run("report.html"));
  const auto resumed = accrue({"train", "run.toml", "--run.steps=6", "--resume", "--quiet"});
  EXPECT_EQ(resumed.status, 0) << "the control: " << resumed.errors;
}

TEST_F(FilesFromOthers, GoesOnWithCheckpointsOnAnotherDisk) {
  ASSERT_EQ(accrue({"train", "run.toml", "--quiet"}).status, 0);
  fs::rename(in_run("checkpoints"), folder_ / "disk");
  fs::create_directory_symlink(folder_ / "disk", in_run("checkpoints"));
  const auto resumed = accrue({"train", "run.toml", "--run.steps=6", "--resume"});
  EXPECT_EQ(resumed.status, 0) << resumed.errors;
  EXPECT_THAT(resumed.errors,
              HasSubstr("out/checkpoints is a link: what the run writes there goes"));
  EXPECT_TRUE(fs::exists(folder_ / "disk" / "step-00000006"));
  const auto pruned = accrue({"checkpoint", "prune", "out", "--keep", "1"});
  EXPECT_EQ(pruned.status, 0) << pruned.errors;
  EXPECT_THAT(pruned.output, HasSubstr("out/checkpoints is a link"));
  fs::create_directories(folder_ / "texts");
  fs::remove_all(folder_ / ".accrue-text");
  fs::create_directory_symlink(folder_ / "texts", folder_ / ".accrue-text");
  EXPECT_THAT(accrue({"train", "run.toml", "--run.steps=8", "--resume"}).errors,
              HasSubstr(".accrue-text is a link"));
}

TEST_F(FilesFromOthers, NamesAConfigThatIsALinkToItself) {
  fs::create_symlink("self.toml", folder_ / "self.toml");
  for (const char* verb : {"train", "plan", "doctor"}) {
    const auto refused = accrue({verb, "self.toml"});
    EXPECT_EQ(refused.status, 2) << refused.errors;
    EXPECT_THAT(refused.errors, HasSubstr("try "));
  }
}

/// Nobody writes to the pipes: opening one would wait for ever.
TEST_F(FilesFromOthers, WaitsForNoPipe) {
  const auto pipe = [&](const std::string& name) {
    fs::create_directories((folder_ / name).parent_path());
    ASSERT_EQ(::mkfifo((folder_ / name).c_str(), 0600), 0);
  };
  pipe("model.safetensors");
  pipe("base/config.json");
  pipe("module.pt");
  pipe("run.fifo");
  for (const Words& words :
       {Words{"train", "run.toml", "--model.from=base"},
        Words{"train", "run.toml", "--model.from=model.safetensors"},
        Words{"train", "run.toml", "--model.kind=torchscript", "--model.from=module.pt"},
        Words{"train", "run.toml", "--data.train=[\"run.fifo\"]"}, Words{"train", "run.fifo"},
        Words{"sample", "base", "--prompt", "x"}}) {
    const auto result = accrue(words);
    EXPECT_EQ(result.status, 2) << words.back() << result.errors;
    EXPECT_THAT(result.errors, ::testing::StartsWith("error: "));
  }
}

}  // namespace
}  // namespace accrue::testing
