// The content of metrics.jsonl, as docs/guide/metrics.md describes it.
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "accrue_program.h"
#include "core/atomic_file.h"
#include "support/environment.h"

namespace accrue::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

class Metrics : public AccrueProgram {
 protected:
  void SetUp() override {
    AccrueProgram::SetUp();
    write_small_run();
  }

  std::vector<json> steps_of_run(Words more = {}) const {
    Words words{"train", "run.toml"};
    words.insert(words.end(), more.begin(), more.end());
    const auto result = accrue(words);
    EXPECT_EQ(result.status, 0) << result.errors;
    std::vector<json> steps;
    std::istringstream content(read_file(folder_ / "out/metrics.jsonl"));
    for (std::string line; std::getline(content, line);)
      if (json parsed = json::parse(line); parsed.contains("lr"))
        steps.push_back(std::move(parsed));
    return steps;
  }

  /// A ceiling as an earlier run of this machine would have stored it: run.json has the machine.
  void keep_a_ceiling(double flops_per_second) const {
    const json run = json::parse(read_file(folder_ / "out/run.json"));
    const json entry{
        {"processor", run["machine"]["processor"]}, {"isa", run["machine"]["isa"]},
        {"threads", run["machine"]["threads"]},     {"precision", "fp32"},
        {"kernels", run["versions"]["gemm"]},       {"flops_per_second", flops_per_second}};
    std::filesystem::create_directories(folder_ / "caches/accrue");
    write("caches/accrue/ceilings.json", json{{"ceilings", {entry}}}.dump());
  }
};

TEST_F(Metrics, OfARunAreThoseOfTheGuide) {
  const std::string guide = read_file(ACCRUE_METRICS_GUIDE);
  const auto is_in_guide = [&](const std::string& name) {
    return guide.find("\n| `" + name + "` |") != std::string::npos;
  };
  EXPECT_FALSE(is_in_guide("seconds_of_nothing"));
  for (const json& step : steps_of_run())
    for (const auto& [name, value] : step.items()) {
      if (!value.is_object() || name == "lrs") {
        EXPECT_TRUE(is_in_guide(name)) << name;
        continue;
      }
      for (const auto& [part, unused] : value.items())
        EXPECT_TRUE(is_in_guide(name + "." + part)) << name << "." << part;
    }
}

TEST_F(Metrics, TellTheBatchItsFactorsAndItsTimes) {
  for (const json& step : steps_of_run()) {
    EXPECT_EQ(step["batch_samples"], 16);
    EXPECT_EQ(step["micro_batch"].get<int>() * step["micro_batches"].get<int>(), 16);
    EXPECT_EQ(step["world"], 1);
    EXPECT_GT(step["micro_batch_seconds"]["median"], 0);
    EXPECT_GE(step["micro_batch_seconds"]["max"], step["micro_batch_seconds"]["median"]);
    EXPECT_GE(step["data_seconds"], 0);
    EXPECT_EQ(step["lrs"]["decayed"], step["lr"]);
    for (const char* absent : {"losses", "epoch_seconds", "reduce_seconds", "budget_bytes"})
      EXPECT_FALSE(step.contains(absent)) << absent;
  }
}

TEST_F(Metrics, DivideTheMemoryByWhatItIsFor) {
  const std::vector<json> steps = steps_of_run({"--memory.budget=2GiB"});
  ASSERT_EQ(steps.size(), 4U);
  for (const json& step : steps) {
    const auto bytes = [&](const char* kind) { return step["memory"][kind].get<std::int64_t>(); };
    EXPECT_EQ(bytes("parameters") + bytes("gradients") + bytes("optimizer") + bytes("activations") +
                  bytes("packed"),
              step["peak_bytes"].get<std::int64_t>());
    EXPECT_GE(bytes("reserved"), step["peak_bytes"].get<std::int64_t>());
    EXPECT_EQ(bytes("optimizer"), 2 * bytes("gradients")) << "AdamW, in the gradients' precision";
    EXPECT_GE(bytes("parameters"), bytes("gradients"));
    EXPECT_GT(bytes("activations"), 0);
    EXPECT_EQ(step["budget_bytes"], std::int64_t{2} << 30);
  }
}

TEST_F(Metrics, TellTheShareOfACeilingThatIsKnown) {
  const EnvironmentVariable caches("XDG_CACHE_HOME", (folder_ / "caches").c_str());
  for (const json& step : steps_of_run()) EXPECT_FALSE(step.contains("share_of_ceiling"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "caches")) << "a short run measures none";
  keep_a_ceiling(1e15);
  std::filesystem::remove_all(folder_ / "out");
  for (const json& step : steps_of_run()) {
    ASSERT_TRUE(step.contains("share_of_ceiling"));
    EXPECT_GT(step["share_of_ceiling"], 0);
    EXPECT_LT(step["share_of_ceiling"], 0.5) << "of a machine that is a thousand times faster";
  }
  keep_a_ceiling(1);
  std::filesystem::remove_all(folder_ / "out");
  for (const json& step : steps_of_run()) EXPECT_EQ(step["share_of_ceiling"], 1);
}

TEST_F(Metrics, ThePlanAndADryRunPrintTheEffectiveBatch) {
  constexpr const char* kProduct = "4 samples x 4 accumulation steps = 16 samples, 256 tokens";
  for (const Words& words : {Words{"train", "run.toml", "--dry-run"}, Words{"plan", "run.toml"}}) {
    const auto result = accrue(words);
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(result.output, HasSubstr(std::string("effective batch ") + kProduct));
  }
  const auto run = accrue({"train", "run.toml"});
  EXPECT_THAT(run.errors, HasSubstr(std::string("effective batch of ") + kProduct));
}

}  // namespace
}  // namespace accrue::testing
