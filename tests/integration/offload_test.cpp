// Windows in layered order, and state that lies in a file.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "accrue_program.h"

namespace accrue::testing {
namespace {

using ::testing::HasSubstr;

class Offload : public AccrueProgram {
 protected:
  /// Trains in `out` and returns the model and optimizer state of its last checkpoint as bytes.
  std::string trained(const std::string& out, std::vector<std::string> options) {
    options.insert(options.begin(), {"train", "run.toml", "--run.out=" + out});
    const auto result = accrue(options);
    EXPECT_EQ(result.status, 0) << result.errors;
    return state_of(out);
  }

  std::string state_of(const std::string& out) const {
    std::string state;
    for (const char* file : {"model.safetensors", "optimizer.safetensors"}) {
      std::ifstream stream(folder_ / out / "checkpoints" / "step-00000003" / file,
                           std::ios::binary);
      EXPECT_TRUE(stream) << file;
      state.append(std::istreambuf_iterator<char>(stream), {});
    }
    return state;
  }

  std::string refusal(std::vector<std::string> options) {
    options.insert(options.begin(), {"train", "run.toml"});
    const auto result = accrue(options);
    EXPECT_EQ(result.status, 2) << result.errors;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
    return result.errors;
  }

  /// The matrices are large enough to be offloaded (64 KiB), and there are several micro-batches.
  void write_run() {
    write("text.txt", std::string(4000, 'a') + std::string(4000, 'b'));
    write("run.toml",
          "[run]\nout = \"out\"\nsteps = 3\nseed = 5\n[model]\nkind = \"gpt2\"\nlayers = 2\n"
          "width = 128\nheads = 4\ncontext = 32\ndropout = 0.1\n[data]\ntrain = [\"text.txt\"]\n"
          "[batch]\nsamples = 7\nmicro = 2\n[optim]\nlr = 0.01\nclip = 1.0\nschedule.kind = "
          "\"constant\"\n");
  }

  /// Not the temporary folder, which may lie in memory.
  static std::string here() {
    return "--memory.offload=" + std::filesystem::current_path().string();
  }
};

TEST_F(Offload, FixedPointSumsHaveTheSameBitsInEachOrderAndPlace) {
  write_run();
  const std::string fixed = "--precision.accumulate=fixed";
  const std::string standard = trained("standard", {fixed});
  EXPECT_EQ(trained("layered", {fixed, "--memory.accumulation=layered"}), standard);
  EXPECT_EQ(trained("offloaded", {fixed, here()}), standard);
  EXPECT_NE(trained("control", {fixed, here(), "--run.seed=6"}), standard);
}

TEST_F(Offload, TheFileChangesNoBits) {
  write_run();
  for (const char* option : {"--precision.compute=bf16", "--optim.state=int8", "--optim.kind=sgd"})
    EXPECT_EQ(trained(std::string("offloaded") + option, {option, here()}),
              trained(std::string("layered") + option, {option, "--memory.accumulation=layered"}))
        << option;
}

TEST_F(Offload, FrozenParametersHaveTheSameBitsInTheFile) {
  write_run();
  const std::vector<std::string> llama{"--model.kind=llama", "--model.width=256",
                                       "--precision.compute=bf16", "--lora.rank=2"};
  const auto with = [&](const std::string& base) {
    std::vector<std::string> options = llama;
    options.insert(options.end(), {"--model.base=" + base, "--lora.kind=dora"});
    return options;
  };
  const std::vector<std::vector<std::string>> runs{
      {"--lora.rank=2"},
      {"--model.freeze=[\"wte\", \"h.0\"]", "--precision.compute=bf16"},
      llama,
      with("q8_0")};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::vector<std::string> layered = runs[i], offloaded = runs[i];
    layered.emplace_back("--memory.accumulation=layered");
    offloaded.push_back(here());
    EXPECT_EQ(trained("offloaded" + std::to_string(i), offloaded),
              trained("layered" + std::to_string(i), layered))
        << "run " << i;
  }
}

/// 1.6 MiB of matrices of 64 KiB or more; the adapters are smaller.
TEST_F(Offload, TheFrozenBaseOfAdaptersLiesInTheFile) {
  write_run();
  const auto result = accrue({"train", "run.toml", "--lora.rank=2", here()});
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("optimizer state, 1.6"));
}

TEST_F(Offload, ABaseInTheBlocksOfItsGgufFileHasTheSameBitsInTheFile) {
  write_run();
  ASSERT_EQ(accrue({"train", "run.toml", "--run.out=first", "--model.kind=llama",
                    "--model.width=256", "--run.steps=1"})
                .status,
            0);
  ASSERT_EQ(
      accrue({"export", "first", "--format", "gguf", "--dtype", "q8_0", "--out", "packed"}).status,
      0);
  write("run.toml",
        "[run]\nsteps = 3\nseed = 5\n[data]\ntrain = [\"text.txt\"]\n[batch]\nsamples = 7\n"
        "micro = 2\n[model]\nfrom = \"packed/model.gguf\"\n[lora]\nrank = 2\n");
  const std::string layered = trained("layered", {"--memory.accumulation=layered"});
  EXPECT_THAT(layered, HasSubstr("\"U8\"")) << "the base is in blocks";
  EXPECT_EQ(trained("offloaded", {here()}), layered);
}

TEST_F(Offload, ARunContinuesWithAndWithoutTheFile) {
  write_run();
  const std::string whole = trained("whole", {here()});
  for (const char* place : {"", "elsewhere"}) {
    const std::string out = std::string("stopped") + place;
    ASSERT_EQ(accrue({"train", "run.toml", "--run.out=" + out, "--run.steps=2", here()}).status, 0);
    const std::string to = *place == '\0' ? "--memory.offload=\"\"" : here();
    const auto resumed = accrue(
        {"train", "run.toml", "--run.out=" + out, to, "--memory.accumulation=layered", "--resume"});
    ASSERT_EQ(resumed.status, 0) << resumed.errors;
    EXPECT_EQ(state_of(out), whole);
  }
}

/// 40 million parameters: 611 MiB of masters, sums and moments.
TEST_F(Offload, StateLargerThanTheBudgetIsTrained) {
  write_run();
  constexpr long budget_mebibytes = 520;
  const auto result =
      accrue({"train", "run.toml", "--model.layers=6", "--model.width=640", "--model.vocab=16384",
              "--batch.samples=2", "--batch.micro=1", "--run.steps=1", here(),
              "--memory.budget=" + std::to_string(budget_mebibytes) + "MiB"});
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("optimizer state, 6"));
  EXPECT_LT(result.peak_resident_kibibytes, budget_mebibytes << 10);
  const auto without = accrue({"train", "run.toml", "--model.layers=6", "--model.width=640",
                               "--model.vocab=16384", "--batch.samples=2", "--batch.micro=1",
                               "--run.out=without", "--memory.budget=520MiB"});
  EXPECT_EQ(without.status, 3) << "the control: the state does not fit";
}

TEST_F(Offload, RefusesFoldersThatCannotHoldTheState) {
  write_run();
  EXPECT_THAT(refusal({"--memory.offload=/no/such/folder"}), HasSubstr("mkdir -p /no/such/folder"));
  EXPECT_THAT(refusal({"--memory.offload=run.toml"}), HasSubstr("not a folder"));
  EXPECT_THAT(refusal({"--memory.offload=/dev/shm"}), HasSubstr("lies in memory itself"));
  EXPECT_THAT(refusal({here(), "--memory.accumulation=standard"}),
              HasSubstr("memory.accumulation"));
}

}  // namespace
}  // namespace accrue::testing
