#include <gmock/gmock.h>

#include "accrue/accum/window.h"
#include "accum/problem.h"
#include "accum/staged.h"
#include "support/tolerance.h"

namespace accrue::accum {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

TEST(MeanGradient, NormIsThatOfAllSlotsInDouble) {
  at::manual_seed(5);
  // More than one chunk, and a length that no lane count divides.
  const at::Tensor big = at::randn({200'003}).requires_grad_(true);
  const at::Tensor small = at::randn({3}, at::kDouble).requires_grad_(true);
  const auto buffer =
      std::make_shared<GradientBuffer>(NamedParameters{{"big", big}, {"small", small}});
  Window window(buffer);
  window.open(0);
  window.begin({});
  torch::autograd::backward({(big.square() / 2).sum(), (small.square() / 2).sum()});
  window.commit(1, 4);
  std::optional<MeanGradient> gradient = window.close();
  ASSERT_TRUE(gradient);
  const double expected =
      at::cat({big.detach().to(at::kDouble), small.detach()}).norm().item<double>() / 4;
  EXPECT_NEAR(gradient->norm(), expected, 1e-12 * expected);
  EXPECT_EQ(gradient->clip(2 * expected), gradient->norm());
  EXPECT_EQ(gradient->scale(), 0.25);
  gradient->clip(1);
  EXPECT_NEAR(gradient->norm(), 1, 1e-12);
  gradient->materialize();
  EXPECT_EQ(gradient->scale(), 1);
  EXPECT_TRUE(testing::close(big.grad(), big.detach() / (4 * expected), at::kFloat, 1));
  EXPECT_THAT(error_of([&] { gradient->clip(0); }), HasSubstr("above 0"));
}

TEST(MeanGradient, NormOfStagedSumsIsThatOfAllTheirElements) {
  at::manual_seed(6);
  const at::Tensor contribution = at::randn({200'003});  // more than one chunk
  for (const Accumulation accumulation : testing::kStaged) {
    testing::StagedWindow w(accumulation, contribution.sizes());
    w.window.open(0);
    w.add(contribution);
    const double expected = w.sum().norm().item<double>();
    std::optional<MeanGradient> gradient = w.window.close();
    ASSERT_TRUE(gradient);
    EXPECT_NEAR(gradient->norm(), expected, 1e-12 * expected) << to_string(accumulation);
  }
}

}  // namespace
}  // namespace accrue::accum
