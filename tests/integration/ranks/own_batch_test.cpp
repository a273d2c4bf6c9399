// A program's own batch type on several ranks, compared with libtorch over whole batches.
#include <gtest/gtest.h>
#include <unistd.h>

#include "distributed/ranks.h"
#include "train/bags.h"

namespace accrue::train {
namespace {

using accrue::testing::Numbers;
using accrue::testing::Program;

constexpr std::int64_t kSteps = 5;

/// The final parameters of each rank.
std::vector<std::vector<double>> trained(int world, const std::string& micro) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) /
                                       ("accrue_own_batch " + std::to_string(::getpid()));
  std::filesystem::remove_all(folder);
  std::vector<std::vector<double>> parameters;
  for (const Program::Result& result : accrue::testing::run_ranks(folder, world, world, [&](int) {
         return std::vector<std::string>{ACCRUE_OWN_BATCH_PROGRAM, (folder / "run").string(),
                                         std::to_string(kSteps), micro};
       })) {
    EXPECT_EQ(result.status, 0) << result.errors;
    parameters.push_back(accrue::testing::numbers_of(result.output)["parameters"]);
  }
  std::filesystem::remove_all(folder);
  return parameters;
}

double largest_difference(const std::vector<double>& actual,
                          const std::vector<at::Tensor>& expected) {
  std::vector<double> values;
  for (const at::Tensor& parameter : expected) {
    const at::Tensor flat = parameter.detach().contiguous().view({-1});
    for (std::int64_t i = 0; i < flat.numel(); ++i) values.push_back(flat[i].item<double>());
  }
  if (actual.size() != values.size()) return 1;
  double largest = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    largest = std::max(largest, std::abs(values[i] - actual[i]));
  return largest;
}

TEST(OwnBatchOnRanks, StepsAsLibtorchDoesOverTheWholeBatch) {
  const std::vector<at::Tensor> expected = testing::trained_by_libtorch(kSteps);
  for (const int world : {1, 2})
    for (const char* micro : {"2", "5"})
      for (const std::vector<double>& actual : trained(world, micro))
        EXPECT_LT(largest_difference(actual, expected), 1e-12) << world << " of " << micro;
  EXPECT_GT(largest_difference(trained(1, "5").front(), testing::trained_by_libtorch(kSteps - 1)),
            1e-3)
      << "the comparison sees a step less";
}

}  // namespace
}  // namespace accrue::train
