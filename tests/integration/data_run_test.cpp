// Runs on JSON lines and images, and errors in the middle of them.
#include <gmock/gmock.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "accrue_program.h"
#include "core/atomic_file.h"
#include "support/png.h"

namespace accrue::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

class DataRun : public AccrueProgram {
 protected:
  /// Training lines whose terms weigh `weight(line)`, taken in order, eight per step.
  void write_lines(const std::function<double(int)>& weight) const {
    std::ostringstream lines;
    for (int i = 0; i < 32; ++i)
      lines << "{\"prompt\": \"a\", \"completion\": \"the quick fox\", \"weight\": " << weight(i)
            << "}\n";
    write("lines.jsonl", lines.str());
    write("run.toml",
          "[run]\nout = \"out\"\nsteps = 4\nthreads = 1\n"
          "[model]\nlayers = 1\nheads = 2\nwidth = 16\ncontext = 16\n"
          "[data]\ntrain = [\"lines.jsonl\"]\norder = \"sequential\"\n"
          "[batch]\nsamples = 8\nmicro = 2\n");
  }

  /// Images of two classes, 8 x 8.
  void write_images() const {
    for (int i = 0; i < 24; ++i) {
      const std::string label = i % 2 == 0 ? "even" : "odd";
      std::filesystem::create_directories(folder_ / "images" / label);
      std::string pixels(64, '\0');
      for (int p = 0; p < 64; ++p) pixels[static_cast<std::size_t>(p)] = char(i * 37 + p * (7 + i));
      write("images/" + label + "/" + std::to_string(i) + ".png", png_of(8, 8, 1, pixels));
    }
    write("run.toml",
          "[run]\nout = \"out\"\nsteps = 4\nthreads = 1\ncheckpoint_every = 2\n"
          "[model]\nkind = \"resnet\"\nlayers = 8\nwidth = 4\nbatchnorm = \"exact\"\n"
          "[data]\ntrain = [\"images/*/*.png\"]\nval_fraction = 0.2\n"
          "[batch]\nsamples = 8\nmicro = 3\n");
  }

  void damage(const std::string& image) const {
    write(image, read_file(folder_ / image).substr(0, 45));
  }

  std::vector<json> metrics() const {
    std::vector<json> lines;
    std::istringstream content(read_file(folder_ / "out/metrics.jsonl"));
    for (std::string line; std::getline(content, line);) lines.push_back(json::parse(line));
    return lines;
  }
  std::vector<json> events(const std::string& name) const {
    std::vector<json> found;
    for (const json& line : metrics())
      if (line.value("event", "") == name) found.push_back(line);
    return found;
  }
  bool has_checkpoint(int step) const {
    return std::filesystem::exists(folder_ / "out/checkpoints" /
                                   ("step-0000000" + std::to_string(step)));
  }
  std::string refused(const Words& arguments) const {
    Words words{"train", "run.toml"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    const auto result = accrue(words);
    EXPECT_EQ(result.status, 2) << result.errors;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
    return result.errors;
  }
};

constexpr double too_much = 3e38;  // multiplied by a loss of more than 1 it exceeds fp32

TEST_F(DataRun, DataTellsOfEachSource) {
  write_lines([](int) { return 1; });
  write("text.txt", std::string(1000, 'a'));
  const auto result = accrue({"data", "run.toml", "--json",
                              "--data.train=[{path = \"lines.jsonl\", weight = 3}, "
                              "{path = \"text.txt\", weight = 0.5}]"});
  ASSERT_EQ(result.status, 0) << result.errors;
  const json train = json::parse(result.output)["train"];
  EXPECT_EQ(train["sources"],
            json::parse(R"([{"path": "lines.jsonl", "weight": 3, "samples": 32, "tokens": 416},
                            {"path": "text.txt", "weight": 0.5, "samples": 62, "tokens": 992}])"));
  EXPECT_EQ(train["samples"], 94);
  EXPECT_EQ(train["tokens"], 1408);
  const auto alone = accrue({"data", "run.toml", "--json"});
  EXPECT_FALSE(json::parse(alone.output)["train"].contains("sources"));
}

TEST_F(DataRun, LeavesOutAMicroBatchThatIsNotFiniteAndNamesItsSamples) {
  write_lines([](int line) { return line == 10 ? too_much : 1; });
  const auto result = accrue({"train", "run.toml"});
  EXPECT_EQ(result.status, 0) << result.errors;
  const auto quarantined = events("quarantine");
  ASSERT_EQ(quarantined.size(), 1u);
  EXPECT_EQ(quarantined[0]["step"], 2);
  EXPECT_THAT(quarantined[0]["reason"].get<std::string>(),
              HasSubstr("micro-batch 1 (samples 10 to 11) was left out: "));
  for (const json& line : metrics())
    if (line.contains("lr")) {
      EXPECT_EQ(line["quarantined"], line["step"] == 2 ? 1 : 0);
      EXPECT_EQ(line["weight"], line["step"] == 2 ? 6 * 13 : 8 * 13);
    }
  EXPECT_THAT(result.errors, HasSubstr("samples 10 to 11"));
}

TEST_F(DataRun, StopsWhereTooMuchIsNotFiniteAndKeepsItsSteps) {
  write_lines([](int line) { return line == 18 || line == 20 ? too_much : 1; });
  for (const bool resume : {false, true}) {
    Words words{"train", "run.toml"};
    if (resume) words.push_back("--resume");
    const auto result = accrue(words);
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.errors, HasSubstr("at most 1 of its 4 micro-batches"));
    EXPECT_THAT(result.errors, HasSubstr("samples 20 to 21"));
    EXPECT_TRUE(has_checkpoint(2)) << resume;
    EXPECT_EQ(events("quarantine").size(), 2u) << resume;
  }
  const auto generous =
      accrue({"train", "run.toml", "--run.out=out2", "--batch.max_quarantined=1"});
  EXPECT_EQ(generous.status, 0) << generous.errors;
}

TEST_F(DataRun, TakesNoStepOnABatchWithoutWeightAndGoesOn) {
  write_lines([](int line) { return line / 8 == 1 ? 0 : 1; });
  const auto result = accrue({"train", "run.toml"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(events("no_step").size(), 1u);
  EXPECT_TRUE(has_checkpoint(3)) << "three steps in four windows";
}

TEST_F(DataRun, RefusesHeldOutDataThatCannotBeEvaluated) {
  write_lines([](int line) { return line < 16 ? 1 : 0; });
  EXPECT_THAT(refused({"--data.val_fraction=0.25"}), HasSubstr("labels that count"));
  write("ids.jsonl", "{\"input_ids\": [1, 900, 3], \"labels\": [1, 900, 3]}\n");
  EXPECT_THAT(refused({"--data.val=[\"ids.jsonl\"]"}), HasSubstr("id 900"));
  write_images();
  std::filesystem::create_directories(folder_ / "other/odd");
  write("other/odd/1.png", png_of(9, 9, 1, std::string(81, '\1')));
  EXPECT_THAT(refused({"--data.val=[\"ids.jsonl\"]", "--data.val_fraction=0"}),
              HasSubstr("data.val: expected images"));
  const auto other_size = accrue({"train", "run.toml", "--data.val=[\"other/*/*\"]",
                                  "--data.val_fraction=0", "--run.steps=1"});
  EXPECT_EQ(other_size.status, 0) << other_size.errors;
  EXPECT_THAT(other_size.errors,
              HasSubstr("of data.val, 1 image of other sizes is scaled to cover 8 x 8"));
}

TEST_F(DataRun, ResumesExactBatchNormalisationToTheSameBits) {
  write_images();
  const std::string plan = accrue({"train", "run.toml", "--dry-run"}).output;
  EXPECT_THAT(plan, HasSubstr("2 x 3 + 2 = 8 samples in 3 accumulation steps\n"));
  EXPECT_THAT(plan, Not(HasSubstr("token")));
  ASSERT_EQ(accrue({"train", "run.toml", "--run.out=whole"}).status, 0);
  ASSERT_EQ(accrue({"train", "run.toml"}).status, 0);
  std::filesystem::remove_all(folder_ / "out/checkpoints/step-00000004");
  ASSERT_EQ(accrue({"train", "run.toml", "--resume"}).status, 0);
  const std::string model = "checkpoints/step-00000004/model.safetensors";
  EXPECT_EQ(read_file(folder_ / "out" / model), read_file(folder_ / "whole" / model));
  EXPECT_THAT(read_file(folder_ / "out" / model), HasSubstr("bn1.running_mean"));
}

TEST_F(DataRun, AModelOfImagesStartsFromARun) {
  write_images();
  const std::string group = "--model.batchnorm=convert-group";
  ASSERT_EQ(accrue({"train", "run.toml", "--run.out=first", group}).status, 0);
  write("more.toml",
        "[run]\nout = \"out\"\nsteps = 1\nthreads = 1\n"
        "[model]\nkind = \"resnet\"\nfrom = \"first\"\n"
        "[data]\ntrain = [\"images/*/*.png\"]\n[batch]\nsamples = 8\nmicro = 3\n"
        "[optim]\nweight_decay = 0\n");
  const auto moves_by = [&](const std::string& lr) {
    std::filesystem::remove_all(folder_ / "out");
    const auto result = accrue({"train", "more.toml", group, "--optim.lr=" + lr});
    EXPECT_EQ(result.status, 0) << result.errors;
    return read_file(folder_ / "out/checkpoints/step-00000001/model.safetensors") !=
           read_file(folder_ / "first/checkpoints/step-00000004/model.safetensors");
  };
  EXPECT_FALSE(moves_by("1e-30")) << "the model is the run's";
  EXPECT_TRUE(moves_by("1e-3"));

  const auto refused = [&](const Words& more) {
    Words words{"train", "more.toml", "--run.out=other"};
    words.insert(words.end(), more.begin(), more.end());
    const auto refusal = accrue(words);
    EXPECT_EQ(refusal.status, 2);
    return refusal.errors;
  };
  EXPECT_THAT(refused({"--model.batchnorm=exact"}),
              HasSubstr("model.batchnorm = \"convert-group\", as that run has"));
  EXPECT_THAT(refused({group, "--model.layers=14", "--model.stem=3x3"}),
              HasSubstr("expected model.layers = 8, as the run in model.from has it, received "
                        "model.layers = 14; try removing model.layers"));
  const auto agrees = accrue({"train", "more.toml", "--run.out=agrees", group, "--model.layers=8",
                              "--model.width=4", "--model.stem=3x3", "--model.vocab=2"});
  EXPECT_EQ(agrees.status, 0) << agrees.errors;
  EXPECT_THAT(refused({"--model.kind=vit"}), HasSubstr("model.kind = \"resnet\""));
  for (int i = 0; i < 3; ++i) {
    const std::string name = "wide/class" + std::to_string(i) + "/a.png";
    std::filesystem::create_directories((folder_ / name).parent_path());
    write(name, png_of(16, 8, 1, std::string(128, char(i))));
    const std::string small = "three/class" + std::to_string(i) + "/a.png";
    std::filesystem::create_directories((folder_ / small).parent_path());
    write(small, png_of(8, 8, 1, std::string(64, char(i))));
  }
  EXPECT_THAT(refused({group, "--data.train=[\"wide/*/*.png\"]", "--data.image=16"}),
              HasSubstr("images of 1 x 8 x 8"));
  EXPECT_EQ(accrue({"train", "more.toml", group, "--run.out=scaled",
                    "--data.train=[\"wide/class0/*.png\", \"wide/class1/*.png\"]"})
                .status,
            0)
      << "images are brought to the size that the model takes";
  EXPECT_THAT(refused({group, "--data.train=[\"three/*/*.png\"]"}),
              HasSubstr("a model.from with as many"));
}

/// For each split, with batch normalisation over the window or without.
TEST_F(DataRun, AnImageThatDoesNotDecodeIsLeftOutAndNamed) {
  write_images();
  damage("images/odd/9.png");
  for (const char* norm : {"exact", "convert-group"}) {
    std::vector<double> losses;
    for (const char* micro : {"1", "3", "8"}) {
      std::filesystem::remove_all(folder_ / "out");
      const auto result =
          accrue({"train", "run.toml", "--data.val_fraction=0", "--run.steps=3",
                  std::string("--batch.micro=") + micro, std::string("--model.batchnorm=") + norm});
      EXPECT_EQ(result.status, 0) << result.errors;
      const auto told = events("quarantine");
      ASSERT_EQ(told.size(), 1u) << "an epoch";
      EXPECT_THAT(told[0]["reason"].get<std::string>(), HasSubstr("odd/9.png does not decode"));
      int weight = 0;
      for (const json& line : metrics())
        if (line.contains("lr")) {
          weight += line["weight"].get<int>();
          EXPECT_EQ(line["quarantined"], 0);
          losses.push_back(line["loss"]);
        }
      EXPECT_EQ(weight, 23);
    }
    for (std::size_t i = 3; i < losses.size(); ++i)
      EXPECT_NEAR(losses[i], losses[i % 3], 1e-4 * losses[i]) << norm;
  }
}

TEST_F(DataRun, GoesOnWithoutImagesThatDoNotDecode) {
  write_images();
  const Words train{"train", "run.toml", "--data.val_fraction=0", "--batch.max_quarantined=0"};
  const std::string exclude = "--data.exclude=[\"images/odd/9.png\"]";
  const auto with = [&](const Words& more) {
    Words words = train;
    words.insert(words.end(), more.begin(), more.end());
    return accrue(words);
  };
  damage("images/odd/9.png");
  const auto stopped = with({});
  EXPECT_EQ(stopped.status, 1);
  EXPECT_THAT(stopped.errors, HasSubstr("at most 0 of its 8 samples"));
  EXPECT_THAT(stopped.errors, HasSubstr("odd/9.png does not decode"));
  EXPECT_THAT(stopped.errors, HasSubstr("data.exclude"));
  const auto resumed = with({"--resume", exclude});
  EXPECT_EQ(resumed.status, 0) << resumed.errors;
  EXPECT_EQ(with({"--run.out=whole", exclude}).status, 0);
  const std::string model = "checkpoints/step-00000004/model.safetensors";
  EXPECT_EQ(read_file(folder_ / "out" / model), read_file(folder_ / "whole" / model));
  EXPECT_EQ(events("quarantine").size(), 0u);
  EXPECT_EQ(with({"--run.out=generous", "--batch.max_quarantined=1"}).status, 0);
  EXPECT_EQ(read_file(folder_ / "generous" / model), read_file(folder_ / "whole" / model))
      << "left out and excluded are the same";
}

TEST_F(DataRun, LeavesOutOfTheEvaluationWhatDoesNotDecode) {
  write_images();
  for (const char* name : {"images/odd/23.png", "images/even/22.png"}) damage(name);
  const auto result = accrue({"train", "run.toml", "--data.train=[\"images/*/1?.png\"]",
                              "--data.val=[\"images/*/2?.png\"]", "--data.val_fraction=0"});
  EXPECT_EQ(result.status, 0) << result.errors;
  const auto told = events("quarantine");
  ASSERT_FALSE(told.empty());
  EXPECT_THAT(told[0]["reason"].get<std::string>(), HasSubstr("left out of the evaluation: "));
  EXPECT_THAT(told[0]["reason"].get<std::string>(), HasSubstr("odd/23.png does not decode"));
}

TEST_F(DataRun, RefusesAModelOfImagesThatDoesNotFitThem) {
  write_images();
  EXPECT_THAT(refused({"--model.batchnorm=error"}), HasSubstr("model.batchnorm = \"exact\""));
  EXPECT_THAT(refused({"--model.vocab=1"}), HasSubstr("model.vocab"));
  EXPECT_THAT(refused({"--batch.tokens=8"}), HasSubstr("batch.samples"));
  EXPECT_THAT(refused({"--model.kind=vit", "--model.batchnorm=exact"}),
              HasSubstr("config key model.batchnorm"));
  EXPECT_THAT(refused({"--model.kind=vit", "--model.context=5", "--model.heads=2"}),
              HasSubstr("model.context"));
}

TEST_F(DataRun, RefusesUnknownValues) {
  write_lines([](int) { return 1; });
  for (const char* key :
       {"data.format", "data.packing", "data.order", "model.kind", "model.batchnorm",
        "precision.accumulate", "precision.compute", "batch.max_quarantined", "batch.last"})
    EXPECT_THAT(refused({std::string("--") + key + "=other"}), HasSubstr(key));
  EXPECT_THAT(refused({"--model.context=8"}), HasSubstr("model.context = 13"));
}

}  // namespace
}  // namespace accrue::testing
