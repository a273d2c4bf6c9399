#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "accrue_program.h"

namespace accrue::testing {
namespace {

using ::testing::HasSubstr;

class PlanVerb : public AccrueProgram {
 protected:
  void SetUp() override {
    AccrueProgram::SetUp();
    write_small_run();
    std::string config =
        "[run]\nout = \"out\"\nsteps = 4\nthreads = 1\n"
        "[model]\nlayers = 3\nheads = 2\nwidth = 32\ncontext = 16\nvocab = 256\n"
        "[data]\ntrain = [\"text.txt\"]\n[batch]\ntokens = 512\n";
    write("open.toml", config);
  }
  nlohmann::json plan(Words more = {}) const {
    Words words{"plan", "open.toml", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const auto result = accrue(words);
    EXPECT_EQ(result.status, 0) << result.errors;
    return nlohmann::json::parse(result.output);
  }
};

TEST_F(PlanVerb, PredictsTheTransfersOfOffloadedState) {
  EXPECT_FALSE(plan({"--memory.offload=auto", "--memory.budget=8GiB"}).contains("offload"));
  const std::string here = std::filesystem::current_path().string();
  const nlohmann::json out = plan({"--memory.offload=" + here});
  const nlohmann::json& offload = out.at("offload");
  const auto parameters = out.at("parameters").get<double>();
  EXPECT_EQ(offload.at("folder"), here);
  EXPECT_GT(offload.at("disk_read_bytes_per_second").get<double>(), 0);
  EXPECT_GT(offload.at("disk_write_bytes_per_second").get<double>(), 0);
  EXPECT_DOUBLE_EQ(offload.at("read_bytes_per_step").get<double>(), 32 * parameters);
  EXPECT_DOUBLE_EQ(offload.at("written_bytes_per_step").get<double>(), 16 * parameters);
  double seconds = 0;
  for (const char* part : {"forward_seconds", "backward_seconds", "step_seconds"})
    seconds += offload.at(part).get<double>();
  EXPECT_DOUBLE_EQ(out.at("seconds_per_step").get<double>(), seconds);
}

TEST_F(PlanVerb, PrintsThePlanWithItsBytesSecondsAndReason) {
  const nlohmann::json out = plan({"--memory.budget=1GiB"});
  const auto micro = out.at("micro_batch").get<std::int64_t>();
  EXPECT_EQ(out.at("micro_batches"), (32 + micro - 1) / micro);
  EXPECT_EQ(out.at("recompute"), "none");
  const auto predicted = out.at("predicted_peak_bytes").get<std::int64_t>();
  EXPECT_LE(predicted, std::int64_t{1} << 30);
  EXPECT_GT(out.at("measured_peak_bytes").get<std::int64_t>(), 0);
  std::int64_t sum = 0;
  for (const char* part : {"parameters", "gradients", "optimizer", "activations", "temporaries"}) {
    EXPECT_GE(out.at("breakdown").at(part).get<std::int64_t>(), 0) << part;
    sum += out.at("breakdown").at(part).get<std::int64_t>();
  }
  EXPECT_EQ(sum, predicted);
  EXPECT_GT(out.at("seconds_per_step").get<double>(), 0);
  EXPECT_GT(out.at("predicted_seconds_per_micro_batch").get<double>(), 0);
  EXPECT_GT(out.at("measured_seconds_per_micro_batch").get<double>(), 0);
  EXPECT_THAT(out.at("reason").get<std::string>(), HasSubstr("the budget of 1.00 GiB"));
  EXPECT_TRUE(out.at("alternatives").is_array());
  EXPECT_TRUE(out.contains("bf16")) << "shown, though never chosen unasked";
  EXPECT_EQ(out.at("budget_bytes"), std::int64_t{1} << 30);
  EXPECT_GT(out.at("outside_bytes"), 0);
  EXPECT_EQ(out.at("limit_bytes").get<std::int64_t>() + out.at("outside_bytes").get<std::int64_t>(),
            std::int64_t{1} << 30);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

TEST_F(PlanVerb, MultipliesTheEffectiveBatchOut) {
  const nlohmann::json alone = plan({"--batch.micro=8"}).at("effective_batch");
  EXPECT_EQ(alone, nlohmann::json::parse(R"({"micro_batch": 8, "accumulation_steps": 4, "ranks": 1,
                                             "samples": 32, "tokens": 512})"));
  const nlohmann::json together = plan({"--ranks=2"});
  EXPECT_EQ(together.at("effective_batch").at("ranks"), 2);
  EXPECT_EQ(together.at("effective_batch").at("samples"), 32);
  EXPECT_LE(together.at("micro_batch"), 16) << "both have a part";
  const nlohmann::json stated = plan({"--ranks=3", "--batch.micro=8"}).at("effective_batch");
  EXPECT_EQ(stated.at("micro_batch"), 8);
  EXPECT_EQ(stated.at("accumulation_steps"), 2) << "of the rank that has most";
  ASSERT_EQ(stated.at("by_rank").size(), 3U) << "no product";
  EXPECT_EQ(stated.at("by_rank")[2],
            nlohmann::json::parse(R"({"samples": 8, "micro_batch": 8, "accumulation_steps": 1})"));
  const auto text = accrue({"plan", "open.toml", "--batch.micro=8", "--ranks=2"});
  EXPECT_THAT(text.output, HasSubstr("8 samples x 2 accumulation steps x 2 ranks = 32 samples"));
  EXPECT_EQ(accrue({"plan", "open.toml", "--ranks=0"}).status, 2);
  const nlohmann::json estimate = plan({"--estimate", "--batch.micro=8", "--ranks=2"});
  EXPECT_EQ(estimate.at("effective_batch").at("ranks"), 2);
  EXPECT_EQ(estimate.at("effective_batch").at("accumulation_steps"), 2);
}

TEST_F(PlanVerb, TellsOfRepeatedTrialsOnce) {
  const std::string progress = accrue({"plan", "open.toml"}).errors;
  const std::string again = "timing them again, in turn\n";
  const std::size_t first = progress.find(again);
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(progress.find(again, first + 1), std::string::npos);
  EXPECT_EQ(progress.find("trying", first), std::string::npos);
}

TEST_F(PlanVerb, ReadsForPeople) {
  const auto result = accrue({"plan", "open.toml"});
  EXPECT_EQ(result.status, 0) << result.errors;
  for (const char* part : {"plan ", "peak ", "of which", "reason", "predicted", "measured", "bf16"})
    EXPECT_THAT(result.output, HasSubstr(part));
}

TEST_F(PlanVerb, TakesAStatedMicroBatchAndRecomputation) {
  const nlohmann::json out = plan({"--batch.micro=4", "--memory.recompute=full"});
  EXPECT_EQ(out.at("micro_batch"), 4);
  EXPECT_EQ(out.at("micro_batches"), 8);
  EXPECT_EQ(out.at("recompute"), "full");
}

TEST_F(PlanVerb, EndsWithThreeWhereTheBudgetHoldsNothing) {
  const auto result = accrue({"plan", "open.toml", "--memory.budget=800KiB"});
  EXPECT_EQ(result.status, 3) << result.output;
  EXPECT_THAT(result.errors, HasSubstr("that the program itself holds"));
}

TEST_F(PlanVerb, RefusesAWrongConfig) {
  EXPECT_EQ(accrue({"plan", "open.toml", "--memory.budget=lots"}).status, 2);
  EXPECT_EQ(accrue({"plan", "open.toml", "--data.train=nothing"}).status, 2);
  EXPECT_EQ(accrue({"plan", "open.toml", "--price", "3"}).status, 2);
}

TEST_F(PlanVerb, EstimatesFromTheConfigAlone) {
  write("large.toml",
        "[run]\nout = \"out\"\nsteps = 100\n"
        "[model]\nlayers = 24\nheads = 16\nwidth = 2048\ncontext = 2048\nvocab = 50257\n"
        "[data]\ntrain = [\"nothing-there.bin\"]\n[batch]\ntokens = 524288\nmicro = 4\n");
  const auto result =
      accrue({"plan", "large.toml", "--estimate", "--json", "--price", "2", "--tokens-per-second",
              "1173", "--versus-price", "1.173060528559", "--versus-tokens-per-second", "1000"});
  ASSERT_EQ(result.status, 0) << result.errors;
  const nlohmann::json out = nlohmann::json::parse(result.output);
  EXPECT_EQ(out.at("micro_batches"), 64);
  const auto parameters = out.at("parameters").get<std::int64_t>();
  EXPECT_EQ(out.at("sixteen_bit").at("total"), 8 * parameters);
  EXPECT_EQ(out.at("held").at("total"), 16 * parameters);
  EXPECT_GT(out.at("one_pass_bytes").get<double>(), 2e11);
  EXPECT_EQ(out.at("devices").size(), 9U);
  EXPECT_NEAR(out.at("comparison").at("time_ratio").get<double>(), 1.173, 1e-9);
  EXPECT_NEAR(out.at("comparison").at("cost_ratio").get<double>(), 0.688, 1e-9);
  const auto text = accrue({"plan", "large.toml", "--estimate"});
  EXPECT_THAT(text.output, HasSubstr("before activations"));
  EXPECT_THAT(text.output, HasSubstr("24 GB"));
  EXPECT_THAT(text.output, HasSubstr("1.32 B parameters"));
  EXPECT_THAT(text.output, HasSubstr("GiB optimizer"));
  EXPECT_THAT(text.output, HasSubstr("a step on it"));
}

/// By its own arithmetic the named budget fits, and a little less does not.
TEST_F(PlanVerb, EstimatesWhetherTheBudgetIsEnough) {
  write("large.toml",
        "[run]\nout = \"out\"\nsteps = 100\n"
        "[model]\nlayers = 12\nheads = 12\nwidth = 768\ncontext = 512\nvocab = 50257\n"
        "[data]\ntrain = [\"nothing-there.bin\"]\n[batch]\ntokens = 65536\n");
  const auto estimate = [&](const std::string& budget) {
    const auto result =
        accrue({"plan", "large.toml", "--estimate", "--json", "--memory.budget=" + budget});
    EXPECT_EQ(result.status, 0) << result.errors;
    return nlohmann::json::parse(result.output);
  };
  const nlohmann::json small = estimate("1GiB").at("budget");
  EXPECT_FALSE(small.at("fits").get<bool>());
  EXPECT_FALSE(small.contains("micro_batch"));
  const auto enough = small.at("enough_bytes").get<std::int64_t>();
  const nlohmann::json named = estimate(std::to_string(enough + enough / 100) + "B").at("budget");
  EXPECT_TRUE(named.at("fits").get<bool>());
  EXPECT_GE(named.at("micro_batch").get<std::int64_t>(), 1);
  EXPECT_FALSE(estimate(std::to_string(enough * 8 / 10) + "B").at("budget").at("fits").get<bool>());
  const nlohmann::json large = estimate("64GiB");
  EXPECT_EQ(large.at("budget").at("micro_batch"), 128) << "the whole batch";
  EXPECT_EQ(large.at("budget").at("recompute"), "none");
  const nlohmann::json machine = large.at("machine");
  EXPECT_GT(machine.at("gflops").get<double>(), 0);
  EXPECT_NEAR(machine.at("most_step_seconds").get<double>(),
              4 * machine.at("least_step_seconds").get<double>(), 1e-9);
  EXPECT_FALSE(estimate("none").contains("budget"));
}

class PlanOfRanks : public PlanVerb {
 protected:
  void SetUp() override {
    PlanVerb::SetUp();
    write("large.toml",
          "[run]\nout = \"out\"\nsteps = 100\n"
          "[model]\nlayers = 24\nheads = 16\nwidth = 2048\ncontext = 2048\nvocab = 50257\n"
          "[data]\ntrain = [\"nothing-there.bin\"]\n[batch]\ntokens = 524288\n");
  }
  /// Options of eight ranks with 24 GiB and 400 TFLOP/s, and 25 Gbit/s between them.
  static Words eight_ranks_with(const Words& more) {
    Words words{"plan",  "large.toml", "--ranks",  "8",       "--memory",
                "24GiB", "--link",     "25Gbit/s", "--flops", "400T"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  nlohmann::json plan_of_ranks() const {
    const auto result = accrue(eight_ranks_with({"--json"}));
    EXPECT_EQ(result.status, 0) << result.errors;
    return nlohmann::json::parse(result.output);
  }
};

TEST_F(PlanOfRanks, ComparesLayoutsWithoutData) {
  const nlohmann::json out = plan_of_ranks();
  EXPECT_EQ(
      out.at("layout"),
      nlohmann::json::parse(R"({"replicas": 8, "stages": 1, "tensor": 1, "shard": "optimizer"})"));
  EXPECT_EQ(out.at("nodes"), 8);
  EXPECT_EQ(out.at("flops_per_second"), 4e14);
  EXPECT_FALSE(out.at("flops_are_measured").get<bool>());
  EXPECT_EQ(out.at("link_bytes_per_second"), 3.125e9);
  EXPECT_EQ(out.at("batch_tokens"), 524'288);
  EXPECT_DOUBLE_EQ(out.at("transfer_bytes").get<double>(),
                   2 * 7.0 / 8 * 4 * out.at("parameters").get<double>());
  EXPECT_EQ(out.at("set").at(0),
            nlohmann::json::parse(R"({"key": "dist.shard", "value": "\"optimizer\""})"));
  EXPECT_EQ(out.at("alternatives").size(), 7U);
  double seconds = 0;
  for (const char* part : {"compute_seconds", "waiting_seconds", "exposed_seconds"})
    seconds += out.at(part).get<double>();
  EXPECT_DOUBLE_EQ(out.at("seconds_per_step").get<double>(), seconds);
  for (const nlohmann::json& other : out.at("alternatives")) {
    EXPECT_FALSE(other.at("reason").get<std::string>().empty());
    if (!other.at("fits").get<bool>()) continue;
    EXPECT_GE(other.at("seconds_per_step").get<double>(), seconds) << other;
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

TEST_F(PlanOfRanks, ReadsInEightyColumns) {
  const auto result = accrue(eight_ranks_with({}));
  EXPECT_EQ(result.status, 0) << result.errors;
  std::istringstream lines(result.output);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 80U) << line;
    last = line;
  }
  EXPECT_THAT(last, ::testing::AllOf(::testing::StartsWith("set"),
                                     HasSubstr("dist.shard = \"optimizer\", batch.micro = ")));
  for (const char* part :
       {"8 on 8 nodes", "400 TFLOP/s, as stated", "replicas, optimizer", "fastest"})
    EXPECT_THAT(result.output, HasSubstr(part));
}

TEST_F(PlanOfRanks, TellsWhatItMeasured) {
  const auto result =
      accrue({"plan", "large.toml", "--ranks", "8", "--nodes", "1", "--memory", "64GiB"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("state it with --flops"));
  EXPECT_THAT(result.output, HasSubstr("--node-link"));
}

TEST_F(PlanOfRanks, RefusesWhatDoesNotGoTogether) {
  EXPECT_EQ(accrue(eight_ranks_with({})).status, 0) << "the control";
  for (const Words& more : std::vector<Words>{{"--nodes", "3"},
                                              {"--nodes", "0"},
                                              {"--disk", "fast"},
                                              {"--node-link", "1GB/s"},
                                              {"--estimate"},
                                              {"--price", "3", "--tokens-per-second", "3"}})
    EXPECT_EQ(accrue(eight_ranks_with(more)).status, 2) << more.front();
  const auto refused = [&](const Words& options) {
    Words words{"plan", "large.toml"};
    words.insert(words.end(), options.begin(), options.end());
    const auto result = accrue(words);
    EXPECT_EQ(result.status, 2) << result.output;
    return result.errors;
  };
  EXPECT_THAT(refused({"--memory", "24GiB", "--link", "25Gbit/s"}), HasSubstr("--ranks"));
  EXPECT_THAT(refused({"--ranks", "8", "--link", "25Gbit/s"}), HasSubstr("--memory"));
  EXPECT_THAT(refused({"--ranks", "8", "--memory", "24GiB"}), HasSubstr("--link"));
  EXPECT_THAT(refused({"--ranks", "8", "--memory", "0GiB", "--link", "25Gbit/s"}),
              HasSubstr("--memory"));
  EXPECT_THAT(refused({"--ranks", "8", "--memory", "24", "--link", "25Gbit/s"}),
              HasSubstr("24GiB"));
  EXPECT_THAT(refused({"--ranks", "8", "--memory", "24GiB", "--link", "0Gbit/s"}),
              HasSubstr("--link"));
  EXPECT_THAT(refused({"--ranks", "8", "--memory", "12GiB", "--link", "25Gbit/s", "--flops", "1T",
                       "--memory.recompute=full"}),
              HasSubstr("--ranks "));
}

}  // namespace
}  // namespace accrue::testing
