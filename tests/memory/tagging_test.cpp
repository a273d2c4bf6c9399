#include "accrue/accum/gradient_buffer.h"
#include "accrue/kernels/prepared_weight.h"
#include "allocator_fixture.h"

namespace accrue::memory {
namespace {

using accum::Accumulation;
using TaggingTest = AllocatorTest;

TEST_F(TaggingTest, AGradientBufferIsGradientsInEachPrecision) {
  const auto parameter = [](std::int64_t elements) {
    return at::zeros({elements}).set_requires_grad(true);
  };
  const NamedParameters parameters{{"a", parameter(300'000)}, {"b", parameter(100)}};
  for (const Accumulation accumulation :
       {Accumulation::fp32, Accumulation::fp64, Accumulation::bf16, Accumulation::bf16_kahan,
        Accumulation::bf16_stochastic, Accumulation::fixed}) {
    const Usage before = usage();
    const accum::GradientBuffer buffer(parameters, accumulation);
    const Usage after = usage();
    EXPECT_EQ(after.live_as(MemoryTag::gradients) - before.live_as(MemoryTag::gradients),
              buffer.bytes())
        << accum::to_string(accumulation);
    EXPECT_EQ(after.live - before.live, buffer.bytes()) << "and nothing else";
  }
  EXPECT_EQ(usage().live_as(MemoryTag::gradients), start_.live_as(MemoryTag::gradients));
}

TEST_F(TaggingTest, AWeightsCopyIsParametersAndItsPackedLayoutsArePacked) {
  const at::Tensor master = at::zeros({300'000});
  const std::int64_t before = usage().live_as(MemoryTag::parameters);
  kernels::PreparedWeight copy;
  copy.copy(master, at::kFloat);
  EXPECT_EQ(usage().live_as(MemoryTag::parameters), before) << "the master itself";
  copy.copy(master, at::kBFloat16);
  EXPECT_EQ(usage().live_as(MemoryTag::parameters) - before, 600'000);
  const at::Tensor weight = at::zeros({64, 64});
  kernels::PreparedWeight packed;
  packed.pack(true);
  const at::Tensor operand = packed.operands(weight, at::kFloat, false).forward;
  const bool packs = operand.dim() == 1;
  EXPECT_EQ(usage().live_as(MemoryTag::packed) - start_.live_as(MemoryTag::packed),
            packs ? static_cast<std::int64_t>(operand.nbytes()) : 0);
  EXPECT_EQ(usage().live_as(MemoryTag::parameters) - before, 600'000) << "no more than before";
}

}  // namespace
}  // namespace accrue::memory
