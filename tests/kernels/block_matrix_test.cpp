#include "kernels/blocks/block_matrix.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include <array>
#include <cmath>

#include "accrue/core/error.h"
#include "accrue/kernels/linear.h"
#include "kernels/gradients.h"
#include "kernels/plain/plain_operations.h"
#include "support/tolerance.h"

namespace accrue::kernels {
namespace block_matrix_test {

using testing::close;
using ::testing::HasSubstr;
using testing::leaf;
using testing::within;

constexpr std::array formats{BlockFormat::q8_0, BlockFormat::q4_k, BlockFormat::q5_k,
                             BlockFormat::q6_k};

double half_at(const at::Tensor& block, std::int64_t at) {
  return block.narrow(0, at, 2).clone().view(at::kHalf).item<double>();
}

/// The j-th of eight 6-bit pairs of a scale and a minimum in 12 bytes, in ggml-common.h's layout.
std::array<int, 2> six_bits(const std::uint8_t* packed, int j) {
  if (j < 4) return {packed[j] & 63, packed[j + 4] & 63};
  return {(packed[j + 4] & 15) + 16 * (packed[j - 4] >> 6),
          (packed[j + 4] >> 4) + 16 * (packed[j] >> 6)};
}

/// Number i of a block by the format's definition, in double.
double number_of(BlockFormat format, const at::Tensor& block, int i) {
  const auto* bytes = block.const_data_ptr<std::uint8_t>();
  const int group = i / 32, place = i % 32;
  const auto half_byte = [&](int byte, bool upper) {
    return upper ? bytes[byte] >> 4 : bytes[byte] & 15;
  };
  if (format == BlockFormat::q8_0)
    return half_at(block, 0) * static_cast<std::int8_t>(bytes[2 + i]);
  if (format == BlockFormat::q6_k) {
    const int half = i / 128, quarter = group % 4;
    const int low = half_byte(64 * half + 32 * (quarter % 2) + place, quarter >= 2),
              high = bytes[128 + 32 * half + place] >> (2 * quarter) & 3;
    return half_at(block, 208) * static_cast<std::int8_t>(bytes[192 + i / 16]) *
           (low + 16 * high - 32);
  }
  const bool fifth = format == BlockFormat::q5_k;
  const auto [scale, minimum] = six_bits(bytes + 4, group);
  int number = half_byte((fifth ? 48 : 16) + 32 * (group / 2) + place, group % 2 == 1);
  if (fifth) number += 16 * (bytes[16 + place] >> group & 1);
  return half_at(block, 0) * scale * number - half_at(block, 2) * minimum;
}

/// Blocks of random bytes with realistic scales for weights.
at::Tensor random_blocks(BlockFormat format, const MatrixSize& size, std::uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const auto bytes = at::TensorOptions().dtype(at::kByte);
  at::Tensor blocks = at::randint(0, 256, sizes_in_blocks(format, size), generator, bytes);
  const auto put_scale = [&](std::int64_t at) {
    const at::Tensor scales = at::rand({blocks.size(0), blocks.size(1), 1}, generator) * 0.01;
    blocks.narrow(2, at, 2).copy_(scales.to(at::kHalf).view(at::kByte));
  };
  put_scale(format == BlockFormat::q6_k ? 208 : 0);
  if (format == BlockFormat::q4_k || format == BlockFormat::q5_k) put_scale(2);
  return blocks;
}

at::Tensor by_definition(const at::Tensor& blocks) {
  const BlockFormat format = format_of(blocks);
  const MatrixSize size = matrix_size(blocks);
  const auto elements = static_cast<int>(size_of(format).elements);
  at::Tensor values = at::empty({size.rows, size.columns}, at::kDouble);
  auto access = values.accessor<double, 2>();
  for (std::int64_t row = 0; row < size.rows; ++row)
    for (std::int64_t column = 0; column < size.columns; ++column)
      access[row][column] =
          number_of(format, blocks[row][column / elements], static_cast<int>(column % elements));
  return values;
}

class BlockMatrix : public ::testing::TestWithParam<BlockFormat> {};
INSTANTIATE_TEST_SUITE_P(Formats, BlockMatrix, ::testing::ValuesIn(formats));

TEST_P(BlockMatrix, UnpacksToWhatTheFormatDefines) {
  const at::Tensor blocks = random_blocks(GetParam(), {9, 768}, 3);
  const at::Tensor expected = by_definition(blocks), unpacked_values = unpacked(blocks, at::kFloat);
  EXPECT_TRUE(close(unpacked_values, expected, at::kFloat, 2));
  EXPECT_TRUE(at::equal(unpacked(blocks, at::kBFloat16), unpacked_values.to(at::kBFloat16)));
  EXPECT_TRUE(at::equal(unpacked(blocks, at::kDouble), unpacked_values.to(at::kDouble)));
  at::Tensor changed = blocks.clone();
  changed[4][1][20].bitwise_xor_(16);
  EXPECT_FALSE(at::equal(unpacked(changed, at::kFloat), unpacked_values));
}

TEST_P(BlockMatrix, TellsWhatItHolds) {
  const at::Tensor blocks = random_blocks(GetParam(), {3, 512}, 4);
  EXPECT_TRUE(is_in_blocks(blocks));
  EXPECT_EQ(format_of(blocks), GetParam());
  EXPECT_EQ(matrix_size(blocks).rows, 3);
  EXPECT_EQ(matrix_size(blocks).columns, 512);
  EXPECT_EQ(element_count(blocks), 3 * 512);
  const at::Tensor other = blocks.narrow(2, 0, 33);
  EXPECT_FALSE(is_in_blocks(other));
  EXPECT_FALSE(is_in_blocks(blocks.flatten(1)));
  EXPECT_THROW(format_of(other), Error);
}

TEST_P(BlockMatrix, DoesNotDependOnThreads) {
  const at::Tensor blocks = random_blocks(GetParam(), {301, 512}, 5);
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor alone = unpacked(blocks, at::kBFloat16);
  at::set_num_threads(3);
  EXPECT_TRUE(at::equal(unpacked(blocks, at::kBFloat16), alone));
  at::set_num_threads(threads);
}

TEST_P(BlockMatrix, InfiniteScalesGiveValuesThatAreNone) {
  at::Tensor blocks = random_blocks(GetParam(), {1, 256}, 6);
  blocks.narrow(2, GetParam() == BlockFormat::q6_k ? 208 : 0, 2)
      .copy_(at::full({1}, INFINITY, at::kHalf).view(at::kByte));
  EXPECT_FALSE(at::isfinite(unpacked(blocks, at::kFloat)).all().item<bool>());
}

at::Tensor packed(BlockFormat format, const at::Tensor& values) {
  const at::Tensor blocks = at::empty(sizes_in_blocks(format, matrix_size(values)), at::kByte);
  pack_into(blocks, values);
  return blocks;
}

TEST(PackedBlocks, AreWithinHalfAStep) {
  const at::Tensor values = leaf({40, 256}, at::kFloat, 8, 0.02).detach();
  const at::Tensor groups = values.view({40, -1, 32});
  const at::Tensor error =
      (unpacked(packed(BlockFormat::q8_0, values), at::kFloat) - values).view({40, -1, 32}).abs();
  // The step is rounded to fp16, and the largest number is 127 steps.
  const at::Tensor step = groups.abs().amax(-1, /*keepdim=*/true) / 127;
  EXPECT_TRUE((error <= step * (0.5 + 127 * 0x1p-11 + 1e-3)).all().item<bool>());
  EXPECT_FALSE((error <= step * 0.25).all().item<bool>());
}

TEST(PackedBlocks, OfFourBitsHaveASmallerErrorThanThePlainRange) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const at::Tensor values = leaf({64, 512}, at::kFloat, seed, 0.02).detach();
    const at::Tensor groups = values.view({64, -1, 32});
    const at::Tensor low = groups.amin(-1, true).clamp_max(0),
                     step = (groups.amax(-1, true) - low) / 15;
    const at::Tensor plain = ((groups - low) / step).round() * step + low;
    const double of_range = (plain - groups).norm().item<double>();
    const double error =
        (unpacked(packed(BlockFormat::q4_k, values), at::kFloat) - values).norm().item<double>();
    EXPECT_LT(error, of_range);
    EXPECT_GT(error, 0.7 * of_range);
  }
}

TEST(PackedBlocks, KeepWhatTheyHold) {
  const at::Tensor zeros = at::zeros({2, 512});
  for (const BlockFormat format : {BlockFormat::q8_0, BlockFormat::q4_k}) {
    EXPECT_TRUE(at::equal(unpacked(packed(format, zeros), at::kFloat), zeros));
    const at::Tensor constant = at::full({2, 512}, 0.75);
    EXPECT_TRUE(within(unpacked(packed(format, constant), at::kFloat), constant, 0x1p-10));
    const at::Tensor values = leaf({5, 512}, at::kBFloat16, 4).detach();
    EXPECT_TRUE(at::equal(packed(format, values), packed(format, values.to(at::kFloat))));
  }
  const at::Tensor blocks = packed(BlockFormat::q8_0, leaf({5, 512}, at::kFloat, 4).detach());
  EXPECT_TRUE(within(unpacked(packed(BlockFormat::q8_0, unpacked(blocks, at::kFloat)), at::kFloat),
                     unpacked(blocks, at::kFloat), 0x1p-9));
}

TEST(PackedBlocks, AreOfTwoFormats) {
  const at::Tensor blocks = random_blocks(BlockFormat::q6_k, {1, 256}, 1);
  EXPECT_THROW(pack_into(blocks, at::zeros({1, 256})), Error);
}

struct Products {
  at::Tensor y, grad_x, grad_a, grad_b;
};

class LinearInBlocks : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  at::ScalarType compute() const { return GetParam(); }
  at::ScalarType master() const { return compute() == at::kDouble ? compute() : at::kFloat; }

  /// A layer with an adapter and a bias, with `weight` in blocks or plain.
  Products products(const at::Tensor& weight, const Operations& operations = native_operations(),
                    bool packs = false) const {
    const at::Tensor x = leaf({3, 4, 512}, compute(), 11), bias = leaf({24}, master(), 12);
    LowRank factors{
        .a = leaf({2, 512}, master(), 13), .b = leaf({24, 2}, master(), 14), .scale = 2};
    PreparedWeight prepared;
    prepared.pack(packs);
    Products made;
    made.y = operations.adapted_linear(x, weight, bias, prepared, factors, {}, {});
    made.y.backward(leaf({3, 4, 24}, compute(), 15).detach());
    made.grad_x = x.grad();
    made.grad_a = factors.a.grad();
    made.grad_b = factors.b.grad();
    return made;
  }
};
INSTANTIATE_TEST_SUITE_P(All, LinearInBlocks,
                         ::testing::Values(at::kFloat, at::kDouble, at::kBFloat16),
                         [](const auto& param) { return c10::toString(param.param); });

void expect_same(const Products& a, const Products& b, bool same = true) {
  EXPECT_EQ(at::equal(a.y, b.y), same);
  EXPECT_EQ(at::equal(a.grad_x, b.grad_x), same);
  EXPECT_TRUE(at::equal(a.grad_a, b.grad_a));
  EXPECT_TRUE(at::equal(a.grad_b, b.grad_b));
}

TEST_P(LinearInBlocks, IsThatOfTheUnpackedWeightToTheBit) {
  for (const BlockFormat format : formats) {
    const at::Tensor blocks = random_blocks(format, {24, 512}, 9);
    const Products expected = products(unpacked(blocks, compute()));
    expect_same(products(blocks), expected);
    expect_same(products(blocks, native_operations(), /*packs=*/true), expected);
    at::Tensor changed = blocks.clone();
    changed.select(2, 20).bitwise_xor_(0xf0);
    expect_same(products(changed), expected, false);
  }
}

TEST_P(LinearInBlocks, IsWhatPlainOperationsGive) {
  const at::Tensor blocks = random_blocks(BlockFormat::q4_k, {24, 512}, 9);
  const Products ours = products(blocks), plain = products(blocks, plain_operations());
  EXPECT_TRUE(close(ours.y, plain.y, compute(), 512));
  EXPECT_TRUE(close(ours.grad_x, plain.grad_x, compute(), 24));
}

TEST_P(LinearInBlocks, WidensAWeightInBf16) {
  const at::Tensor weight = leaf({24, 512}, at::kBFloat16, 9).detach();
  expect_same(products(weight), products(weight.to(compute())));
}

TEST_P(LinearInBlocks, ServesAGatedPart) {
  const auto gated = [&](const at::Tensor& gate, const at::Tensor& up, const at::Tensor& down) {
    const at::Tensor x = leaf({5, 256}, compute(), 1);
    PreparedWeight of_gate, of_up, of_down;
    const at::Tensor y = mlp_gated(x, gate, of_gate, up, of_up, down, of_down);
    y.backward(leaf({5, 6}, compute(), 2).detach());
    return std::pair{y.detach(), x.grad()};
  };
  const at::Tensor gate = random_blocks(BlockFormat::q8_0, {512, 256}, 3),
                   up = random_blocks(BlockFormat::q4_k, {512, 256}, 4),
                   down = random_blocks(BlockFormat::q6_k, {6, 512}, 5);
  const auto plain = [&](const at::Tensor& blocks) { return unpacked(blocks, compute()); };
  const auto [y, grad] = gated(gate, up, down);
  const auto [expected_y, expected_grad] = gated(plain(gate), plain(up), plain(down));
  EXPECT_TRUE(at::equal(y, expected_y));
  EXPECT_TRUE(at::equal(grad, expected_grad));
}

TEST(LinearWithBlocks, RefusesOtherWidths) {
  PreparedWeight prepared;
  try {
    linear(at::zeros({2, 480}), random_blocks(BlockFormat::q8_0, {4, 512}, 1), {}, prepared);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("x [..., K], weight [N, K]"));
  }
}

}  // namespace block_matrix_test
}  // namespace accrue::kernels
