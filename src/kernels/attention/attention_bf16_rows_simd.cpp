#include "kernels/attention/attention_bf16_rows_simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/attention/transpose-inl.h"
#include "kernels/vector_io-inl.h"

HWY_BEFORE_NAMESPACE();
namespace accrue::kernels::rows::HWY_NAMESPACE {

using namespace kernels::HWY_NAMESPACE;

void copy_padded(const HeadRows& from, std::size_t padded_rows, std::size_t depth, Bf16* to) {
  const Lanes<std::uint16_t> d;
  for (std::size_t row = 0; row < padded_rows; ++row, to += depth) {
    const std::size_t width = row < from.rows ? from.width : 0;
    const std::uint16_t* source = &(from.first + row * from.stride)->bits;
    for_each_vector(d, width, [&](std::size_t i, std::size_t count) HWY_ATTR {
      store(load(d, source + i, count), d, &to[i].bits, count);
    });
    std::fill(to + width, to + depth, Bf16{0});
  }
}

void pair_rows(const Rows& rows, std::size_t padded_rows, std::size_t depth, Bf16* pairs) {
  const Lanes<std::uint32_t> d;
  const hn::Rebind<std::uint16_t, decltype(d)> half;
  for (std::size_t row = 0; row < padded_rows; row += 2) {
    const Bf16 *low = rows.first + row * rows.stride, *high = low + rows.stride;
    for (std::size_t i = 0; i < depth; i += hn::Lanes(d), pairs += 2 * hn::Lanes(d)) {
      const auto upper = hn::PromoteTo(d, hn::LoadU(half, &high[i].bits));
      const auto lower = hn::PromoteTo(d, hn::LoadU(half, &low[i].bits));
      store_words(hn::Or(lower, hn::ShiftLeft<16>(upper)), d, pairs);
    }
  }
}

void pair_columns(const Rows& rows, std::size_t padded_rows, std::size_t depth, Bf16* pairs,
                  std::size_t stride) {
  // Adjacent elements of a row stay together: a transpose of words of two elements.
  constexpr std::size_t columns = 2 * transposed_columns;
  const Lanes<std::uint32_t> d;
  for (std::size_t row = 0; row < padded_rows; row += hn::Lanes(d))
    for (std::size_t column = 0; column < depth; column += columns) {
      const auto words = load_columns(d, rows.first + row * rows.stride + column, rows.stride);
      Bf16* to = pairs + column * stride + 2 * row;
      for (std::size_t j = 0; j < transposed_columns; ++j)
        store_words(words.v[j], d, to + 2 * j * stride);
    }
}

void transpose(const Bf16* from, std::size_t rows, std::size_t depth, Bf16* to) {
  const Lanes<std::uint32_t> d;
  for (std::size_t row = 0; row < rows; row += 2 * hn::Lanes(d))
    for (std::size_t column = 0; column < depth; column += 2 * transposed_columns) {
      const auto columns = load_pair_columns(d, from + row * depth + column, depth);
      Bf16* target = to + column * rows + row;
      for (std::size_t j = 0; j < transposed_columns; ++j, target += rows) {
        store_words(columns.first.v[j], d, target);
        store_words(columns.second.v[j], d, target + transposed_columns * rows);
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
  const Lanes<float> d;
  const auto scale = hn::Set(d, factor);
  auto* first = static_cast<Bf16*>(to);
  for (std::size_t row = 0; row < rows; row += transposed_columns) {
    const std::size_t count = std::min(transposed_columns, rows - row);
    for_each_vector(d, width, [&](std::size_t i, std::size_t lanes) HWY_ATTR {
      const auto columns = load_columns(d, from + i * from_stride + row, from_stride);
      for (std::size_t j = 0; j < count; ++j)
        store(hn::Mul(columns.v[j], scale), d, first + (row + j) * stride + i, lanes);
    });
  }
}

}  // namespace accrue::kernels::rows::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accrue::kernels::rows {

HWY_EXPORT(copy_padded);
HWY_EXPORT(pair_rows);
HWY_EXPORT(pair_columns);
HWY_EXPORT(transpose);
HWY_EXPORT(unpack_scaled);
HWY_EXPORT(unpack_transposed);

void copy_padded(const HeadRows& from, std::size_t padded_rows, std::size_t depth, Bf16* to) {
  HWY_DYNAMIC_DISPATCH(copy_padded)(from, padded_rows, depth, to);
}

void pair_rows(const Rows& rows, std::size_t padded_rows, std::size_t depth, Bf16* pairs) {
  HWY_DYNAMIC_DISPATCH(pair_rows)(rows, padded_rows, depth, pairs);
}

void pair_columns(const Rows& rows, std::size_t padded_rows, std::size_t depth, Bf16* pairs,
                  std::size_t stride) {
  HWY_DYNAMIC_DISPATCH(pair_columns)(rows, padded_rows, depth, pairs, stride);
}

void transpose(const Bf16* from, std::size_t rows, std::size_t depth, Bf16* to) {
  HWY_DYNAMIC_DISPATCH(transpose)(from, rows, depth, to);
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
