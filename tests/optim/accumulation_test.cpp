#include <gtest/gtest.h>

#include <functional>

#include "accrue/optim/optimizer.h"
#include "support/tolerance.h"
#include "windows.h"

namespace accrue::optim {
namespace {

using accum::Accumulation;
using testing::kFewSteps;
using testing::make_parameters;
using testing::Windows;

using Make = std::function<std::unique_ptr<Optimizer>(const NamedParameters&)>;

struct SummedKind {
  const char* name;
  Make make;
};
const std::vector<SummedKind>& summed_kinds() {
  static const std::vector<SummedKind> all{
      {"adam",
       [](const NamedParameters& p) { return make_adam(p, default_groups(p, 0.1, false), {}); }},
      {"sgd",
       [](const NamedParameters& p) { return make_sgd(p, default_groups(p, 0.1, false), {}); }},
      {"rmsprop",
       [](const NamedParameters& p) {
         return make_rmsprop(p, default_groups(p, 0.1, false), {.momentum = 0.5});
       }},
  };
  return all;
}

/// Steps with the gradients that `windows` sums, as they are or materialized first.
std::vector<at::Tensor> stepped(const Make& make, at::ScalarType dtype, Accumulation accumulation,
                                bool materialized, double disturbance = 0) {
  const NamedParameters parameters = make_parameters(dtype);
  Windows windows(parameters, accumulation);
  const std::unique_ptr<Optimizer> optimizer = make(parameters);
  for (std::int64_t step = 0; step < kFewSteps; ++step) {
    // Numbers that bf16 represents exactly, as every precision does.
    std::vector<at::Tensor> sums = windows.sums(step);
    for (at::Tensor& sum : sums) sum = sum.to(at::kBFloat16).to(dtype) + disturbance;
    accum::MeanGradient gradient = windows.mean_of(sums, 4);
    if (materialized) gradient.materialize();
    optimizer->step(std::move(gradient), 0.01);
  }
  std::vector<at::Tensor> result;
  for (const auto& [name, tensor] : parameters) result.push_back(tensor.detach().clone());
  return result;
}

class EveryAccumulation
    : public ::testing::TestWithParam<std::tuple<Accumulation, at::ScalarType>> {};
INSTANTIATE_TEST_SUITE_P(
    Precisions, EveryAccumulation,
    ::testing::Combine(::testing::Values(Accumulation::fp64, Accumulation::bf16,
                                         Accumulation::bf16_kahan, Accumulation::bf16_stochastic,
                                         Accumulation::fixed),
                       ::testing::Values(at::kFloat, at::kDouble)));

/// Contiguous parameters, larger than a block, and one that is not contiguous.
TEST_P(EveryAccumulation, StepsAsWithTheSameGradientInTheParametersPrecision) {
  const auto [accumulation, dtype] = GetParam();
  for (const SummedKind& kind : summed_kinds()) {
    const auto direct = stepped(kind.make, dtype, Accumulation::fp32, false);
    const auto disturbed = stepped(kind.make, dtype, Accumulation::fp32, false, 0.5);
    for (const bool materialized : {false, true}) {
      const auto staged = stepped(kind.make, dtype, accumulation, materialized);
      for (std::size_t i = 0; i < direct.size(); ++i) {
        EXPECT_TRUE(at::equal(staged[i], direct[i])) << kind.name << ' ' << i;
        EXPECT_FALSE(at::equal(staged[i], disturbed[i])) << kind.name << ' ' << i;
      }
    }
  }
}

}  // namespace
}  // namespace accrue::optim
