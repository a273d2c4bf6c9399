#include <nlohmann/json.hpp>

#include "accrue_program.h"

namespace accrue::testing {
namespace {

class Bench : public AccrueProgram {
 protected:
  void SetUp() override {
    AccrueProgram::SetUp();
    write_small_run();
  }
  nlohmann::json bench(const std::string& samples) const {
    const auto result = accrue({"bench", "run.toml", "--json", "--rounds=1",
                                "--batch.samples=" + samples, "--batch.micro=4"});
    EXPECT_EQ(result.status, 0) << result.errors;
    return nlohmann::json::parse(result.output);
  }
};

TEST_F(Bench, PrintsTheFieldsOfTheDesignAndWritesNothing) {
  const nlohmann::json result = bench("16");
  for (const char* field : {"tokens_per_second", "bare_seconds_per_micro_batch",
                            "seconds_per_micro_batch", "optimizer_seconds"})
    for (const char* part : {"min", "median", "max"})
      EXPECT_GT(result.at(field).at(part).get<double>(), 0) << field;
  for (const char* field : {"peak_bytes", "model_gflops", "ceiling_gflops", "share_of_ceiling"})
    EXPECT_GT(result.at(field).get<double>(), 0) << field;
  EXPECT_TRUE(result.at("accumulation_overhead").is_number());
  EXPECT_EQ(result.at("system_allocations_per_micro_batch"), 0);
  EXPECT_LT(result.at("page_faults_per_micro_batch").get<double>(), 1000);
  EXPECT_EQ(result.at("micro_batches"), 4);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

TEST_F(Bench, ThePeakDoesNotGrowWithTheNumberOfMicroBatches) {
  const auto one = bench("4").at("peak_bytes").get<double>();
  const auto many = bench("256").at("peak_bytes").get<double>();
  EXPECT_LT(many, 1.02 * one);
  const auto wide = nlohmann::json::parse(accrue({"bench", "run.toml", "--json", "--rounds=1",
                                                  "--batch.samples=256", "--batch.micro=64"})
                                              .output);
  EXPECT_GT(wide.at("peak_bytes").get<double>(), 1.02 * one) << "a larger micro-batch must show";
}

TEST_F(Bench, TheProfileIsForPeopleAndForPrograms) {
  const auto table = accrue({"bench", "run.toml", "--profile", "--batch.micro=4"});
  EXPECT_EQ(table.status, 0) << table.errors;
  const auto result = nlohmann::json::parse(
      accrue({"bench", "run.toml", "--profile", "--json", "--batch.micro=4"}).output);
  EXPECT_GT(result.at("kernels").size(), 10U);
  EXPECT_GT(result.at("parts").size(), 5U);
  for (const char* part : {"kernel", "calls", "seconds"})
    EXPECT_TRUE(result.at("kernels")[0].contains(part)) << part;
  std::string kernels;
  for (const nlohmann::json& kernel : result.at("kernels"))
    kernels += kernel.at("kernel").get<std::string>() + '\n';
  for (const char* name : {"matmul ", "attention_backward", "optimizer_update"})
    EXPECT_NE(kernels.find(name), std::string::npos) << name << " in\n" << kernels;
  // The table has every part; which kernels run long enough for it depends on the machine.
  for (const nlohmann::json& part : result.at("parts"))
    EXPECT_NE(table.output.find(part.at("part").get<std::string>()), std::string::npos) << part;
  for (const char* line : {"outside: autograd", "\nkernel ", "kernels below 0.1%"})
    EXPECT_NE(table.output.find(line), std::string::npos) << line << " in\n" << table.output;
}

TEST_F(Bench, TheSweepSaysWhatDoesNotFit) {
  const auto plan = accrue({"plan", "run.toml", "--json", "--memory.budget=1GiB"});
  const auto outside = nlohmann::json::parse(plan.output).at("outside_bytes").get<std::int64_t>();
  const std::string budget = std::to_string(outside + (std::int64_t{24} << 20)) + "B";
  const auto result =
      accrue({"bench", "run.toml", "--sweep-micro", "--json", "--rounds=1", "--batch.samples=1024",
              "--model.width=128", "--memory.budget=" + budget});
  ASSERT_EQ(result.status, 0) << result.errors;
  const nlohmann::json sizes = nlohmann::json::parse(result.output).at("sizes");
  EXPECT_FALSE(sizes.front().at("fits").get<bool>());
  EXPECT_FALSE(sizes.front().contains("seconds"));
  EXPECT_TRUE(sizes.back().at("fits").get<bool>());
  EXPECT_EQ(sizes.back().at("micro_batch"), 1);
}

TEST_F(Bench, OneReportAtATime) {
  EXPECT_EQ(accrue({"bench", "run.toml", "--profile", "--sweep-micro"}).status, 2);
  EXPECT_EQ(accrue({"bench", "run.toml", "--profile", "--rounds=2"}).status, 2);
}

}  // namespace
}  // namespace accrue::testing
