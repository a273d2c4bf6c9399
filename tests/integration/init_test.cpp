// accrue init: train accepts the config that it writes.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "accrue_program.h"
#include "core/atomic_file.h"
#include "support/png.h"

namespace accrue::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class Init : public AccrueProgram {
 protected:
  /// Runs init on `files`, takes two small steps with the written config, and returns that config.
  std::string trained(Words files) const {
    files.insert(files.begin(), "init");
    const auto init = accrue(files);
    EXPECT_EQ(init.status, 0) << init.errors;
    EXPECT_THAT(init.output, HasSubstr("accrue train accrue.toml --dry-run"));
    const auto train = accrue({"train", "accrue.toml", "--run.steps=2", "--batch.micro=4",
                               "--run.threads=1", "--memory.budget=none", "--run.out=out"});
    EXPECT_EQ(train.status, 0) << train.errors;
    return read_file(folder_ / "accrue.toml");
  }

  void write_text(const std::string& name, int lines = 400) const {
    std::string text;
    for (int line = 0; line < lines; ++line)
      text += std::to_string(line) + " the quick brown fox jumps over the lazy dog\n";
    write(name, text);
  }

  void write_tokens(const std::string& name, int count, int largest) const {
    std::string bytes;
    for (int i = 0; i < count; ++i) {
      const int id = i == count - 1 ? largest : i % 7;
      bytes += static_cast<char>(id & 0xff);
      bytes += static_cast<char>(id >> 8);
    }
    write(name, bytes);
  }

  std::string refused(Words files) const {
    files.insert(files.begin(), "init");
    const auto result = accrue(files);
    EXPECT_EQ(result.status, 2) << result.errors;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "accrue.toml"));
    return result.errors;
  }
};

TEST_F(Init, OfText) {
  write_text("tale.txt");
  EXPECT_THAT(trained({"tale.txt"}),
              AllOf(HasSubstr("train = [\"tale.txt\"]"), HasSubstr("format = \"text\""),
                    HasSubstr("out = \"runs/tale\"")));
}

TEST_F(Init, StatesTheParametersThatTrainHas) {
  write_text("tale.txt");
  const std::string page = accrue({"init", "tale.txt"}).output;
  const std::string before = "with this width ", after = " parameters";
  const std::size_t begin = page.find(before) + before.size(), end = page.find(after, begin);
  ASSERT_LT(end, page.size()) << page;
  const auto train = accrue({"train", "accrue.toml", "--dry-run", "--memory.budget=none",
                             "--batch.micro=1", "--run.threads=1"});
  EXPECT_THAT(train.output,
              ContainsRegex("(^|\n)model +" + page.substr(begin, end + after.size() - begin)));
}

TEST_F(Init, OfTextGoesWithAnotherKindOfModel) {
  write_text("tale.txt");
  ASSERT_EQ(accrue({"init", "tale.txt"}).status, 0);
  const auto plan = [&](const std::string& kind) {
    return accrue({"train", "accrue.toml", "--dry-run", "--memory.budget=none", "--batch.micro=1",
                   "--run.threads=1", "--model.kind=" + kind});
  };
  for (const char* kind : {"llama", "bert"}) {
    const auto result = plan(kind);
    EXPECT_EQ(result.status, 0) << kind << result.errors;
  }
  const auto result = plan("torchscript");
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.errors, AllOf(HasSubstr("model.from"), Not(HasSubstr("model.heads"))));
}

TEST_F(Init, OfTokenFilesWithTheOneThatIsHeldOut) {
  write_tokens("train.bin", 5000, 5000);
  write_tokens("val.bin", 1000, 6);
  EXPECT_THAT(trained({"train.bin", "val.bin"}),
              AllOf(HasSubstr("format = \"tokens\""), HasSubstr("vocab = 5056 "),
                    HasSubstr("val = [\"val.bin\"]")));
}

TEST_F(Init, OfLinesWithIds) {
  std::string lines;
  for (int i = 0; i < 300; ++i)
    lines += "{\"input_ids\": [1, 2, 3, " + std::to_string(i) + "], \"labels\": [1, 2, 3, 4]}\n";
  write("lines.jsonl", lines);
  EXPECT_THAT(trained({"lines.jsonl"}),
              AllOf(HasSubstr("format = \"jsonl\""), HasSubstr("vocab = 448 "),
                    HasSubstr("context = 32 ")));
}

TEST_F(Init, OfLinesByOtherNames) {
  std::string lines;
  for (int i = 0; i < 300; ++i) lines += "{\"text\": \"line " + std::to_string(i) + "\"}\n";
  for (const char* name : {"lines.ndjson", "lines.jl", "lines.jsonl.1", "lines"}) {
    write(name, lines);
    const auto result = accrue({"init", name, "--out", std::string(name) + ".toml"});
    EXPECT_EQ(result.status, 0) << name << result.errors;
    EXPECT_THAT(read_file(folder_ / (std::string(name) + ".toml")),
                HasSubstr("format = \"jsonl\""));
  }
}

TEST_F(Init, OfAFolderOfImages) {
  for (int i = 0; i < 24; ++i) {
    const std::string label = i % 2 == 0 ? "even" : "odd";
    std::filesystem::create_directories(folder_ / "images" / label);
    write("images/" + label + "/" + std::to_string(i) + ".png",
          png_of(8, 8, 1, std::string(64, static_cast<char>(i * 9))));
  }
  write("images/notes.txt", "not an image");
  EXPECT_THAT(trained({"images/"}),
              AllOf(HasSubstr("train = [\"images/*/**/*.png\"]"),
                    HasSubstr("classes: even and odd"), HasSubstr("# not read: images/notes.txt\n"),
                    HasSubstr("kind = \"resnet\""), HasSubstr("2 classes")));
}

TEST_F(Init, OfImagesWithoutFoldersOfClassesNamesTheLayout) {
  std::filesystem::create_directory(folder_ / "photos");
  for (const char* name : {"photos/1.png", "photos/2.png"})
    write(name, png_of(8, 8, 1, std::string(64, 'x')));
  EXPECT_THAT(refused({"photos"}),
              HasSubstr("accrue init: expected images in at least two folders, one for each class, "
                        "received all 2 in photos, of class 'photos'; try moving each image to "
                        "photos/CLASS/NAME.png, and accrue init photos, or train = "
                        "[\"photos/*/*.png\"] in [data]\n"));
}

/// For other contents of a folder see train/workload/data_facts_test.cpp.
TEST_F(Init, OfAFolderOfImagesInParts) {
  int number = 0;
  for (const char* name : {"train/a", "train/b", "val/a", "val/b", "test/a"})
    for (int i = 0; i < 6; ++i) {
      std::filesystem::create_directories(folder_ / "images" / name);
      write("images/" + std::string(name) + "/" + std::to_string(i) + ".png",
            png_of(8, 8, 1, std::string(64, static_cast<char>(7 * ++number))));
    }
  EXPECT_THAT(trained({"images"}),
              AllOf(HasSubstr("train = [\"images/train/*/**/*.png\"]"),
                    HasSubstr("val = [\"images/val/*/**/*.png\"]"),
                    HasSubstr("# not read: images/test\n"), HasSubstr("out = \"runs/images\"")));
}

TEST_F(Init, OfAFolderOfTextInParts) {
  std::filesystem::create_directories(folder_ / "text");
  write_text("text/train.txt");
  write_text("text/val.txt", 60);
  write("text/README.md", "what this is\n");
  EXPECT_THAT(trained({"text"}), AllOf(HasSubstr("train = [\"text/train.txt\"]"),
                                       HasSubstr("val = [\"text/val.txt\"]"),
                                       HasSubstr("# not read: text/README.md\n")));
}

TEST_F(Init, OfFoldersThatAreClasses) {
  for (const char* name : {"cat", "dog"})
    for (int i = 0; i < 8; ++i) {
      std::filesystem::create_directories(folder_ / name / "more");
      write(std::string(name) + (i == 7 ? "/more/" : "/") + std::to_string(i) + ".png",
            png_of(8, 8, 1, std::string(64, static_cast<char>(i * 9))));
    }
  EXPECT_THAT(trained({"cat", "dog"}),
              AllOf(HasSubstr("train = [\"cat/**/*.png\", \"dog/**/*.png\"]"),
                    HasSubstr("classes: cat and dog")));
}

TEST_F(Init, OfAFolderWithSignsInItsName) {
  for (const char* name : {"a", "b"})
    for (int i = 0; i < 8; ++i) {
      std::filesystem::create_directories(folder_ / "odd[1]" / name);
      write("odd[1]/" + std::string(name) + "/" + std::to_string(i) + ".png",
            png_of(8, 8, 1, std::string(64, static_cast<char>(i * 9))));
    }
  EXPECT_THAT(trained({"odd[1]"}), HasSubstr("classes: a and b"));
}

TEST_F(Init, FollowsLinksToClasses) {
  for (const char* name : {"real1", "real2", "classes/c"})
    for (int i = 0; i < 6; ++i) {
      std::filesystem::create_directories(folder_ / name);
      write(std::string(name) + "/" + std::to_string(i) + ".png",
            png_of(8, 8, 1, std::string(64, static_cast<char>(i * 9 + name[4]))));
    }
  std::filesystem::create_directory_symlink("../real1", folder_ / "classes/a");
  std::filesystem::create_directory_symlink("../real2", folder_ / "classes/b");
  EXPECT_THAT(trained({"classes"}), AllOf(HasSubstr("18 images; classes: a, b and c")));
}

/// Three classes of one image each: a tenth of the images is the last one.
TEST_F(Init, NamesAClassOfWhichNothingIsTrainedOn) {
  for (const char* name : {"a", "b", "c"}) {
    std::filesystem::create_directories(folder_ / "few" / name);
    write(std::string("few/") + name + "/0.png", png_of(8, 8, 1, std::string(64, name[0])));
  }
  const std::string named = "nothing is trained on of class 'c' (1 image), as all is held out: try";
  const auto init = accrue({"init", "few"});
  EXPECT_EQ(init.status, 0) << init.errors;
  EXPECT_THAT(init.output, HasSubstr(named));
  EXPECT_THAT(accrue({"data", "accrue.toml"}).output, HasSubstr(named));
  std::string config = read_file(folder_ / "accrue.toml");
  const std::size_t line = config.find("eval_every");
  ASSERT_NE(line, config.npos);
  config.erase(line, config.find('\n', line) + 1 - line);
  write("whole.toml", config);
  const auto whole = accrue({"data", "whole.toml", "--data.val_fraction=0"});
  EXPECT_EQ(whole.status, 0) << whole.errors;
  EXPECT_THAT(whole.output, ::testing::Not(HasSubstr("nothing is trained on")));
}

TEST_F(Init, RefusesAValBesideClassesThatHoldFolders) {
  for (const char* name : {"d/cat/day", "d/dog/day", "d/val/cat"}) {
    std::filesystem::create_directories(folder_ / name);
    write(std::string(name) + "/0.png", png_of(8, 8, 1, std::string(64, 'x')));
  }
  EXPECT_EQ(refused({"d"}),
            "error: accrue init: expected a folder train beside d/val, received folders of classes "
            "beside it, such as d/cat; try moving these into d/train\n");
}

TEST_F(Init, FromAModelFolder) {
  write_small_run();
  ASSERT_EQ(accrue({"train", "run.toml"}).status, 0);
  ASSERT_EQ(accrue({"export", "out", "--out", "model"}).status, 0);
  std::filesystem::remove_all(folder_ / "out");
  EXPECT_THAT(trained({"model", "text.txt"}), HasSubstr("from = \"model\""));
}

TEST_F(Init, OverwritesNothing) {
  write_text("tale.txt");
  write("accrue.toml", "mine");
  const auto result = accrue({"init", "tale.txt"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.errors, HasSubstr("accrue.toml, which does; try --out with another name"));
  EXPECT_EQ(read_file(folder_ / "accrue.toml"), "mine");
  EXPECT_EQ(accrue({"init", "tale.txt", "--out", "other.toml"}).status, 0);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "other.toml"));
}

/// Before the data are read: the files that are named here do not exist.
TEST_F(Init, RefusesWhatItCouldNotWrite) {
  for (const char* out : {"", "none/accrue.toml", "none/"}) {
    const std::string name = out;
    EXPECT_EQ(refused({"nothing.txt", "--out", name}),
              "error: accrue init: expected the name of a file in a folder that exists, received "
              "--out \"" +
                  name + "\"; try accrue.toml, or making the folder\n");
  }
  std::filesystem::create_symlink(folder_ / "elsewhere.toml", folder_ / "link.toml");
  EXPECT_THAT(refused({"nothing.txt", "--out", "link.toml"}), HasSubstr("link.toml, which does"));
}

TEST_F(Init, RefusesWhatCannotBeTrainedOnByName) {
  write_text("tale.txt");
  write("table.csv", "a,b\n1,2\n");
  write("short.txt", "too short");
  EXPECT_THAT(refused({"nothing.txt"}), HasSubstr("'nothing.txt'"));
  EXPECT_THAT(refused({"table.csv"}), HasSubstr("table.csv: a table"));
  EXPECT_THAT(refused({"short.txt"}), HasSubstr("tokens to train on"));
  std::filesystem::create_directories(folder_ / "model");
  write("model/config.json", "{}");
  EXPECT_THAT(refused({"model"}), HasSubstr("the model model alone"));
  EXPECT_THAT(refused({"model", "tale.txt"}), HasSubstr("config.json"));
}

TEST_F(Init, TrainsWellOnASmallText) {
  write_text("tale.txt", 600);
  ASSERT_EQ(accrue({"init", "tale.txt"}).status, 0);
  const auto train = accrue({"train", "accrue.toml", "--run.steps=120", "--run.threads=1",
                             "--memory.budget=none", "--run.out=out"});
  ASSERT_EQ(train.status, 0) << train.errors;
  std::vector<double> losses;
  std::istringstream lines(read_file(folder_ / "out/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const auto fields = nlohmann::json::parse(line);
    if (fields.contains("eval_loss")) losses.push_back(fields["eval_loss"]);
  }
  ASSERT_GE(losses.size(), 2U);
  EXPECT_LT(losses.back(), 1.5) << "a byte of 256 by chance: 5.5";
}

/// accrue train without a config makes the same choice by itself.
class TrainWithoutConfig : public Init {
 protected:
  Program::Result train(Words more) const {
    more.insert(more.begin(),
                {"train", "--batch.micro=4", "--run.threads=1", "--memory.budget=none"});
    return accrue(std::move(more));
  }
};

TEST_F(TrainWithoutConfig, ChoosesOneAndSaysWhich) {
  write_text("tale.txt");
  const auto run = train({"--data.train=tale.txt", "--run.steps=2"});
  ASSERT_EQ(run.status, 0) << run.errors;
  EXPECT_THAT(run.errors,
              AllOf(HasSubstr("no config was given: this one was chosen"),
                    HasSubstr("train = [\"tale.txt\"]"), HasSubstr("# with this width ")));
  // It is the run's own: with what the command line states.
  EXPECT_THAT(run.errors, AllOf(HasSubstr("\nsteps = 2 "), HasSubstr("\nmicro = 4 "),
                                HasSubstr("\nbudget = \"none\" ")));
  EXPECT_THAT(read_file(folder_ / "runs/tale/config.toml"),
              AllOf(HasSubstr("steps = 2"), HasSubstr("micro = 4")));
}

TEST_F(TrainWithoutConfig, GoesOnWithTheRunsOwnConfig) {
  write_text("tale.txt");
  ASSERT_EQ(train({"--data.train=tale.txt", "--run.steps=2"}).status, 0);
  const auto again = train({"--data.train=tale.txt", "--run.steps=2"});
  EXPECT_EQ(again.status, 2);
  EXPECT_THAT(again.errors, HasSubstr("runs/tale"));
  const auto longer = train({"--data.train=tale.txt", "--run.steps=3", "--resume"});
  EXPECT_EQ(longer.status, 0) << longer.errors;
  EXPECT_THAT(longer.errors, ::testing::Not(HasSubstr("no config was given")));
  EXPECT_THAT(longer.output, HasSubstr("step            3\n"));
}

TEST_F(TrainWithoutConfig, StartsFromAModel) {
  write_small_run();
  ASSERT_EQ(accrue({"train", "run.toml"}).status, 0);
  ASSERT_EQ(accrue({"export", "out", "--out", "model"}).status, 0);
  for (const char* from : {"model", "out"}) {
    const auto run = train({std::string("--model.from=") + from, "--data.train=text.txt",
                            "--run.steps=2", "--precision.compute=fp32"});
    ASSERT_EQ(run.status, 0) << run.errors;
    EXPECT_THAT(
        read_file(folder_ / "runs" / (std::string(from) + "-text") / "config.toml"),
        AllOf(HasSubstr(std::string("from = \"") + from + "\""), HasSubstr("context = 16")));
  }
}

TEST_F(TrainWithoutConfig, RefusesWhatNamesNoData) {
  write_small_run();
  ASSERT_EQ(accrue({"train", "run.toml"}).status, 0);
  const auto refused_with = [&](Words words) {
    const auto result = train(std::move(words));
    EXPECT_EQ(result.status, 2) << result.errors;
    return result.errors;
  };
  EXPECT_THAT(refused_with({}), HasSubstr("--data.train=FILE"));
  EXPECT_THAT(refused_with({"--model.from=out"}), HasSubstr("--data.train=FILE"));
  EXPECT_THAT(refused_with({"--data.train=nothing.txt"}), HasSubstr("nothing.txt"));
  EXPECT_THAT(refused_with({"--data.train=text.txt", "--model.from=nothing"}),
              HasSubstr("nothing"));
  EXPECT_THAT(refused_with({"--data.train=text.txt", "--optim.learning=1"}),
              HasSubstr("optim.learning"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs"));
}

}  // namespace
}  // namespace accrue::testing
