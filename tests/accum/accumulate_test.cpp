#include "accrue/accum/accumulate.h"

#include <gmock/gmock.h>

#include "accrue/kernels/grad_slot.h"
#include "accum/problem.h"
#include "support/tolerance.h"

namespace accrue {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::make_problem;
using testing::nan_loss;
using testing::Problem;

TEST(Accumulate, ReturnsGradientsAndTouchesNothing) {
  const Problem problem = make_problem(15, at::kDouble);
  const auto before = problem.parameters[0].tensor.detach().clone();
  problem.parameters[1].tensor.mutable_grad() = at::full({7}, 3, at::kDouble);
  const auto expected = problem.reference();
  std::int64_t next = 0;
  const auto next_loss = [&]() -> std::optional<Loss> {
    if (next == 12) return std::nullopt;
    next += 3;
    return problem.loss({next - 3, next - 2, next - 1});
  };
  const Accumulated result = accumulate(problem.parameters, next_loss);
  EXPECT_EQ(result.weight, static_cast<double>(problem.rows));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(result.gradients[i].name, problem.parameters[i].name);
    EXPECT_LE(testing::relative_error(result.gradients[i].tensor, expected[i]), 1e-12);
    EXPECT_EQ(kernels::slot_of(problem.parameters[i].tensor), nullptr);
  }
  EXPECT_FALSE(problem.parameters[0].tensor.grad().defined());
  EXPECT_EQ(problem.parameters[1].tensor.grad()[0].item<double>(), 3);
  EXPECT_TRUE(at::equal(before, problem.parameters[0].tensor));
}

TEST(Accumulate, RestoresGradientsAfterAnException) {
  const Problem problem = make_problem(15, at::kDouble);
  problem.parameters[1].tensor.mutable_grad() = at::full({7}, 3, at::kDouble);
  EXPECT_THAT(error_of([&] { accumulate(problem.parameters, [&] { return nan_loss(problem); }); }),
              HasSubstr("micro-batch 0"));
  EXPECT_EQ(problem.parameters[1].tensor.grad()[0].item<double>(), 3);
  EXPECT_FALSE(problem.parameters[0].tensor.grad().defined());
  const Accumulated nothing = accumulate(problem.parameters, [] { return std::optional<Loss>(); });
  EXPECT_EQ(nothing.weight, 0);
  EXPECT_EQ(nothing.gradients[2].tensor.abs().sum().item<double>(), 0);
}

}  // namespace
}  // namespace accrue
