// Accumulator::plan when ranks share the windows.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "accrue/accum/accumulator.h"
#include "accrue/distributed/group.h"
#include "accrue/kernels/grad_slot.h"
#include "accrue/train/loop_plan.h"
#include "distributed/ranks.h"
#include "support/tolerance.h"
#include "train/regression.h"

namespace accrue {
namespace {

using testing::Regression;
using testing::weighted_error;
using SlicedBatch = std::vector<torch::Tensor>;

/// A second buffer in addition to the accumulator's would count the sums twice.
TEST(LoopPlanOfRanks, TrialsAddIntoTheSumsThatTheLoopHas) {
  const testing::ReservedPort port;
  const auto group = distributed::connect(
      {.rank = 0, .world = 1, .master_addr = "127.0.0.1", .master_port = port.number()});
  Regression r;
  Accumulator accumulator(r.model, {.batch = Samples{8}, .group = group});
  const accum::GradientBuffer::Entry& first =
      accumulator.current_window().buffer()->entries().front();
  bool is_own = true;
  accumulator.plan(r.model, r.batch(), [&](torch::nn::Sequential& model, const SlicedBatch& micro) {
    is_own = is_own && kernels::slot_of(first.parameter) == first.slot.get();
    return weighted_error(model, micro);
  });
  EXPECT_TRUE(is_own);

  const Loss loss = weighted_error(r.model, r.batch());
  const torch::Tensor expected =
      torch::autograd::grad({loss.sum / loss.weight}, {first.parameter}, {}, true).front();
  accumulator.backward(loss, Samples{8});
  EXPECT_TRUE(accumulator.step([](accum::MeanGradient&& mean) { mean.materialize(); }).stepped);
  EXPECT_LT(testing::relative_error(first.parameter.grad(), expected), 1e-12)
      << "the trials left nothing";
}

}  // namespace
}  // namespace accrue
