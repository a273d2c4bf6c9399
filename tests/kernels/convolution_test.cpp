#include "accrue/kernels/convolution.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "accrue/core/error.h"
#include "accrue/kernels/kernel_choice.h"
#include "support/tolerance.h"

namespace accrue::kernels {
namespace convolution_test {

using accrue::testing::close;
using accrue::testing::relative_error;

struct Case {
  std::int64_t batch, in, out, height, width, kernel;
  ConvolutionSteps steps;
  std::int64_t terms() const { return in * kernel * kernel; }
};

const std::vector<Case> cases{
    {2, 3, 8, 40, 33, 7, {2, 3}},   {3, 16, 16, 9, 12, 3, {1, 1}}, {2, 8, 20, 11, 8, 3, {2, 1}},
    {2, 16, 64, 7, 7, 1, {1, 0}},   {2, 12, 24, 8, 9, 1, {2, 0}},  {1, 1, 1, 8, 8, 3, {1, 1}},
    {2, 64, 32, 14, 14, 3, {1, 1}}, {5, 32, 128, 6, 5, 1, {2, 0}}, {1, 5, 7, 1, 1, 3, {1, 1}},
};

at::Tensor drawn(at::IntArrayRef sizes, std::uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::randn(sizes, generator, at::TensorOptions());
}

at::Tensor rounded(const at::Tensor& values, at::ScalarType dtype) {
  return values.to(dtype).to(at::kDouble);
}

struct Results {
  at::Tensor result, of_x, of_weight;
};

struct Operands {
  at::Tensor x, weight, grad;
};

Operands operands_of(const Case& c) {
  const at::Tensor x = drawn({c.batch, c.in, c.height, c.width}, 1),
                   weight = drawn({c.out, c.in, c.kernel, c.kernel}, 2);
  const at::Tensor result = at::conv2d(x, weight, {}, c.steps.stride, c.steps.padding);
  return {x, weight, drawn(result.sizes(), 3)};
}

/// The exact convolution of the values rounded to `dtype`, in fp64.
Results reference_of(const Case& c, const Operands& operands,
                     at::ScalarType dtype = at::kBFloat16) {
  const auto taken = [&](const at::Tensor& t) { return rounded(t, dtype); };
  const at::Tensor x = taken(operands.x).requires_grad_(true),
                   weight = taken(operands.weight).requires_grad_(true);
  const at::Tensor result = at::conv2d(x, weight, {}, c.steps.stride, c.steps.padding);
  const auto gradients = torch::autograd::grad({result}, {x, weight}, {taken(operands.grad)});
  return {result.detach(), gradients[0], gradients[1]};
}

Results ours_of(const Case& c, const Operands& operands, bool is_read = true,
                at::ScalarType dtype = at::kBFloat16) {
  const at::Tensor x = operands.x.clone().requires_grad_(true),
                   weight = operands.weight.clone().requires_grad_(true);
  const auto convolution = is_read ? rounded_convolution : unread_rounded_convolution;
  const at::Tensor result = convolution(x, weight, c.steps, dtype);
  const auto gradients = torch::autograd::grad({result}, {x, weight}, {operands.grad});
  return {result.detach(), gradients[0], gradients[1]};
}

TEST(RoundedConvolution, SumsProductsOfRoundedOperandsInFp32) {
  for (const Case& c : cases) {
    const Operands operands = operands_of(c);
    const Results ours = ours_of(c, operands), reference = reference_of(c, operands);
    for (const at::Tensor& t : {ours.result, ours.of_x, ours.of_weight})
      EXPECT_EQ(t.scalar_type(), at::kFloat);
    EXPECT_TRUE(close(ours.result, reference.result, at::kFloat, c.terms()));
    EXPECT_TRUE(close(ours.of_x, reference.of_x, at::kFloat, c.out * c.kernel * c.kernel));
    EXPECT_TRUE(close(ours.of_weight, reference.of_weight, at::kFloat, operands.grad.numel()));
  }
}

TEST(RoundedConvolution, TheComparisonSeesOperandsThatAreNotRounded) {
  const Case& c = cases[1];
  const Operands operands = operands_of(c);
  const Results ours = ours_of(c, operands), reference = reference_of(c, operands, at::kDouble);
  EXPECT_FALSE(close(ours.result, reference.result, at::kFloat, c.terms()));
  EXPECT_FALSE(close(ours.of_x, reference.of_x, at::kFloat, c.out * 9));
  EXPECT_FALSE(close(ours.of_weight, reference.of_weight, at::kFloat, operands.grad.numel()));
  EXPECT_TRUE(close(ours.result, reference.result, at::kBFloat16, c.terms()));
}

TEST(RoundedConvolution, RoundsToFp16WhereATenComputes) {
  const KernelScope generic(Kernels::generic);
  for (const Case& c : cases) {
    const Operands operands = operands_of(c);
    const Results ours = ours_of(c, operands, true, at::kHalf),
                  reference = reference_of(c, operands, at::kHalf);
    EXPECT_TRUE(close(ours.result, reference.result, at::kFloat, c.terms()));
    EXPECT_TRUE(close(ours.of_x, reference.of_x, at::kFloat, c.out * c.kernel * c.kernel));
    EXPECT_TRUE(close(ours.of_weight, reference.of_weight, at::kFloat, operands.grad.numel()));
  }
}

TEST(RoundedConvolution, TakesImagesInAnyOrderOfMemory) {
  const Case& c = cases[2];
  Operands operands = operands_of(c);
  const Results plain = ours_of(c, operands);
  operands.x = operands.x.contiguous(at::MemoryFormat::ChannelsLast);
  operands.grad = operands.grad.transpose(2, 3).contiguous().transpose(2, 3);
  const Results other = ours_of(c, operands);
  EXPECT_TRUE(at::equal(plain.result, other.result));
  EXPECT_TRUE(at::equal(plain.of_x, other.of_x));
  EXPECT_TRUE(at::equal(plain.of_weight, other.of_weight));
  EXPECT_TRUE(plain.result.is_contiguous(at::MemoryFormat::ChannelsLast));
}

TEST(RoundedConvolution, AResultThatNobodyReadsHasTheSameGradients) {
  for (const Case& c : cases) {
    const Operands operands = operands_of(c);
    const Results read = ours_of(c, operands), unread = ours_of(c, operands, false);
    EXPECT_EQ(read.result.sizes(), unread.result.sizes());
    EXPECT_TRUE(at::equal(read.of_x, unread.of_x));
    EXPECT_TRUE(at::equal(read.of_weight, unread.of_weight));
  }
}

TEST(RoundedConvolution, RefusesOtherOperandsAndSecondDerivatives) {
  const at::Tensor x = drawn({1, 2, 4, 4}, 1).requires_grad_(true), weight = drawn({3, 2, 3, 3}, 2);
  EXPECT_THROW(rounded_convolution(x.to(at::kDouble), weight, {}, at::kBFloat16), Error);
  EXPECT_THROW(rounded_convolution(x, drawn({3, 1, 3, 3}, 2), {}, at::kBFloat16), Error);
  EXPECT_THROW(rounded_convolution(x, drawn({3, 2, 3, 1}, 2), {}, at::kBFloat16), Error);
  EXPECT_THROW(rounded_convolution(x, weight, {}, at::kFloat), Error);
  const at::Tensor result = rounded_convolution(x, weight, {1, 1}, at::kBFloat16);
  EXPECT_THROW(torch::autograd::grad({result.sum()}, {x}, {}, true, /*create_graph=*/true), Error);
}

}  // namespace convolution_test
}  // namespace accrue::kernels
