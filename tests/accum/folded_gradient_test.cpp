// Gradients that go to a FoldTarget and not into sums.
#include <gmock/gmock.h>

#include <unordered_map>

#include "accrue/accum/window.h"
#include "accum/problem.h"
#include "support/tolerance.h"

namespace accrue::accum {
namespace {

using accrue::testing::close;
using accrue::testing::make_problem;
using accrue::testing::Problem;
using ::testing::HasSubstr;

/// Adds up its input, as an optimizer's momentum would.
class Sums final : public FoldTarget {
 public:
  bool takes(const at::Tensor&) const override { return true; }
  bool takes_parts() const override { return true; }
  void fold(const at::Tensor& parameter, const at::Tensor& contribution, double scale) override {
    at::Tensor& sum = sums[parameter.unsafeGetTensorImpl()];
    if (!sum.defined()) sum = at::zeros_like(contribution);
    sum += contribution * scale;
  }
  bool is_between_steps() const override { return !sums.empty(); }
  std::unordered_map<const at::TensorImpl*, at::Tensor> sums;
};

struct FoldedProblem {
  explicit FoldedProblem(bool with_target = true)
      : target(with_target ? std::make_shared<Sums>() : nullptr),
        buffer(std::make_shared<GradientBuffer>(problem.parameters, FoldInto{target})),
        window(buffer) {}

  void add(const std::vector<std::int64_t>& samples) {
    window.begin({.sample_ids = samples});
    const Loss loss = problem.loss(samples);
    torch::autograd::backward({loss.sum});
    window.commit(loss.sum.item<double>(), loss.weight);
  }
  double total() const { return static_cast<double>(problem.rows); }

  Problem problem = make_problem(7, at::kFloat);
  std::shared_ptr<Sums> target;
  std::shared_ptr<GradientBuffer> buffer;
  Window window;
};

std::vector<std::int64_t> range(std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(end - begin));
  std::iota(ids.begin(), ids.end(), begin);
  return ids;
}

/// Plain ATen operations: gradients arrive through autograd's hooks.
TEST(FoldedGradient, AddsUpToTheMeanGradientOfEverything) {
  FoldedProblem p;
  const auto samples = static_cast<std::int64_t>(p.problem.inputs.size());
  p.window.open(0, 1, p.total());
  p.add(range(0, 2));
  p.add(range(2, samples));
  for (const NamedParameter& parameter : p.problem.parameters)
    EXPECT_FALSE(parameter.tensor.grad().defined());
  const auto expected = p.problem.reference();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const at::Tensor& sum = p.target->sums.at(p.problem.parameters[i].tensor.unsafeGetTensorImpl());
    EXPECT_TRUE(close(sum, expected[i], at::kFloat, p.problem.rows));
    EXPECT_FALSE(close(sum * 1.01, expected[i], at::kFloat, p.problem.rows));
  }
  EXPECT_TRUE(p.window.close());
}

/// A window without a fold target needs no weight: a trial of the memory.
TEST(FoldedGradient, IsDroppedWithoutATarget) {
  FoldedProblem p(/*with_target=*/false);
  p.window.open(0);
  p.add(range(0, 2));
  std::optional<MeanGradient> gradient = p.window.close();
  ASSERT_TRUE(gradient);
  EXPECT_FALSE(gradient->has_values());
  p.window.open(1);
}

/// Several losses: gradients folded with other factors cannot be run again.
TEST(FoldedGradient, LosesTheWindowWhereAQuarantineChangesTheOthersFactors) {
  for (const bool others_change : {true, false}) {
    FoldedProblem p;
    p.window.set_on_quarantine([&](const LedgerEntry&) { return others_change; });
    p.window.open(0, 1, p.total());
    p.add(range(0, 2));
    p.window.begin({});
    p.window.abort(MicroStatus::quarantined, "its loss is not finite");
    EXPECT_EQ(p.window.is_lost(), others_change);
    EXPECT_EQ(p.window.is_torn(), others_change);
    // If it comes first there is nothing to run again.
    FoldedProblem first;
    first.window.set_on_quarantine([&](const LedgerEntry&) { return others_change; });
    first.window.open(0, 1, first.total());
    first.window.begin({});
    first.window.abort(MicroStatus::quarantined, "its loss is not finite");
    EXPECT_FALSE(first.window.is_lost());
  }
}

TEST(FoldedGradient, OfAWindowWithoutWeightIsNotFolded) {
  FoldedProblem p;
  p.window.open(0, 1, 0);
  p.window.begin({});
  torch::autograd::backward({p.problem.loss(range(0, 2)).sum * 0});
  EXPECT_EQ(p.window.commit(0, 0), MicroStatus::committed);
  EXPECT_EQ(p.window.close(), std::nullopt);
  EXPECT_FALSE(p.window.is_torn());
}

}  // namespace
}  // namespace accrue::accum
