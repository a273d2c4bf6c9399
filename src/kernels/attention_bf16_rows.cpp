#include "attention_bf16_rows.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attention_bf16_rows.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h has to come first: it includes this file once per instruction set.
#include <hwy/highway.h>

#include "softmax-inl.h"
#include "vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::kernels::rows::HWY_NAMESPACE {

using namespace kernels::HWY_NAMESPACE;

/// to[2 i] = low[i], to[2 i + 1] = high[i], as bf16.
template <class D>
HWY_INLINE void store_pair(D d, hn::Vec<D> low, hn::Vec<D> high, Bf16* to) {
  const hn::Rebind<std::uint32_t, D> word;
  const auto words = hn::Or(bf16_bits(d, low), hn::ShiftLeft<16>(bf16_bits(d, high)));
  hn::StoreU(words, word, reinterpret_cast<std::uint32_t*>(to));
}

void pair_rows(const Bf16* rows, std::size_t padded_rows, std::size_t depth, Bf16* pairs) {
  const Lanes<float> d;
  for (std::size_t row = 0; row < padded_rows; row += 2, rows += 2 * depth)
    for (std::size_t i = 0; i < depth; i += hn::Lanes(d), pairs += 2 * hn::Lanes(d))
      store_pair(d, load(d, rows + i), load(d, rows + depth + i), pairs);
}

void softmax_block(const QueryBlock& block, float* scores, Bf16* p, float* sums, float* log_sums) {
  const Lanes<float> d;
  const RowMask<float> mask(block.mask, block.words);
  for (std::size_t r = 0; r < block.block_rows; ++r) {
    Bf16* to = p + r * block.stride;
    if (r >= block.rows) {
      std::fill_n(to, block.keys, Bf16{0});
      continue;
    }
    float* row = scores + r * block.stride;
    const std::size_t query = block.first + r, seen = block.causal ? query + 1 : block.length;
    sums[r] = exponentiate_row(row, seen, block.keys, block.scale, log_sums[r]);
    mask.draw(query, seen);
    mask.apply(row, seen);
    for (std::size_t i = 0; i < block.keys; i += hn::Lanes(d)) store(load(d, row + i), d, to + i);
  }
}

void softmax_backward_row_of(const QueryBlock& block, std::size_t r, float* scores, float* grads,
                             const float* log_sums) {
  if (r >= block.rows) {
    std::fill_n(scores, block.keys, 0.0F);
    std::fill_n(grads, block.keys, 0.0F);
    return;
  }
  const RowMask<float> mask(block.mask, block.words);
  const std::size_t query = block.first + r, seen = block.causal ? query + 1 : block.length;
  mask.draw(query, seen);
  mask.apply(grads, seen);
  softmax_backward_row(scores, grads, seen, block.keys, block.scale, log_sums[r]);
  mask.apply(scores, seen);
}

void softmax_backward_block(const QueryBlock& block, float* scores, float* grads,
                            const float* log_sums, Bf16* p_pairs, Bf16* grad_rows,
                            Bf16* grad_pairs) {
  const Lanes<float> d;
  for (std::size_t r = 0; r < block.block_rows; r += 2) {
    const std::size_t offset = r * block.stride, next = offset + block.stride;
    softmax_backward_row_of(block, r, scores + offset, grads + offset, log_sums);
    softmax_backward_row_of(block, r + 1, scores + next, grads + next, log_sums);
    for (std::size_t i = 0; i < block.keys; i += hn::Lanes(d)) {
      const auto low = load(d, grads + offset + i), high = load(d, grads + next + i);
      store_pair(d, load(d, scores + offset + i), load(d, scores + next + i),
                 p_pairs + offset + 2 * i);
      store_pair(d, low, high, grad_pairs + offset + 2 * i);
      store(low, d, grad_rows + offset + i);
      store(high, d, grad_rows + next + i);
    }
  }
}

void unpack_scaled(const float* from, std::size_t depth, std::size_t rows, std::size_t width,
                   const float* factors, void* to, std::size_t stride) {
  const Lanes<float> d;
  for (std::size_t row = 0; row < rows; ++row) {
    const auto factor = hn::Set(d, factors[row]);
    auto* target = static_cast<Bf16*>(to) + row * stride;
    for_each_vector(d, width, [&](std::size_t i, std::size_t count) HWY_ATTR {
      store(hn::Mul(load(d, from + row * depth + i), factor), d, target + i, count);
    });
  }
}

void unpack_transposed(const float* from, std::size_t from_stride, std::size_t rows,
                       std::size_t width, float factor, void* to, std::size_t stride) {
  constexpr std::size_t tile_rows = 16, tile_columns = 64;
  const Lanes<float> d;
  const auto scale = hn::Set(d, factor);
  float tile[tile_rows * tile_columns] = {};
  for (std::size_t column = 0; column < width; column += tile_columns) {
    const std::size_t columns = std::min(tile_columns, width - column);
    for (std::size_t start = 0; start < rows; start += tile_rows) {
      const std::size_t count = std::min(tile_rows, rows - start);
      for (std::size_t i = 0; i < columns; ++i)
        for (std::size_t r = 0; r < tile_rows; ++r)
          tile[r * tile_columns + i] = from[(column + i) * from_stride + start + r];
      for (std::size_t r = 0; r < count; ++r) {
        auto* target = static_cast<Bf16*>(to) + (start + r) * stride + column;
        for_each_vector(d, columns, [&](std::size_t i, std::size_t lanes) HWY_ATTR {
          store(hn::Mul(load(d, tile + r * tile_columns + i), scale), d, target + i, lanes);
        });
      }
    }
  }
}

}  // namespace accrue::kernels::rows::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::kernels::rows {

HWY_EXPORT(pair_rows);
HWY_EXPORT(softmax_block);
HWY_EXPORT(softmax_backward_block);
HWY_EXPORT(unpack_scaled);
HWY_EXPORT(unpack_transposed);

void copy_padded(const HeadRows& from, std::size_t padded_rows, std::size_t depth, Bf16* to) {
  const auto* row = static_cast<const Bf16*>(from.first);
  for (std::size_t i = 0; i < padded_rows; ++i, row += from.stride, to += depth) {
    const std::size_t width = i < from.rows ? from.width : 0;
    if (width > 0) std::memcpy(to, row, width * sizeof(Bf16));
    std::fill(to + width, to + depth, Bf16{0});
  }
}

void pair_rows(const Bf16* rows, std::size_t padded_rows, std::size_t depth, Bf16* pairs) {
  HWY_DYNAMIC_DISPATCH(pair_rows)(rows, padded_rows, depth, pairs);
}

void pair_columns(const Bf16* rows, std::size_t padded_rows, std::size_t depth, Bf16* pairs,
                  std::size_t stride) {
  // Neighbours in a row stay together: a transpose of words of two elements.
  constexpr std::size_t block = 16;
  for (std::size_t start = 0; start < padded_rows; start += block)
    for (std::size_t pair = 0; pair < depth / 2; ++pair)
      for (std::size_t row = start; row < start + block; ++row)
        std::memcpy(pairs + 2 * (pair * stride + row), rows + row * depth + 2 * pair,
                    2 * sizeof(Bf16));
}

void transpose(const Bf16* from, std::size_t rows, std::size_t depth, Bf16* to) {
  for (std::size_t i = 0; i < depth; ++i)
    for (std::size_t row = 0; row < rows; ++row) to[i * rows + row] = from[row * depth + i];
}

void softmax_block(const QueryBlock& block, float* scores, Bf16* p, float* sums, float* log_sums) {
  HWY_DYNAMIC_DISPATCH(softmax_block)(block, scores, p, sums, log_sums);
}

void softmax_backward_block(const QueryBlock& block, float* scores, float* grads,
                            const float* log_sums, Bf16* p_pairs, Bf16* grad_rows,
                            Bf16* grad_pairs) {
  HWY_DYNAMIC_DISPATCH(softmax_backward_block)
  (block, scores, grads, log_sums, p_pairs, grad_rows, grad_pairs);
}

void unpack_scaled(const float* from, std::size_t depth, std::size_t rows, std::size_t width,
                   const float* factors, void* to, std::size_t stride) {
  HWY_DYNAMIC_DISPATCH(unpack_scaled)(from, depth, rows, width, factors, to, stride);
}

void unpack_transposed(const float* from, std::size_t from_stride, std::size_t rows,
                       std::size_t width, float factor, void* to, std::size_t stride) {
  HWY_DYNAMIC_DISPATCH(unpack_transposed)(from, from_stride, rows, width, factor, to, stride);
}

}  // namespace accrue::kernels::rows
#endif
