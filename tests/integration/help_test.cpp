#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <sstream>

#include "accrue_program.h"
#include "support/skip.h"

namespace accrue::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::array kVerbs{"init",   "train",    "plan",       "doctor",  "verify",
                            "bench",  "runs",     "report",     "compare", "checkpoint",
                            "data",   "tokenize", "sample",     "eval",    "predict",
                            "export", "keys",     "completion", "manual"};

std::size_t longest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t longest = 0;
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  return longest;
}

class Help : public AccrueProgram {
 protected:
  /// The output of the program, which must end with status 0 and an empty stderr.
  std::string printed(const Words& arguments) const {
    const auto result = accrue(arguments);
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(result.errors, "");
    return result.output;
  }
};

TEST_F(Help, IsWhatTheProgramPrintsWithoutWords) {
  const std::string help = printed({});
  EXPECT_THAT(help, StartsWith("Gradient accumulation: "));
  EXPECT_EQ(help, printed({"--help"}));
  EXPECT_EQ(help, printed({"-h"}));
  EXPECT_EQ(help, printed({"help"}));
  for (const char* verb : kVerbs) EXPECT_THAT(help, HasSubstr(std::string("\n  ") + verb + " "));
  for (const char* heading : {"\nTrain:\n", "\nProve and measure:\n", "\nLook at runs:\n"})
    EXPECT_THAT(help, HasSubstr(heading));
}

TEST_F(Help, OfEachVerbHasTwoExamplesAndFitsThePage) {
  for (const char* verb : kVerbs) {
    const std::string help = printed({verb, "--help"});
    EXPECT_EQ(help, printed({"help", verb}));
    EXPECT_THAT(help, HasSubstr(std::string("Usage: accrue ") + verb));
    const std::size_t examples = help.find("\nExamples:\n");
    ASSERT_NE(examples, std::string::npos) << verb;
    std::istringstream lines(help.substr(examples + 1));
    int count = -1;  // the heading
    for (std::string line; std::getline(lines, line);) ++count;
    EXPECT_GE(count, 2) << verb;
    EXPECT_LE(longest_line(help.substr(0, examples)), 100U) << verb;
  }
}

TEST_F(Help, ShowsWhichVerbsNeedAConfig) {
  for (const std::string verb : {"plan", "verify", "bench", "data"})
    EXPECT_THAT(printed({verb, "--help"}),
                HasSubstr("Usage: accrue " + verb + " CONFIG [OPTIONS] [--section.key=value ...]"));
  EXPECT_THAT(printed({"tokenize", "--help"}),
              HasSubstr("Usage: accrue tokenize CONFIG --out DIR [OPTIONS]"));
  for (const std::string verb : {"train", "doctor"})
    EXPECT_THAT(printed({verb, "--help"}), HasSubstr("Usage: accrue " + verb + " [CONFIG]"));
}

TEST_F(Help, VersionHasAShortForm) { EXPECT_EQ(printed({"-V"}), printed({"--version"})); }

TEST_F(Help, ListsTheKeysOfAConfig) {
  const std::string all = printed({"keys"});
  EXPECT_THAT(all, AllOf(HasSubstr("[batch]\n"), HasSubstr("  batch.tokens "),
                         Not(HasSubstr("observe.mlflow"))));
  EXPECT_LE(longest_line(all), 100U);
  const std::string few = printed({"keys", "optim.momentum"});
  EXPECT_THAT(few, AllOf(StartsWith("optim.momentum = 0.9\n"), HasSubstr("optim.kind"),
                         Not(HasSubstr("optim.lr"))));
  // By their meaning, if no name matches.
  EXPECT_THAT(printed({"keys", "gradient checkpointing"}), StartsWith("memory.recompute"));
}

TEST_F(Help, AnswersKeysOfOtherSystems) {
  const auto result = accrue({"keys", "max_grad_norm"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.errors, HasSubstr("optim.clip"));
  EXPECT_EQ(accrue({"keys", "qqqqqqqq"}).status, 2);
}

TEST_F(Help, KeysAreThereForPrograms) {
  const auto answer = nlohmann::json::parse(printed({"keys", "--json"}));
  std::size_t found = 0;
  for (const auto& key : answer.at("keys")) {
    EXPECT_FALSE(key.at("meaning").get<std::string>().empty()) << key;
    if (key.at("name") == "optim.lr") {
      EXPECT_EQ(key.at("default"), "0.0003");
      ++found;
    }
  }
  EXPECT_EQ(found, 1U);
}

class Completion : public Help {
 protected:
  /// The completions that bash offers for these words, the last of which is unfinished.
  std::string offered(const std::string& words) const {
    write("words.sh", "eval \"$(" + std::string(ACCRUE_PROGRAM) + " completion bash)\"\n" +
                          "COMP_WORDS=(" + words + ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n" +
                          "compopt() { :; }\n_accrue\necho \"${COMPREPLY[@]}\"\n");
    const auto result = Program(folder_, {"/bin/bash", "words.sh"}).wait();
    EXPECT_EQ(result.errors, "");
    return result.output;
  }
};

/// The path of a shell; empty if it is not installed.
std::string shell_at(const std::string& name) {
  for (const char* folder : {"/bin/", "/usr/bin/", "/usr/local/bin/"})
    if (std::filesystem::exists(folder + name)) return folder + name;
  return {};
}

TEST_F(Completion, OfZshIsReadByIt) {
  const std::string zsh = shell_at("zsh");
  // scripts/setup.sh does not install it.
  if (zsh.empty()) return not_possible_here("zsh is not installed");
  write("script.zsh", printed({"completion", "zsh"}));
  const auto checked = Program(folder_, {zsh, "-fn", "script.zsh"}).wait();
  EXPECT_EQ(checked.status, 0) << checked.errors;
  EXPECT_EQ(checked.errors, "");
  // The functions of its completion print what they would offer.
  const auto offered = [&](const std::string& words) {
    write("words.zsh",
          "compdef() { : }\n_files() { print files }\n_describe() { print -l ${(P)2%%:*} }\n"
          "compadd() { while [[ $1 != -- ]]; do shift; done; shift; print -l -- $@ }\n"
          "source ./script.zsh\nwords=(" +
              words + ")\nCURRENT=${#words}\n_accrue\n");
    const auto result = Program(folder_, {zsh, "-f", "words.zsh"}).wait();
    EXPECT_EQ(result.errors, "");
    return result.output;
  };
  EXPECT_THAT(offered("accrue ''"), AllOf(HasSubstr("train\n"), HasSubstr("help\n")));
  EXPECT_EQ(offered("accrue --"), "--help\n--version\n");
  EXPECT_THAT(offered("accrue train --d"),
              AllOf(HasSubstr("--dry-run\n"), HasSubstr("--batch.micro=\n")));
  EXPECT_EQ(offered("accrue export out --format ''"), "hf\ngguf\nadapter\n");
  EXPECT_THAT(offered("accrue checkpoint ''"), AllOf(HasSubstr("prune\n"), HasSubstr("files\n")));
  EXPECT_THAT(offered("accrue completion ''"), HasSubstr("fish\n"));
}

TEST_F(Completion, OfFishIsReadByIt) {
  const std::string fish = shell_at("fish");
  if (fish.empty()) return not_possible_here("fish is not installed");
  write("script.fish", printed({"completion", "fish"}));
  const auto checked =
      Program(folder_, {fish, "--no-config", "--no-execute", "script.fish"}).wait();
  EXPECT_EQ(checked.status, 0) << checked.errors;
  EXPECT_EQ(checked.errors, "");
  // Each line is a word, a tab and its meaning.
  const auto offered = [&](const std::string& line) {
    write("line.fish", "source script.fish\ncomplete -C '" + line + "'\n");
    const auto result = Program(folder_, {fish, "--no-config", "line.fish"}).wait();
    EXPECT_EQ(result.errors, "");
    return result.output;
  };
  EXPECT_THAT(offered("accrue tra"), StartsWith("train\t"));
  EXPECT_THAT(offered("accrue train --dry"), StartsWith("--dry-run\t"));
  EXPECT_THAT(offered("accrue train --batch.mic"), HasSubstr("--batch.micro=\t"));
  EXPECT_THAT(offered("accrue export out --format g"), StartsWith("gguf"));
  EXPECT_THAT(offered("accrue checkpoint pr"), StartsWith("prune\t"));
  EXPECT_THAT(offered("accrue checkpoint prune --ke"), StartsWith("--keep"));
  EXPECT_THAT(offered("accrue help exp"), StartsWith("export"));
  EXPECT_THAT(offered("accrue completion z"), StartsWith("zsh"));
  // "checkpoint verify" is not the verb verify.
  EXPECT_THAT(offered("accrue verify --ke"), Not(HasSubstr("--keep")));
  EXPECT_THAT(offered("accrue checkpoint verify --run.o"), Not(HasSubstr("--run.out")));
}

TEST_F(Completion, OffersVerbsOptionsWordsAndKeys) {
  EXPECT_EQ(offered("accrue tra"), "train\n");
  EXPECT_EQ(offered("accrue checkpoint pr"), "prune\n");
  EXPECT_EQ(offered("accrue train --dry"), "--dry-run\n");
  EXPECT_EQ(offered("accrue export out --format g"), "gguf\n");
  EXPECT_EQ(offered("accrue train run.toml --batch.mic"),
            "--batch.micro_batches= --batch.micro=\n");
  EXPECT_EQ(offered("accrue completion f"), "fish\n");
}

TEST_F(Completion, OfFilesIsTheShells) {
  write("run.toml", "");
  EXPECT_EQ(offered("accrue train run"), "run.toml\n");
}

TEST_F(Completion, HasScriptsForThreeShells) {
  EXPECT_THAT(printed({"completion", "zsh"}),
              AllOf(StartsWith("#compdef accrue\n"), Not(HasSubstr("@program@")),
                    Not(HasSubstr("@branches@"))));
  EXPECT_THAT(printed({"completion", "fish"}),
              AllOf(HasSubstr("-a train -d"), Not(HasSubstr("@program@"))));
  EXPECT_EQ(accrue({"completion", "tcsh"}).status, 2);
}

TEST_F(Help, ManualPagesAreWrittenForAllVerbs) {
  EXPECT_EQ(printed({"manual", "--out", "man1"}), "");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "man1" / "accrue.1"));
  for (const char* verb : kVerbs)
    EXPECT_TRUE(std::filesystem::exists(folder_ / "man1" / (std::string("accrue-") + verb + ".1")));
  EXPECT_THAT(printed({"manual"}),
              AllOf(StartsWith(".TH accrue 1"), HasSubstr("\n.SH EXAMPLES\n")));
}

}  // namespace
}  // namespace accrue::testing
