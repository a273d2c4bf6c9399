// Budgets that a user sets.
#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "accrue_program.h"
#include "support/png.h"

namespace accrue::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr long kKibiPerGibi = 1L << 20;

class Memory : public AccrueProgram {
 protected:
  std::vector<nlohmann::json> metrics() const {
    std::vector<nlohmann::json> lines;
    std::ifstream file(folder_ / "out" / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }

  /// A picture of 3840 x 2160 whose stripes distinguish the classes.
  void write_picture(const std::filesystem::path& file, int stripe) const {
    constexpr int width = 3840, height = 2160;
    std::string pixels(std::size_t{3} * width * height, '\0');
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < 3 * width; ++x)
        pixels[static_cast<std::size_t>(y * 3 * width + x)] =
            static_cast<char>((x / stripe + y / (2 * stripe)) % 2 * 200 + (x * 31 + y * 17) % 23);
    std::ofstream(file, std::ios::binary) << png_of(width, height, 3, pixels);
  }
};

TEST_F(Memory, AResNetTrainsOnLargeImagesByOneAtATimeWithinFourGibibytes) {
  for (int kind = 0; kind < 2; ++kind) {
    const auto folder = folder_ / "pictures" / ("kind" + std::to_string(kind));
    std::filesystem::create_directories(folder);
    write_picture(folder / "0.png", 16 << kind);
  }
  write("run.toml",
        "[run]\nout = \"out\"\nsteps = 1\n[model]\nkind = \"resnet\"\nlayers = 8\nwidth = 4\n"
        "batchnorm = \"convert-group\"\n[data]\ntrain = [\"pictures/**/*.png\"]\n"
        "[batch]\nsamples = 2\nmicro = 1\n[memory]\nbudget = \"3.5GiB\"\n");
  const auto result = accrue({"train", "run.toml"}, Load::anew);
  ASSERT_EQ(result.status, 0) << result.errors;
  const auto lines = metrics();
  const auto step = std::ranges::find_if(lines, [](const auto& l) { return l.contains("loss"); });
  ASSERT_NE(step, lines.end());
  EXPECT_EQ(step->at("micro_batches"), 2);
  EXPECT_EQ(step->at("retries"), 0);
  EXPECT_LT(result.peak_resident_kibibytes, 4 * kKibiPerGibi);
}

/// 6500 x 6500 pixels of three bytes are 121 MiB, and the file comes on top.
TEST_F(Memory, AnImageThatTheBudgetCannotDecodeIsRefusedByNameBeforeTheRun) {
  constexpr int side = 6500;
  const auto write_image = [&](const char* name, int size) {
    const std::filesystem::path file = folder_ / "pictures" / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary)
        << png_of(size, size, 3, std::string(std::size_t{3} * size * size, '\x40'));
  };
  for (const char* name : {"a/0.png", "a/1.png", "b/0.png"}) write_image(name, 16);
  write_image("b/large.png", side);
  write("run.toml",
        "[run]\nout = \"out\"\nsteps = 2\n[model]\nkind = \"resnet\"\nlayers = 8\nwidth = 4\n"
        "batchnorm = \"convert-group\"\n[data]\ntrain = [\"pictures/*/*.png\"]\n"
        "image = [16, 16]\n[batch]\nsamples = 4\n");
  const auto refused = accrue({"train", "run.toml", "--memory.budget=290MiB"});
  EXPECT_EQ(refused.status, 3) << refused.errors;
  EXPECT_THAT(refused.errors, ContainsRegex("b/large.png, which takes 12[1-9] MiB"));
  EXPECT_THAT(refused.errors, HasSubstr("data.exclude"));
  EXPECT_LT(refused.peak_resident_kibibytes, 290 << 10);

  const auto trained = accrue({"train", "run.toml", "--memory.budget=700MiB"});
  EXPECT_EQ(trained.status, 0) << trained.errors;
  EXPECT_LT(trained.peak_resident_kibibytes, 700 << 10);
  const auto without = accrue({"train", "run.toml", "--memory.budget=290MiB", "--run.out=without",
                               "--data.exclude=[\"pictures/b/large.png\"]"});
  EXPECT_EQ(without.status, 0) << without.errors;
}

TEST_F(Memory, ABudgetThatHoldsNoSampleIsRefusedWithWhatWouldFit) {
  write_small_run();
  const auto result = accrue({"train", "run.toml", "--memory.budget=300KiB", "--batch.micro=auto"});
  EXPECT_EQ(result.status, 3) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("error: "));
  EXPECT_THAT(result.errors, HasSubstr("try "));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out" / "metrics.jsonl"));
  // The same folder accepts the run that fits.
  EXPECT_EQ(accrue({"train", "run.toml", "--memory.budget=1GiB"}).status, 0);
}

/// The resident memory by the kernel's count, including planning trials, evaluation, checkpoints.
TEST_F(Memory, TheProcessStaysWithinItsBudget) {
  write_small_run();
  const Words shape{"--model.layers=4",    "--model.width=128",  "--model.context=64",
                    "--batch.tokens=8192", "--batch.micro=auto", "--run.eval_every=2"};
  for (const long mebibytes : {320L, 448L, 1024L}) {
    const std::string name = std::to_string(mebibytes);
    Words words{"train", "run.toml", "--run.out=b" + name, "--memory.budget=" + name + "MiB"};
    words.insert(words.end(), shape.begin(), shape.end());
    const auto result = accrue(words);
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_LE(result.peak_resident_kibibytes, mebibytes * 1024) << name;
    EXPECT_GT(result.peak_resident_kibibytes, 64 * 1024) << "or nothing was measured";
  }
}

TEST_F(Memory, ABudgetBelowTheProgramItselfIsRefusedWithWhatItTakes) {
  write_small_run();
  const auto result = accrue({"train", "run.toml", "--memory.budget=40MiB"});
  EXPECT_EQ(result.status, 3) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("that the program itself holds outside tensors"));
  EXPECT_THAT(result.errors, HasSubstr("received 40.0 MiB; try memory.budget = \""));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

/// The last budget in a message.
std::string named_budget(const std::string& message) {
  const std::string before = "memory.budget = \"";
  const std::size_t at = message.rfind(before);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + before.size();
  return message.substr(begin, message.find('"', begin) - begin);
}

/// A user who follows the message of a refusal is not refused again: whether there is no room for
/// the program itself, the model, or a micro-batch.
TEST_F(Memory, TheBudgetThatARefusalNamesIsEnough) {
  write_small_run();
  const std::vector<Words> models{
      {"--model.layers=1", "--model.width=32"},
      {"--model.layers=3", "--model.width=128", "--model.context=64", "--batch.tokens=4096"},
      {"--model.width=96", "--batch.tokens=2048", "--precision.compute=bf16"}};
  int refused = 0;
  for (const Words& model : models)
    for (const int mebibytes : {5, 152, 166, 180}) {
      const std::string run_folder = "run" + std::to_string(mebibytes) + model.back();
      const auto train = [&](const std::string& budget) {
        Words words{"train", "run.toml", "--batch.micro=auto", "--memory.budget=" + budget,
                    "--run.out=" + run_folder};
        words.insert(words.end(), model.begin(), model.end());
        return accrue(words);
      };
      const auto first = train(std::to_string(mebibytes) + "MiB");
      if (first.status == 0) continue;
      ++refused;
      ASSERT_EQ(first.status, 3) << first.errors;
      EXPECT_FALSE(std::filesystem::exists(folder_ / run_folder)) << "refused before it began";
      const auto second = train(named_budget(first.errors));
      EXPECT_EQ(second.status, 0) << first.errors << second.errors;
    }
  EXPECT_GE(refused, 6);
}

/// A run that had to split its micro-batches reports what they take unsplit; with that budget, none
/// is split. `accrue plan`, which refuses the smaller budget, accepts it, too.
TEST_F(Memory, TheBudgetThatARunOutOfMemoryNamesIsEnough) {
  write_small_run();
  const Words shape{"run.toml",           "--model.layers=3",       "--model.width=128",
                    "--model.context=64", "--batch.tokens=8192",    "--batch.micro=128",
                    "--run.steps=2",      "--memory.recompute=none"};
  const auto with = [&](const std::string& verb, const std::string& budget) {
    Words words{verb};
    words.insert(words.end(), shape.begin(), shape.end());
    words.push_back("--memory.budget=" + budget);
    if (verb == "train") words.push_back("--run.out=run" + budget);
    return accrue(words);
  };
  const std::string small = "280MiB";
  const auto split = with("train", small);
  ASSERT_EQ(split.status, 0) << split.errors;
  const std::size_t event = split.errors.find("out_of_memory: micro-batches of 128 samples ran");
  ASSERT_NE(event, std::string::npos) << split.errors;
  const std::string line = split.errors.substr(event, split.errors.find('\n', event) - event);
  EXPECT_THAT(line, HasSubstr("; for 128 try memory.budget = \""));
  std::string budget = named_budget(line);
  budget.erase(std::remove(budget.begin(), budget.end(), ' '), budget.end());
  const auto whole = with("train", budget);
  EXPECT_EQ(whole.status, 0) << whole.errors;
  EXPECT_EQ(whole.errors.find("out_of_memory"), std::string::npos) << whole.errors;
  EXPECT_EQ(with("plan", small).status, 3) << "the control";
  EXPECT_EQ(with("plan", budget).status, 0);
}

}  // namespace
}  // namespace accrue::testing
