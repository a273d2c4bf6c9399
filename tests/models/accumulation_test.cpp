#include "accrue/accum/window.h"
#include "models/support.h"
#include "support/tolerance.h"

namespace accrue::models {
namespace {

using accum::Accumulation;
using testing::context_of;
using testing::forward;
using testing::perturb;
using testing::random_batch;
using testing::small;

constexpr std::int64_t kMicroBatches = 4, kRows = 3;

batch::MicroBatch micro_batch(std::int64_t index) {
  // Of different lengths, so that some position embeddings are not used.
  return random_batch(small(), kRows, 9 + index, static_cast<std::uint64_t>(100 + index));
}

/// The gradients of all micro-batches' summed loss, in fp64 and by plain autograd.
std::vector<at::Tensor> reference(const Gpt2& model, std::int64_t micro_batches) {
  Gpt2 exact(small(Compute::fp64));
  std::vector<at::Tensor> leaves;
  const NamedParameters from = model.parameters();
  for (const auto& [name, tensor] : exact.parameters()) {
    const at::NoGradGuard no_grad;
    tensor.copy_(from[leaves.size()].tensor);
    leaves.push_back(tensor);
  }
  at::Tensor total = at::zeros({}, at::kDouble);
  for (std::int64_t i = 0; i < micro_batches; ++i)
    total = total + forward(exact, micro_batch(i), context_of(micro_batch(i))).sum;
  return torch::autograd::grad({total}, leaves);
}

/// The allowed error of kMicroBatches roundings relative to the largest element, in addition to the
/// kernels' fp32.
double rounding(Accumulation accumulation) {
  switch (accumulation) {
    case Accumulation::bf16:
      return kMicroBatches * 0x1p-8;
    case Accumulation::bf16_stochastic:
      return kMicroBatches * 0x1p-7;
    case Accumulation::bf16_kahan:
      return kMicroBatches * 0x1p-15;
    default:
      return 0;
  }
}

class EveryAccumulation : public ::testing::TestWithParam<Accumulation> {};
INSTANTIATE_TEST_SUITE_P(Precisions, EveryAccumulation,
                         ::testing::Values(Accumulation::fp32, Accumulation::fp64,
                                           Accumulation::bf16, Accumulation::bf16_kahan,
                                           Accumulation::bf16_stochastic, Accumulation::fixed));

/// Embeddings, linear layers, norms, the tied head and its fused loss write into one scratch, which
/// held another parameter's gradient before.
TEST_P(EveryAccumulation, SumsWhatEveryKernelContributes) {
  Gpt2 model(small(Compute::fp32));
  perturb(model);
  accum::Window window(std::make_shared<accum::GradientBuffer>(model.parameters(), GetParam()));
  const auto run = [&](const MicroRef& ref) {
    const batch::MicroBatch micro = micro_batch(ref.index);
    Loss loss = forward(model, micro, context_of(micro));
    loss.sum.backward();
    return loss;
  };
  window.set_replay(run);
  window.open(0);
  for (std::int64_t i = 0; i < kMicroBatches; ++i) {
    window.begin({.index = i});
    const Loss loss = run({.index = i});
    window.commit(loss.sum.item<double>(), loss.weight);
  }

  const auto expected = reference(model, kMicroBatches);
  const auto without_last = reference(model, kMicroBatches - 1);
  const double bound =
      accrue::testing::tolerance(at::kFloat).bound(kRows * 12 * 31) + rounding(GetParam());
  const auto& entries = window.buffer()->entries();
  ASSERT_EQ(entries.size(), expected.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const at::Tensor sum = source_of(entries[i]).scaled_copy(1, expected[i]);
    EXPECT_TRUE(accrue::testing::within(sum, expected[i], bound)) << entries[i].name;
    EXPECT_GT(accrue::testing::relative_error(sum, without_last[i]), bound) << entries[i].name;
  }
}

}  // namespace
}  // namespace accrue::models
