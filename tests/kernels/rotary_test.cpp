#include "accrue/kernels/rotary.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "accrue/core/error.h"
#include "kernels/gradients.h"
#include "support/tolerance.h"

namespace accrue::kernels {
namespace rotary_test {

using testing::close;
using testing::in_double;
using testing::leaf;

struct Tables {
  at::Tensor cosines, sines;

  Tables(std::int64_t positions, std::int64_t half, at::ScalarType dtype) {
    const at::Tensor frequencies =
        at::pow(10000.0, -at::arange(half, at::kDouble) / static_cast<double>(half));
    const at::Tensor angles = at::arange(positions, at::kDouble).unsqueeze(1) * frequencies;
    cosines = angles.cos().to(dtype);
    sines = angles.sin().to(dtype);
  }
};

/// x * cos + rotate_half(x) * sin, as transformers writes it, in double.
at::Tensor written_out(const at::Tensor& x, std::int64_t heads, const Tables& tables) {
  const std::int64_t width = x.size(2) / heads;
  const at::Tensor split = x.view({x.size(0), x.size(1), heads, width});
  const auto whole = [&](const at::Tensor& table) {
    const at::Tensor rows = table.narrow(0, 0, x.size(1)).to(at::kDouble);
    return at::cat({rows, rows}, -1).unsqueeze(1);
  };
  const at::Tensor rotated =
      at::cat({-split.narrow(-1, width / 2, width / 2), split.narrow(-1, 0, width / 2)}, -1);
  return (split * whole(tables.cosines) + rotated * whole(tables.sines)).view(x.sizes());
}

class Rotary : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  at::ScalarType dtype() const { return GetParam(); }
  at::ScalarType table_dtype() const { return dtype() == at::kDouble ? dtype() : at::kFloat; }
};
INSTANTIATE_TEST_SUITE_P(All, Rotary, ::testing::Values(at::kFloat, at::kDouble, at::kBFloat16),
                         [](const auto& param) { return c10::toString(param.param); });

TEST_P(Rotary, MatchesRotateHalfForwardsAndBackwards) {
  for (const std::int64_t heads : {1, 3})
    for (const std::int64_t width : {2, 6, 64, 80})
      for (const std::int64_t length : {1, 37}) {
        SCOPED_TRACE(::testing::Message() << heads << " of " << width << ", T " << length);
        const Tables tables(50, width / 2, table_dtype());
        const at::Tensor x = leaf({2, length, heads * width}, dtype(), 1), rx = in_double(x);
        const at::Tensor grad = leaf({2, length, heads * width}, dtype(), 2).detach();
        const at::Tensor y = rotate(x, heads, tables.cosines, tables.sines);
        ASSERT_EQ(y.scalar_type(), dtype());
        const at::Tensor expected = written_out(rx, heads, tables);
        y.backward(grad);
        expected.backward(grad.to(at::kDouble));
        EXPECT_TRUE(close(y, expected, dtype(), 2));
        EXPECT_TRUE(close(x.grad(), rx.grad(), dtype(), 2));
      }
}

TEST_P(Rotary, ComparatorSeesNeighboursThatArePairedAndTheOtherDirection) {
  const Tables tables(50, 8, table_dtype());
  const at::Tensor x = leaf({1, 37, 16}, dtype(), 1).detach();
  const at::Tensor y = rotate(x, 1, tables.cosines, tables.sines);
  const at::Tensor pairs =
      x.view({1, 37, 8, 2}).transpose(-1, -2).reshape({1, 37, 16}).to(at::kDouble);
  const at::Tensor neighbours =
      written_out(pairs, 1, tables).view({1, 37, 2, 8}).transpose(-1, -2).reshape({1, 37, 16});
  EXPECT_FALSE(close(y, neighbours, dtype(), 2));
  EXPECT_FALSE(close(rotate(x, 1, tables.cosines, -tables.sines),
                     written_out(x.to(at::kDouble), 1, tables), dtype(), 2));
}

TEST_P(Rotary, PositionsRestartInEachSpanAndPaddingIsZero) {
  // Rows are longer than the tables, samples are not.
  const Tables tables(12, 4, table_dtype());
  const std::vector<SampleSpan> spans{{7, 0, 0, 5}, {3, 0, 5, 17}, {9, 1, 4, 6}};
  const at::Tensor x = leaf({2, 20, 16}, dtype(), 1), grad = leaf({2, 20, 16}, dtype(), 2).detach();
  const at::Tensor y = rotate(x, 2, tables.cosines, tables.sines, spans);
  y.backward(grad);
  at::Tensor expected = at::zeros_like(y), expected_grad = at::zeros_like(y);
  for (const SampleSpan& span : spans) {
    const auto part = [&](const at::Tensor& of) {
      return of[span.row].slice(0, span.begin, span.end).unsqueeze(0);
    };
    part(expected).copy_(rotate(part(x.detach()), 2, tables.cosines, tables.sines));
    part(expected_grad).copy_(rotate(part(grad), 2, tables.cosines, -tables.sines));
  }
  EXPECT_TRUE(at::equal(y, expected));
  EXPECT_TRUE(at::equal(x.grad(), expected_grad));
  EXPECT_FALSE(at::equal(
      rotate(x, 2, Tables(20, 4, table_dtype()).cosines, Tables(20, 4, table_dtype()).sines), y));
}

TEST_P(Rotary, ReadsStridedInput) {
  const Tables tables(9, 4, table_dtype());
  const at::Tensor wide = leaf({3, 9, 40}, dtype(), 1).detach(), slice = wide.narrow(2, 3, 16);
  EXPECT_TRUE(at::equal(rotate(slice, 2, tables.cosines, tables.sines),
                        rotate(slice.contiguous(), 2, tables.cosines, tables.sines)));
}

TEST(Rotary, RefusesWhatDoesNotFit) {
  const Tables tables(9, 4, at::kFloat);
  const at::Tensor x = at::ones({1, 9, 16});
  EXPECT_NO_THROW(rotate(x, 2, tables.cosines, tables.sines));
  EXPECT_THROW(rotate(x, 3, tables.cosines, tables.sines), Error);
  EXPECT_THROW(rotate(x, 1, tables.cosines, tables.sines), Error);
  EXPECT_THROW(rotate(x, 16, tables.cosines, tables.sines), Error);
  EXPECT_THROW(rotate(x.to(at::kDouble), 2, tables.cosines, tables.sines), Error);
  EXPECT_THROW(rotate(at::ones({1, 10, 16}), 2, tables.cosines, tables.sines), Error);
  EXPECT_THROW(rotate(x, 2, tables.cosines, tables.sines, {{0, 0, 0, 5}, {1, 0, 4, 9}}), Error);
}

}  // namespace rotary_test
}  // namespace accrue::kernels
