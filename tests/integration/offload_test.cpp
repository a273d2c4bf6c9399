// Windows in layered order, and state that lies in a file.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "accrue_program.h"
#include "offloadable_run.h"

namespace accrue::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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
    for (const char* file : {"model.safetensors", "optimizer.safetensors"})
      state += content(folder_ / out / "checkpoints" / "step-00000003" / file);
    return state;
  }

  static std::string content(const std::filesystem::path& file) {
    std::ifstream stream(file, std::ios::binary);
    EXPECT_TRUE(stream) << file;
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  std::string refusal(std::vector<std::string> options) {
    options.insert(options.begin(), {"train", "run.toml"});
    const auto result = accrue(options);
    EXPECT_EQ(result.status, 2) << result.errors;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
    return result.errors;
  }

  void write_run() {
    write("text.txt", offloadable_text());
    write("run.toml", kOffloadableRun);
  }

  /// The lines of steps in the metrics of the run in `out`.
  std::vector<nlohmann::json> steps_of(const std::string& out) const {
    std::vector<nlohmann::json> steps;
    std::ifstream metrics(folder_ / out / "metrics.jsonl");
    for (std::string line; std::getline(metrics, line);)
      if (nlohmann::json parsed = nlohmann::json::parse(line); parsed.contains("samples"))
        steps.push_back(std::move(parsed));
    EXPECT_EQ(steps.size(), 3U) << out;
    return steps;
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

/// The values of write_run() in tensors that are offloaded: of two layers, and the embedding.
constexpr std::int64_t kOffloadedValues = 2 * 12 * 128 * 128 + 256 * 128;

/// A budget makes all state leave memory before each step, so what steps 1 and 2 changed of
/// parameters and moments (12 bytes of each value) is written before step 3. The test expects half
/// of it, since the kernel may write some by itself.
TEST_F(Offload, EachStepReportsWhatItMoved) {
  write_run();
  trained("offloaded", {here(), "--memory.budget=4GiB"});
  std::int64_t read = 0, written = 0;
  bool counts_reads = true, counts_writes = true;
  for (const nlohmann::json& step : steps_of("offloaded")) {
    ASSERT_TRUE(step.contains("offload_wait_seconds"));
    EXPECT_GE(step["offload_wait_seconds"], 0);
    counts_reads = step.contains("offload_read_bytes");
    if (counts_reads) read += step["offload_read_bytes"].get<std::int64_t>();
    counts_writes = step.contains("offload_written_bytes");
    if (counts_writes) written += step["offload_written_bytes"].get<std::int64_t>();
  }
  EXPECT_EQ(read > 0, counts_reads);
  if (counts_writes) {
    EXPECT_GE(written, 2 * 12 * kOffloadedValues / 2);
  }
}

TEST_F(Offload, ARunInMemoryReportsNoTransfers) {
  write_run();
  trained("layered", {"--memory.accumulation=layered"});
  for (const nlohmann::json& step : steps_of("layered"))
    for (const char* field :
         {"offload_read_bytes", "offload_written_bytes", "offload_wait_seconds"})
      EXPECT_FALSE(step.contains(field)) << field;
}

TEST_F(Offload, AFileThatWouldExceedItsBudgetIsRefused) {
  write_run();
  const auto trained_with = [&](const char* budget) {
    return accrue({"train", "run.toml", here(), std::string("--memory.offload_budget=") + budget});
  };
  const auto by_arithmetic = trained_with("1MiB");
  EXPECT_EQ(by_arithmetic.status, 3) << by_arithmetic.errors;
  EXPECT_THAT(by_arithmetic.errors, HasSubstr("memory.offload_budget = \"1MiB\": expected"));
  EXPECT_THAT(by_arithmetic.errors, HasSubstr("of optimizer state"));
  // Tensors of fewer than 65,536 values are not counted in advance.
  const auto by_the_file = trained_with("5MiB");
  EXPECT_EQ(by_the_file.status, 3) << by_the_file.errors;
  EXPECT_THAT(by_the_file.errors, HasSubstr("received memory.offload_budget, which allows 5"));
  EXPECT_EQ(trained_with("64MiB").status, 0);
}

TEST_F(Offload, ABudgetOfTheFileNeedsOne) {
  write_run();
  EXPECT_THAT(refusal({"--memory.offload_budget=1GiB"}), HasSubstr("only with memory.offload"));
}

TEST_F(Offload, StaysInMemoryInStandardOrderIfTheStateFits) {
  write_run();
  const std::string standard = trained("standard", {"--memory.budget=8GiB"});
  const auto result = accrue(
      {"train", "run.toml", "--run.out=auto", "--memory.offload=auto", "--memory.budget=8GiB"});
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("it stays in memory"));
  EXPECT_EQ(state_of("auto"), standard);
  EXPECT_THAT(content(folder_ / "auto" / "config.toml"),
              HasSubstr("accumulation = \"standard\"\noffload = \"auto\""));
}

/// A run that was offloaded keeps its order also if its state fits, and one in standard order is
/// not offloaded later.
TEST_F(Offload, ARunThatContinuesKeepsItsOrder) {
  write_run();
  for (const auto& [begun, order] :
       {std::pair{here(), "layered"}, std::pair{std::string(), "standard"}}) {
    const std::string out = std::string("begun_") + order, whole = std::string("whole_") + order;
    Words first{"train", "run.toml", "--run.out=" + out, "--run.steps=2"};
    if (!begun.empty()) first.push_back(begun);
    ASSERT_EQ(accrue(first).status, 0);
    const auto resumed =
        accrue({"train", "run.toml", "--run.out=" + out, "--memory.offload=auto", "--resume"});
    ASSERT_EQ(resumed.status, 0) << resumed.errors;
    EXPECT_EQ(state_of(out), trained(whole, {std::string("--memory.accumulation=") + order}));
  }
}

/// 40 million parameters: 458 MiB of masters, sums and momenta.
TEST_F(Offload, StateThatDoesNotFitIsOffloadedBesideTheRun) {
  write_run();
  // Not the temporary folder, which may lie in memory.
  const std::filesystem::path folder =
      std::filesystem::current_path() / ("offload_auto_" + std::to_string(::getpid()));
  const auto trained_in = [&](const std::string& out, const std::string& offload) {
    const auto result =
        accrue({"train", "run.toml", "--model.layers=6", "--model.width=640", "--model.vocab=16384",
                "--batch.samples=2", "--batch.micro=1", "--run.steps=1", "--memory.budget=520MiB",
                "--optim.kind=sgd", "--run.out=" + (folder / out).string(),
                "--memory.offload=" + offload});
    EXPECT_EQ(result.status, 0) << result.errors;
    return result.errors;
  };
  std::filesystem::create_directory(folder);
  EXPECT_THAT(trained_in("auto", "auto"),
              HasSubstr("that memory.budget leaves for tensors: offloaded to " + folder.string()));
  EXPECT_THAT(content(folder / "auto" / "config.toml"),
              HasSubstr("accumulation = \"layered\"\noffload = \"auto\""));
  trained_in("explicit", folder.string());
  const auto model = [&](const char* out) {
    return content(folder / out / "checkpoints" / "step-00000001" / "model.safetensors");
  };
  EXPECT_TRUE(model("auto") == model("explicit"));
  std::filesystem::remove_all(folder);
}

TEST_F(Offload, CommandsThatRunTheWholeModelStateWhereTheStateLies) {
  write_run();
  const auto errors_of = [&](const Words& words) {
    const auto result = accrue(words);
    EXPECT_EQ(result.status, 0) << words.front() << ": " << result.errors;
    return result.errors;
  };
  const std::string in_file = "note: memory.offload: the state lies in a file in " +
                              std::filesystem::current_path().string();
  EXPECT_THAT(errors_of({"bench", "run.toml", "--rounds=1", here()}), HasSubstr(in_file));
  EXPECT_THAT(errors_of({"doctor", "run.toml", here()}), HasSubstr(in_file));
  EXPECT_THAT(errors_of({"verify", "run.toml", "--ranks=2", here()}), HasSubstr(in_file));
  EXPECT_THAT(errors_of({"doctor", "run.toml", "--memory.offload=auto"}),
              HasSubstr("keeps the state in memory"));
  EXPECT_THAT(errors_of({"doctor", "run.toml"}), Not(HasSubstr("memory.offload")));
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
