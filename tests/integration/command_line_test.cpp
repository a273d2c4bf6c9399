#include <gmock/gmock.h>

#include "accrue_program.h"

namespace accrue::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class CommandLine : public AccrueProgram {
 protected:
  /// Expects status 2, one line on stderr in the form of all errors, nothing on stdout.
  std::string refusal_of(const Words& arguments) const {
    const auto result = accrue(arguments);
    EXPECT_EQ(result.status, 2) << result.errors;
    EXPECT_EQ(result.output, "");
    EXPECT_THAT(result.errors, StartsWith("error: "));
    EXPECT_THAT(result.errors, HasSubstr(": expected "));
    EXPECT_THAT(result.errors, HasSubstr(", received "));
    EXPECT_EQ(result.errors.find('\n'), result.errors.size() - 1) << result.errors;
    return result.errors;
  }
};

TEST_F(CommandLine, VersionNamesWhatNumbersDependOn) {
  const auto result = accrue({"--version"});
  EXPECT_EQ(result.status, 0);
  for (const char* part : {"accrue 0.", "libtorch ", "gemm ", "compiler ", "isa ", "unicode 16."})
    EXPECT_THAT(result.output, HasSubstr(part));
}

TEST_F(CommandLine, AnUnknownVerbIsAnsweredWithTheNearest) {
  EXPECT_THAT(refusal_of({"trian", "run.toml"}), HasSubstr("try accrue train"));
  EXPECT_THAT(refusal_of({"exprot"}), HasSubstr("try accrue export"));
}

TEST_F(CommandLine, AVerbOfOtherProgramsIsAnsweredWithWhatThereIs) {
  EXPECT_THAT(refusal_of({"fit", "run.toml"}), HasSubstr("; try accrue train\n"));
  EXPECT_THAT(refusal_of({"evaluate", "out"}), HasSubstr("run.eval_every"));
  EXPECT_THAT(refusal_of({"generate", "out"}), HasSubstr("; try accrue sample"));
  EXPECT_THAT(refusal_of({"chat", "out"}), HasSubstr("; try accrue sample RUN --chat\n"));
  EXPECT_THAT(refusal_of({"frobnicate"}), AllOf(HasSubstr("tokenize, sample, eval, predict"),
                                                HasSubstr("; try accrue --help")));
}

TEST_F(CommandLine, HelpIsAVerbToo) {
  for (const auto& [typed, option] :
       {std::pair<Words, Words>{{"help"}, {"--help"}}, {{"help", "train"}, {"train", "--help"}}}) {
    const auto result = accrue(typed);
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(result.output, accrue(option).output);
  }
  EXPECT_THAT(refusal_of({"help", "frobnicate"}), HasSubstr("\"frobnicate\""));
}

TEST_F(CommandLine, ActionsOnCheckpointsAreListed) {
  EXPECT_THAT(refusal_of({"checkpoint", "frob"}),
              AllOf(HasSubstr("one of verify, list or prune"), HasSubstr("received \"frob\"")));
  EXPECT_THAT(refusal_of({"checkpoint", "prun", "out"}), HasSubstr("try accrue checkpoint prune"));
  EXPECT_THAT(refusal_of({"checkpoint"}), HasSubstr("one of verify, list or prune"));
  EXPECT_THAT(refusal_of({"checkpoint", "prune", "out", "--keep", "0"}),
              HasSubstr("accrue checkpoint prune --keep: expected an integer from 1 to 1000000, "
                        "received \"0\""));
}

TEST_F(CommandLine, MissingArgumentsAreNamed) {
  EXPECT_THAT(refusal_of({"train"}), HasSubstr("CONFIG"));
  EXPECT_THAT(refusal_of({"sample", "out"}), HasSubstr("--prompt"));
  EXPECT_THAT(refusal_of({"export", "out"}), HasSubstr("--out"));
  EXPECT_THAT(refusal_of({"sample", "out", "--prompt", "a", "--tokens", "many"}),
              HasSubstr("--tokens"));
  EXPECT_THAT(refusal_of({"sample", "out", "--prompt", "a", "--lenght", "3"}),
              HasSubstr("--lenght"));
  EXPECT_THAT(refusal_of({"sample", "out", "--promt", "a"}), HasSubstr("try --prompt a\n"));
  for (const char* other : {"--max_new_tokens", "-n", "--n-predict"})
    EXPECT_THAT(refusal_of({"sample", "out", "--prompt", "a", other, "3"}),
                HasSubstr("try --tokens 3\n"));
  EXPECT_THAT(refusal_of({"sample", "out", "-p", "a b"}), HasSubstr("try --prompt 'a b'\n"));
  EXPECT_THAT(refusal_of({"sample", "out", "--prompt", "a", "--temp=0"}),
              HasSubstr("try --temperature 0\n"));
}

TEST_F(CommandLine, WhatTheParserRefusesHasTheFormOfAllErrors) {
  for (const auto& [typed, error] : std::vector<std::pair<Words, std::string>>{
           {{"report"},
            "accrue report: expected RUN_DIR, received none; try accrue report RUN_DIR"},
           {{"verify"}, "accrue verify: expected CONFIG, received none; try accrue verify CONFIG"},
           {{"export", "out"},
            "accrue export: expected --out DIR, received none; try accrue export RUN_DIR --out "
            "DIR"},
           {{"export", "out", "--out", "model", "--format", "ggfu"},
            "accrue export --format: expected hf, gguf or adapter, received \"ggfu\"; try "
            "--format gguf"},
           {{"sample", "out", "--prompt", "a", "--tokens", "many"},
            "accrue sample --tokens: expected a number, received \"many\"; try --tokens 256"},
           {{"sample", "out", "--prompt", "a", "--temperature", "hot"},
            "accrue sample --temperature: expected a number, received \"hot\"; try --temperature "
            "0.8"},
           {{"verify", "run.toml", "--json=x"},
            "accrue verify --json: expected no value, received \"x\"; try --json"},
           {{"eval", "out", "--data", "a.txt", "--context", "-5"},
            "accrue eval --context: expected an integer of at least 1, received \"-5\"; try "
            "accrue eval --help"},
           {{"eval", "out", "--data", "a.txt", "--context=0"},
            "accrue eval --context: expected an integer of at least 1, received \"0\"; try accrue "
            "eval --help"},
           {{"--verison"},
            "accrue --verison: expected a verb, or an option of the command, received "
            "\"--verison\"; try --version"},
           {{"train", "run.toml", "-run.steps=2"},
            "accrue train -run.steps=2: expected --section.key=value, received one dash before the "
            "key; try --run.steps=2"}})
    EXPECT_EQ(refusal_of(typed), "error: " + error + "\n");
  EXPECT_THAT(refusal_of({"init"}), HasSubstr("accrue init: expected FILES, received none"));
}

TEST_F(CommandLine, AConfigThatIsNotThereIsNamed) {
  EXPECT_THAT(refusal_of({"train", "nowhere.toml"}),
              AllOf(HasSubstr("nowhere.toml"), HasSubstr("; try another path\n")));
  write("gpt.toml", "");
  EXPECT_THAT(refusal_of({"train", "gtp.toml"}), HasSubstr("; try gpt.toml\n"));
  std::filesystem::create_directory(folder_ / "texts");
  EXPECT_THAT(refusal_of({"train", "texts"}),
              HasSubstr("received a folder; try accrue init texts, which writes a config"));
  write("texts/config.toml", "");
  EXPECT_THAT(refusal_of({"train", "texts"}),
              HasSubstr("received a folder; try texts/config.toml\n"));
}

TEST_F(CommandLine, AFolderThatHoldsNoRunIsNamed) {
  EXPECT_THAT(refusal_of({"sample", "nowhere", "--prompt", "a"}),
              HasSubstr("open run nowhere: expected a run directory"));
  std::filesystem::create_directory(folder_ / "exported");
  EXPECT_THAT(refusal_of({"sample", "exprted", "--prompt", "a"}),
              HasSubstr("received no such folder; try exported\n"));
  write("exported/model.gguf", "");
  EXPECT_THAT(refusal_of({"sample", "exported", "--prompt", "a"}),
              HasSubstr("received a folder without one; try exported/model.gguf, or the run.out"));
  write("run.toml", "");
  EXPECT_THAT(refusal_of({"sample", "run.toml", "--prompt", "a"}), HasSubstr("received a file"));
  EXPECT_THAT(refusal_of({"export", "nowhere", "--out", "model"}), HasSubstr("nowhere"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "model"));
}

TEST_F(CommandLine, AFlagThatIsAKeyIsAnsweredWithTheOverride) {
  write_small_run();
  for (const auto& [typed, answer] : std::vector<std::pair<Words, std::string>>{
           {{"--lr", "1e-3"}, "received a key without its section; try --optim.lr=1e-3"},
           {{"--epochs", "3"}, "; try --run.epochs=3"},
           {{"--device", "cuda:0"}, "; try --run.device=cuda:0"},
           {{"--steps", "--quiet"}, "; try --run.steps=VALUE"},
           {{"--weight_decya", "0.1"}, "; try --optim.weight_decay=0.1"},
           {{"lr=1e-3"}, "received a key without its section; try --optim.lr=1e-3"},
           {{"optim.lr=1e-3"}, "received no dashes before the key; try --optim.lr=1e-3"},
           {{"batch_size=8"}, "try --batch.samples=8"},
           {{"--lr=1e-3"}, "; try --optim.lr=1e-3"},
           {{"--dryrun"}, "; try --dry-run"},
           {{"--frobnicate", "3"}, "; try accrue train --help"}}) {
    Words words{"train", "run.toml"};
    words.insert(words.end(), typed.begin(), typed.end());
    EXPECT_THAT(refusal_of(words), HasSubstr(answer)) << typed.front();
  }
}

TEST_F(CommandLine, WrongKeysAreRefusedBeforeAnythingIsWritten) {
  write_small_run();
  EXPECT_THAT(refusal_of({"train", "run.toml", "--optim.lrr=1"}),
              HasSubstr("; try --optim.lr=1\n"));
  EXPECT_THAT(refusal_of({"train", "run.toml", "--gradient_accumulation_steps=8"}),
              HasSubstr("batch.tokens"));
  EXPECT_THAT(refusal_of({"train", "run.toml", "--precision.loss_scale=4"}),
              HasSubstr("precision.compute = \"fp16\""));
  EXPECT_THAT(refusal_of({"train", "run.toml", "--precision.compute=fp16"}),
              AllOf(HasSubstr("a GPU"), HasSubstr("bf16")));
  EXPECT_THAT(refusal_of({"train", "run.toml", "--optim.lr=abc"}), HasSubstr("--optim.lr=abc"));
  EXPECT_THAT(refusal_of({"train", "run.toml", "--batch.tokens=100"}), HasSubstr("96"));
  EXPECT_THAT(refusal_of({"train", "run.toml", "--data.train=nothing/*.txt"}),
              HasSubstr("nothing/*.txt"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

TEST_F(CommandLine, WordsThatAreNoOverridesAreRefused) {
  write_small_run();
  EXPECT_THAT(refusal_of({"train", "run.toml", "--optim.lr"}), HasSubstr("--optim.lr=VALUE"));
  EXPECT_THAT(refusal_of({"train", "run.toml", "--optim.lr", "1e-3"}),
              HasSubstr("try --optim.lr=1e-3\n"));
  EXPECT_THAT(refusal_of({"train", "run.toml", "--batch_size", "12"}),
              AllOf(HasSubstr("=12"), Not(HasSubstr("=8"))));
  EXPECT_THAT(refusal_of({"train", "run.toml", "--quick"}), HasSubstr("--quick"));
  EXPECT_THAT(
      refusal_of({"train", "run.toml", "--fp16"}),
      HasSubstr("a name of Hugging Face, axolotl and other systems; try --precision.compute=bf16"));
  EXPECT_THAT(refusal_of({"train", "run.toml", "--gradient_accumulation_steps", "8"}),
              HasSubstr("batch.micro_batches"));
  EXPECT_THAT(refusal_of({"train", "run.toml", "other.toml"}), HasSubstr("other.toml"));
  EXPECT_THAT(refusal_of({"train", "run.toml", "optim.lr=1"}), HasSubstr("--section.key=value"));
}

TEST_F(CommandLine, AConfigMayBeAnOption) {
  write_small_run();
  const std::string typed = accrue({"train", "run.toml", "--dry-run"}).output;
  EXPECT_EQ(accrue({"train", "-c", "run.toml", "--dry-run"}).output, typed);
  EXPECT_EQ(accrue({"train", "--dry-run", "--config", "run.toml"}).output, typed);
  EXPECT_EQ(accrue({"train", "--config=run.toml", "--dry-run"}).output, typed);
  EXPECT_THAT(refusal_of({"plan"}), HasSubstr("CONFIG"));
}

TEST_F(CommandLine, ARunStandsForItsConfigWhereItIsResumed) {
  write_small_run();
  ASSERT_EQ(accrue({"train", "run.toml", "--run.steps=2"}).status, 0);
  std::filesystem::rename(folder_ / "out", folder_ / "moved");
  EXPECT_THAT(refusal_of({"train", "moved"}), HasSubstr("try accrue train moved --resume"));
  for (const Words& order :
       {Words{"train", "moved", "--resume", "--run.steps=3"}, {"train", "--resume", "moved"}}) {
    const auto result = accrue(order);
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(result.output, HasSubstr("moved"));
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

TEST_F(CommandLine, ADataFileHasAConfigChosen) {
  write_small_run();
  const Words shape{"--run.steps=1",      "--run.out=out",   "--model.layers=1",
                    "--model.width=32",   "--model.heads=2", "--model.context=16",
                    "--batch.tokens=256", "--batch.micro=4", "--memory.recompute=none"};
  Words by_key{"train", "--data.train=text.txt", "--dry-run"},
      by_word{"train", "text.txt", "--dry-run"};
  by_key.insert(by_key.end(), shape.begin(), shape.end());
  by_word.insert(by_word.end(), shape.begin(), shape.end());
  const auto result = accrue(by_word);
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(result.output, accrue(by_key).output);
  EXPECT_THAT(refusal_of({"train", "text.txt", "--data.train=other.txt"}),
              HasSubstr("--data.train with all files"));
}

TEST_F(CommandLine, SeveralDataFilesHaveAConfigChosen) {
  write_small_run();
  std::filesystem::create_directory(folder_ / "texts");
  for (const char* name : {"texts/a.txt", "texts/b.txt", "texts/val.txt"})
    std::filesystem::copy_file(folder_ / "text.txt", folder_ / name);
  const auto planned = [&](Words words) {
    words.insert(words.begin(), "train");
    for (const char* shape : {"--dry-run", "--run.steps=1", "--run.out=out", "--model.layers=1",
                              "--model.width=32", "--model.heads=2", "--model.context=16",
                              "--batch.tokens=256", "--batch.micro=4", "--memory.recompute=none"})
      words.emplace_back(shape);
    const auto result = accrue(words);
    EXPECT_EQ(result.status, 0) << result.errors;
    return result.output;
  };
  const std::string two = planned({"--data.train=[\"texts/a.txt\", \"texts/b.txt\"]"});
  EXPECT_NE(two, planned({"texts/a.txt"}));
  EXPECT_EQ(planned({"texts/a.txt", "texts/b.txt"}), two);
  EXPECT_EQ(planned({"--run.seed=0", "texts/a.txt", "--optim.lr=1e-3", "texts/b.txt"}), two);
  EXPECT_EQ(planned({"texts/[ab].txt"}), two) << "in quotes, which the shell leaves alone";
  EXPECT_EQ(
      planned({"texts/a.txt", "texts/b.txt", "texts/val.txt"}),
      planned({"--data.train=[\"texts/a.txt\", \"texts/b.txt\"]", "--data.val=texts/val.txt"}))
      << "as init does";
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

TEST_F(CommandLine, WordsBesideDataAreAnsweredWithACommand) {
  write_small_run();
  write("other.txt", "more");
  write("other.toml", "");
  EXPECT_THAT(refusal_of({"train", "run.toml", "text.txt", "other.txt"}),
              HasSubstr("accrue train: expected a config file, or files of data, received run.toml "
                        "beside data; try accrue train run.toml "
                        "'--data.train=[\"text.txt\", \"other.txt\"]'\n"));
  EXPECT_THAT(refusal_of({"train", "text.txt", "run.toml"}), HasSubstr("run.toml beside data"));
  EXPECT_THAT(refusal_of({"train", "run.toml", "other.toml"}),
              HasSubstr("received run.toml and other.toml; try accrue train run.toml\n"));
  EXPECT_THAT(refusal_of({"train", "text.txt", "nowhere.txt"}),
              HasSubstr("accrue train: expected files and folders that exist, received "
                        "'nowhere.txt'"));
  std::filesystem::create_directories(folder_ / "photos" / "cats");
  std::filesystem::create_directories(folder_ / "photos" / "dogs");
  EXPECT_THAT(refusal_of({"train", "photos/cats", "photos/dogs"}),
              HasSubstr("received the folder photos/cats; try accrue init photos/cats photos/dogs, "
                        "which writes a config"));
}

TEST_F(CommandLine, DataOfUnknownKindIsAnsweredWithTheOptionsOfTheVerb) {
  write_small_run();
  ASSERT_EQ(accrue({"train", "run.toml", "--run.steps=1"}).status, 0);
  write("bin.txt", std::string(4096, '\0') + "text");
  const std::string received = "received bin.txt: a binary file, with zero bytes; try ";
  EXPECT_EQ(refusal_of({"eval", "out", "--data", "bin.txt"}),
            "error: accrue eval --data: expected text, " + received +
                "the format that it has in --format, or --format text to take its bytes as text, "
                "or a glob that leaves it out\n");
  EXPECT_THAT(refusal_of({"init", "bin.txt"}), HasSubstr("accrue init: expected text, " + received +
                                                         "the format that it has in --format"));
  EXPECT_THAT(refusal_of({"train", "bin.txt"}),
              HasSubstr("accrue train: expected text, " + received +
                        "the format that it has in --data.format, or --data.format=text to"));
  EXPECT_THAT(refusal_of({"train", "--data.train=bin.txt"}),
              HasSubstr("accrue train --data.train: expected text, "));
  EXPECT_THAT(refusal_of({"eval", "nowhere", "--data", "text.txt"}),
              HasSubstr("error: MODEL nowhere: expected a Hugging Face folder"));
  // The suggestions work.
  EXPECT_EQ(accrue({"eval", "out", "--data", "bin.txt", "--format", "text"}).status, 0);
  EXPECT_EQ(accrue({"init", "bin.txt", "--format", "text"}).status, 0);
  const auto planned = accrue({"train", "bin.txt", "--data.format=text", "--dry-run",
                               "--batch.micro=1", "--memory.budget=none", "--run.threads=1"});
  EXPECT_EQ(planned.status, 0) << planned.errors;
}

TEST_F(CommandLine, DryRunOfAResumptionSaysFromWhereToWhere) {
  write_small_run();
  ASSERT_EQ(accrue({"train", "run.toml"}).status, 0);
  EXPECT_THAT(refusal_of({"train", "run.toml", "--dry-run"}), HasSubstr("--resume to continue it"));
  const auto done = accrue({"train", "run.toml", "--dry-run", "--resume"});
  EXPECT_EQ(done.status, 0) << done.errors;
  EXPECT_THAT(done.output, HasSubstr("done at step 4; to go on longer: --resume --run.steps=8"));
  const auto longer = accrue({"train", "run.toml", "--dry-run", "--resume", "--run.steps=9"});
  EXPECT_EQ(longer.status, 0) << longer.errors;
  EXPECT_THAT(longer.output, AllOf(HasSubstr("after step 4, on to step 9"),
                                   HasSubstr("run.steps 4 -> 9: the learning rate of step 5")));
}

TEST_F(CommandLine, DryRunSaysWhatTheRunWouldBeAndWritesNothing) {
  write_small_run();
  for (const Words& order : {Words{"train", "run.toml", "--dry-run", "--batch.samples=8"},
                             Words{"train", "--batch.samples=8", "--dry-run", "run.toml"}}) {
    const auto result = accrue(order);
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(result.output,
                HasSubstr("4 samples x 2 accumulation steps = 8 samples, 128 tokens"));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
  }
}

}  // namespace
}  // namespace accrue::testing
